"""The addresses of HTTP, and its certificate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.config.settings import ConfigError
from pubqueue.faces.listener.places import places
from pubqueue.faces.listener.tls import Tls, TlsError, TlsFiles

if TYPE_CHECKING:
    from pubqueue.config.settings import Settings
    from pubqueue.faces.listener.places import Place


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
