"""Loads of groups, for `bench.pauses`: one group with very many items, and very many groups with two items each.

Each is a pair, as in `pause_loads_reading`. Hundreds of items of the one group are processed, then its limit is raised
to the maximum and its items are purged. The many groups each get a second turn when their limit is raised; or they get fair shares,
and hundreds of their items are processed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from harness.batches.facts import BOB, BOSS, who
from harness.batches.queue_requests import joins, retracts
from harness.stores.rows import writes_of
from msgspec.structs import replace

from pubqueue.engine.listings import Trims, WaitingGroups
from pubqueue.engine.rows import AffiliationRow, Needs, Write, Writes
from pubqueue.model.entities import (
    Affiliation,
    Item,
    ItemId,
    Jid,
    Millis,
    Node,
    NodeConfig,
    NodeName,
    State,
)
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Purge

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.engine.ports import Store, Transaction

GROUPED: Final = NodeName("grouped")
OWNER: Final = Jid("boss@x")
PAYLOAD: Final = b"<job xmlns='urn:x'>" + b"x" * 180 + b"</job>"
AT_ONCE: Final = 5000
TURNS: Final = 300


async def lay_one_group(store: Store, size: int, now: Millis) -> None:
    """Store one group with this many items, of which the first has its turn."""
    await _lay(store, size, now, lambda number: ("customer-17", number == 0))


async def lay_many_groups(store: Store, size: int, now: Millis) -> None:
    """Store groups of two items each, this many items in total; the first of each group has its turn."""
    await _lay(store, 2 * size, now, lambda number: (f"customer-{number % size}", number < size))


async def _lay(store: Store, size: int, now: Millis, of: Callable[[int], tuple[str, bool]]) -> None:
    node = Node(GROUPED, NodeConfig(queueing=True), OWNER, now)
    owner = AffiliationRow(GROUPED, OWNER, Affiliation.OWNER)
    made = writes_of(now, nodes=[Write(None, node)], affiliations=[Write(None, owner)])
    await store.batch(lambda tx: tx.write(made))
    for begin in range(0, size, AT_ONCE):
        part = range(begin, min(begin + AT_ONCE, size))
        await store.batch(lambda tx, part=part: _add(tx, part, now, of))  # type: ignore[misc]  # bound at once


def _add(tx: Transaction, part: range, now: Millis, of: Callable[[int], tuple[str, bool]]) -> None:
    (node,) = tx.load(Needs(nodes={GROUPED})).nodes
    first = tx.number("item", len(part))
    writes = Writes(now, nodes=[Write(node, replace(node, items=node.items + len(part)))])
    for seq, number in enumerate(part, first):
        group, has_turn = of(number)
        known = Item(seq, GROUPED, ItemId(f"i{number}"), State.QUEUED, OWNER, now)
        row = replace(known, group=group, turn=seq if has_turn else 0)
        writes.items.append(Write(None, row))
        writes.payloads[seq] = PAYLOAD
    tx.write(writes)


async def work_one_group(service: Any, size: int) -> None:
    """Process some items one after another; then raise the limit to the maximum, and purge the rest."""
    await service.do(joins(BOB, 1000, node=GROUPED))
    for number in range(min(TURNS, size)):
        await service.do(retracts(BOB, f"i{number}", node=GROUPED))
    await service.do(_limit(1000))
    await service.do(Purge(who(BOSS), GROUPED))
    await _at_rest(service)


async def raise_many_groups(service: Any, _size: int) -> None:
    """Raise the limit to two items of each group."""
    await service.do(_limit(2))
    await _at_rest(service)
    assert await service.store.read(lambda tx: tx.page(WaitingGroups(GROUPED))) == []


async def share_many_groups(service: Any, size: int) -> None:
    """Deliver by fair shares, of more groups than are remembered; those come first whose names do."""
    await service.do(Configure(who(BOSS), GROUPED, Settings({"fair": "group"})))
    await service.do(joins(BOB, TURNS, node=GROUPED))
    for number in sorted(range(size), key=str)[:TURNS]:
        await service.do(retracts(BOB, f"i{number}", node=GROUPED))
    await _at_rest(service)


def _limit(count: int) -> Configure:
    return Configure(who(BOSS), GROUPED, Settings({"group_limit": count}))


async def _at_rest(service: Any) -> None:
    """Wait until no sliced work is left."""
    service.reaper.start(service.broker)
    while True:
        moment = await service.store.read(lambda tx: tx.next_due())
        trims = await service.store.read(lambda tx: tx.page(Trims()))
        if not trims and (moment is None or moment > service.clock()):
            return
        await asyncio.sleep(0.05)


GROUP_LOADS: Final = {
    "group-one": (100_000, lay_one_group, work_one_group),
    "groups-many": (100_000, lay_many_groups, raise_many_groups),
    "groups-fair": (100_000, lay_many_groups, share_many_groups),
}
