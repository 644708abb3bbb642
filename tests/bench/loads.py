"""Loads for `bench.pauses`: each lays something into a store, and then has it done while others work.

To add one is to add a row to `LOADS`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.asks import joins, publishes
from harness.facts import BOB, BOSS, ETL, who
from harness.transactions import APP
from msgspec.structs import replace

from pubqueue.app.listings import Locks
from pubqueue.app.rows import AffiliationRow, Needs, StagedKey, StagedRow, Write, Writes
from pubqueue.core.model import (
    Affiliation,
    Draft,
    Item,
    ItemId,
    Jid,
    Millis,
    Node,
    NodeConfig,
    NodeName,
    State,
    Subscription,
    seconds,
)
from pubqueue.core.nodes.manage import Delete, Purge
from pubqueue.core.transactions.commit import CommitVersion, Part
from pubqueue.core.transactions.model import App, Attempt, StagedItem, StagedTotals, Version

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.trickle import CountingStore, Service
    from pubqueue.app.ports import Store, Transaction

HEAVY: Final = NodeName("heavy")
HOUR: Final = seconds(3600)
AT_ONCE: Final = 5000
PAYLOAD: Final = b"<job xmlns='urn:x'>" + b"x" * 180 + b"</job>"
PAUSE: Final = 0.05
"""Seconds between two looks whether a load is dealt with."""


@dataclass(frozen=True, slots=True)
class Load:
    """`lay` is done before anybody works; `run` ends when the load has been dealt with."""

    name: str
    size: int
    lay: Callable[[CountingStore, int, Millis], Awaitable[None]]
    run: Callable[[Service, int], Awaitable[None]]


async def lay_node(store: Store, name: NodeName, **config: Any) -> None:
    """Lay down an empty queue of the boss's."""
    node = Node(name, NodeConfig(**{"queueing": True, **config}), Jid("boss@x"), Millis(0))
    people = [("boss@x", Affiliation.OWNER), ("etl@x", Affiliation.PUBLISHER)]
    writes = Writes(Millis(0), nodes=[Write(None, node)])
    writes.affiliations = [
        Write(None, AffiliationRow(name, Jid(jid), role)) for jid, role in people
    ]
    await store.batch(lambda tx: tx.write(writes))


async def lay_items(store: Store, name: NodeName, count: int, **facts: Any) -> None:
    """Lay down items in a node that is there."""
    for begin in range(0, count, AT_ONCE):
        size = min(AT_ONCE, count - begin)

        def job(tx: Any, begin: int = begin, size: int = size) -> None:
            (node,) = tx.load(Needs(nodes={name})).nodes
            first = tx.number("item", size)
            writes = Writes(Millis(0))
            writes.nodes = [Write(node, replace(node, items=node.items + size))]
            for at in range(size):
                draft = ItemId(f"i{begin + at}")
                known = Item(first + at, name, draft, State.QUEUED, Jid("etl@x"), Millis(0))
                writes.items.append(Write(None, replace(known, **facts)))
                writes.payloads[first + at] = PAYLOAD
            tx.write(writes)

        await store.batch(job)


async def _lay_backlog(store: CountingStore, size: int, _now: Millis) -> None:
    await lay_node(store, HEAVY)
    await lay_items(store, HEAVY, size)


async def _purge(service: Service, _size: int) -> None:
    await service.do(Purge(who(BOSS), HEAVY))
    await _swept(service)


async def _delete(service: Service, _size: int) -> None:
    await service.do(Delete(who(BOSS), HEAVY))
    await _swept(service)


async def _swept(service: Service) -> None:
    """Wait until nothing is left that is due or to be swept."""
    service.reaper.start(service.broker)
    while True:
        moment = await service.store.read(lambda tx: tx.next_due())
        if moment is None or moment > service.clock():
            return
        await asyncio.sleep(PAUSE)


async def _lay_delayed_nodes(store: CountingStore, size: int, now: Millis) -> None:
    for number in range(size):
        name = NodeName(f"n{number}")
        await lay_node(store, name)
        await lay_items(store, name, 20, state=State.DELAYED, due=Millis(now + HOUR))
        await _lay_worker(store, name)


async def _lay_worker(store: Store, name: NodeName, **facts: Any) -> None:
    row = Subscription(name, BOB, f"s-{name}", 20)
    await store.batch(lambda tx: _subscribe(tx, replace(row, **facts)))


