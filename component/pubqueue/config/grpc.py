"""Where gRPC is served, and who may call without credentials."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pubqueue.config.checks import http_addresses, is_trusted
from pubqueue.config.settings import ConfigError
from pubqueue.faces.listener.tls import places

if TYPE_CHECKING:
    from pubqueue.config.settings import Settings
    from pubqueue.faces.listener.tls import Place


_NAME: Final = re.compile(r"[a-z0-9._-]{1,64}")
_PUSH: Final = re.compile(r"[^\s:/]+|\[[0-9a-fA-F:]+\]")


def check_grpc(settings: Settings) -> None:
    """Check the settings of gRPC, and that strangers cannot get the account of callers without credentials.

    Raises:
        ConfigError: they are inconsistent, or an address is not valid.

    """
    grpc = settings.grpc
    if bool(grpc.tls_certificate) is not bool(grpc.tls_key):
        raise ConfigError(
            "grpc: tls_certificate and tls_key belong together", key="grpc.tls_certificate"
        )
    if grpc.client_ca and not grpc.tls_certificate:
        raise ConfigError("grpc.client_ca needs tls_certificate and tls_key", key="grpc.client_ca")
    if grpc.anonymous and _NAME.fullmatch(grpc.anonymous) is None:
        raise ConfigError(
            f"grpc.anonymous must be 1 to 64 of a-z, 0-9, '.', '_' and '-', not {grpc.anonymous!r}",
            key="grpc.anonymous",
            value=grpc.anonymous,
        )
    for place in grpc_places(settings):
        _check_open(settings, "listen", place, has_tls=bool(grpc.tls_certificate))
    certificate = settings.http_certificate if shares_http(settings) else grpc.tls_certificate
    for place in json_addresses(settings):
        _check_open(settings, "json", place, has_tls=bool(certificate))
    for pattern in grpc.push_to:
        host, _, port = pattern.rpartition(":")
        if _PUSH.fullmatch(host) is None or not (port == "*" or port.isdecimal()):
            raise ConfigError(
                f"grpc.push_to must be host:port, such as *.example.org:443, not {pattern!r}",
                key="grpc.push_to",
                value=pattern,
            )


def _check_open(settings: Settings, key: str, place: Place, *, has_tls: bool) -> None:
    """Check an address that strangers may reach."""
    grpc = settings.grpc
    if is_trusted(place.host):
        return
    if grpc.anonymous:
        raise ConfigError(
            f"grpc.anonymous: strangers who reach {place.shown} would have its account; use loopback addresses in {key}",
            key="grpc.anonymous",
            value=grpc.anonymous,
        )
    if not has_tls:
        raise ConfigError(
            f"grpc.{key}: credentials would travel to {place.shown} in plain text; use a loopback address, or"
            " tls_certificate and tls_key",
            key=f"grpc.{key}",
            value=getattr(grpc, key),
        )


def grpc_is_served(settings: Settings) -> bool:
    """Return whether gRPC or its JSON is configured."""
    return bool(settings.grpc.listen or settings.grpc.json)


def shares_http(settings: Settings) -> bool:
    """Return whether JSON shares the server of the page and of metrics."""
    return bool(settings.http) and json_addresses(settings) == http_addresses(settings)


def grpc_places(settings: Settings) -> tuple[Place, ...]:
    """Return where gRPC is served.

    Raises:
        ConfigError: an address is not valid.

    """
    return _places("listen", settings.grpc.listen)


def json_addresses(settings: Settings) -> tuple[Place, ...]:
    """Return where JSON is served, without TLS.

    Raises:
        ConfigError: an address is not valid.

    """
    return _places("json", settings.grpc.json)


def _places(key: str, text: str) -> tuple[Place, ...]:
    try:
        return tuple(places(text))
    except ValueError as problem:
        raise ConfigError(f"grpc.{key} {problem}", key=f"grpc.{key}", value=text) from None
