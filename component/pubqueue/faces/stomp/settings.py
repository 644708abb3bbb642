"""The table `[stomp]`, and what a connection gets of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Struct

from pubqueue.faces.stomp.codec import VERSIONS, FrameBounds

if TYPE_CHECKING:
    from pubqueue.faces.stomp.codec import Version


# The table `[stomp]` of the configuration.

_Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class StompSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Clients of STOMP 1.2, 1.1 and 1.0 ([how to](../how-to/stomp.md)). They log in as `[[user]]`."""

    listen: str = ""
    """Where to serve STOMP without TLS: host:port, or a port of the loopback interface; several with commas between them. Only
    loopback addresses, because passcodes would travel in plain text. Empty: nowhere."""
    listen_tls: str = ""
    """Where to serve STOMP over TLS, in the same form; `*` as host stands for all addresses of the machine."""
    tls_certificate: str = ""
    """A PEM file with the certificate for `listen_tls`, followed by the intermediate ones. It is read again on reload."""
    tls_key: str = ""
    """A PEM file with the key of the certificate, without a passphrase. It is read again on reload."""
    web_socket: Annotated[str, msgspec.Meta(pattern="^(/[A-Za-z0-9._~/-]*)?$")] = ""
    """The path at which STOMP is served over WebSocket, such as /stomp, on the addresses of `http`. These have to use TLS, be loopback
    addresses or be behind `http_proxies`. Empty: nowhere."""
    origins: tuple[str, ...] = ()
    """Origins whose pages may connect over WebSocket, such as https://app.example.org; none, unless they are named. Clients
    outside a browser send no origin."""
    heart_beat: Annotated[float, msgspec.Meta(ge=0.1, le=3_600)] = 10.0
    """Seconds between heart-beats that are offered to clients, in both directions."""
    login_timeout: Annotated[float, msgspec.Meta(gt=0, le=3_600)] = 10.0
    """Seconds until a client has to have logged in."""
    hosts: tuple[str, ...] = ()
    """Names that clients may give in the header `host`; any, if there are none. Clients may leave it out."""
    versions: tuple[Literal["1.2", "1.1", "1.0"], ...] = ("1.2", "1.1", "1.0")
    """Versions that are spoken."""
    connections: _Count = 2_000
    """Connections in all."""
    connections_per_login: _Count = 100
    """Connections of one user."""
    subscriptions_per_connection: _Count = 100
    """Subscriptions of one connection."""
    late_ack: Literal["receipt", "error"] = "receipt"
    """What follows an ACK or NACK of a message whose lock is over: `receipt`, a RECEIPT with `outcome:lost`, or `error`, an
    ERROR, which ends the connection."""


# The configured settings of the face.


class StompTerms(Struct, frozen=True, kw_only=True):
    """The settings of each connection."""

    versions: tuple[Version, ...] = tuple(VERSIONS.values())
    hosts: tuple[str, ...] = ()
    """Names that a header `host` may have; any, if there are none."""
    heart_beat: int = 10_000
    """Milliseconds, in both directions."""
    max_subscriptions: int = 100
    late_is_error: bool = False
    bounds: FrameBounds = FrameBounds()
    """For frames of clients that have logged in."""
