"""Runs the queue without a face: the broker with its store, the reaper and the declared nodes."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from pubqueue import __version__
from pubqueue.config.nodes import bring_nodes
from pubqueue.config.reloading import terms_of, trim_of
from pubqueue.config.schedules import bring_schedules
from pubqueue.config.users import service_of
from pubqueue.engine.broker import Broker
from pubqueue.engine.reaper import OtherProcesses, Reaper
from pubqueue.faces.xmpp.xml.payload import PAYLOADS
from pubqueue.model.entities import Millis
from pubqueue.model.replies import About
from pubqueue.stores import Timed, shown_address
from pubqueue.wiring.store import stored

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Iterable

    from pubqueue.config.settings import Settings
    from pubqueue.engine.observe import Observer
    from pubqueue.engine.ports import Store


def now() -> Millis:
    """Return the time of the machine."""
    return Millis(time.time_ns() // 1_000_000)


@asynccontextmanager
async def queue(settings: Settings, *, clock: Callable[[], Millis] = now) -> AsyncIterator[Broker]:
    """Run the queue without a face, by this clock.

    Raises:
        ForeignStoreError: the store cannot be used.
        ConfigError: a declared node is invalid.

    """
    async with stored(settings) as store:
        await store.open()
        broker, reaper = broker_of(settings, store, clock)
        async with at_work(settings, store, broker, reaper):
            yield broker


def about(address: str, store: Store, since: Millis) -> Callable[[], About]:
    """Return a function that returns the facts about this process, which serves from the store since this time."""
    shown = shown_address(address)
    return lambda: About(
        __version__, shown, since, store.clock_ahead if isinstance(store, Timed) else None
    )


def broker_of(
    settings: Settings,
    store: Store,
    clock: Callable[[], Millis] = now,
    observers: Iterable[Observer] = (),
) -> tuple[Broker, Reaper]:
    """Return the broker, not started yet, and the reaper, which ends expired locks and lifetimes."""
    reaper = Reaper(clock=clock, trim=trim_of(settings))
    broker = Broker(
        *(store, terms_of(settings)),
        clock=clock,
        payloads=PAYLOADS,
        service=service_of(settings),
        about=about(settings.store, store, clock()),
        on_moment=reaper.on_moment,
        observers=observers,
    )
    return broker, reaper


@asynccontextmanager
async def at_work(
    settings: Settings, store: Store, broker: Broker, reaper: Reaper
) -> AsyncIterator[list[asyncio.Task[None]]]:
    """Run the broker and the reaper, and declare the nodes; yield the tasks that end only by a fault.

    Raises:
        ConfigError: a declared node is invalid.

    """
    other_processes = OtherProcesses(store)
    async with AsyncExitStack() as ends:  # in reverse order, whatever the others raise
        for part in (broker, reaper, other_processes):
            ends.push_async_callback(part.stop)
        broker.start()
        await bring_nodes(broker, store, settings.node, service_of(settings))
        await bring_schedules(broker, settings.schedule, service_of(settings))
        reaper.start(broker)
        yield [broker.task, *other_processes.start(broker)]
