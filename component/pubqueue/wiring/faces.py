"""The face of each protocol if it is configured, and what is served over HTTP."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import structlog
from msgspec import Struct

from pubqueue.config.checks import http_places
from pubqueue.config.users import service_of
from pubqueue.faces.checks import ConfigError, is_trusted
from pubqueue.faces.grpc.settings import JSON, JSON_BOUNDS
from pubqueue.faces.listener import CannotListenError
from pubqueue.faces.xmpp import XmppFace
from pubqueue.faces.xmpp.settings import ServerPlace, XmppTerms
from pubqueue.monitor.server import monitored

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.config.settings import Settings
    from pubqueue.engine.broker import Broker
    from pubqueue.engine.face import Face
    from pubqueue.engine.observe import Traffic
    from pubqueue.faces.http import HttpHost
    from pubqueue.faces.listener.tls import Place
    from pubqueue.monitor.server import ProcessObserver


# The face of each protocol, if it is configured.


def _xmpp(
    broker: Broker, settings: Settings, accounts: Accounts, on_ready: Callable[[], None]
) -> XmppFace | None:
    if not settings.server:
        return None
    return XmppFace(
        *(broker, ServerPlace.of(settings), accounts.principals, XmppTerms.of(settings)),
        on_ready=on_ready,
    )


def _stomp(
    broker: Broker, settings: Settings, accounts: Accounts, on_ready: Callable[[], None]
) -> Face | None:
    stomp = settings.stomp
    if not stomp.is_served:
        return None
    from pubqueue.faces.stomp.face import StompFace  # noqa: PLC0415  # only if it is used

    return StompFace(
        *(broker, accounts, stomp.places(), stomp),
        auto_creates=settings.auto_creates,
        on_ready=on_ready,
    )


def _grpc(
    broker: Broker, settings: Settings, accounts: Accounts, on_ready: Callable[[], None]
) -> Face | None:
    grpc = settings.grpc
    if not grpc.is_served:
        return None
    try:
        from pubqueue.faces.grpc.callers import GrpcTls  # noqa: PLC0415
        from pubqueue.faces.grpc.face import GrpcFace  # noqa: PLC0415  # only if it is used
    except ModuleNotFoundError as problem:
        raise without_grpc(problem) from None

    return GrpcFace(
        *(broker, accounts, grpc.grpc_addresses(), grpc),
        tls=grpc.grpc_tls(GrpcTls),
        json=[place.shown for place in grpc.json_addresses()],
        on_ready=on_ready,
    )


def without_grpc(problem: ModuleNotFoundError) -> ConfigError:
    """Return the error of a service that is to serve gRPC without its packages."""
    return ConfigError(
        f"grpc needs the package {problem.name}: install pubqueue[grpc]", key="grpc.listen"
    )


def _rest(
    broker: Broker, settings: Settings, accounts: Accounts, on_ready: Callable[[], None]
) -> Face | None:
    rest = settings.rest
    if not rest.is_served:
        return None
    from pubqueue.faces.rest.face import RestFace  # noqa: PLC0415  # only if it is used
    from pubqueue.faces.xmpp.xml.fields import wanted  # noqa: PLC0415

    shown = [place.shown for place in rest.addresses()]
    return RestFace(*(broker, accounts, rest, wanted), places=shown, on_ready=on_ready)


FACES: dict[str, Callable[[Broker, Settings, Accounts, Callable[[], None]], Face | None]] = {
    "stomp": _stomp,
    "grpc": _grpc,
    "rest": _rest,
    "xmpp": _xmpp,
}
"""Makes the face of each protocol, if it is configured; the last argument is called whenever the face has become ready.

