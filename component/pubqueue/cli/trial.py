"""`pubqueue trial`."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

import click

from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, stop

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--page", is_flag=True, help="With the page in the browser; it says where, and how to log in."
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def trial(command: tuple[str, ...], *, page: bool) -> None:
    """Open a shell beside a throw-away server and queue.

    A Prosody and the service, with a queue jobs, run on this machine alone for as long as the shell does. In it
    PUBQUEUE_URL and PUBQUEUE_PASSWORD say where they are, so that workers and publishers need
    no settings; its prompt shows (trial). With a COMMAND that is run in place of the shell. When it ends all is gone, items too. Exit
    codes are those of the shell or the command; 1 if nothing could be started, 2 if there is no Prosody.
    """
    from pubqueue_demo.process import ChildError  # noqa: PLC0415  # a program of its own
    from pubqueue_demo.prosody import NotInstalledError  # noqa: PLC0415

    try:
        code = asyncio.run(_tried_out(command, page=page))
    except NotInstalledError as problem:
        stop(ASKED_WRONGLY, problem)
    except FileNotFoundError as problem:
        stop(ASKED_WRONGLY, f"there is no program {problem.filename}")
    except ChildError as problem:
        stop(FAILED, problem)
    sys.exit(code)


async def _tried_out(command: Sequence[str], *, page: bool) -> int:
    from pubqueue_demo.trial import try_out  # noqa: PLC0415

    tried = try_out(command, lambda line: click.echo(line, err=True), page=page)
    running = asyncio.ensure_future(tried)
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    try:
        return await running
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM
