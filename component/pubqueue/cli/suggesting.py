"""Groups of commands that say what somebody may have meant who mistyped one."""

from __future__ import annotations

import click

from pubqueue.core.suggestion import suggestion


class Suggesting(click.Group):
    """A group of commands; an unknown one is an error that names the command that is most like it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is asked for."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            meant = suggestion(name, self.list_commands(ctx))
            if not ctx.resilient_parsing:
                ctx.fail(f"there is no command {name}{meant}")
        return super().resolve_command(ctx, args)
