"""The command line: parse, call, print. Exit codes: 0 done, 1 failed, 2 usage error."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final

import click

from pubqueue import __version__
from pubqueue.cli.exit_codes import ASKED_WRONGLY, Suggesting, stop

if TYPE_CHECKING:
    from collections.abc import Iterator

OPERATING: Final = ("pubqueue.cli.operations", "")
"""The module with the commands that are made from operations."""

COMMANDS: Final = {
    "backup": ("pubqueue.cli.stores", "server"),
    "cancel": OPERATING,
    "check": ("pubqueue.cli.service", "server"),
    "completion": ("pubqueue.cli.manpages", ""),
    "connections": OPERATING,
    "curb": ("pubqueue.cli.trial", "server"),
    "dead": OPERATING,
    "demo": ("pubqueue.cli.trial", "demo"),
    "discard": OPERATING,
    "doctor": ("pubqueue.cli.doctor", ""),
    "end-connection": OPERATING,
    "end-subscription": OPERATING,
    "events": ("pubqueue.cli.events", ""),
    "items": OPERATING,
    "messages": OPERATING,
    "migrate": ("pubqueue.cli.stores", "server"),
    "node": OPERATING,
    "overview": OPERATING,
    "pause": OPERATING,
    "pause-publishing": OPERATING,
    "peek": OPERATING,
    "publish": ("pubqueue.cli.publish", ""),
    "purge": OPERATING,
    "queues": OPERATING,
    "redrive": OPERATING,
    "registration": OPERATING,
    "release": OPERATING,
    "restore": ("pubqueue.cli.stores", "server"),
    "resume": OPERATING,
    "resume-publishing": OPERATING,
    "schedule": OPERATING,
    "serve": ("pubqueue.cli.service", "server"),
    "service": OPERATING,
    "top": ("pubqueue.cli.top", ""),
    "trial": ("pubqueue.cli.trial", "server"),
    "user": ("pubqueue.cli.user", "server"),
    "worker": ("pubqueue.cli.worker", ""),
    "workers": OPERATING,
}
"""For each command the module with a function of its name, or with all that are made, and the extra that the module's imports need, if any."""

COLOURS: Final = ("pygments", "rich")
"""What structlog and slixmpp import to log in colour, if it is installed. Our logs have none, and a start is a fifth shorter without."""

COLOURED: Final = frozenset({"backup", "migrate", "restore", "top", "worker"})
"""Commands that draw with rich, and the one that runs users' programs, whose logs may be in colour."""


class Commands(Suggesting):
    """Commands that are imported when they are used, so that each needs only its own libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Name all commands, also those whose libraries are not installed."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command; if it cannot be imported, return one that prints how to install it."""
        if cmd_name not in COMMANDS:
            return None
        module, extra = COMMANDS[cmd_name]
        try:
            with _without(() if cmd_name in COLOURED else COLOURS):
                found = import_module(module)
        except ModuleNotFoundError as problem:
            if (problem.name or "").split(".")[0].startswith("pubqueue"):
                raise  # a fault of ours, not a missing library
            return _not_installed(cmd_name, extra, problem)
        made = found.COMMANDS if COMMANDS[cmd_name] is OPERATING else vars(found)
        command = made[cmd_name]
        assert isinstance(command, click.Command)
        return command


@contextmanager
def _without(libraries: tuple[str, ...]) -> Iterator[None]:
    """Let others import what they import if these libraries are not installed; afterwards they can be imported."""
    kept = [name for name in libraries if name not in sys.modules]
    sys.modules.update(dict.fromkeys(kept))  # type: ignore[arg-type]  # None: such an import fails
    try:
        yield
    finally:
        for name in kept:
            del sys.modules[name]


def _not_installed(name: str, extra: str, problem: ModuleNotFoundError) -> click.Command:
    """Return a command for its line in the help; when it runs, it prints what to install."""
    wanted = f"'pubqueue[{extra}]'" if extra else "--force-reinstall pubqueue"

    def refuse() -> None:
        sentence = f"{name} needs pip install {wanted} (no module {problem.name})"
        stop(ASKED_WRONGLY, sentence)

    return click.Command(
        name,
        callback=refuse,
        help=f"Needs pip install {wanted}.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pubqueue")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Run and manage durable work queues in an XMPP network."""
    if ctx.invoked_subcommand == "serve":
        return  # which logs them
    from pubqueue.cli.unread import unread  # noqa: PLC0415  # it imports what clients need

    for sentence in unread():
        click.echo(f"pubqueue: {sentence}", err=True)
