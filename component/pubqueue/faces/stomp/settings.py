"""The table `[stomp]`, and what follows from it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from pubqueue.faces.checks import ConfigError, addresses, is_trusted, read_tls
from pubqueue.faces.listener import Bounds, Tls, TlsFiles, places
from pubqueue.faces.stomp.codec import VERSIONS
from pubqueue.rules.nodeconfig import MAX_PAYLOAD_BYTES

if TYPE_CHECKING:
    from pubqueue.faces.checks import Shared
    from pubqueue.faces.listener import Place
    from pubqueue.faces.stomp.codec import Version

UNSENT: Final = 2 * MAX_PAYLOAD_BYTES
"""Bytes that may wait in a socket. The face itself stops delivering long before."""

UNREAD: Final = 30.0
"""Seconds for a client to read some of the waiting data."""

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
    """Origins whose pages may connect over WebSocket, such as https://app.example.org; without them only pages of the same host and
    port may. Clients outside a browser send no origin, or the address that they call."""
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

    @property
    def spoken(self) -> tuple[Version, ...]:
        """The versions that are spoken, the oldest first."""
        return tuple(VERSIONS[name] for name in VERSIONS if name in self.versions)

    @property
    def beat(self) -> int:
        """Milliseconds between heart-beats, as headers have them."""
        return round(self.heart_beat * 1000)

    @property
    def late_is_error(self) -> bool:
        """Whether an ERROR follows an ACK or NACK that comes too late."""
        return self.late_ack == "error"

    def bounds(self) -> Bounds:
        """Return the bounds of the listener."""
        return Bounds(
            connections=self.connections,
            per_user=self.connections_per_login,
            login=self.login_timeout,
            unread=UNREAD,
            unsent=UNSENT,
        )

    @property
    def is_served(self) -> bool:
        """Whether STOMP is configured."""
        return bool(self.listen or self.listen_tls or self.web_socket)

    def places(self) -> tuple[Place, ...]:
        """Return the addresses of STOMP, with and without TLS.

        Raises:
            ConfigError: an address is not valid, or the files cannot be used.

        """
        found = addresses("stomp.listen", self.listen)
        if not self.listen_tls:
            return found
        files = TlsFiles(self.tls_certificate, self.tls_key)
        keys = TlsFiles("stomp.tls_certificate", "stomp.tls_key")
        tls = read_tls(partial(Tls, face="stomp"), files, keys)
        return (*found, *places(self.listen_tls, tls))

    def check(self, shared: Shared) -> None:
        """Check the settings, and that passcodes cannot be read on the network.

        Raises:
            ConfigError: they are inconsistent, or an address is not valid.

        """
        if not all(is_trusted(place.host) for place in addresses("stomp.listen", self.listen)):
            raise ConfigError(
                f"stomp.listen: passcodes would travel to {self.listen} in plain text; use a loopback address, or"
                " listen_tls with tls_certificate and tls_key",
                key="stomp.listen",
                value=self.listen,
            )
        addresses("stomp.listen_tls", self.listen_tls)
        together = bool(self.listen_tls), bool(self.tls_certificate), bool(self.tls_key)
        if any(together) and not all(together):
            raise ConfigError(
                "stomp: listen_tls, tls_certificate and tls_key belong together",
                key="stomp.listen_tls",
            )
        if self.web_socket:
            _check_web_socket(shared)
        if not self.versions:
            raise ConfigError("stomp.versions: at least one version", key="stomp.versions")


def _check_web_socket(shared: Shared) -> None:
    if not shared.http:
        raise ConfigError(
            "stomp.web_socket needs http, the addresses on which the path is",
            key="stomp.web_socket",
        )
    if shared.http_certificate or shared.proxies():
        return
    if not all(is_trusted(place.host) for place in addresses("http", shared.http)):
        raise ConfigError(
            f"stomp.web_socket: passcodes would travel to {shared.http} in plain text; use a loopback address,"
            " set http_certificate and http_key, or name the proxies that use TLS in http_proxies",
            key="stomp.web_socket",
        )
