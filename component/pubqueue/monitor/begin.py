"""Starts the monitoring: if an HTTP address is configured, the process is monitored, else none of these modules is imported."""

from __future__ import annotations

import secrets
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import structlog

from pubqueue import __version__
from pubqueue.config.users import deprecated_keys

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.config.settings import Settings
    from pubqueue.engine.observe import Traffic
    from pubqueue.faces.http import HttpHost
    from pubqueue.model.entities import Principal
    from pubqueue.monitor.process import ProcessObserver

log = structlog.get_logger(__name__)


@asynccontextmanager
async def monitored(
    settings: Settings,
    by: Principal,
    accounts: Accounts,
    hosts: Sequence[HttpHost],
    traffic: Sequence[Traffic] = (),
) -> AsyncIterator[tuple[ProcessObserver, ...]]:
    """Mount metrics, health and the page in the hosts. Yields the observers.

    `by` is the principal of the reader; `accounts` are the users who may log in to the page. `traffic` is that of other parts
    over HTTP.
    """
    if not hosts:
        yield ()
        return
    # their libraries take some time to import
    from pubqueue.monitor import server  # noqa: PLC0415
    from pubqueue.monitor.page.logins import Logins  # noqa: PLC0415

    if keys := deprecated_keys(settings):
        log.warning("config.deprecated", keys=",".join(keys), instead="[[user]]")
    # without a secret that the instances share, logins end with the process
    seed = settings.shared_secret().encode() if settings.server else secrets.token_bytes(32)
    monitor = server.Monitor(
        by,
        version=__version__,
        logins=Logins(accounts, seed, time.time),
        proxies=settings.proxies(),
        own=[*(host.traffic for host in hosts), *traffic],
    )
    for host in hosts:
        host.mount(monitor)
    async with monitor.sampling():
        yield (monitor,)
