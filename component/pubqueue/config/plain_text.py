"""Checks that passwords and tokens arrive without TLS only from this host and from configured proxies."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

from pubqueue.config.http import http_addresses
from pubqueue.config.settings import ConfigError
from pubqueue.config.users import users_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from ipaddress import IPv4Network, IPv6Network

    from pubqueue.config.settings import Settings

    Networks = Iterable[IPv4Network | IPv6Network]


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
