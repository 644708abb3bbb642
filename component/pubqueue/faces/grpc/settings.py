"""The table `[grpc]`: its keys, what follows from them, and what is refused."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import msgspec

from pubqueue.faces.checks import (
    ConfigError,
    addresses,
    are_those_of_http,
    check_pair,
    is_trusted,
    read_tls,
)
from pubqueue.faces.listener import Bounds, Tls, TlsFiles, places

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.checks import Shared
    from pubqueue.faces.listener import Place

T = TypeVar("T")

WORD: Final = "grpc"
"""The word of the face: in addresses, and where users may log in."""

JSON: Final = "json"
"""The name of the JSON server in metrics and in the log."""

JSON_BOUNDS: Final = Bounds(login=0)
"""The limits of that server; each waiting pull has a connection of its own."""

KEYS: Final = TlsFiles("grpc.tls_certificate", "grpc.tls_key", "grpc.client_ca")

_NAME: Final = re.compile(r"[a-z0-9._-]{1,64}")
_PUSH: Final = re.compile(r"[^\s:/]+|\[[0-9a-fA-F:]+\]")

_Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class GrpcSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Clients of Pub/Sub: `tech.pubsub` and `google.pubsub.v1` over gRPC, `v1beta1a` in JSON. They log in as `[[user]]`."""

    listen: str = ""
    """Where to serve gRPC: host:port, or a port of the loopback interface; several with commas between them. `*` as host stands
    for all addresses of the machine. Without `tls_certificate` only loopback addresses, because credentials would travel in plain
    text. Empty: nowhere."""
    json: str = ""
    """Where to serve `v1beta1a`, the same in JSON over HTTP, likewise. If these are the addresses of `http`, page, metrics and JSON are on
    one server, with its certificate. Empty: nowhere."""
    tls_certificate: str = ""
    """A PEM file with the certificate for TLS, followed by the intermediate ones. With this and `tls_key`, all addresses of `listen` and
    `json` are served by TLS alone. Both files are read again on reload."""
    tls_key: str = ""
    """A PEM file with the key of the certificate, without a passphrase."""
    client_ca: str = ""
    """A PEM file with the authorities of client certificates. A client may show a certificate of theirs, and then has the account of the
    user with this subject; any other certificate is refused."""
    anonymous: str = ""
    """The name of the account that callers without credentials have, as clients of Google's emulator are. It counts as local for
    `node_creation`. Only with loopback addresses in `listen` and `json`. Empty: such callers are refused."""
    bridge: bool = True
    """Whether the project `xmpp` has all nodes that have no name of a topic or a subscription."""
    push_to: tuple[str, ...] = ()
    """Where messages may be pushed to: `host:port`, with `*` as a wildcard in the host or as the port. None: a subscription cannot
    have a push endpoint."""
    streams: _Count = 10_000
    """Streams that may be open at a time."""
    streams_per_account: _Count = 5_000
    """Streams of one account that may be open at a time."""

    @property
    def is_served(self) -> bool:
        """Whether gRPC or its JSON is configured."""
        return bool(self.listen or self.json)

    def grpc_addresses(self) -> tuple[Place, ...]:
        """Return where gRPC is served, without TLS.

        Raises:
            ConfigError: an address is not valid.

        """
        return addresses("grpc.listen", self.listen)

    def json_addresses(self) -> tuple[Place, ...]:
        """Return where JSON is served, without TLS.

        Raises:
            ConfigError: an address is not valid.

        """
        return addresses("grpc.json", self.json)

    def asked(self) -> tuple[tuple[str, tuple[Place, ...]], ...]:
        """Return the addresses that the doctor connects to, with the names by which it reports them."""
        return (("gRPC", self.grpc_addresses()), ("JSON", self.json_addresses()))

    def json_places(self) -> tuple[Place, ...]:
        """Return where JSON is served on a server of its own, with TLS if there is a certificate.

        Raises:
            ConfigError: the files or an address cannot be used.

        """
        if not self.tls_certificate:
            return self.json_addresses()
        return places(self.json, self.read_tls(partial(Tls, face=JSON, alpn=("http/1.1",))))

    def json_shares_http(self, shared: Shared) -> bool:
        """Return whether JSON shares the server of the page and of metrics."""
        return are_those_of_http(self.json_addresses(), shared)

    def grpc_places(self) -> tuple[Place, ...]:
        """Return where gRPC is served, with TLS if there is a certificate.

        Raises:
            ConfigError: the files or an address cannot be used.

        """
        if not self.tls_certificate or not self.listen:
            return self.grpc_addresses()
        return places(self.listen, self.read_tls(partial(Tls, face=WORD, alpn=("h2",))))

    def read_tls(self, make: Callable[[TlsFiles], T]) -> T:
        """Return what is made of the certificate.

        Raises:
            ConfigError: the files cannot be used.

        """
        files = TlsFiles(self.tls_certificate, self.tls_key, self.client_ca)
        return read_tls(make, files, KEYS)

    def check(self, shared: Shared) -> None:
        """Check the settings, and that strangers cannot get the account of callers without credentials.

        Raises:
            ConfigError: they are inconsistent, or an address is not valid.

        """
        check_pair("grpc", self.tls_certificate, self.tls_key)
        if self.client_ca and not self.tls_certificate:
            raise ConfigError(
                "grpc.client_ca needs tls_certificate and tls_key", key="grpc.client_ca"
            )
        if self.anonymous and _NAME.fullmatch(self.anonymous) is None:
            raise ConfigError(
                f"grpc.anonymous must be 1 to 64 of a-z, 0-9, '.', '_' and '-', not {self.anonymous!r}",
                key="grpc.anonymous",
                value=self.anonymous,
            )
        for place in self.grpc_addresses():
            self._check_open("listen", place, has_tls=bool(self.tls_certificate))
        is_shared = self.json_shares_http(shared)
        certificate = shared.http_certificate if is_shared else self.tls_certificate
        for place in self.json_addresses():
            self._check_open("json", place, has_tls=bool(certificate))
        for pattern in self.push_to:
            host, _, port = pattern.rpartition(":")
            if _PUSH.fullmatch(host) is None or not (port == "*" or port.isdecimal()):
                raise ConfigError(
                    f"grpc.push_to must be host:port, such as *.example.org:443, not {pattern!r}",
                    key="grpc.push_to",
                    value=pattern,
                )

    def _check_open(self, key: str, place: Place, *, has_tls: bool) -> None:
        """Check an address that strangers may reach."""
        if is_trusted(place.host):
            return
        if self.anonymous:
            raise ConfigError(
                f"grpc.anonymous: strangers who reach {place.shown} would have its account; use loopback addresses in {key}",
                key="grpc.anonymous",
                value=self.anonymous,
            )
        if not has_tls:
            raise ConfigError(
                f"grpc.{key}: credentials would travel to {place.shown} in plain text; use a loopback address, or"
                " tls_certificate and tls_key",
                key=f"grpc.{key}",
                value=getattr(self, key),
            )
