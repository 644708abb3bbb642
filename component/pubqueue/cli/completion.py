"""`pubqueue completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes a shell complete what you type.

    \b
    bash: eval "$(pubqueue completion bash)" in ~/.bashrc
    zsh:  eval "$(pubqueue completion zsh)" in ~/.zshrc, behind compinit
    fish: pubqueue completion fish > ~/.config/fish/completions/pubqueue.fish

    Commands and options are completed, and names of nodes: these are asked of the service that
    PUBQUEUE_URL says, if it answers within two seconds.
    """  # noqa: D301  # click's sign for lines that stay as they are
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "pubqueue", "_PUBQUEUE_COMPLETE").source())
