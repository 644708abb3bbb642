"""Checks that concern every protocol over HTTP: addresses, certificates, and credentials that arrive without TLS."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

from pubqueue.config.settings import ConfigError
from pubqueue.config.users import users_of
from pubqueue.faces.listener.tls import Tls, TlsError, TlsFiles, places

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ipaddress import IPv4Network, IPv6Network

    from pubqueue.config.settings import Settings
    from pubqueue.faces.listener.tls import Place

    Networks = Iterable[IPv4Network | IPv6Network]


# The addresses of HTTP, and its certificate.


def check_http(settings: Settings) -> None:
    """Check the settings of HTTP.

    Raises:
        ConfigError: an address is not valid, or only one of certificate and key is set.

    """
    http_addresses(settings)
    _files(settings)


def http_places(settings: Settings) -> tuple[Place, ...]:
    """Return the addresses of HTTP, with TLS if there is a certificate; empty if HTTP is not served.

    Raises:
        ConfigError: as `check_http`; or the files cannot be used.

    """
    found = http_addresses(settings)
    tls = http_tls(settings)
    return found if tls is None else places(settings.http, tls)


def http_tls(settings: Settings) -> Tls | None:
    """Return the TLS of HTTP, or None without a certificate.

    Raises:
        ConfigError: the files cannot be used, or only one of them is set.

    """
    files = _files(settings)
    if files is None:
        return None
    try:
        return Tls(files, face="http", alpn=("http/1.1",))
    except TlsError as problem:
        key = "http_key" if problem.file == files.key else "http_certificate"
        raise ConfigError(f"{key} {problem}", key=key, source=problem.file) from None


def http_addresses(settings: Settings) -> tuple[Place, ...]:
    """Return the addresses of HTTP, without TLS.

    Raises:
        ConfigError: `http` contains something other than addresses.

    """
    try:
        return places(settings.http)
    except ValueError as problem:
        raise ConfigError(f"http {problem}", key="http", value=settings.http) from None


def _files(settings: Settings) -> TlsFiles | None:
    certificate, key = settings.http_certificate, settings.http_key
    if not certificate and not key:
        return None
    if not certificate or not key:
        lacking = "http_key" if certificate else "http_certificate"
        raise ConfigError(
            f"http_certificate and http_key belong together, and {lacking} is not set", key=lacking
        )
    if not settings.http:
        raise ConfigError(
            "http_certificate and http_key need http, the address that they are for", key="http"
        )
    return TlsFiles(certificate, key)


# Checks that passwords and tokens arrive without TLS only from this host and from configured proxies.


def check_page(settings: Settings) -> None:
    """Check that logins to the page cannot be read on the network.

    Raises:
        ConfigError: they would; or the users, or the names of proxies, have an error.

    """
    users, proxies = users_of(settings), settings.proxies()
    if proxies or settings.http_certificate:
        return
    if all(is_trusted(place.host) for place in http_addresses(settings)):
        return
    if any(user.roles and user.may_enter("page") for user in users):
        raise ConfigError(
            f"http: users would log in to the page at {settings.http} without TLS; use a loopback address,"
            " set http_certificate and http_key, or name the proxies that use TLS in http_proxies",
            key="http",
            value=settings.http,
        )


def is_trusted(host: str, proxies: Networks = ()) -> bool:
    """Return whether the address is a loopback address or belongs to a proxy."""
    if host == "localhost":
        return True
    address = address_of(host)
    return address is not None and (
        address.is_loopback or any(address in network for network in proxies)
    )


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address in the text, or None if it is a name."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
