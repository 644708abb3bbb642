"""Loads for `bench.pauses`: each fills a store, and then starts long work while others use the service.

To add a load, add a row to `LOADS`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from harness.batches.facts import BOB, BOSS, ETL, who
from harness.batches.queue_requests import joins, publishes
from harness.batches.transactions import APP
from msgspec.structs import replace

from bench.pause_loads_crowds import CROWD_LOADS
from bench.pause_loads_feeding import FEEDING_LOADS
from bench.pause_loads_groups import GROUP_LOADS
from bench.pause_loads_many import MANY_LOADS
from bench.pause_loads_reading import READING_LOADS
from bench.pause_loads_strangers import feed, prepare_dear_stanzas, prepare_pipelined_reads
from pubqueue.engine.listings import LocksFromLast
from pubqueue.engine.rows import (
    AFFILIATIONS,
    APPS,
    ATTEMPTS,
    VERSIONS,
    WAITING,
    AffiliationRow,
    Needs,
    StagedKey,
    StagedRow,
    Write,
    Writes,
)
from pubqueue.model.entities import (
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
from pubqueue.model.transactions import App, Attempt, StagedItem, StagedTotals, Version
from pubqueue.rules.commit import CommitVersion, Part
from pubqueue.rules.nodeconfig import YEAR, Settings
from pubqueue.rules.nodes import Configure, Delete, Purge

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from bench.trickle import CountingStore, Service
    from pubqueue.engine.ports import Store, Transaction

HEAVY: Final = NodeName("heavy")
HOUR: Final = seconds(3600)
ITEMS_AT_ONCE: Final = 5000
NODES_AT_ONCE: Final = 200
PAYLOAD: Final = b"<job xmlns='urn:x'>" + b"x" * 180 + b"</job>"
PAUSE: Final = 0.05
"""Seconds between two checks whether a load is finished."""


@dataclass(frozen=True, slots=True)
class Load:
    """`lay` fills the store before the trickle starts; `run` ends when the load is finished."""

    name: str
    size: int
    lay: Callable[[CountingStore, int, Millis], Awaitable[None]]
    run: Callable[[Service, int], Awaitable[None]]
    prepare: Callable[[Service, int], Awaitable[None]] | None = None
    """Preparation before the trickle starts, which is not measured."""


def lay_node(tx: Transaction, name: NodeName, **config: Any) -> None:
    """Store an empty queue, which the boss owns."""
    node = Node(name, NodeConfig(**{"queueing": True, **config}), Jid("boss@x"), Millis(0))
    people = [("boss@x", Affiliation.OWNER), ("etl@x", Affiliation.PUBLISHER)]
    writes = Writes(Millis(0), nodes=[Write(None, node)])
    writes.of[AFFILIATIONS] = [
        Write(None, AffiliationRow(name, Jid(jid), role)) for jid, role in people
    ]
    tx.write(writes)


def lay_items(tx: Transaction, name: NodeName, numbers: range, **facts: Any) -> None:
    """Store items in an existing node."""
    (node,) = tx.load(Needs(nodes={name})).nodes
    first = tx.number("item", len(numbers)) - numbers.start
    writes = Writes(Millis(0))
    writes.nodes = [Write(node, replace(node, items=node.items + len(numbers)))]
    for number in numbers:
        known = Item(
            *(first + number, name, ItemId(f"i{number}"), State.QUEUED, Jid("etl@x"), Millis(0))
        )
        writes.items.append(Write(None, replace(known, **facts)))
        writes.payloads[known.seq] = PAYLOAD
    tx.write(writes)


def lay_worker(tx: Transaction, name: NodeName, **facts: Any) -> None:
    """Store a subscription to an existing node."""
    (node,) = tx.load(Needs(nodes={name})).nodes
    row = replace(Subscription(name, BOB, f"s-{name}", 20), **facts)
    writes = Writes(Millis(0), subscriptions=[Write(None, row)])
    writes.nodes = [Write(node, replace(node, subscriptions=node.subscriptions + 1))]
    tx.write(writes)


async def lay_each(
    store: Store, size: int, at_once: int, lay: Callable[[Transaction, range], None]
) -> None:
    """Store many rows, a part in each transaction."""
    for begin in range(0, size, at_once):
        part = range(begin, min(begin + at_once, size))
        await store.batch(lambda tx, part=part: lay(tx, part))  # type: ignore[misc]  # bound at once


async def _lay_heavy(store: Store, size: int, **facts: Any) -> None:
    await store.batch(lambda tx: lay_node(tx, HEAVY))
    await lay_each(store, size, ITEMS_AT_ONCE, lambda tx, part: lay_items(tx, HEAVY, part, **facts))


async def _lay_backlog(store: CountingStore, size: int, _now: Millis) -> None:
    await _lay_heavy(store, size)


async def _lay_news(store: CountingStore, size: int, _now: Millis) -> None:
    await store.batch(lambda tx: lay_node(tx, HEAVY, queueing=False))
    await lay_each(store, size, ITEMS_AT_ONCE, lambda tx, part: lay_items(tx, HEAVY, part))


async def _trim(service: Service, _size: int) -> None:
    """Let a plain node keep only a few of its items, and these for a short time."""
    fewer = Settings({"max_items": 10, "item_expire": 86_400})
    await service.do(Configure(who(BOSS), HEAVY, fewer))


async def _shorten(service: Service, _size: int) -> None:
    """Shorten the time to live of all items of a node."""
    await service.do(Configure(who(BOSS), HEAVY, Settings({"item_expire": 100 * YEAR})))


async def _purge(service: Service, _size: int) -> None:
    await service.do(Purge(who(BOSS), HEAVY))
    await _swept(service)


async def _delete(service: Service, _size: int) -> None:
    await service.do(Delete(who(BOSS), HEAVY))
    await _swept(service)


async def _swept(service: Service) -> None:
    """Wait until nothing is left to expire or sweep."""
    service.reaper.start(service.broker)
    while True:
        moment = await service.store.read(lambda tx: tx.next_due())
        if moment is None or moment > service.clock():
            return
        await asyncio.sleep(PAUSE)


async def _lay_delayed_nodes(store: CountingStore, size: int, now: Millis) -> None:
    def lay(tx: Transaction, part: range) -> None:
        for name in (NodeName(f"n{number}") for number in part):
            lay_node(tx, name)
            lay_items(tx, name, range(20), state=State.DELAYED, due=Millis(now + HOUR))
            lay_worker(tx, name)

    await lay_each(store, size, NODES_AT_ONCE, lay)


async def _lay_delayed(store: CountingStore, size: int, now: Millis) -> None:
    await _lay_heavy(store, size, state=State.DELAYED, due=Millis(now + HOUR))


async def _ripen(service: Service, _size: int) -> None:
    service.reaper.start(service.broker)
    service.clock.ahead += HOUR + 1000
    service.reaper.on_moment(service.clock())
    await _swept(service)


async def _lay_short_lives(store: CountingStore, size: int, now: Millis) -> None:
    await _lay_heavy(store, size, expires=Millis(now + HOUR))


async def _expire(service: Service, _size: int) -> None:
    """Let the items expire while a worker is connected and items are published after them."""
    await service.do(joins(BOB, 1000, node=HEAVY))
    await service.broker.settled()
    service.clock.ahead += HOUR + 1000
    for number in range(20):
        await service.do(publishes(f"late{number}", node=HEAVY, by=ETL))
    await _ripen(service, 0)


async def _lay_staged(store: CountingStore, size: int, now: Millis) -> None:
    await store.batch(lambda tx: lay_node(tx, HEAVY))
    until = Millis(now + 24 * HOUR)
    writes = Writes(now)
    writes.of[APPS] = [Write(None, App(APP, Jid("etl@x"), used=now))]
    counts = size, size * len(PAYLOAD)
    version = Version(APP, 1, Jid("etl@x"), False, now, until, *counts)  # noqa: FBT003  # not immediate
    writes.of[VERSIONS] = [Write(None, version)]
    writes.of[ATTEMPTS] = [Write(None, Attempt(APP, 1, 0, 0, *counts))]
    writes.of[WAITING] = [Write(None, StagedTotals(whose, *counts)) for whose in ("etl@x", "")]
    await store.batch(lambda tx: tx.write(writes))

    def stage(tx: Transaction, part: range) -> None:
        writes = Writes(now)
        for number in part:
            draft = Draft(ItemId(f"s{number}"), PAYLOAD)
            row = StagedItem(draft, State.QUEUED, None, None, len(PAYLOAD))
            writes.staged.append(StagedRow(StagedKey(APP, 1, 0, 0, HEAVY, draft.id), row))
        tx.write(writes)

    await lay_each(store, size, ITEMS_AT_ONCE, stage)


async def _commit(service: Service, size: int) -> None:
    await service.do(CommitVersion(who(ETL), APP, 1, (Part(0, 0, size),)))
    await _swept(service)


async def _lay_late_locks(store: CountingStore, size: int, now: Millis) -> None:
    held: dict[str, Any] = {"holder": BOB, "taken": now, "acquired": 1, "state": State.LOCKED}
    held["deadline"] = Millis(now + 24 * HOUR)

    def lay(tx: Transaction, part: range) -> None:
        for number in part:
            name = NodeName(f"n{number}")
            lay_node(tx, name)
            lay_items(tx, name, range(1), token=tx.number("token", 1), **held)
            lay_worker(tx, name, in_flight=1)

    await lay_each(store, size, NODES_AT_ONCE, lay)


async def _recover(service: Service, _size: int) -> None:
    service.reaper.start(service.broker)
    while True:
        if await service.store.read(_in_time):
            return
        await asyncio.sleep(PAUSE)


def _in_time(tx: Transaction) -> bool:
    """Return whether no lock lasts longer than allowed."""
    (last,) = tx.page(LocksFromLast())
    return last.deadline is not None and last.deadline < (last.taken or 0) + 2 * HOUR


# fmt: off
LOADS: Final = {
    load.name: load
    for load in (
        Load("purge",         300_000, _lay_backlog,       _purge),
        Load("delete",        300_000, _lay_backlog,       _delete),
        Load("trim",          100_000, _lay_news,          _trim),
        Load("shorten",       100_000, _lay_news,          _shorten),
        Load("ripen-nodes",     2_000, _lay_delayed_nodes, _ripen),
        Load("ripen-one",     200_000, _lay_delayed,       _ripen),
        Load("expired",       300_000, _lay_short_lives,   _expire),
        Load("commit",        100_000, _lay_staged,        _commit),
        Load("commit-large",1_000_000, _lay_staged,        _commit),
        Load("recovery",       10_000, _lay_late_locks,    _recover),
        Load("dear-stanzas",      150, _lay_news,          feed, prepare_dear_stanzas),
        Load("pipelined-reads", 1_000, _lay_news,          feed, prepare_pipelined_reads),
        *(Load(name, *row) for name, row in CROWD_LOADS.items()),
        *(Load(name, *row) for name, row in READING_LOADS.items()),
        *(Load(name, *row) for name, row in MANY_LOADS.items()),
        *(Load(name, *row) for name, row in GROUP_LOADS.items()),
        *(Load(name, *row) for name, row in FEEDING_LOADS.items()),
    )
}
# fmt: on
