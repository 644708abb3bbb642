"""How a command that fails ends, the name that is suggested for a mistyped one, and text that no terminal obeys."""

from __future__ import annotations

import sys
from typing import Final, NoReturn

import click

from pubqueue.model.entities import suggestion

# How a command that fails ends: one sentence on standard error, and an exit code.

FAILED: Final = 1
ASKED_WRONGLY: Final = 2


def stop(code: int, sentence: object) -> NoReturn:
    """Print the sentence on standard error, and exit with the code."""
    click.echo(f"pubqueue: {sentence}", err=True)
    sys.exit(code)


# Groups of commands that suggest a similar name for a mistyped command.


class Suggesting(click.Group):
    """A group of commands; the error for an unknown command names the most similar one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command by its name."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            meant = suggestion(name, self.list_commands(ctx))
            if not ctx.resilient_parsing:
                ctx.fail(f"there is no command {name}{meant}")
        return super().resolve_command(ctx, args)


# Text of others that is safe for a terminal.


def plain(text: str) -> str:
    """Return text that is safe for a terminal: control characters are escaped."""
    return "".join(
        sign if sign.isprintable() or sign == "\n" else repr(sign)[1:-1] for sign in text
    )
