"""The face of each protocol, if it is configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.config.grpc.places import grpc_is_served, grpc_places, json_addresses
from pubqueue.config.rest.places import rest_addresses, rest_is_served
from pubqueue.config.settings import ConfigError
from pubqueue.config.stomp import is_served, stomp_places
from pubqueue.config.xmpp_terms import XmppReload, place_of, terms_of
from pubqueue.faces.xmpp import XmppFace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.config.reloading import SettingsTaker
    from pubqueue.config.settings import Settings
    from pubqueue.engine.broker import Broker
    from pubqueue.engine.face import Face


def _xmpp(
    broker: Broker, settings: Settings, accounts: Accounts, on_ready: Callable[[], None]
) -> XmppFace | None:
    if not settings.server:
        return None
    return XmppFace(
        *(broker, place_of(settings), accounts.principals, terms_of(settings)), on_ready=on_ready
    )


def _stomp(
    broker: Broker, settings: Settings, accounts: Accounts, on_ready: Callable[[], None]
) -> Face | None:
    if not is_served(settings):
        return None
    from pubqueue.config import stomp_terms  # noqa: PLC0415  # only if it is used
    from pubqueue.faces.stomp.face import StompFace  # noqa: PLC0415

    return StompFace(
        *(broker, accounts, stomp_places(settings), stomp_terms.terms_of(settings.stomp)),
        stomp_terms.bounds_of(settings.stomp),
        auto_creates=settings.auto_creates,
        on_ready=on_ready,
    )


def _grpc(
    broker: Broker, settings: Settings, accounts: Accounts, on_ready: Callable[[], None]
) -> Face | None:
    if not grpc_is_served(settings):
        return None
    try:
        from pubqueue.config.grpc import terms  # noqa: PLC0415  # only if it is used
        from pubqueue.faces.grpc.face import GrpcFace  # noqa: PLC0415
    except ModuleNotFoundError as problem:
        raise without_grpc(problem) from None

    return GrpcFace(
        *(broker, accounts, grpc_places(settings), terms.terms_of(settings.grpc)),
        tls=terms.tls_of(settings),
        json=[place.shown for place in json_addresses(settings)],
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
    if not rest_is_served(settings):
        return None
    from pubqueue.config.rest import terms  # noqa: PLC0415  # only if it is used
    from pubqueue.faces.rest.face import RestFace  # noqa: PLC0415

    shown = [place.shown for place in rest_addresses(settings)]
    return RestFace(*(broker, accounts, terms.terms_of(settings)), places=shown, on_ready=on_ready)


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


def takers(settings: Settings, faces: Sequence[Face]) -> list[SettingsTaker]:
    """Return the parts that apply reloaded settings to the faces."""
    takers: list[SettingsTaker] = [XmppReload(faces)]
    if is_served(settings):
        from pubqueue.config.stomp_terms import StompReload  # noqa: PLC0415  # only if it is used

        takers.append(StompReload(faces))
    if rest_is_served(settings):
        from pubqueue.config.rest.terms import RestReload  # noqa: PLC0415  # only if it is used

        takers.append(RestReload(faces))
    return takers
