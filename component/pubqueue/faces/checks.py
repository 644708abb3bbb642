"""What the settings of all faces are checked with: the error, the addresses and their TLS, and the networks that are trusted."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from pubqueue.faces.listener.tls import TlsError, TlsFiles, places

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.faces.listener.tls import Place

    Networks = Iterable[IPv4Network | IPv6Network]

T = TypeVar("T")


class ConfigError(Exception):
    """The configuration cannot be used; the message is one sentence for the operator.

    Facts, as far as they are known: `key` is the setting, `value` its value (never a secret), and `source` the file or
    the variable that it comes from, or the file that it names.
    """

    def __init__(
        self, message: str, *, key: str = "", value: object = None, source: object = None
    ) -> None:
        super().__init__(message)
        self.key, self.value = key, value
        self.source = None if source is None else str(source)


class Shared(Protocol):
    """The settings that a face needs and that are not in its own table."""

    @property
    def http(self) -> str:
        """The addresses of the page."""

    @property
    def http_certificate(self) -> str:
        """The certificate of these addresses."""

    @property
    def auto_creates(self) -> bool:
        """Whether a publish can create a node."""

    def proxies(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """Return the networks of proxies in front of these addresses."""


# Addresses, and the certificates that are for them.


def addresses(key: str, text: str) -> tuple[Place, ...]:
    """Return the addresses that a key has, without TLS.

    Raises:
        ConfigError: it contains something other than addresses.

    """
    try:
        return places(text)
    except ValueError as problem:
        raise ConfigError(f"{key} {problem}", key=key, value=text) from None


def are_those_of_http(found: tuple[Place, ...], shared: Shared) -> bool:
    """Return whether the addresses are those of the page, so that one server has both.

    Raises:
        ConfigError: `http` contains something other than addresses.

    """
    return bool(shared.http) and found == addresses("http", shared.http)


def check_pair(table: str, certificate: str, key: str) -> None:
    """Check that a table has a certificate and its key, or neither.

    Raises:
        ConfigError: it has one of them.

    """
    if bool(certificate) is not bool(key):
        raise ConfigError(
            f"{table}: tls_certificate and tls_key belong together", key=f"{table}.tls_certificate"
        )


def read_tls(make: Callable[[TlsFiles], T], files: TlsFiles, keys: TlsFiles) -> T:
    """Return what is made of these files, which the configuration names under these keys.

    Raises:
        ConfigError: they cannot be used.

    """
    try:
        return make(files)
    except TlsError as problem:
        named = {files.key: keys.key, files.client_ca: keys.client_ca}
        key = named.get(problem.file, keys.certificate)
        raise ConfigError(f"{key} {problem}", key=key, source=problem.file) from None


# Credentials without TLS are accepted only from this host and from proxies.


def networks(key: str, texts: Iterable[str]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return the networks that a key names.

    Raises:
        ConfigError: one is not an address or a network.

    """
    try:
        return tuple(ip_network(text) for text in texts)
    except ValueError as problem:
        raise ConfigError(f"{key} must be IP addresses or networks: {problem}", key=key) from None


def is_trusted(host: str, proxies: Networks = (), *, loopback: bool = True) -> bool:
    """Return whether the address belongs to a proxy or, with `loopback`, to this host."""
    if host == "localhost":
        return loopback
    address = address_of(host)
    return address is not None and (
        (loopback and address.is_loopback) or any(address in network for network in proxies)
    )


THIS_HOST: Final = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
"""The loopback addresses, from which a proxy on this host connects."""


@lru_cache(maxsize=4096)
def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address in the text, or None if it is a name."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
