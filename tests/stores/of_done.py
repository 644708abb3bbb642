"""What every store promises about what is done and kept: it is beside its queue, whole, and comes back as it was."""

from __future__ import annotations

import pytest
from harness.batches.facts import ANN, JOBS, NOW, after, queue, waiting, window
from harness.stores.rows import needs_of, rows_of
from harness.stores.store_contents import done, everything, recount
from msgspec.structs import replace
from stores.steps import (
    DEAD,
    EMPTY,
    add,
    ids,
    items,
    listed,
    load,
    lock,
    make,
    node_row,
    payloads,
    ready,
    sweep,
    write,
)

from pubqueue.engine.listings import DoneItems, DoneNamed, ItemEntries, Keeping, NewestItem, Seeks
from pubqueue.engine.ports import StaleError
from pubqueue.engine.rows import HOLDINGS, Rows, Write
from pubqueue.model import changes
from pubqueue.model.entities import ItemId, State
from pubqueue.model.records import Holding, SeekMark
from pubqueue.model.replies import ItemEntry


async def finish(store, *names, at=NOW, by=None):
    """Retract items as done at that moment, and return them as they are then."""
    there = [item for name in names for item in await items(store, name)]
    await make(store, *(changes.RemoveItem(item, done_at=at, done_by=by) for item in there))
    kept = {item.seq: item for item in await store.batch(lambda tx: done(tx, JOBS))}
    return [kept[item.seq] for item in there]


