"""The faces that are configured, and what is served over HTTP."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import structlog
from msgspec import Struct

from pubqueue.accounts.local_key import KeyFileError, LocalKey, made
from pubqueue.config.loading import http_places
from pubqueue.config.users import service_of
from pubqueue.engine.face import kept_secret
from pubqueue.faces.checks import THIS_HOST, ConfigError
from pubqueue.faces.listener import CannotListenError
from pubqueue.faces.table import FACES, Server
from pubqueue.version import __version__

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.config.settings import Settings
    from pubqueue.engine.broker import Broker
    from pubqueue.engine.face import Face
    from pubqueue.engine.observe import Traffic
    from pubqueue.faces.http import HttpHost
    from pubqueue.faces.table import Door
    from pubqueue.model.entities import Principal
    from pubqueue.monitor.page.logins import Logins
    from pubqueue.monitor.process import ProcessObserver

log = structlog.get_logger(__name__)


def faces_of(
    broker: Broker, settings: Settings, accounts: Accounts, on_ready: Callable[[], None]
) -> list[Face]:
    """Return the configured faces; their users log in to these accounts."""
    served = [row for row in FACES.values() if row.is_served(settings)]
    return [row.make(broker, settings, accounts, on_ready) for row in served]


# What is served over HTTP: hosts, and the doors of faces on them.


class OverHttp(Struct, frozen=True):
    """The hosts, the doors on them, and the observers that they show; they serve whether a broker works or not."""

    hosts: Sequence[HttpHost]
    doors: Sequence[Door]
    observers: Sequence[ProcessObserver]
    logins: Sequence[Logins] = ()
    """Those of the page, which wait for the secret that the store keeps."""

    def lead_to(self, broker: Broker, faces: Sequence[Face]) -> None:
        """Let requests in to these faces."""
        for host in self.hosts:
            broker.clients.attach(host.listener)
        for door in self.doors:
            door.lead_to(faces)

    async def work(self, broker: Broker, by: Principal) -> None:
        """Let users log in to the page, now that the broker is at work."""
        for logins in self.logins:
            logins.take(await kept_secret(broker.handle, by, "page"))


@asynccontextmanager
async def over_http(settings: Settings, accounts: Accounts) -> AsyncIterator[OverHttp]:
    """Serve metrics, page and doors over HTTP, as configured, while the body runs.

    Raises:
        ConfigError: an address cannot be listened on, or a certificate cannot be used.

    """
    own = _own(settings)
    # the last row first: where a server has several doors, REST has its paths before others
    found = [each for row in reversed(FACES.values()) if (each := row.on_http(settings))]
    for each in found:
        if each.server is None:
            own[0].host.mount(each.door, each.proxies)
    others = [each.server for each in found if each.server is not None]
    servers, doors = [*own, *others], [each.door for each in found]
    traffic = [*(one.host.traffic for one in others), *(door.traffic for door in doors)]
    by, hosts = service_of(settings), [one.host for one in own]
    async with (
        monitored(settings, by, accounts, hosts, traffic) as (observers, logins),
        AsyncExitStack() as ends,
    ):
        for one in servers:
            await _listen(one, ends)
        yield OverHttp([one.host for one in servers], doors, observers, logins)


def _own(settings: Settings) -> tuple[Server, ...]:
    """Return the server of metrics and the page, if it is configured."""
    if not (places := http_places(settings)):
        return ()
    from pubqueue.faces.http import HttpHost  # noqa: PLC0415  # takes a while to import

    host = HttpHost(proxies=lambda: (*THIS_HOST, *settings.proxies()))
    return (Server("http", "http.listening", host, places),)


async def _listen(server: Server, ends: AsyncExitStack) -> None:
    try:
        addresses = await ends.enter_async_context(server.host.serving(server.places))
    except CannotListenError as problem:
        raise ConfigError(str(problem), key=server.key) from None
    for name, port in addresses:
        log.info(server.event, host=name, port=port)


@asynccontextmanager
async def monitored(
    settings: Settings,
    by: Principal,
    accounts: Accounts,
    hosts: Sequence[HttpHost],
    traffic: Sequence[Traffic] = (),
) -> AsyncIterator[tuple[Sequence[ProcessObserver], Sequence[Logins]]]:
    """Mount metrics, health and the page in the hosts. Yields the observers, and logins that have to get a secret.

    `by` is the principal of the reader; `accounts` are the users who may log in to the page. `traffic` is that of other parts
    over HTTP.
    """
    if not hosts:
        yield (), ()
        return
    accounts.local_key = _local_key(settings)
    # their libraries take some time to import
    from pubqueue.monitor.page.logins import Logins  # noqa: PLC0415
    from pubqueue.monitor.server import Monitor  # noqa: PLC0415

    # without a secret in their configuration, the instances share the one that the store keeps
    seed = settings.shared_secret().encode() if settings.server else None
    logins = Logins(accounts, time.time, seed)
    monitor = Monitor(
        by,
        version=__version__,
        logins=logins,
        proxies=settings.proxies(),
        own=[*(host.traffic for host in hosts), *traffic],
    )
    for host in hosts:
        host.mount(monitor)
    async with monitor.sampling():
        yield (monitor,), (() if logins.has_secret else (logins,))


def _local_key(settings: Settings) -> LocalKey | None:
    """Return the key of this host; None if there is none, or its file cannot be used, which is logged."""
    if (path := settings.key_file()) is None:
        return None
    try:
        return LocalKey(made(path))
    except KeyFileError as problem:
        log.warning("local_key.unusable", why=str(problem))
        return None
