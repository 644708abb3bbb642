"""The table of faces: its row makes a protocol known to the configuration, the wiring, the doctor and the page.

Of a protocol only the settings are imported here; the rest of its folder is imported when it is served.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from pubqueue.faces.checks import ConfigError, Shared, is_trusted
from pubqueue.faces.grpc.settings import JSON, JSON_BOUNDS
from pubqueue.faces.rest.settings import AT_START, WithRest
from pubqueue.faces.rest.settings import WORD as REST
from pubqueue.faces.xmpp import XmppFace
from pubqueue.faces.xmpp.settings import ServerPlace, WithXmpp, XmppTerms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from aiohttp import web

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.engine.broker import Broker
    from pubqueue.engine.face import Face
    from pubqueue.engine.observe import Traffic
    from pubqueue.faces.checks import Networks
    from pubqueue.faces.grpc.settings import GrpcSettings
    from pubqueue.faces.http import HttpHost
    from pubqueue.faces.listener import Place
    from pubqueue.faces.stomp.settings import StompSettings


class AllSettings(WithRest, WithXmpp, Shared, Protocol):
    """The settings of all faces."""

    @property
    def server(self) -> str:
        """The server of XMPP; empty: XMPP is not served."""

    @property
    def stomp(self) -> StompSettings:
        """The table `[stomp]`."""

    @property
    def grpc(self) -> GrpcSettings:
        """The table `[grpc]`."""


# What is served over HTTP.


class Door(Protocol):
    """A part of a host that lets requests in to a face."""

    traffic: Traffic

    def add_to(self, app: web.Application) -> None:
        """Add the routes."""

    def lead_to(self, faces: Iterable[object]) -> None:
        """Let requests in to the face among these that answers them."""


class Server(Struct, frozen=True):
    """A host and its addresses; the key that has these, and the event in the log when it listens."""

    key: str
    event: str
    host: HttpHost
    places: tuple[Place, ...]


class OnHttp(Struct, frozen=True):
    """A door, and the server that it is on; None: that of the page."""

    door: Door
    server: Server | None = None
    proxies: Callable[[], Networks] = tuple
    """The proxies that may name their clients to the door, in addition to those of the page, if it is on that server."""


# The rows.


class Row(Struct, frozen=True, kw_only=True):
    """A protocol. `make` makes its face; the last argument is called whenever the face has become ready."""

    make: Callable[[Broker, AllSettings, Accounts, Callable[[], None]], Face]
    is_served: Callable[[AllSettings], bool] = lambda _: True
    check: Callable[[AllSettings], None] = lambda _: None
    """Raises ConfigError if its settings cannot be used."""
    has_logins: bool = True
    """Whether users of the service log in here, so that `faces` of a user may name it."""
    on_http: Callable[[AllSettings], OnHttp | None] = lambda _: None
    """Its door, if it has one and is served over HTTP."""
    at_start: frozenset[str] = frozenset()
    """Keys that are read only at the start, with the table's name before a key; the name alone is the whole table."""
    asked: Callable[[AllSettings], Sequence[tuple[str, Sequence[Place]]]] = lambda _: ()
    """The addresses that the doctor connects to, with the names by which it reports them."""


def _make_stomp(
    broker: Broker, settings: AllSettings, accounts: Accounts, on_ready: Callable[[], None]
) -> Face:
    from pubqueue.faces.stomp.face import StompFace  # noqa: PLC0415  # only if it is used

    return StompFace(
        *(broker, accounts, settings.stomp.places(), settings.stomp),
        auto_creates=settings.auto_creates,
        on_ready=on_ready,
    )


def _stomp_on_http(settings: AllSettings) -> OnHttp | None:
    stomp = settings.stomp
    if not stomp.web_socket:
        return None
    from pubqueue.faces.stomp.web_socket import StompDoor  # noqa: PLC0415  # only if it is used

    trusted = partial(is_trusted, proxies=settings.proxies())
    return OnHttp(StompDoor(stomp.web_socket, stomp.origins, trusted))


