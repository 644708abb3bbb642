"""Whether the process is watched: with a place for HTTP in the settings it is, else nothing of that is even imported."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import structlog

from pubqueue import __version__
from pubqueue.config.settings import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pubqueue.config.settings import Settings
    from pubqueue.core.model import Principal
    from pubqueue.monitor.process import ProcessObserver

log = structlog.get_logger(__name__)


@asynccontextmanager
async def monitored(
    settings: Settings, by: Principal
) -> AsyncIterator[tuple[ProcessObserver, ...]]:
    """Serve metrics and health over HTTP in the body, if configured; `by` is the reader's principal. Yields the observers.

    Raises:
        ConfigError: the address cannot be listened on.

    """
    address = settings.http_address()
    if address is None:
        yield ()
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
            raise ConfigError(str(problem), key="http", value=settings.http) from None
        log.info("http.listening", host=address[0], port=port)
        yield (monitor,)
