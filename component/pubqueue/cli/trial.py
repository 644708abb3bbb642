"""`pubqueue trial`, `pubqueue curb` and `pubqueue demo`: programs for people who want to see a queue work."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pubqueue import logs
from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, stop
from pubqueue.curb.journal import DiskError, Journal, JournalError
from pubqueue.curb.server import Server
from pubqueue.faces.listener import CannotListenError, Place, places

if TYPE_CHECKING:
    from collections.abc import Sequence


# `pubqueue trial`.


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--page", is_flag=True, help="Serve the web page too, and print its address and token."
)
@click.option(
    "--http",
    "over_http",
    is_flag=True,
    help="Without an XMPP server: serve the page, REST, STOMP and Pub/Sub, and print lines to paste.",
)
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def trial(command: tuple[str, ...], *, page: bool, over_http: bool) -> None:
    """Open a shell with a temporary server and queue.

    Prosody and the service, with a queue named jobs, run until the shell ends; only this machine can reach them. The shell sets
    PUBQUEUE_URL and PUBQUEUE_PASSWORD, so workers and publishers need no settings; its prompt shows (trial). If you give a COMMAND,
    it runs instead of the shell. At the end everything is deleted, including items. The exit code is that of the shell or the
    command; 1 if something could not be started, 2 if Prosody is not installed.

    With --http there is no XMPP and no Prosody. The page, REST, STOMP and Pub/Sub are served on free ports, to one user with a new
    password, and lines that publish and take are printed before the shell begins; with --page they are printed for a COMMAND too. The
    shell sets PUBSUB_EMULATOR_HOST. Pub/Sub needs pip install 'pubqueue[grpc]'.
    """
    from pubqueue_demo.process import ChildError  # noqa: PLC0415  # a program of its own
    from pubqueue_demo.prosody import NotInstalledError  # noqa: PLC0415
    from pubqueue_demo.trial import NoProgramError  # noqa: PLC0415

    try:
        code = asyncio.run(_tried_out(command, page=page, over_http=over_http))
    except NotInstalledError as problem:
        stop(ASKED_WRONGLY, problem)
    except NoProgramError as problem:
        stop(ASKED_WRONGLY, problem)
    except ChildError as problem:
        stop(FAILED, problem)
    sys.exit(code)


async def _tried_out(command: Sequence[str], *, page: bool, over_http: bool) -> int:
    if over_http:
        from pubqueue_demo.trial_http import try_out_http as try_out  # noqa: PLC0415
    else:
        from pubqueue_demo.trial import try_out  # noqa: PLC0415
    tried = try_out(command, lambda line: click.echo(line, err=True), page=page)
    running = asyncio.ensure_future(tried)
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    try:
        return await running
    except asyncio.CancelledError:
        return 128 + signal.SIGTERM


# `pubqueue curb`.

_SIZE: Final = re.compile(r"([0-9]{1,18})(|KiB|MiB|GiB)", re.ASCII)
_UNITS: Final = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


@click.command()
@click.option(
    "-cap",
    "--cap",
    "cap_text",
    required=True,
    help="How long the journal may become: bytes, or a number with KiB, MiB or GiB.",
)
@click.option(
    "-addr",
    "--addr",
    "address",
    default="127.0.0.1:61613",
    show_default=True,
    help="Where to listen; :61613 is that port of all addresses of this machine.",
)
@click.option(
    "-journal",
    "--journal",
    "path",
    default="curb.journal",
    show_default=True,
    type=click.Path(path_type=Path),
    help="The file that is the queue.",
)
def curb(cap_text: str, address: str, path: Path) -> None:
    """Serve one queue from a readable file, over STOMP.

    Runs until SIGTERM or SIGINT, and speaks STOMP 1.2. A program of its own: it needs no XMPP server, no configuration and no store, and has no login. Prints one line when it
    listens, and another if other machines may reach it. Exits with 2 if an option is wrong, and with 1 if the address or the journal cannot be used.
    """
    cap, place = _size(cap_text), _place(address)
    logs.configure("info", "logfmt")
    try:
        journal = Journal(path, cap)
    except (JournalError, OSError) as problem:
        stop(FAILED, problem if isinstance(problem, JournalError) else _sentence(path, problem))
    try:
        asyncio.run(_serve(journal, place))
    except CannotListenError as problem:
        stop(FAILED, problem)
    except DiskError as problem:
        stop(FAILED, _sentence(path, problem))
    finally:
        journal.close()


async def _serve(journal: Journal, place: Place) -> None:
    server = Server(journal)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, server.stopped.set)

    def ready(addresses: list[tuple[str, int]]) -> None:
        shown = ", ".join(Place(host, port).shown for host, port in addresses)
        click.echo(f"ready: {shown}, {journal.count} messages in {journal.path}")
        if not all(ip_address(host.partition("%")[0]).is_loopback for host, _ in addresses):
            click.echo(
                "there is no login: every machine that reaches this address can use the queue"
            )

    await server.serve(place, ready)


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text)
    size = int(found[1]) * _UNITS[found[2]] if found else 0
    if not size:
        stop(
            ASKED_WRONGLY,
            f"-cap must be a number of bytes above 0, or one with KiB, MiB or GiB, not {text!r}",
        )
    return size


def _place(text: str) -> Place:
    try:
        (place,) = places(f"*{text}" if text.startswith(":") else text)
    except ValueError as problem:
        several = "must be one address" if "," in text or not text else problem
        stop(ASKED_WRONGLY, f"-addr {several}")
    return place


def _sentence(path: Path, problem: OSError) -> str:
    return f"{path} cannot be used ({problem.strerror or problem})"


# `pubqueue demo`.


@click.command()
@click.option("--items", type=int, help="Number of delayed flights to publish (default: all).")
@click.option("--workers", type=int, default=4, show_default=True, help="Number of bots.")
@click.option(
    "--kill-component",
    type=int,
    help="How many times to kill the component at random moments (default: once with several instances).",
)
@click.option(
    "--store",
    type=click.Choice(["sqlite", "postgres"]),
    default="sqlite",
    show_default=True,
    help="The kind of store; the demo starts its own PostgreSQL.",
)
@click.option(
    "--instances",
    type=int,
    default=1,
    show_default=True,
    help="Number of instances of the component; one serves, the others stand by.",
)
def demo(**asked: Any) -> None:  # noqa: ANN401  # click's values
    """Run a complete example.

    Spark publishes delayed flights to a queue, bots rebook them, and some of the bots fail.
    """
    try:
        from pubqueue_demo.run import run_demo  # noqa: PLC0415  # its libraries are an extra
    except ImportError as problem:
        stop(ASKED_WRONGLY, f"the demo needs pip install 'pubqueue[demo]' ({problem})")
    sys.exit(run_demo(**asked))
