"""Endpoints of pushes, and the push configs that name them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec
from grpc import StatusCode

from pubqueue.faces.grpc.statuses import NOT_AUTHORIZED, CallError, invalid
from pubqueue.rules.nodeconfig import PUSHED, all_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.model.entities import NodeConfig


# Endpoints of pushes: their form, which ones are allowed, and their stored form. Pure.
#
# An endpoint is `http://` or `https://` and gets a POST, or `host:port`, which serves `tech.pubsub.PushEndpointService`. The
# operator lists the hosts and ports that may be called (`grpc.push_to`).

PUSH: Final = PUSHED
"""The mark with the endpoint of a subscription, as JSON."""

PORTS: Final = {"http": 80, "https": 443}
MAX_LENGTH: Final = 2_048
MAX_PORT: Final = 65_535


class EndpointError(ValueError):
    """A text that is not an endpoint."""


class Endpoint(msgspec.Struct, frozen=True):
    """An endpoint: the text, and its host and port. `scheme` is empty for gRPC."""

    url: str
    scheme: str
    host: str
    port: int


class Kept(msgspec.Struct, frozen=True):
    """The stored push config of a node."""

    endpoint: str
    attributes: dict[str, str] = {}


def read(text: str) -> Endpoint:
    """Return the endpoint of a text.

    Raises:
        EndpointError: it is not one.

    """
    if len(text) > MAX_LENGTH or not text.isprintable() or " " in text:
        raise EndpointError("push_endpoint must be an http(s) URL or host:port")
    scheme = text.partition("://")[0].lower() if "://" in text else ""
    try:
        parts = urlsplit(text if scheme else f"//{text}")
        port = parts.port if parts.port is not None else PORTS.get(scheme, 0)
    except ValueError:
        raise EndpointError("push_endpoint must be an http(s) URL or host:port") from None
    has_rest = bool(parts.path or parts.query) and not scheme
    if scheme not in {"", *PORTS} or not parts.hostname or not 0 < port <= MAX_PORT or has_rest:
        raise EndpointError("push_endpoint must be an http(s) URL or host:port")
    if parts.username is not None or parts.fragment:
        raise EndpointError("push_endpoint has neither a user nor a fragment")
    return Endpoint(text, scheme, parts.hostname.lower(), port)


def is_allowed(endpoint: Endpoint, patterns: Iterable[str]) -> bool:
    """Return whether one of the patterns, `host:port` with wildcards, allows the endpoint.

    A wildcard matches no address of this machine or its link: the operator has to write these out.
    """
    for pattern in patterns:
        host, _, port = pattern.rpartition(":")
        host = host.strip("[]").lower()
        same = endpoint.host == host
        wild = not same and not _is_near(endpoint.host) and fnmatchcase(endpoint.host, host)
        if port in {"*", str(endpoint.port)} and (same or wild):
            return True
    return False


def _is_near(host: str) -> bool:
    """Return whether a host is this machine, or can be reached only from this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        found = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    one = mapped or found
    return one.is_loopback or one.is_link_local or one.is_multicast or one.is_unspecified


def may_resolve_to(endpoint: Endpoint, address: str) -> bool:
    """Return whether the endpoint may be called at an address of its name: a name may not lead to this machine unnoticed."""
    return endpoint.host in {"localhost", address} or not _is_near(address)


def kept(config: NodeConfig) -> Kept | None:
    """Return the push config of a node, None if messages are not pushed."""
    text = all_of(config.labels).get(PUSH, "") if config.labels else ""
    try:
        return msgspec.json.decode(text, type=Kept) if text else None
    except msgspec.MsgspecError:
        return None


def written(endpoint: str, attributes: dict[str, str]) -> str | None:
    """Return the mark of a push config, None for none."""
    return msgspec.json.encode(Kept(endpoint, attributes)).decode() if endpoint else None


# Push configs as clients set them.


def checked(endpoint: str, attributes: Mapping[str, str], push_to: Iterable[str]) -> str | None:
    """Return the mark of a push config, None for none.

    Raises:
        CallError: it is not an endpoint, or one that may not be called.

    """
    if endpoint:
        try:
            found = read(endpoint)
        except EndpointError as problem:
            raise invalid(f"push_config: {problem}") from None
        if not is_allowed(found, push_to):
            raise CallError(StatusCode.PERMISSION_DENIED, NOT_AUTHORIZED)
    return written(endpoint, dict(attributes))
