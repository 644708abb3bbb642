"""The command line: parse, call, print. Exit codes: 0 done, 1 it failed, 2 it was asked wrongly."""

from __future__ import annotations

import asyncio
import signal
import sys
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

import click

from pubqueue import __version__, logs, migrating, wiring
from pubqueue.app.ports import StoreError
from pubqueue.config import ConfigError, Settings, load
from pubqueue.faces.xmpp.component import RefusedByServerError
from pubqueue.reloading import Reloader
from pubqueue.stores import WANTED, shown
from pubqueue.stores.copying import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

P = ParamSpec("P")
R = TypeVar("R")

FAILED = 1
ASKED_WRONGLY = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pubqueue")
def main() -> None:
    """Serve a durable work queue in an XMPP network."""


def _settings_options(command: Callable[P, R]) -> Callable[P, R]:
    """Give a command every setting as a flag."""
    options = [
        click.option("--config", type=click.Path(path_type=Path), help="A TOML file."),
        click.option("--jid", help="The component's address: queue.example.org."),
        click.option("--secret-file", help="A file with the secret in its first line."),
        click.option("--server", help="The server's component port: 127.0.0.1:5347."),
        click.option("--store", help=f"Where items are kept: {WANTED}."),
        click.option(
            "--admin",
            "admins",
            multiple=True,
            help="A bare JID that may do everything; repeatable.",
        ),
        click.option("--node-creation", help="Who may create nodes: anyone, local, admins."),
        click.option("--log-level", help="debug, info, warning or error."),
        click.option("--log-format", help="logfmt (key=value) or json."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _quit(code: int, sentence: object) -> NoReturn:
    click.echo(f"pubqueue: {sentence}", err=True)
    sys.exit(code)


def _with_settings(
    command: Callable[[Settings, Callable[[], Settings]], None],
) -> Callable[..., None]:
    """Read the settings for a command; what is wrong with them is said in one sentence.

    The command also has what reads them once more.
    """

    @wraps(command)
    def read(config: Path | None, **flags: Any) -> None:  # noqa: ANN401  # click's values
        def settings() -> Settings:
            return load(config, flags)

        try:
            found = settings()
        except ConfigError as problem:
            _quit(ASKED_WRONGLY, problem)
        command(found, settings)

    return read


def _loop() -> asyncio.AbstractEventLoop:
    """Make uvloop's loop where it is installed: it costs less than half of asyncio's."""
    try:
        import uvloop  # noqa: PLC0415  # not there on every platform
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _run(work: Coroutine[Any, Any, R]) -> R:
    with asyncio.Runner(loop_factory=_loop) as runner:
        return runner.run(work)


@main.command()
@_settings_options
@_with_settings
def serve(settings: Settings, again: Callable[[], Settings]) -> None:
    """Serve until SIGTERM or SIGINT.

    Prints one line when the server has accepted the component, and logs to standard error. While another
    instance has its place, on a server that admits one, it says so and waits until that is gone. At the end
    it hands out nothing more, answers what was asked, and exits with 0. SIGHUP has it read its
    configuration again, and log what it took over.
    """
    logs.configure(settings.log_level, settings.log_format)
    try:
        _run(_serve(settings, again))
    except ConfigError as problem:
        _quit(ASKED_WRONGLY, problem)
    except StoreError as problem:
        _quit(FAILED, f"the store cannot be used: {problem}")
    except RefusedByServerError as problem:
        _quit(FAILED, _refused(settings, problem))


async def _serve(settings: Settings, again: Callable[[], Settings]) -> None:
    stop, reload = asyncio.Event(), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload.set)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    said = asyncio.Event()

    def ready() -> None:
        if not said.is_set():
            said.set()
            click.echo(
                f"ready: {settings.jid} on {settings.server}, items in {shown(settings.store)}"
            )

    def waiting() -> None:
        said.clear()
        click.echo(
            f"waiting: another instance is {settings.jid} on {settings.server}; this one takes over when it is gone"
        )

    await wiring.serve(
        settings,
        stop=stop,
        on_ready=ready,
        on_waiting=waiting,
        reloader=Reloader(reload, again),
    )


def _refused(settings: Settings, problem: RefusedByServerError) -> str:
    """Say what the server refuses; what that may come from is said only where its condition tells."""
    who = f"{settings.server} refuses {settings.jid} ({problem})"
    _, port = settings.address()
    match str(problem):
        case "host-unknown":
            return f"{who}: the server has no component {settings.jid} on port {port}"
        case "not-authorized":
            words = "is the secret the one that the server has for this component?"
            return f"{who}: {words} ejabberd says the same of a name that it does not know"
        case _:
            return f"{who}: is port {port} one for components (XEP-0114)?"


@main.command()
@_settings_options
@_with_settings
def check(settings: Settings, _again: Callable[[], Settings]) -> None:
    """Check configuration, store and server.

    Says of each whether it is good, or in one sentence what is wrong. Connects as the component, so
    it is for before `serve`, not beside it.
    """
    logs.configure("error")
    click.echo(f"configuration: good, {len(settings.node)} declared nodes")
    try:
        for line in _run(wiring.check(settings)):
            click.echo(line)
    except ConfigError as problem:
        _quit(ASKED_WRONGLY, problem)
    except StoreError as problem:
        _quit(FAILED, f"the store cannot be used: {problem}")
    except RefusedByServerError as problem:
        _quit(FAILED, _refused(settings, problem))
    except TimeoutError as problem:
        _quit(FAILED, f"{settings.server} does not accept {settings.jid}{_reason(problem)}")


def _reason(problem: TimeoutError) -> str:
    match problem.args:
        case ("conflict",):
            return " (conflict): another component is connected under this name"
        case (str(condition),):
            return f" ({condition})"
        case _:
            return "; is the server running, and is this its component port?"


@main.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
def migrate(source: str, target: str) -> None:
    """Copy a stopped service's store into another one.

    FROM and TO are addresses as --store takes them: sqlite:///path/to/file or
    postgresql://role@host/database. Everything is copied, whatever its state; each
    table is read back and compared. TO has to be empty. A copy that was interrupted
    is begun again by the same command; until it is complete nobody serves from TO.
    """
    try:
        for line in migrating.migrate(source, target):
            click.echo(line)
    except RefusedError as problem:
        _quit(ASKED_WRONGLY, problem)
    except StoreError as problem:
        _quit(FAILED, problem)


@main.command()
@click.option("--items", type=int, help="How many flights become work; all of them by default.")
@click.option("--workers", type=int, default=4, show_default=True, help="How many bots work.")
@click.option(
    "--kill-component",
    type=int,
    help="How often to kill the component at random moments; once if there are more instances.",
)
@click.option(
    "--store",
    type=click.Choice(["sqlite", "postgres"]),
    default="sqlite",
    show_default=True,
    help="Where items are kept; the demo starts a PostgreSQL of its own.",
)
@click.option(
    "--instances",
    type=int,
    default=1,
    show_default=True,
    help="How many instances of the component there are; one is at work, the others wait.",
)
def demo(
    items: int | None, workers: int, kill_component: int | None, store: str, instances: int
) -> None:
    """Play the main job end to end.

    Spark writes delayed flights into a queue, bots rebook them, and some of the bots fail.
    """
    try:
        from pubqueue_demo.run import run_demo  # noqa: PLC0415  # its libraries are an extra
    except ImportError as problem:
        _quit(ASKED_WRONGLY, f"the demo needs pip install 'pubqueue[demo]' ({problem})")
    code = run_demo(
        items=items,
        workers=workers,
        kill_component=kill_component,
        store=store,
        instances=instances,
    )
    sys.exit(code)
