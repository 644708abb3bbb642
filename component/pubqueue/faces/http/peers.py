"""Finds the client of a connection: loopback addresses and proxies may report it."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from ipaddress import IPv4Network, IPv6Network

    Networks = Iterable[IPv4Network | IPv6Network]


@lru_cache(maxsize=4096)
def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address in the text, or None if it is not one."""
    try:
        address = ip_address(host)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def is_trusted(peer: str, proxies: Networks, *, loopback: bool = True) -> bool:
    """Return whether the address belongs to a proxy or, with `loopback`, to this host."""
    address = address_of(peer)
    if address is None:
        return False
    return (loopback and address.is_loopback) or any(address in network for network in proxies)


def client_of(peer: str, headers: Mapping[str, str], proxies: Networks) -> str:
    """Return the address of the client. If a proxy is the peer, this is the last one of `X-Forwarded-For`, which the proxy has added."""
    if not is_trusted(peer, proxies, loopback=False):
        return peer
    claimed = headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()
    return peer if address_of(claimed) is None else claimed
