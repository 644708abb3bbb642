"""The addresses of REST, and its certificate."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pubqueue.config.checks import http_addresses, is_trusted
from pubqueue.config.settings import ConfigError
from pubqueue.faces.listener.tls import Tls, TlsError, TlsFiles, places
from pubqueue.faces.push.client import PushTerms, TargetError
from pubqueue.faces.push.client import read as read_target

if TYPE_CHECKING:
    from ipaddress import IPv4Network, IPv6Network

    from pubqueue.config.settings import Settings
    from pubqueue.faces.listener.tls import Place


OFF: Final = "off"
_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)+")


def rest_is_served(settings: Settings) -> bool:
    """Return whether REST is configured."""
    return bool(settings.rest.listen)


def shares_http(settings: Settings) -> bool:
    """Return whether REST shares the server of the page and of metrics."""
    return bool(settings.http) and rest_addresses(settings) == http_addresses(settings)


def prefixes(settings: Settings) -> dict[str, str]:
    """Return the path prefix of each served profile."""
    found = {"rest-star": settings.rest.rest_star, "hornetq": settings.rest.hornetq}
    return {name: prefix for name, prefix in found.items() if prefix != OFF}


def check_rest(settings: Settings) -> None:
    """Check the settings of REST, and that passwords cannot be read on the network.

    Raises:
        ConfigError: they are inconsistent, or an address, a network, a prefix or a URL is not valid.

    """
    rest = settings.rest
    rest_addresses(settings)
    proxies = rest_proxies(settings)
    _check_prefixes(settings)
    _check_urls(settings)
    push_terms(settings)
    if bool(rest.tls_certificate) is not bool(rest.tls_key):
        raise ConfigError(
            "rest: tls_certificate and tls_key belong together", key="rest.tls_certificate"
        )
    if not rest_is_served(settings):
        return
    shared = shares_http(settings)
    if shared and rest.tls_certificate:
        raise ConfigError(
            "rest.tls_certificate: on the addresses of http the certificate is http_certificate",
            key="rest.tls_certificate",
        )
    has_tls = bool(settings.http_certificate if shared else rest.tls_certificate)
    if has_tls or proxies or rest.plain_http:
        return
    if not all(is_trusted(place.host) for place in rest_addresses(settings)):
        raise ConfigError(
            f"rest.listen: passwords would travel to {rest.listen} in plain text; use a loopback address, set"
            " tls_certificate and tls_key, name the proxies that use TLS in proxies, or set plain_http",
            key="rest.listen",
            value=rest.listen,
        )


def rest_addresses(settings: Settings) -> tuple[Place, ...]:
    """Return where REST is served, without TLS.

    Raises:
        ConfigError: `rest.listen` contains something other than addresses.

    """
    try:
        return places(settings.rest.listen)
    except ValueError as problem:
        raise ConfigError(
            f"rest.listen {problem}", key="rest.listen", value=settings.rest.listen
        ) from None


def rest_places(settings: Settings) -> tuple[Place, ...]:
    """Return where REST is served, with TLS if there is a certificate.

    Raises:
        ConfigError: as `check_rest`; or the files cannot be used.

    """
    rest = settings.rest
    if not rest.tls_certificate:
        return rest_addresses(settings)
    files = TlsFiles(rest.tls_certificate, rest.tls_key)
    try:
        tls = Tls(files, face="rest", alpn=("http/1.1",))
    except TlsError as problem:
        key = "rest.tls_key" if problem.file == files.key else "rest.tls_certificate"
        raise ConfigError(f"{key} {problem}", key=key, source=problem.file) from None
    return places(rest.listen, tls)


def rest_proxies(settings: Settings) -> tuple[IPv4Network | IPv6Network, ...]:
    """Return the networks of proxies.

    Raises:
        ConfigError: one is not an address or a network.

    """
    try:
        return tuple(ip_network(text) for text in settings.rest.proxies)
    except ValueError as problem:
        raise ConfigError(
            f"rest.proxies must be IP addresses or networks: {problem}", key="rest.proxies"
        ) from None


def push_terms(settings: Settings) -> PushTerms:
    """Return the allowed targets of pushes.

    Raises:
        ConfigError: one is not a URL, or not a network.

    """
    rest = settings.rest
    try:
        prefixes_of = tuple(read_target(url) for url in rest.push_to)
    except TargetError as problem:
        raise ConfigError(f"rest.push_to: {problem}", key="rest.push_to") from None
    try:
        networks = tuple(ip_network(text) for text in rest.push_networks)
    except ValueError as problem:
        raise ConfigError(f"rest.push_networks: {problem}", key="rest.push_networks") from None
    return PushTerms(
        push_to=prefixes_of,
        networks=networks,
        timeout=rest.push_timeout,
        retries=rest.push_retries,
    )


def _check_prefixes(settings: Settings) -> None:
    found = prefixes(settings)
    for name, prefix in found.items():
        key = f"rest.{name.replace('-', '_')}"
        if not _PREFIX.fullmatch(prefix):
            raise ConfigError(f"{key} must be a path such as /rest, or off", key=key, value=prefix)
    ends = [prefix + "/" for prefix in found.values()]
    if any(one is not other and one.startswith(other) for one in ends for other in ends):
        raise ConfigError("rest: one prefix begins with another", key="rest")


def _check_urls(settings: Settings) -> None:
    base = settings.rest.base_url
    urls = [("rest.base_url", base)] if base else []
    urls += [("rest.cors_origins", one) for one in settings.rest.cors_origins]
    for key, url in urls:
        parts = urlsplit(url)
        is_origin = key != "rest.cors_origins" or not parts.path
        plain = not parts.query and not parts.fragment and "@" not in parts.netloc
        if parts.scheme not in {"http", "https"} or not parts.netloc or not plain or not is_origin:
            raise ConfigError(
                f"{key} must be a URL such as https://queue.example.org, not {url!r}",
                key=key,
                value=url,
            )
