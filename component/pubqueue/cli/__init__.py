"""The command line: parse, call, print. Exit codes: 0 done, 1 failed, 2 usage error."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Final

import click

from pubqueue.cli.exit_codes import ASKED_WRONGLY, Suggesting, stop
from pubqueue.version import __version__

if TYPE_CHECKING:
    from types import ModuleType

COMMANDS: Final = {
    "backup": ("pubqueue.cli.stores", "server"),
    "check": ("pubqueue.cli.service", "server"),
    "completion": ("pubqueue.cli.manpages", ""),
    "curb": ("pubqueue.cli.trial", "server"),
    "demo": ("pubqueue.cli.trial", "demo"),
    "doctor": ("pubqueue.cli.doctor", ""),
    "emulator": ("pubqueue.cli.emulator", "grpc"),
    "events": ("pubqueue.cli.events", ""),
    "migrate": ("pubqueue.cli.stores", "server"),
    "outbox": ("pubqueue.cli.outbox", ""),
    "people": ("pubqueue.cli.people", ""),
    "publish": ("pubqueue.cli.publish", ""),
    "restore": ("pubqueue.cli.stores", "server"),
    "serve": ("pubqueue.cli.service", "server"),
    "top": ("pubqueue.cli.top", ""),
    "trial": ("pubqueue.cli.trial", "server"),
    "user": ("pubqueue.cli.user", "server"),
    "worker": ("pubqueue.cli.worker", ""),
}
"""For each command the module with a function of its name, and the extra that the module's imports need, if any."""

OPERATING: Final = "pubqueue.cli.operations"
"""The module with all other commands, which are made from operations."""

COLOURS: Final = ("pygments", "rich")
"""What structlog and slixmpp import to log in colour, if it is installed. Our logs have none, and a start is a fifth shorter without."""

COLOURED: Final = frozenset({"backup", "migrate", "restore", "top", "worker"})
"""Commands that draw with rich, and the one that runs users' programs, whose logs may be in colour."""


class Commands(Suggesting):
    """Commands that are imported when they are used, so that each needs only its own libraries."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """Name all commands, also those whose libraries are not installed."""
        try:
            made = _imported(OPERATING, without=COLOURS).COMMANDS
        except ModuleNotFoundError as problem:
            if _is_ours(problem):
                raise
            made = {}
        return sorted({*COMMANDS, *made})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command; if it cannot be imported, return one that prints how to install it."""
        module, extra = COMMANDS.get(cmd_name, (OPERATING, ""))
        try:
            found = _imported(module, without=() if cmd_name in COLOURED else COLOURS)
        except ModuleNotFoundError as problem:
            if _is_ours(problem):
                raise
            return _not_installed(cmd_name, extra, problem)
        command = (vars(found) if cmd_name in COMMANDS else found.COMMANDS).get(cmd_name)
        assert command is None or isinstance(command, click.Command)
        return command


def _is_ours(problem: ModuleNotFoundError) -> bool:
    """Return whether the missing module is a fault of ours, not a missing library."""
    return (problem.name or "").split(".")[0].startswith("pubqueue")


def _imported(module: str, *, without: tuple[str, ...]) -> ModuleType:
    """Import a module as if these libraries were not installed; afterwards they can be imported."""
    kept = [name for name in without if name not in sys.modules]
    sys.modules.update(dict.fromkeys(kept))  # type: ignore[arg-type]  # None: such an import fails
    try:
        return import_module(module)
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