class OfDone:
    """Part of the contract."""

    async def test_what_is_done_is_kept_beside_its_queue(self, store):
        facts = {"headers": (("a", "\u00e4<&>\n"), ("b", "")), "priority": -2, "expires": after(9)}
        await make(store, changes.AddSubscription(window(ANN, 9)))
        await make(store, add("i1", transaction=("app", 4), **facts), add("i2"))
        before = await lock(store, "i1")
        (found,) = await finish(store, "i1", at=after(3), by=ANN)
        expected = waiting(before.seq, id="i1", state=State.DONE, transaction=("app", 4))
        given = {"token": before.token, "taken": after(3), "size": before.size, "sum": before.sum}
        how = {"acquired": 1, "avoid": ANN, "due": before.taken}
        assert found == replace(expected, **facts, **given, **how)
        assert await listed(store, DoneNamed(JOBS, found.id), None, 9) == [found]
        assert await listed(store, DoneNamed(JOBS, ItemId("i2"))) == []
        assert await listed(store, NewestItem(JOBS, dead=False, done=True)) == [found.seq]
        for payloads_too, shown in ((True, b"<job/>"), (False, None)):
            page = ItemEntries(JOBS, found.seq, State.DONE, payloads_too, 99)
            assert await listed(store, page) == [ItemEntry(found, 6, shown)]
            assert await listed(store, page, found.seq) == []
        assert await ids(store) == ["i2"]
        assert await ready(store) == ("i2", "")
        keys = {"items": {(JOBS, before.id)}, "numbers": {before.seq}, "held": {ANN}}
        assert await load(store, **keys) == Rows()
        there = await node_row(store)
        assert (there.items, there.done, there.done_bytes) == (1, 1, before.size)
        assert await store.batch(recount) == []

    async def test_it_comes_back_as_it_was(self, store):
        payload = b"<job>\xc3\xa4</job>"
        await make(store, add("i1", payload=payload, headers=(("a", "b"),), group="g"))
        (kept,) = await finish(store, "i1")
        assert await load(store, payloads={kept.seq}) == Rows(
            payloads=[(kept.seq, payload, kept.sum)]
        )
        await make(store, changes.Revive(kept, JOBS, after(9)))
        (found,) = await items(store, "i1")
        assert found == replace(kept, state=State.QUEUED, taken=None, expires=after(9))
        assert await payloads(store) == {"i1": payload}
        there = await node_row(store)
        assert (there.items, there.done, there.done_bytes) == (1, 0, 0)
        assert await listed(store, DoneItems(JOBS)) == []
        assert await store.batch(recount) == []

    async def test_it_is_dropped(self, store):
        await make(store, add("i1"), add("i2"))
        one, other = await finish(store, "i1", "i2")
        await make(store, changes.RemoveItem(one))
        assert await listed(store, DoneItems(JOBS)) == [other]
        assert await store.batch(recount) == []

    async def test_an_item_is_brought_back_only_once(self, store):
        await make(store, add("i1"))
        (kept,) = await finish(store, "i1")
        await make(store, changes.Revive(kept, JOBS))
        before = await store.batch(everything)
        for change in (changes.Revive(kept, JOBS), changes.RemoveItem(kept)):
            with pytest.raises(StaleError):
                await make(store, change)
        assert await store.batch(everything) == before

    async def test_what_is_done_is_listed_by_its_publish(self, store):
        await make(store, *(replace(add(f"i{n}"), published=after(n % 3)) for n in range(6)))
        await finish(store, *(f"i{n}" for n in range(6)))
        found = await listed(store, DoneItems(JOBS))
        assert [item.id for item in found] == ["i0", "i3", "i1", "i4", "i2", "i5"]
        assert await listed(store, DoneItems(JOBS, after(1))) == found[2:]
        place = found[2].published, found[2].seq
        assert await listed(store, DoneItems(JOBS), place, 2) == found[3:5]

    async def test_the_id_is_free_for_another(self, store):
        await make(store, add("i1", payload=b"<first/>"))
        await finish(store, "i1")
        await make(store, add("i1", payload=b"<second/>"))
        assert await payloads(store) == {"i1": b"<second/>"}
        await finish(store, "i1")
        assert len(await listed(store, DoneItems(JOBS))) == 2
        assert await store.batch(recount) == []

    async def test_an_item_may_come_and_be_done_in_one_batch(self, store):
        at = replace(waiting(1_000, state=State.DONE, taken=NOW), size=6)
        node = replace(EMPTY, done=1, done_bytes=6)
        await write(
            store, items=[Write(None, at)], payloads={1_000: b"<job/>"}, nodes=[Write(EMPTY, node)]
        )
        assert await listed(store, DoneItems(JOBS)) == [at]
        assert await load(store, payloads={1_000}) == Rows(payloads=[(1_000, b"<job/>", None)])

    async def test_it_may_come_back_with_another_payload(self, store):
        await make(store, add("i1"))
        (kept,) = await finish(store, "i1")
        back = replace(kept, state=State.QUEUED, taken=None, size=4)
        node = await node_row(store)
        counts = replace(node, items=1, bytes=4, done=0, done_bytes=0)
        await write(
            *(store,),
            items=[Write(kept, back)],
            payloads={kept.seq: b"<b/>"},
            nodes=[Write(node, counts)],
        )
        assert await payloads(store) == {"i1": b"<b/>"}
        assert await store.batch(recount) == []

    @pytest.mark.parametrize("way", ["purged", "deleted"])
    async def test_it_goes_with_its_queue(self, store, way):
        await make(store, *(add(f"i{n}") for n in range(5)))
        await finish(store, *(f"i{n}" for n in range(5)))
        gone = (changes.PurgeNode(JOBS),)
        if way == "deleted":
            gone = (changes.DeleteNode(JOBS), changes.CreateNode(EMPTY))
        await make(store, *gone)
        assert await node_row(store) == EMPTY
        assert await listed(store, DoneItems(JOBS)) == []
        await sweep(store, 2)  # it ends when nothing is left
        assert await store.batch(recount) == []

    async def test_the_queues_with_something_done_are_listed(self, store):
        names = [f"q{n}" for n in range(4)]
        await make(
            store, *(changes.CreateNode(queue(name=name, subscriptions=0)) for name in names)
        )
        await make(store, *(add("i1", node=name) for name in names))
        there = [item for name in names[1:] for item in await items(store, "i1", node=name)]
        await make(store, *(changes.RemoveItem(item, done_at=NOW) for item in there))
        assert await listed(store, Keeping()) == names[1:]
        assert await listed(store, Keeping(), "q1", 1) == ["q2"]

    async def test_the_creator_of_the_queue_pays_for_it(self, store):
        await make(store, add("i1", payload=b"12345"), add("i2", payload=b"123"))
        await finish(store, "i1")
        rows = await store.batch(lambda tx: tx.load(needs_of(holdings={EMPTY.creator})))
        assert rows.of[HOLDINGS] == [Holding(EMPTY.creator, 1, 1, 8)]

    async def test_the_mark_of_a_seek_is_kept_until_it_is_over(self, store):
        await make(store, changes.CreateNode(queue(name=DEAD, subscriptions=0)))
        mark, other = SeekMark(JOBS, after(-9), NOW, 4), SeekMark(DEAD, NOW, NOW, 9)
        await make(store, changes.PutRow(mark), changes.PutRow(other))
        assert await load(store, seeks={JOBS, DEAD, "none"}) == rows_of(seeks=[mark, other])
        assert await listed(store, Seeks()) == [JOBS, DEAD]
        later = replace(mark, since=after(-1), at=after(1))
        await make(store, changes.PutRow(later))
        with pytest.raises(StaleError):
            await write(store, seeks=[Write(mark, None)])
        assert await load(store, seeks={JOBS}) == rows_of(seeks=[later])
        await make(store, changes.DropRow(SeekMark, JOBS), changes.DeleteNode(DEAD))
        assert await listed(store, Seeks()) == []
