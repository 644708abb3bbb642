"""The table `[rest]`: its keys, what follows from them, and what is refused."""

from __future__ import annotations

import re
from functools import cached_property, partial
from ipaddress import ip_network
from typing import TYPE_CHECKING, Annotated, Final, Literal, Protocol
from urllib.parse import urlsplit

import msgspec

from pubqueue.faces.checks import (
    ConfigError,
    addresses,
    are_those_of_http,
    check_pair,
    is_trusted,
    networks,
    read_tls,
)
from pubqueue.faces.listener import Bounds, Tls, TlsFiles, places
from pubqueue.faces.push.targets import PushTerms, TargetError
from pubqueue.faces.push.targets import read as read_target

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    from pubqueue.faces.checks import Shared
    from pubqueue.faces.listener import Place

WORD: Final = "rest"
"""The word of the face, in `faces` of a user and in addresses."""

OFF: Final = "off"
KEYS: Final = TlsFiles("rest.tls_certificate", "rest.tls_key")
_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)+")

AT_START: Final = frozenset(
    {
        *("rest.listen", "rest.rest_star", "rest.hornetq", "rest.tls_certificate", "rest.tls_key"),
        *("rest.head_timeout", "rest.keepalive", "rest.write_timeout", "rest.max_connections"),
    }
)
"""Keys that are read only at the start; all others are applied by a reload."""

_Seconds = Annotated[float, msgspec.Meta(gt=0, le=3_600)]
_Count = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
_Bytes = Annotated[int, msgspec.Meta(ge=1, le=10 << 20)]


class WithRest(Protocol):
    """Settings that have the table `[rest]`."""

    @property
    def rest(self) -> RestSettings:
        """The table."""


class RestSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Clients of REST messaging over HTTP. They log in as `[[user]]`."""

    listen: str = ""
    """Where to serve it: host:port, or a port of the loopback interface; several with commas between them. If these are the addresses
    of `http`, page, metrics and REST are on one server. Empty: nowhere."""
    rest_star: str = "/rest"
    """What the paths of the profile `rest-star` begin with; `off`: it is not served."""
    hornetq: str = "/hornetq"
    """What the paths of the profile `hornetq` begin with; `off`: it is not served."""
    base_url: str = ""
    """What absolute links begin with, such as `https://queue.example.org`. Empty: what a proxy reports, or the request itself."""
    tls_certificate: str = ""
    """A PEM file with the certificate for HTTPS, followed by the intermediate ones. With this and `tls_key`, `listen` is served by
    TLS alone. Both files are read again on reload."""
    tls_key: str = ""
    """A PEM file with the key of the certificate, without a passphrase."""
    plain_http: bool = False
    """Whether passwords and tokens are accepted without TLS from any address. Otherwise they are accepted without TLS over a
    loopback address and from `proxies`."""
    proxies: tuple[str, ...] = ()
    """Addresses of proxies that use TLS with clients, and networks of them. `Forwarded` and `X-Forwarded-*` are believed only from them."""
    cors_origins: tuple[str, ...] = ()
    """Origins whose pages may send requests, such as `https://app.example.org`."""
    push_to: tuple[str, ...] = ()
    """URLs that messages may be pushed to: each allows what begins with it, such as `https://hooks.example.org/`. None: nothing is pushed."""
    push_networks: tuple[str, ...] = ()
    """Networks that messages may be pushed to although their addresses are not global, such as `10.1.0.0/16`."""
    push_timeout: _Seconds = 30.0
    """Seconds for one push, connecting included."""
    push_retries: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 10
    """Failures in a row after which a registration is disabled; 0: never."""
    nothing: Literal[503, 202, 204] | None = None
    """The status of an answer without a message, when none came in time: 503, 202 or 204. Unset: 204 if the client waits by
    `Prefer: wait`, even for 0 seconds, and 503 otherwise, as REST messaging has it."""
    dups_ok: bool = True
    """Whether a client of `hornetq` may post a message without an id; otherwise it is redirected to a URL with an id."""
    once_for: Annotated[float, msgspec.Meta(gt=0, le=604_800)] = 86_400.0
    """Seconds for which a one-off link can be used, and for which its use is remembered."""
    settled_for: _Seconds = 600.0
    """Seconds for which an acknowledgement is remembered, for clients that repeat it."""
    consumer_idle: _Seconds = 300.0
    """Seconds after which a consumer of `hornetq` without a request is closed, and what it holds is released."""
    longest_wait: Annotated[float, msgspec.Meta(ge=0, le=3_600)] = 60.0
    """The maximum seconds for which a request waits for a message."""
    max_body: _Bytes = 262_144
    """Maximum bytes of the body of a message."""
    max_batch_body: _Bytes = 4 << 20
    """Maximum bytes of the body of a batch."""
    max_batch: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 1_000
    """Maximum messages of a batch."""
    head_timeout: _Seconds = 10.0
    """Seconds to receive the head of a request."""
    body_timeout: _Seconds = 30.0
    """Seconds to receive the body of a request."""
    keepalive: _Seconds = 75.0
    """Seconds for which a connection without a request is kept open."""
    write_timeout: _Seconds = 30.0
    """Seconds for an answer to be read."""
    max_connections: _Count = 2_000
    """Connections in total; a quarter of them from one address."""
    max_waiting: _Count = 2_000
    """Requests that wait for a message, in total."""
    max_waiting_of_account: _Count = 500
    """Requests of one account that wait for a message."""

    @property
    def is_served(self) -> bool:
        """Whether REST is configured."""
        return bool(self.listen)

    @cached_property
    def trusted(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks of proxies, read once.

        Raises:
            ConfigError: one is not an address or a network.

        """
        return networks("rest.proxies", self.proxies)

    @cached_property
    def push(self) -> PushTerms:
        """The allowed targets of pushes, read once.

        Raises:
            ConfigError: one is not a URL, or not a network.

        """
        try:
            targets = tuple(read_target(url) for url in self.push_to)
        except TargetError as problem:
            raise ConfigError(f"rest.push_to: {problem}", key="rest.push_to") from None
        try:
            allowed = tuple(ip_network(text) for text in self.push_networks)
        except ValueError as problem:
            raise ConfigError(f"rest.push_networks: {problem}", key="rest.push_networks") from None
        return PushTerms(
            push_to=targets,
            networks=allowed,
            timeout=self.push_timeout,
            retries=self.push_retries,
        )

    def prefixes(self) -> dict[str, str]:
        """Return the path prefix of each served profile."""
        found = {"rest-star": self.rest_star, "hornetq": self.hornetq}
        return {name: prefix for name, prefix in found.items() if prefix != OFF}

    def bounds(self) -> Bounds:
        """Return the bounds of the host, if REST has one of its own."""
        return Bounds(
            connections=self.max_connections,
            per_peer=max(1, self.max_connections // 4),
            login=0,
            unread=self.write_timeout,
        )

    def addresses(self) -> tuple[Place, ...]:
        """Return where REST is served, without TLS.

        Raises:
            ConfigError: `rest.listen` contains something other than addresses.

        """
        return addresses("rest.listen", self.listen)

    def places(self) -> tuple[Place, ...]:
        """Return where REST is served, with TLS if there is a certificate.

        Raises:
            ConfigError: an address is not valid, or the files cannot be used.

        """
        if not self.tls_certificate:
            return self.addresses()
        files = TlsFiles(self.tls_certificate, self.tls_key)
        make = partial(Tls, face=WORD, alpn=("http/1.1",))
        return places(self.listen, read_tls(make, files, KEYS))

    def shares_http(self, shared: Shared) -> bool:
        """Return whether REST shares the server of the page and of metrics."""
        return are_those_of_http(self.addresses(), shared)

    def check(self, shared: Shared) -> None:
        """Check the settings, and that passwords cannot be read on the network.

        Raises:
            ConfigError: they are inconsistent, or an address, a network, a prefix or a URL is not valid.

        """
        found, proxies = self.addresses(), self.trusted
        _check_prefixes(self.prefixes())
        _check_url("rest.base_url", self.base_url)
        for origin in self.cors_origins:
            _check_url("rest.cors_origins", origin)
        _ = self.push
        check_pair("rest", self.tls_certificate, self.tls_key)
        if not self.is_served:
            return
        is_shared = self.shares_http(shared)
        if is_shared and self.tls_certificate:
            raise ConfigError(
                "rest.tls_certificate: on the addresses of http the certificate is http_certificate",
                key="rest.tls_certificate",
            )
        has_tls = bool(shared.http_certificate if is_shared else self.tls_certificate)
        if has_tls or proxies or self.plain_http:
            return
        if not all(is_trusted(place.host) for place in found):
            raise ConfigError(
                f"rest.listen: passwords would travel to {self.listen} in plain text; use a loopback address, set"
                " tls_certificate and tls_key, name the proxies that use TLS in proxies, or set plain_http",
                key="rest.listen",
                value=self.listen,
            )


def _check_prefixes(found: dict[str, str]) -> None:
    for name, prefix in found.items():
        key = f"rest.{name.replace('-', '_')}"
        if not _PREFIX.fullmatch(prefix):
            raise ConfigError(f"{key} must be a path such as /rest, or off", key=key, value=prefix)
    ends = [prefix + "/" for prefix in found.values()]
    if any(one is not other and one.startswith(other) for one in ends for other in ends):
        raise ConfigError("rest: one prefix begins with another", key="rest")


def _check_url(key: str, url: str) -> None:
    """Check a URL; an empty base is not set, and an origin has no path."""
    if key == "rest.base_url" and not url:
        return
    parts = urlsplit(url)
    is_origin = key != "rest.cors_origins" or not parts.path
    plain = not parts.query and not parts.fragment and "@" not in parts.netloc
    if parts.scheme not in {"http", "https"} or not parts.netloc or not plain or not is_origin:
        raise ConfigError(
            f"{key} must be a URL such as https://queue.example.org, not {url!r}",
            key=key,
            value=url,
        )
