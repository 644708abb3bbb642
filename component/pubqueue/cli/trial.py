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
    "--page", is_flag=True, help="Serve the web page too, and print its address and token."
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def trial(command: tuple[str, ...], *, page: bool) -> None:
    """Open a shell with a temporary server and queue.

    Prosody and the service, with a queue named jobs, run until the shell ends; only this machine can reach them. The shell sets
    PUBQUEUE_URL and PUBQUEUE_PASSWORD, so workers and publishers need no settings; its prompt shows (trial). If you give a COMMAND,
    it runs instead of the shell. At the end everything is deleted, including items. The exit code is that of the shell or the
    command; 1 if something could not be started, 2 if Prosody is not installed.
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
