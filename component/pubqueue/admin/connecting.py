"""Where a service is, and a session with it: over XMPP or HTTP by the URL, or on its own host by its configuration."""

from __future__ import annotations

import os
import pwd
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from pubqueue.accounts import local_key
from pubqueue.admin import http_client, over_http
from pubqueue.admin.http_client import Address, HttpClient, Login, OnItsHost
from pubqueue_xeps.client.connection import (
    EXAMPLE,
    PASSWORD,
    PASSWORD_FILE,
    SERVICES,
    URL,
    password_in,
)
from pubqueue_xeps.errors import ConfigurationError
from pubqueue_xeps.publisher.publisher import Publisher
from pubqueue_xeps.wire.services import read_services

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from pubqueue.admin.http_client import Identity
    from pubqueue.admin.session import Link
    from pubqueue_xeps.wire.publication import NewItem, Published
    from pubqueue_xeps.xep_qos.levels import Level

TIMEOUT: Final = 30.0
"""Seconds to log in, and for each answer."""

EVERYWHERE: Final = frozenset({"", "0.0.0.0", "::", "*"})  # noqa: S104  # what the configuration may have


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where the service is, and who operates it. Without a URL and a configuration, the environment has it."""

    url: str | None = None
    """`xmpp://admin@example.org/queue.example.org`, or `https://anna@queue.example.org:9254/` for a user of the service."""
    password: str | None = None
    """The password; None: the environment has it."""
    config: Path | None = None
    """The configuration of a service on this host, whose key is used instead of a password."""
    services: tuple[str, ...] = ()
    """Services in place of that of the URL, over XMPP; none: those of the environment, if it has any."""

    def each(self, environment: Mapping[str, str] = os.environ) -> list[Where]:
        """Return the same for each of several services; itself if there is one.

        Raises:
            ConfigurationError: the list of services has an error.

        """
        given = self.services or self._of_environment(environment)
        if not given:
            return [self]
        try:
            names = read_services(given).names
        except ValueError as problem:
            raise ConfigurationError(f"{problem}", argument="services") from None
        return [replace(self, services=(name,)) for name in names]

    def _of_environment(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        found = environment.get(SERVICES)
        return (found,) if found and self.url is None and self.config is None else ()

    def over_http(
        self, environment: Mapping[str, str] = os.environ
    ) -> tuple[Address, Identity] | None:
        """Return the address and the sender if it is to be reached over HTTP; None for XMPP.

        Raises:
            ConfigurationError: neither is given, or one has an error.

        """
        if self.config is not None:
            if self.services:
                raise ConfigurationError(
                    "--service and --config contradict each other: --config is for one service, on its own host.",
                    argument="config",
                )
            if self.url is not None:
                raise ConfigurationError(
                    "--url and --config contradict each other: --config is for the host of the service itself.",
                    argument="config",
                )
            return on_its_host(self.config)
        url = self.url or environment.get(URL)
        if not url:
            raise ConfigurationError(
                f"It is not known where the service is: give --url, or set {URL}, to {EXAMPLE} or"
                f" {http_client.EXAMPLE}; on its own host, --config is enough.",
                argument="url",
            )
        if not http_client.is_http(url):
            return None
        if self.services or self._of_environment(environment):
            given = "--service" if self.services else SERVICES
            raise ConfigurationError(
                f"{given} is for XMPP: an address over HTTP is that of one service.",
                argument="services",
            )
        address = http_client.read_url(url, "The URL" if self.url else URL)
        password = self.password if self.password is not None else password_in(environment)
        if password is None:
            raise ConfigurationError(
                f"There is no password for {address.user}: set {PASSWORD} or {PASSWORD_FILE}.",
                argument="password",
            )
        return address, Login(address.user, password)


@asynccontextmanager
async def linked(where: Where, *, timeout: float = TIMEOUT) -> AsyncIterator[Link]:  # noqa: ASYNC109  # a promise
    """Log in, and log out at the end.

    Raises:
        ConfigurationError: it is not known where the service is, or who operates it.
        LoginFailed: the login is refused, or nothing can be reached.

    """
    found = where.over_http()
    if found is not None:
        async with over_http.linked(*found, timeout=timeout) as link:
            yield link
        return
    from pubqueue.admin import over_xmpp  # noqa: PLC0415  # imports slixmpp, for XMPP alone

    async with over_xmpp.linked(
        where.url, where.password, services=where.services, timeout=timeout
    ) as link:
        yield link


class Publishes(Protocol):
    """Publishes many items."""

    async def publish_many(self, node: str, items: Sequence[NewItem], /) -> list[Published]:
        """Return what the service has confirmed of each; raise NotAllPublished if some were not published."""


@asynccontextmanager
async def publisher(where: Where, level: Level | None) -> AsyncIterator[Publishes]:
    """Yield a publisher over XMPP or HTTP.

    Raises:
        ConfigurationError: as `linked`; or a level is given over HTTP.

    """
    found = where.over_http()
    if found is None:
        services = where.services or None
        async with Publisher(url=where.url, services=services, level=level) as over_xmpp:
            yield over_xmpp
        return
    if level is not None:
        raise ConfigurationError(
            "--level is for messages of XMPP; over HTTP an item is confirmed once it is on disk, and an id makes repeats harmless.",
            argument="level",
        )
    client = HttpClient(*found, TIMEOUT)
    try:
        yield over_http.HttpPublisher(client)
    finally:
        client.close()


# On the host of the service: the address and the key are in its configuration.


def on_its_host(config: Path) -> tuple[Address, Identity]:
    """Return the local address of the service with this configuration, and who signs with its key.

    Raises:
        ConfigurationError: the configuration cannot be used, has no local address, or the key cannot be read.

    """
    try:
        from pubqueue.config.loading import load  # noqa: PLC0415  # its libraries are an extra
        from pubqueue.faces.checks import ConfigError, addresses, is_trusted  # noqa: PLC0415
    except ImportError as problem:
        raise ConfigurationError(
            f"--config needs pip install 'pubqueue[server]' ({problem}).", argument="config"
        ) from None
    try:
        settings = load(config, {}, with_secret=False)
        places = addresses("http", settings.http)
    except ConfigError as problem:
        raise ConfigurationError(f"{problem}", argument="config", source=str(config)) from None
    hosts = [
        ("127.0.0.1" if (place.host or "") in EVERYWHERE else place.host, place.port)
        for place in places
    ]
    local = [(host, port) for host, port in hosts if port and is_trusted(host)]
    if not local:
        raise ConfigurationError(
            f'{config}: http has no loopback address, which --config needs; add one, such as http = "127.0.0.1:9254".',
            argument="config",
            source=str(config),
        )
    if (path := settings.key_file()) is None:
        raise ConfigurationError(
            f"{config}: local_key_file is not set, and the store is in no file beside which the key would be.",
            argument="config",
            source=str(config),
        )
    try:
        key = local_key.read(path)
    except local_key.KeyFileError as problem:
        raise ConfigurationError(
            f"{problem}; the service makes it at its start, and its user and root can read it.",
            argument="config",
            source=str(path),
        ) from None
    host, port = local[0]
    scheme = "https" if settings.http_certificate else "http"
    return Address(scheme, host, port), OnItsHost(_user(), key)


def _user(environment: Mapping[str, str] = os.environ) -> str:
    """Return the user of this host who has called the command, also by sudo."""
    if os.geteuid() == 0 and (name := environment.get("SUDO_USER")):
        return name
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"{os.geteuid()}"
