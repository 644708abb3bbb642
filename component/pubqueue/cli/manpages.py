"""Pages of the manual, generated from the commands: `make man` writes one for each of them.

    python -m pubqueue.cli.manpages FOLDER

A page has the text of `--help`, in the sections of a manual page.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import get_completion_class

from pubqueue.cli import main
from pubqueue.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator


ENVIRONMENT: Final = (
    ("PUBQUEUE_URL", "Your account and the service, if --url is not given."),
    (
        "PUBQUEUE_SERVICES",
        "Several services in place of that of PUBQUEUE_URL, with commas between them.",
    ),
    ("PUBQUEUE_PASSWORD", "The password of that account."),
    ("PUBQUEUE_PASSWORD_FILE", "A file with the password in its first line."),
)

STATUS: Final = (("0", "Success."), ("1", "Failure."), ("2", "Usage error."))

KEPT: Final = "\b\n"
"""Click's mark for a paragraph whose lines stay as they are."""


def pages() -> dict[str, str]:
    """Return all pages by the names of their files."""
    return {f"{'-'.join(path)}.1": _page(path, context) for path, context in _commands()}


def _commands() -> Iterator[tuple[tuple[str, ...], click.Context]]:
    """Go through the program and all its commands."""
    root = click.Context(main, info_name="pubqueue", **main.context_settings)
    yield from _below(("pubqueue",), root)


def _below(
    path: tuple[str, ...], context: click.Context
) -> Iterator[tuple[tuple[str, ...], click.Context]]:
    yield path, context
    command = context.command
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from _below((*path, name), click.Context(found, info_name=name, parent=context))


def _page(path: tuple[str, ...], context: click.Context) -> str:
    command, name = context.command, "-".join(path)
    first, _, rest = inspect.cleandoc(command.help or "").partition("\n\n")
    lines = [
        f'.TH "{escaped(name.upper())}" "1" "" "pubqueue {escaped(__version__)}" "pubqueue"',
        ".SH NAME",
        f"{escaped(name)} \\- {escaped(_joined(first).rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {escaped(' '.join(path))}",
        escaped(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_paragraphs(first),
        *_paragraphs(rest),
        *_options(command, context),
        *_subcommands(command, context, name),
    ]
    if any(param.name == "url" for param in command.params):
        lines += [".SH ENVIRONMENT", *_listed(ENVIRONMENT)]
    lines += [".SH EXIT STATUS", *_listed(STATUS)]
    if len(path) > 1:
        lines += [".SH SEE ALSO", f".BR {escaped('-'.join(path[:-1]))} (1)"]
    return "\n".join(lines) + "\n"


def _options(command: click.Command, context: click.Context) -> list[str]:
    records = [
        record
        for param in command.get_params(context)
        if isinstance(param, click.Option)
        and (record := param.get_help_record(context)) is not None
    ]
    return [".SH OPTIONS", *_listed(records)]


def _subcommands(command: click.Command, context: click.Context, name: str) -> list[str]:
    if not isinstance(command, click.Group):
        return []
    names = command.list_commands(context)
    found = [(one, command.get_command(context, one)) for one in names]
    about = [
        (f"{name}-{one}(1)", sub.get_short_help_str(200)) for one, sub in found if sub is not None
    ]
    return [".SH COMMANDS", *_listed(about)]


def _listed(entries: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> list[str]:
    return [
        line for term, text in entries for line in (".TP", f".B {escaped(term)}", escaped(text))
    ]


def _paragraphs(text: str) -> list[str]:
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(KEPT):
            kept = paragraph.removeprefix(KEPT).splitlines()
            lines += [".PP", ".nf", *map(escaped, kept), ".fi"]
        elif paragraph.strip():
            lines += [".PP", escaped(_joined(paragraph))]
    return lines


def _joined(text: str) -> str:
    return " ".join(text.split())


def escaped(text: str) -> str:
    """Return text escaped for roff: none of it is an instruction, and a hyphen is one that can be typed."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain


def write(folder: Path) -> list[Path]:
    """Write all pages into a folder, and return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = [(folder / name, text) for name, text in sorted(pages().items())]
    for file, text in files:
        file.write_text(text, "utf-8")
    return [file for file, _ in files]


if __name__ == "__main__":
    for written in write(Path(sys.argv[1])):
        click.echo(written)


# `pubqueue completion`.


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
