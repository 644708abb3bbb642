"""Whether the process is watched: with a place for HTTP in the settings it is, else nothing of that is even imported."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import structlog

from pubqueue import __version__
from pubqueue.config.settings import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pubqueue.app.broker import Broker
    from pubqueue.app.watch.watching import Phase, Traffic, Watch
    from pubqueue.config.settings import Settings
    from pubqueue.core.model import Principal

log = structlog.get_logger(__name__)


class Monitor(Protocol):
    """Who is told how far the process is."""

    @property
    def watch(self) -> Watch | None:
        """Who is told of what is committed, if anybody is."""

    def at_work(self, broker: Broker, traffic: Sequence[Traffic]) -> None:
        """Take note of who does the work from now on, and of what goes over its streams."""

    def at_rest(self, phase: Phase) -> None:
        """Take note that nobody does the work any more, or not yet."""


class Unwatched:
    """Nobody is told."""

    watch = None

    def at_work(self, broker: Broker, traffic: Sequence[Traffic]) -> None:
        """Pass over it."""

    def at_rest(self, phase: Phase) -> None:
        """Pass over it."""


@asynccontextmanager
async def monitored(settings: Settings, by: Principal) -> AsyncIterator[Monitor]:
    """Tell metrics and health over HTTP meanwhile, if that is wanted; `by` reads for them.

    Raises:
        ConfigError: the address cannot be listened on.

    """
    address = settings.http_address()
    if address is None:
        yield Unwatched()
        return
    # their libraries take a while to import
    from pubqueue.monitor import server  # noqa: PLC0415
    from pubqueue.monitor.page.logins import Tokens  # noqa: PLC0415

    tokens = Tokens(*settings.http_tokens())
    monitor = server.Monitor(by, version=__version__, tokens=tokens)
    async with AsyncExitStack() as ends:
        try:
            port = await ends.enter_async_context(monitor.listening(*address))
        except server.CannotListenError as problem:
            raise ConfigError(str(problem)) from None
        log.info("http.listening", host=address[0], port=port)
        yield monitor