def _make_grpc(
    broker: Broker, settings: AllSettings, accounts: Accounts, on_ready: Callable[[], None]
) -> Face:
    try:
        from pubqueue.faces.grpc.face import GrpcFace  # noqa: PLC0415  # only if it is used
    except ModuleNotFoundError as problem:
        raise without_grpc(problem) from None

    grpc = settings.grpc
    return GrpcFace(
        *(broker, accounts, grpc.grpc_places(), grpc),
        json=[place.shown for place in grpc.json_addresses()],
        on_ready=on_ready,
        proxies=settings.proxies(),
    )


def without_grpc(problem: ModuleNotFoundError) -> ConfigError:
    """Return the error of a service that is to serve gRPC without its packages."""
    return ConfigError(
        f"grpc needs the package {problem.name}: install pubqueue[grpc]", key="grpc.listen"
    )


def _json_on_http(settings: AllSettings) -> OnHttp | None:
    grpc = settings.grpc
    if not grpc.json:
        return None
    from pubqueue.faces.http import HttpHost  # noqa: PLC0415  # takes a while to import

    try:
        from pubqueue.faces.grpc.transcoding import JsonDoor  # noqa: PLC0415
    except ModuleNotFoundError as problem:
        raise without_grpc(problem) from None

    door = JsonDoor()
    if grpc.json_shares_http(settings):
        return OnHttp(door)
    host = HttpHost((door,), JSON_BOUNDS, proxies=settings.proxies, word=JSON)
    return OnHttp(door, Server("grpc.json", "grpc.listening_for_json", host, grpc.json_places()))


def _make_rest(
    broker: Broker, settings: AllSettings, accounts: Accounts, on_ready: Callable[[], None]
) -> Face:
    from pubqueue.faces.rest.face import RestFace  # noqa: PLC0415  # only if it is used
    from pubqueue.faces.xmpp.xml.fields import wanted  # noqa: PLC0415

    rest = settings.rest
    shown = [place.shown for place in rest.addresses()]
    return RestFace(*(broker, accounts, rest, wanted), places=shown, on_ready=on_ready)


def _rest_on_http(settings: AllSettings) -> OnHttp | None:
    rest = settings.rest
    if not rest.is_served:
        return None
    from pubqueue.faces.http import HttpHost  # noqa: PLC0415
    from pubqueue.faces.rest.door import RestDoor  # noqa: PLC0415
    from pubqueue.faces.rest.profiles import profiles_of  # noqa: PLC0415  # only if it is used

    door = RestDoor(profiles_of(rest))
    if rest.shares_http(settings):
        return OnHttp(door, proxies=door.proxies)
    host = HttpHost(
        (door,),
        rest.bounds(),
        proxies=door.proxies,
        head=rest.head_timeout,
        idle=rest.keepalive,
        word=REST,
    )
    return OnHttp(door, Server("rest.listen", "rest.listening", host, rest.places()))


def _make_xmpp(
    broker: Broker, settings: AllSettings, accounts: Accounts, on_ready: Callable[[], None]
) -> Face:
    return XmppFace(
        *(broker, ServerPlace.of(settings), accounts.principals, XmppTerms.of(settings)),
        on_ready=on_ready,
    )


FACES: Final = {
    "stomp": Row(
        is_served=lambda settings: settings.stomp.is_served,
        check=lambda settings: settings.stomp.check(settings),
        make=_make_stomp,
        at_start=frozenset({"stomp"}),
        on_http=_stomp_on_http,
    ),
    "grpc": Row(
        is_served=lambda settings: settings.grpc.is_served,
        check=lambda settings: settings.grpc.check(settings),
        make=_make_grpc,
        at_start=frozenset({"grpc"}),
        on_http=_json_on_http,
        asked=lambda settings: settings.grpc.asked(),
    ),
    "rest": Row(
        is_served=lambda settings: settings.rest.is_served,
        check=lambda settings: settings.rest.check(settings),
        make=_make_rest,
        at_start=AT_START,
        on_http=_rest_on_http,
    ),
    "xmpp": Row(
        is_served=lambda settings: bool(settings.server),
        make=_make_xmpp,
        has_logins=False,
    ),
}
"""The faces by their words.

An address belongs to the first face that claims it. The face of XMPP claims all, so it stays the last row.
"""
