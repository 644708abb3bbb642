"""The addresses of STOMP, and checks of its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.config.checks import http_addresses, is_trusted
from pubqueue.config.settings import ConfigError
from pubqueue.faces.listener.tls import Tls, TlsError, TlsFiles, places

if TYPE_CHECKING:
    from pubqueue.config.settings import Settings
    from pubqueue.faces.listener.tls import Place


def check_stomp(settings: Settings) -> None:
    """Check the settings of STOMP, and that passcodes cannot be read on the network.

    Raises:
        ConfigError: they are inconsistent, or an address is not valid.

    """
    stomp = settings.stomp
    for place in _places(settings, "listen"):
        if not is_trusted(place.host):
            raise ConfigError(
                f"stomp.listen: passcodes would travel to {stomp.listen} in plain text; use a loopback address, or"
                " listen_tls with tls_certificate and tls_key",
                key="stomp.listen",
                value=stomp.listen,
            )
    _places(settings, "listen_tls")
    together = bool(stomp.listen_tls), bool(stomp.tls_certificate), bool(stomp.tls_key)
    if any(together) and not all(together):
        raise ConfigError(
            "stomp: listen_tls, tls_certificate and tls_key belong together", key="stomp.listen_tls"
        )
    _check_web_socket(settings)
    if not stomp.versions:
        raise ConfigError("stomp.versions: at least one version", key="stomp.versions")


def is_served(settings: Settings) -> bool:
    """Return whether STOMP is configured."""
    stomp = settings.stomp
    return bool(stomp.listen or stomp.listen_tls or stomp.web_socket)


def _check_web_socket(settings: Settings) -> None:
    if not settings.stomp.web_socket:
        return
    if not settings.http:
        raise ConfigError(
            "stomp.web_socket needs http, the addresses on which the path is",
            key="stomp.web_socket",
        )
    if settings.http_certificate or settings.proxies():
        return
    if not all(is_trusted(place.host) for place in http_addresses(settings)):
        raise ConfigError(
            f"stomp.web_socket: passcodes would travel to {settings.http} in plain text; use a loopback address,"
            " set http_certificate and http_key, or name the proxies that use TLS in http_proxies",
            key="stomp.web_socket",
        )


def stomp_places(settings: Settings) -> tuple[Place, ...]:
    """Return the addresses of STOMP, with and without TLS.

    Raises:
        ConfigError: as `check_stomp`; or the files cannot be used.

    """
    stomp = settings.stomp
    found = _places(settings, "listen")
    if not stomp.listen_tls:
        return found
    files = TlsFiles(stomp.tls_certificate, stomp.tls_key)
    try:
        tls = Tls(files, face="stomp")
    except TlsError as problem:
        key = "stomp.tls_key" if problem.file == files.key else "stomp.tls_certificate"
        raise ConfigError(f"{key} {problem}", key=key, source=problem.file) from None
    return (*found, *places(stomp.listen_tls, tls))


def _places(settings: Settings, key: str) -> tuple[Place, ...]:
    text = getattr(settings.stomp, key)
    try:
        return tuple(places(text))
    except ValueError as problem:
        raise ConfigError(f"stomp.{key} {problem}", key=f"stomp.{key}", value=text) from None