An address belongs to the first face that claims it. The face of XMPP claims all, so it stays the last row.
"""


def faces_of(
    broker: Broker, settings: Settings, accounts: Accounts, on_ready: Callable[[], None]
) -> list[Face]:
    """Return the configured faces; their users log in to these accounts."""
    made = [make(broker, settings, accounts, on_ready) for make in FACES.values()]
    return [face for face in made if face is not None]


# What is served over HTTP: hosts, and the doors of faces on them.

log = structlog.get_logger(__name__)

LISTENING: Final = {
    "http": ("http", "http.listening"),
    "rest": ("rest.listen", "rest.listening"),
    "json": ("grpc.json", "grpc.listening_for_json"),
}
"""The key of the addresses of each server of HTTP, and the event in the log when it listens."""


class Door(Protocol):
    """A part of a host that lets requests in to a face."""

    traffic: Traffic

    def lead_to(self, faces: Iterable[object]) -> None:
        """Let requests in to the face among these that answers them."""


class Server(Struct, frozen=True):
    """A host, its addresses, and its row of `LISTENING`."""

    word: str
    host: HttpHost
    places: tuple[Place, ...]


class OverHttp(Struct, frozen=True):
    """The hosts, the doors on them, and the observers that they show; they serve whether a broker works or not."""

    hosts: Sequence[HttpHost]
    doors: Sequence[Door]
    observers: Sequence[ProcessObserver]

    def lead_to(self, broker: Broker, faces: Sequence[Face]) -> None:
        """Let requests in to these faces."""
        for host in self.hosts:
            broker.clients.attach(host.listener)
        for door in self.doors:
            door.lead_to(faces)


@asynccontextmanager
async def over_http(settings: Settings, accounts: Accounts) -> AsyncIterator[OverHttp]:
    """Serve metrics, page and doors over HTTP, as configured, while the body runs.

    Raises:
        ConfigError: an address cannot be listened on, or a certificate cannot be used.

    """
    own = _own(settings)
    servers, doors = list(own), []
    if settings.rest.is_served:
        doors.append(_rest_door(settings, servers))
    if settings.grpc.json:
        doors.append(_json_door(settings, servers))
    if settings.stomp.web_socket:
        doors.append(_stomp_door(settings, own[0].host))
    traffic = [
        *(one.host.traffic for one in servers[len(own) :]),
        *(door.traffic for door in doors),
    ]
    by, hosts = service_of(settings), [one.host for one in own]
    async with (
        monitored(settings, by, accounts, hosts, traffic) as observers,
        AsyncExitStack() as ends,
    ):
        for one in servers:
            await _listen(one, ends)
        yield OverHttp([one.host for one in servers], doors, observers)


def _own(settings: Settings) -> tuple[Server, ...]:
    """Return the server of metrics and the page, if it is configured."""
    if not (places := http_places(settings)):
        return ()
    from pubqueue.faces.http import HttpHost  # noqa: PLC0415  # takes a while to import

    return (Server("http", HttpHost(), places),)


async def _listen(server: Server, ends: AsyncExitStack) -> None:
    key, event = LISTENING[server.word]
    try:
        addresses = await ends.enter_async_context(server.host.serving(server.places))
    except CannotListenError as problem:
        raise ConfigError(str(problem), key=key) from None
    for name, port in addresses:
        log.info(event, host=name, port=port)


def _stomp_door(settings: Settings, host: HttpHost) -> Door:
    """Mount STOMP over WebSocket on the host of the page."""
    from pubqueue.faces.stomp.web_socket import StompDoor  # noqa: PLC0415  # only if it is used

    trusted = partial(is_trusted, proxies=settings.proxies())
    door = StompDoor(settings.stomp.web_socket, settings.stomp.origins, trusted)
    host.mount(door)
    return door


def _rest_door(settings: Settings, servers: list[Server]) -> Door:
    """Mount REST on the host of the page if the addresses are the same, else on a host of its own."""
    from pubqueue.faces.http import HttpHost  # noqa: PLC0415
    from pubqueue.faces.rest.door import RestDoor  # noqa: PLC0415
    from pubqueue.faces.rest.profiles import profiles_of  # noqa: PLC0415  # only if it is used

    rest = settings.rest
    door = RestDoor(profiles_of(rest))
    if not rest.shares_http(settings):
        host = HttpHost(
            bounds=rest.bounds(), head=rest.head_timeout, idle=rest.keepalive, word="rest"
        )
        servers.append(Server("rest", host, rest.places()))
    servers[-1].host.mount(door)
    return door


def _json_door(settings: Settings, servers: list[Server]) -> Door:
    """Mount v1beta1a on the host of the page if the addresses are the same, else on a host of its own."""
    from pubqueue.faces.http import HttpHost  # noqa: PLC0415  # only if it is used

    try:
        from pubqueue.faces.grpc.transcoding import JsonDoor  # noqa: PLC0415
    except ModuleNotFoundError as problem:
        raise without_grpc(problem) from None

    door = JsonDoor()
    if settings.grpc.json_shares_http(settings):
        servers[0].host.mount(door)
    else:
        host = HttpHost((door,), JSON_BOUNDS, word=JSON)
        servers.append(Server(JSON, host, settings.grpc.json_places()))
    return door
