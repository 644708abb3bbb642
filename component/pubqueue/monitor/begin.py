"""Starts the monitoring: if an HTTP address is configured, the process is monitored, else no library of HTTP is imported."""

from __future__ import annotations

import secrets
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import structlog

from pubqueue import __version__
from pubqueue.engine.observe import Observer, Observers, Phase

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.config.settings import Settings
    from pubqueue.engine.broker import Broker
    from pubqueue.engine.observe import Traffic
    from pubqueue.faces.http import HttpHost
    from pubqueue.model.entities import Principal


# Observers of the process: called with its phases, and with each committed batch.


class ProcessObserver(Observer):
    """An observer that is also called with the phases of the process."""

    def ready(self) -> None:
        """Note that the server has accepted the component."""

    def at_work(self, broker: Broker, traffic: Sequence[Traffic]) -> None:
        """Note the broker that works from now on, and the traffic of its streams."""

    def at_rest(self, phase: Phase) -> None:
        """Note that no broker works any more, or not yet."""


class ProcessObservers(Observers[ProcessObserver]):
    """Passes the phases of the process on to each observer."""

    def ready(self) -> None:
        """Notify them that the server has accepted the component."""
        self._each(lambda one: one.ready(), self)

    def at_work(self, broker: Broker, traffic: Sequence[Traffic]) -> None:
        """Pass on the broker that works from now on."""
        self._each(lambda one: one.at_work(broker, traffic), self, phase=Phase.AT_WORK.value)

    def at_rest(self, phase: Phase) -> None:
        """Notify them that no broker works any more, or not yet."""
        self._each(lambda one: one.at_rest(phase), self, phase=phase.value)


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
    from pubqueue.monitor.page.logins import Logins  # noqa: PLC0415
    from pubqueue.monitor.server import Monitor  # noqa: PLC0415

    # without a secret that the instances share, logins end with the process
    seed = settings.shared_secret().encode() if settings.server else secrets.token_bytes(32)
    monitor = Monitor(
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
