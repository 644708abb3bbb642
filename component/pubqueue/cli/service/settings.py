"""What `serve` and `check` have in common: the service's settings as flags, and its event loop."""

from __future__ import annotations

import asyncio
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from pubqueue.cli.exit_codes import ASKED_WRONGLY, stop
from pubqueue.config.loading import load
from pubqueue.config.settings import ConfigError, Settings
from pubqueue.stores import WANTED

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pubqueue.faces.xmpp.stream.component import RefusedByServerError

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


def with_settings(
    command: Callable[[Settings, Callable[[], Settings]], None],
) -> Callable[..., None]:
    """Read the settings for a command; an error in them is one sentence.

    The command also gets a function that reads them again.
    """

    @wraps(command)
    def read(config: Path | None, **flags: Any) -> None:  # noqa: ANN401  # click's values
        def settings() -> Settings:
            return load(config, flags)

        try:
            found = settings()
        except ConfigError as problem:
            stop(ASKED_WRONGLY, problem)
        command(found, settings)

    return read


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
