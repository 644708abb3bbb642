"""`pubqueue serve`."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import click
import structlog

from pubqueue import logs
from pubqueue.cli.exit_codes import ASKED_WRONGLY, FAILED, stop
from pubqueue.cli.service.settings import refused, run, settings_options, with_settings
from pubqueue.cli.service.unread import unread
from pubqueue.config.reloading import Reloader
from pubqueue.config.settings import ConfigError
from pubqueue.engine.ports import StoreError
from pubqueue.faces.xmpp.stream.component import RefusedByServerError
from pubqueue.stores import shown_address
from pubqueue.wiring import serving

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.config.settings import Settings

log = structlog.get_logger(__name__)


@click.command()
@settings_options
@with_settings
def serve(settings: Settings, again: Callable[[], Settings]) -> None:
    """Run the service until SIGTERM or SIGINT.

    Prints one line when the server has accepted the component, and logs to standard error. If the server admits one
    instance only and another is connected, the service prints a line and waits until the other disconnects. On exit
    it stops deliveries, answers the requests that it has received, and exits with 0. On SIGHUP it reloads its
    configuration, and logs what it has applied.
    """
    logs.configure(settings.log_level, settings.log_format)
    for sentence in unread():
        log.warning("config.unread", why=sentence)
    try:
        run(_serve(settings, again))
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
