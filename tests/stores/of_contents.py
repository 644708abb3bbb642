"""What every store promises about a node that was purged, or deleted and made again: what was in it is nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from harness.batches.facts import ANN, BOB, JOBS, NOW, after, queue, window
from harness.stores.store_contents import contents
from stores.staging_steps import row, stage
from stores.steps import DEAD, EMPTY, ENOUGH, add, items, listed, load, lock, make, sweep

from pubqueue.engine import listings
from pubqueue.engine.rows import Rows
from pubqueue.model import changes
from pubqueue.model.entities import ItemId, Jid, State

if TYPE_CHECKING:
    from pubqueue.engine.ports import Store
    from pubqueue.model.entities import NodeName

WAYS: Final = {
    "purged": (changes.PurgeNode(JOBS),),
    "made again": (changes.DeleteNode(JOBS), changes.CreateNode(EMPTY)),
}
NAMES: Final = "queued", "held", "dead", "later", "aside"
ALL: Final = 1 << 40


async def prepare(store: Store) -> dict[str, object]:
    """Have another node beside it and winners under all the names, and return what is seen of a node without items."""
    await make(store, changes.CreateNode(queue(name=DEAD, subscriptions=0)))
    await make(store, stage(*(row(name, b"<other/>") for name in NAMES)))
    return await seen(store)


async def fill(store: Store) -> None:
    """Have an item of each state, with a subscriber who has room."""
    for holder in (ANN, BOB):
        await make(store, changes.AddSubscription(window(holder, 9)))
    await make(
        store,
        *(add(name) for name in ("queued", "held", "dead", "aside")),
        add("later", state=State.DELAYED, due=after(5), expires=after(9)),
    )
    await lock(store, "held", deadline=after(3))
    dead, aside = await items(store, "dead", "aside")
    await make(store, changes.GiveUp(dead, NOW, "x", 1), changes.Postpone(aside, after(1)))


async def seen(store: Store, node: NodeName = JOBS) -> dict[str, object]:
    """Return the names, or the numbers as places in that order, that each question about items finds."""
    rows = await store.batch(lambda tx: contents(tx, node))
    numbers = [item.seq for item, _ in rows]
    pages = {
        "ids": [ItemId(name) for name in await listed(store, listings.ItemIds(node))],
        "oldest": _pairs(await listed(store, listings.Items(node))),
        "newest": _pairs(await listed(store, listings.Items(node, newest=True))),
        "held": _pairs(await listed(store, listings.Items(node, holders=(ANN, BOB)))),
        "held last": _pairs(
            await listed(store, listings.Items(node, holders=(ANN, BOB), newest=True))
        ),
        "numbered": _pairs(await listed(store, listings.Items(node, numbers=tuple(numbers)))),
        "dead": _names(await listed(store, listings.DeadItems(node))),
        "locks": _names(await listed(store, listings.Locks())),
        "locks from last": _names(await listed(store, listings.LocksFromLast())),
        "strides": [numbers.index(n) for n in await listed(store, listings.Stride(node), None, 2)],
    }
    for state in (None, *State):
        entries = await listed(
            store, listings.ItemEntries(node, ALL, state, payloads=True, room=ENOUGH)
        )
        pages[f"shown {state}"] = _names([entry.item for entry in entries])
    return pages | await _found(store, node, numbers)


async def _found(store: Store, node: NodeName, numbers: list[int]) -> dict[str, object]:
    newest = (await listed(store, listings.NewestItem(node, dead=False)))[0]
    (entry,) = await listed(store, listings.NodeEntries((node,)))
    ready = await store.batch(lambda tx: tx.ready({node: 9}, NOW, ENOUGH).rows)
    both = await store.batch(lambda tx: tx.ready({node: 9, DEAD: 9}, NOW, ENOUGH).rows)
    due = await store.batch(lambda tx: tx.due(after(99), 99))
    by_id = await load(store, items={(node, ItemId(name)) for name in NAMES})
    held = await load(store, held={ANN, BOB})
    return {
        "newest number": numbers.index(newest) if newest else None,
        "a death": (await listed(store, listings.NewestItem(node, dead=True)))[0] > 0,
        "tallies": (entry.queued, entry.locked, entry.delayed, entry.dead, entry.node.items),
        "oldest moment": entry.oldest,
        "ready nodes": [it.node for it in await listed(store, listings.ReadyNodes()) if it.node],
        "ready": sorted(_pairs(ready)),
        "ready of many": sorted(_pairs(both)),
        "due": [sorted(_names(rows)) for rows in (due.locks, due.lives, due.delayed)],
        "by id": sorted(_names(by_id.items)),
        "in hand": _names(held.items),
        "met": await _met(store, node),
    }


async def _met(store: Store, node: NodeName) -> set[object]:
    """Return what the winners of a commit would meet under all these ids, without committing."""
    winners = listings.Winners("app", 1, ((0, 0),))

    def look(tx):
        tx.page(winners, None, 99)
        return {conflict.there for conflict in tx.page(listings.Conflicts(node, None), None, 99)}

    return await store.batch(look)


def _names(rows):
    return [item.id for item in rows]


def _pairs(rows):
    return [item.id for item, _ in rows]


class OfContents:
    """Part of the contract."""

    @pytest.mark.parametrize("way", WAYS)
    async def test_nothing_of_what_was_in_a_node_is_found(self, store, way):
        empty = await prepare(store)
        await fill(store)
        numbers = {item.seq for item in await items(store, *NAMES)}
        assert await seen(store) != empty
        await make(store, *WAYS[way])
        assert await seen(store) == empty
        assert await load(store, numbers=numbers) == Rows()
        await sweep(store, 2)
        assert await seen(store) == empty

    @pytest.mark.parametrize("way", WAYS)
    async def test_what_comes_then_is_found_like_the_first(self, store, way):
        await prepare(store)
        await fill(store)
        expected = await seen(store)
        await make(store, *(changes.EndSubscription(JOBS, Jid(jid)) for jid in (ANN, BOB)))
        await make(store, *WAYS[way])
        await fill(store)
        assert await seen(store) == expected
        await sweep(store, 2)
        assert await seen(store) == expected
