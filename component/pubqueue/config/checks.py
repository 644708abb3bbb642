"""The addresses of HTTP, its certificate, and the check that logins to the page cannot be read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pubqueue.config.users import users_of
from pubqueue.faces.checks import ConfigError, addresses, is_trusted, read_tls
from pubqueue.faces.listener.tls import Tls, TlsFiles, places

if TYPE_CHECKING:
    from pubqueue.config.settings import Settings
    from pubqueue.faces.listener.tls import Place


def check_http(settings: Settings) -> None:
    """Check the settings of HTTP.

    Raises:
        ConfigError: an address is not valid, or only one of certificate and key is set.

    """
    addresses("http", settings.http)
    _files(settings)


def http_places(settings: Settings) -> tuple[Place, ...]:
    """Return the addresses of HTTP, with TLS if there is a certificate; empty if HTTP is not served.

    Raises:
        ConfigError: as `check_http`; or the files cannot be used.

    """
    found = addresses("http", settings.http)
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
    make = partial(Tls, face="http", alpn=("http/1.1",))
    return read_tls(make, files, TlsFiles("http_certificate", "http_key"))


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


def check_page(settings: Settings) -> None:
    """Check that logins to the page cannot be read on the network.

    Raises:
        ConfigError: they would; or the users, or the names of proxies, have an error.

    """
    users, proxies = users_of(settings), settings.proxies()
    if proxies or settings.http_certificate:
        return
    if all(is_trusted(place.host) for place in addresses("http", settings.http)):
        return
    if any(user.roles and user.may_enter("page") for user in users):
        raise ConfigError(
            f"http: users would log in to the page at {settings.http} without TLS; use a loopback address,"
            " set http_certificate and http_key, or name the proxies that use TLS in http_proxies",
            key="http",
            value=settings.http,
        )
