"""Schedules whose times came while no service was running, inspected and set beside the programs that serve from the store."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from harness.patience import LOOK, until
from harness.stores.rows import needs_of, writes_of
from harness.stores.store_contents import ALL
from msgspec.structs import replace

from pubqueue.engine import cron_times
from pubqueue.engine.listings import Events
from pubqueue.engine.rows import SCHEDULES, Write
from pubqueue.model.entities import Jid, Millis, NodeName
from pubqueue.model.records import EventKind
from pubqueue.model.schedules import Definition, Missed, Schedule, Source, draft_of
from pubqueue.stores import store_at

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from pubqueue.engine.ports import Store, Transaction

NODE: Final = """
[[node]]
name = "ticks"
[node.options]
"x-queueing#event_log" = true
"pubsub#max_items" = 1000
"""
"""A plain node: an item that is published twice is two events there, whatever its id."""

T = TypeVar("T")

TICKS: Final = NodeName("ticks")
PAYLOAD: Final = b"<tick xmlns='urn:example:tick'/>"
HOUR: Final = 3_600_000


class Ticks:
    """The contents of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, job: Callable[[Transaction], T]) -> T:
        """Read something."""
        return await self._store.read(job)

    async def schedule(self, name: str) -> Schedule:
        """Return a schedule."""
        return await self._store.read(lambda tx: _schedule(tx, name))

    async def hold(self, names: Iterable[str]) -> None:
        """Give them nothing to do for an hour."""
        for name in names:
            await self._change(name, due=_now() + HOUR)

    async def release(self, name: str) -> None:
        """Let a schedule do its pending work."""
        settled = (await self.schedule(name)).fired_through
        await self._change(name, due=settled + 60_000)

    async def miss(self, name: str, minutes: int) -> Millis:
        """Create a schedule of each minute that has missed this many times; return the last time that it has not missed."""
        settled = Millis(_now() // 60_000 * 60_000 - minutes * 60_000)
        what = Definition(name, "* * * * *", "UTC", TICKS, PAYLOAD, missed=Missed.ALL)
        made = Schedule(what, Source.COMMAND, Jid("boss@x"), settled, due=Millis(_now() + HOUR))
        await self._store.batch(
            lambda tx: tx.write(writes_of(_now(), schedules=[Write(None, made)]))
        )
        return settled

    async def _change(self, name: str, **facts: int) -> None:
        def change(tx: Transaction) -> None:
            before = _schedule(tx, name)
            now = replace(before, revision=before.revision + 1, **facts)
            tx.write(writes_of(_now(), schedules=[Write(before, now)]))

        await self._store.batch(change)

    async def published(self, name: str = "") -> Counter[str]:
        """Return how often each item was published, of one schedule or of all."""
        events = await self._store.read(lambda tx: tx.page(Events(None, ALL), None, ALL))
        ids = (one.event.item for one in events if one.event.kind is EventKind.PUBLISHED)
        return Counter(str(one) for one in ids if str(one).startswith(name))

    async def until_published(self, name: str, count: int) -> None:
        """Return when this many items of a schedule were published."""

        async def published() -> bool:
            return (await self.published(name)).total() >= count

        await until(published, every=LOOK)

    async def expected(self, name: str, behind: Millis) -> Counter[str]:
        """Return the items of its times after a moment, up to which it has fired, each once."""
        schedule = await self.schedule(name)
        what = schedule.definition
        found = cron_times.latest(what.cron, what.zone, behind, schedule.fired_through, 1 << 20)
        return Counter(draft_of(what, moment).id for moment in found)


def _schedule(tx: Transaction, name: str) -> Schedule:
    (found,) = tx.load(needs_of(schedules={name})).of[SCHEDULES]
    return found


def _now() -> Millis:
    return Millis(time.time_ns() // 1_000_000)


@asynccontextmanager
async def ticks(address: str) -> AsyncIterator[Ticks]:
    """Look into an existing store, while other processes serve from it."""
    store = store_at(address)
    await store.open()
    try:
        yield Ticks(store)
    finally:
        await store.close()