def _subscribe(tx: Any, row: Subscription) -> None:
    (node,) = tx.load(Needs(nodes={row.node})).nodes
    writes = Writes(Millis(0), subscriptions=[Write(None, row)])
    writes.nodes = [Write(node, replace(node, subscriptions=node.subscriptions + 1))]
    tx.write(writes)


async def _lay_delayed(store: CountingStore, size: int, now: Millis) -> None:
    await lay_node(store, HEAVY)
    await lay_items(store, HEAVY, size, state=State.DELAYED, due=Millis(now + HOUR))


async def _ripen(service: Service, _size: int) -> None:
    service.reaper.start(service.broker)
    service.clock.ahead += HOUR + 1000
    service.reaper.on_moment(service.clock())
    await _swept(service)


async def _lay_short_lives(store: CountingStore, size: int, now: Millis) -> None:
    await lay_node(store, HEAVY)
    await lay_items(store, HEAVY, size, expires=Millis(now + HOUR))


async def _expire(service: Service, _size: int) -> None:
    """Have them expire while a worker is here and items are published behind them."""
    await service.do(joins(BOB, 1000, node=HEAVY))
    await service.broker.settled()
    service.clock.ahead += HOUR + 1000
    for number in range(20):
        await service.do(publishes(f"late{number}", node=HEAVY, by=ETL))
    await _ripen(service, 0)


async def _lay_staged(store: CountingStore, size: int, now: Millis) -> None:
    await lay_node(store, HEAVY)
    until = Millis(now + 24 * HOUR)
    writes = Writes(now)
    writes.apps = [Write(None, App(APP, Jid("etl@x"), used=now))]
    counts = size, size * len(PAYLOAD)
    version = Version(APP, 1, Jid("etl@x"), False, now, until, *counts)  # noqa: FBT003  # not immediate
    writes.versions = [Write(None, version)]
    writes.attempts = [Write(None, Attempt(APP, 1, 0, 0, *counts))]
    writes.waiting = [Write(None, StagedTotals(whose, *counts)) for whose in ("etl@x", "")]
    for begin in range(0, size, AT_ONCE):
        for at in range(begin, min(begin + AT_ONCE, size)):
            draft = Draft(ItemId(f"s{at}"), PAYLOAD)
            row = StagedItem(draft, State.QUEUED, None, None, len(PAYLOAD))
            writes.staged.append(StagedRow(StagedKey(APP, 1, 0, 0, HEAVY, draft.id), row))
        await store.batch(lambda tx, writes=writes: tx.write(writes))  # type: ignore[misc]
        writes = Writes(now)


async def _commit(service: Service, size: int) -> None:
    await service.do(CommitVersion(who(ETL), APP, 1, (Part(0, 0, size),)))
    await _swept(service)


async def _lay_late_locks(store: CountingStore, size: int, now: Millis) -> None:
    late = Millis(now + 24 * HOUR)
    token = await store.batch(lambda tx: tx.number("token", size))
    for number in range(size):
        name = NodeName(f"n{number}")
        await lay_node(store, name)
        held = {"holder": BOB, "deadline": late, "taken": now, "acquired": 1}
        await lay_items(store, name, 1, state=State.LOCKED, token=token + number, **held)
        await _lay_worker(store, name, in_flight=1)


async def _recover(service: Service, _size: int) -> None:
    service.reaper.start(service.broker)
    while True:
        if await service.store.read(_in_time):
            return
        await asyncio.sleep(PAUSE)


def _in_time(tx: Transaction) -> bool:
    """Say whether no lock lasts longer than it may."""
    (last,) = tx.page(Locks())
    return last.deadline is not None and last.deadline < (last.taken or 0) + 2 * HOUR


# fmt: off
LOADS: Final = {
    load.name: load
    for load in (
        Load("purge",         300_000, _lay_backlog,       _purge),
        Load("delete",        300_000, _lay_backlog,       _delete),
        Load("ripen-nodes",     2_000, _lay_delayed_nodes, _ripen),
        Load("ripen-one",     200_000, _lay_delayed,       _ripen),
        Load("expired",       300_000, _lay_short_lives,   _expire),
        Load("commit",        100_000, _lay_staged,        _commit),
        Load("commit-large",1_000_000, _lay_staged,        _commit),
        Load("recovery",       10_000, _lay_late_locks,    _recover),
    )
}
# fmt: on
