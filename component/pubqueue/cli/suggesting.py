"""Groups of commands that suggest a similar name for a mistyped command."""

from __future__ import annotations

import click

from pubqueue.model.entities import suggestion


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
