"""`pubqueue completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the shell completion script.

    \b
    bash: eval "$(pubqueue completion bash)" in ~/.bashrc
    zsh:  eval "$(pubqueue completion zsh)" in ~/.zshrc, after compinit
    fish: pubqueue completion fish > ~/.config/fish/completions/pubqueue.fish

    Commands, options and names of nodes are completed. The names come from the service of
    PUBQUEUE_URL, if it answers within two seconds.
    """  # noqa: D301  # click's sign for lines that stay as they are
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "pubqueue", "_PUBQUEUE_COMPLETE").source())
