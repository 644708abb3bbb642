"""`pubqueue serve` and `pubqueue check`, and the settings that both read."""

from __future__ import annotations

import asyncio
import faulthandler
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

import click
import structlog

from pubqueue import logs
from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, stop
from pubqueue.cli.unread import unread
from pubqueue.config.loading import http_tls, load
from pubqueue.config.reloading import Reloader
from pubqueue.config.users import locked_out, summary, users_of
from pubqueue.engine.ports import StoreError
from pubqueue.faces.checks import ConfigError
from pubqueue.faces.xmpp.stream.component import RefusedByServerError
from pubqueue.operations.model import count
from pubqueue.stores import WANTED, shown_address
from pubqueue.wiring import checking, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from pubqueue.config.settings import Settings


# What `serve` and `check` have in common: the service's settings as flags, and its event loop.

P = ParamSpec("P")
R = TypeVar("R")


def settings_options(command: Callable[P, R]) -> Callable[P, R]:
    """Give a command every setting as a flag."""
    options = [
        click.option("--config", type=click.Path(path_type=Path), help="A TOML file."),
        click.option("--jid", help="The component's address: queue.example.org."),
        click.option("--secret-file", help="A file with the secret in its first line."),
        click.option("--server", help="The server's component port: 127.0.0.1:5347."),
        click.option("--store", help=f"The address of the store: {WANTED}."),
        click.option(
            "--admin",
            "admins",
            multiple=True,
            help="A bare JID with all rights; repeatable.",
        ),
        click.option("--node-creation", help="Who may create nodes: anyone, local, admins."),
        click.option("--http", help="Where to serve metrics and health: 127.0.0.1:9254."),
        click.option("--log-level", help="debug, info, warning or error."),
        click.option("--log-format", help="logfmt (key=value) or json."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def read(config: Path | None, flags: Mapping[str, Any]) -> Settings:
    """Return the settings for a command; an error in them is one sentence."""
    try:
        return load(config, flags)
    except ConfigError as problem:
        stop(ASKED_WRONGLY, problem)


def _loop() -> asyncio.AbstractEventLoop:
    """Make uvloop's loop if it is installed: it costs less than half of asyncio's."""
    try:
        import uvloop  # noqa: PLC0415  # not there on every platform
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(work: Coroutine[Any, Any, R]) -> R:
    """Run a command's work to its end, and return what it returns."""
    with asyncio.Runner(loop_factory=_loop) as runner:
        return runner.run(work)


def refused(settings: Settings, problem: RefusedByServerError) -> str:
    """Return a sentence about the server's refusal, with the likely cause if its condition shows one."""
    who = f"{settings.server} refuses {settings.jid} ({problem})"
    _, port = settings.address()
    match str(problem):
        case "host-unknown":
            return f"{who}: the server has no component {settings.jid} on port {port}"
        case "not-authorized":
            words = "does the secret match the server's for this component?"
            return f"{who}: {words} ejabberd sends the same error for an unknown name"
        case _:
            return f"{who}: is port {port} a component port (XEP-0114)?"


# `pubqueue check`.


@click.command()
@click.option(
    "--offline",
    is_flag=True,
    help="Check only the configuration; possible while the service runs, before you reload or upgrade it.",
)
@click.option(
    "--prepare",
    is_flag=True,
    help="Create the store first, or migrate it to the schema of this version: as a role that owns it, while no service runs.",
)
@settings_options
def check(
    config: Path | None,
    *,
    offline: bool,
    prepare: bool,
    **flags: Any,  # noqa: ANN401  # click's values
) -> None:
    """Check configuration, store and server.

    Reports for each that it is good, or in one sentence what is wrong. It creates and changes nothing: the service creates
    a missing store when it starts. It reads the whole store: all contents are compared with their checksums, and SQLite
    checks its file. It connects as the component, so run it before `serve`, not while the service runs; with --offline it
    uses neither the store nor a port.
    """
    if offline and prepare:
        stop(ASKED_WRONGLY, "--offline and --prepare contradict each other")
    settings = read(config, flags)
    if offline:
        _print(settings, checking.check_offline(settings))
        return
    try:
        if prepare:
            run(checking.prepare(settings))
        _print(settings, checking.check(settings))
    except StoreError as problem:
        stop(FAILED, f"the store cannot be used: {problem}")
    except RefusedByServerError as problem:
        stop(FAILED, refused(settings, problem))
    except TimeoutError as problem:
        stop(FAILED, f"{settings.server} does not accept {settings.jid}{_reason(problem)}")


def _print(settings: Settings, lines: Coroutine[Any, Any, list[str]]) -> None:
    """Print the findings line by line."""
    logs.configure("error")
    click.echo(f"configuration: good, {count(len(settings.node), 'declared node')}")
    if users := users_of(settings):
        click.echo(f"users: {summary(users)}")
        for sentence in locked_out(users):
            click.echo(f"users: {sentence}")
    try:
        for line in run(lines):
            click.echo(line)
        if (tls := http_tls(settings)) is not None:
            click.echo(f"http: certificate {tls.summary}")
    except ConfigError as problem:
        stop(ASKED_WRONGLY, problem)


def _reason(problem: TimeoutError) -> str:
    match problem.args:
        case ("conflict",):
            return " (conflict): another component is connected under this name"
        case (str(condition),):
            return f" ({condition})"
        case _:
            return "; is the server running, and is this its component port?"


# `pubqueue serve`.

log = structlog.get_logger(__name__)

STDERR: Final = 2
"""Where a crash in a library says which code each thread was in."""


@click.command()
@settings_options
def serve(config: Path | None, **flags: Any) -> None:  # noqa: ANN401  # click's values
    """Run the service until SIGTERM or SIGINT.

    Prints one line when it serves: when the server has accepted the component or, with other protocols configured,
    when each of these is served. Logs to standard error. If the server admits one instance only and another is
    connected, the service prints a line and waits until the other disconnects. On exit it stops deliveries, answers
    the requests that it has received, and exits with 0. On SIGHUP it reloads its configuration, and logs what it has
    applied.
    """
    faulthandler.enable(STDERR)
    settings = read(config, flags)
    logs.configure(settings.log_level, settings.log_format)
    for sentence in unread():
        log.warning("config.unread", why=sentence)
    try:
        run(_serve(settings, lambda: load(config, flags)))
    except ConfigError as problem:
        stop(ASKED_WRONGLY, problem)
    except StoreError as problem:
        stop(FAILED, f"the store cannot be used: {problem}")
    except RefusedByServerError as problem:
        stop(FAILED, refused(settings, problem))


async def _serve(settings: Settings, again: Callable[[], Settings]) -> None:
    ending, reload = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload.set)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    announced = asyncio.Event()

    def ready() -> None:
        if not announced.is_set():
            announced.set()
            where = f" on {settings.server}" if settings.server else ""
            click.echo(f"ready: {settings.jid}{where}, items in {shown_address(settings.store)}")

    def waiting() -> None:
        announced.clear()
        click.echo(
            f"waiting: another instance is {settings.jid} on {settings.server}; this one takes over when it disconnects"
        )

    await serving.serve(
        settings,
        stop=ending,
        on_ready=ready,
        on_waiting=waiting,
        reloader=Reloader(reload, again),
    )
