"""What every store promises about items that wait: what they wait for, and what has come, is kept with them, and they are found when their time is over."""

from __future__ import annotations

import pytest
from harness.batches.facts import ANN, JOBS, NOW, after, window
from harness.stores.store_contents import everything
from msgspec.structs import replace
from stores.steps import add, items, listed, lock, make, sweep

from pubqueue.engine.listings import ItemEntries, MembersOf, NodeEntries, Orphans
from pubqueue.engine.ports import StaleError
from pubqueue.model import changes
from pubqueue.model.after import after as item_after
from pubqueue.model.entities import State
from pubqueue.model.joins import Join
from pubqueue.model.waits import AtDeadline, Came, Wait

CAME = Came("s1", "no", '{"\u00e4": "<&>"}', "boss@x", 5)
WAIT = Wait(("yes", "no"), NOW, AtDeadline.DEAD, "\u00e4<&>\n", known=("00", "ff"))


async def held(store, until=None):
    """Return an item that is held, beside another one."""
    await make(store, changes.AddSubscription(window(ANN, 9)))
    await make(store, add("i1"), add("i2"))
    change = changes.Hold(await lock(store, "i1"), WAIT, until)
    await make(store, change)
    (found,) = await items(store, "i1")
    assert found == item_after(change)
    return found


class OfWaits:
    """Part of the contract."""

    async def test_what_an_item_waits_for_and_what_has_come_is_kept_with_it(self, store):
        signaled = changes.TakeSignal(await held(store), CAME)
        await make(store, signaled)
        (found,) = await items(store, "i1")
        assert found == item_after(signaled)
        await make(store, changes.Wake(found))
        assert await items(store, "i1") == [item_after(changes.Wake(found))]
        locked = await lock(store, "i1")
        assert locked.wait.seen == 1
        assert await items(store, "i1") == [locked]

    async def test_it_is_counted_and_listed_by_its_state(self, store):
        found = await held(store)
        (entry,) = await listed(store, NodeEntries((JOBS,), None))
        assert (entry.queued, entry.held, entry.delayed, entry.locked) == (1, 1, 0, 0)
        assert entry.oldest_held == found.published
        which = ItemEntries(JOBS, found.seq + 9, State.HELD, payloads=False, room=1)
        assert [one.item for one in await listed(store, which)] == [found]

    async def test_it_is_found_when_its_time_is_over(self, store):
        found = await held(store, after(9))
        early, late, due = await store.batch(
            lambda tx: (tx.due(after(8), 9).delayed, tx.due(after(9), 9).delayed, tx.next_due())
        )
        assert (early, late, due) == ([], [found], after(9))

    async def test_without_a_time_it_is_never_due(self, store):
        await held(store)
        due = await store.batch(lambda tx: (tx.due(after(10**9), 9).delayed, tx.next_due()))
        assert due == ([], None)

    async def test_it_is_woken_once(self, store):
        found = await held(store)
        await make(store, changes.TakeSignal(found, CAME, wakes=True))
        before = await store.batch(everything)
        for change in (changes.TakeSignal(found, CAME, wakes=True), changes.Wake(found)):
            with pytest.raises(StaleError):
                await make(store, change)
        assert await store.batch(everything) == before

    async def test_a_join_and_its_members_are_kept_and_counted_again(self, store):
        wait = Wait(("yes",), NOW, join=Join(2, 1, 7, is_open=False))
        await make(store, replace(add("j", state=State.HELD, due=after(9)), wait=wait))
        (join,) = await items(store, "j")
        assert (join.wait, join.due, join.joins) == (wait, after(9), 0)
        await make(store, *(replace(add(name), joins=join.seq) for name in ("a", "b", "c")))
        await make(store, replace(add("d"), joins=join.seq + 1))
        a, b, c, d = await items(store, "a", "b", "c", "d")
        assert [one.joins for one in (a, b, c, d)] == [join.seq] * 3 + [join.seq + 1]
        await make(store, changes.GiveUp(a, NOW, "x", 1), changes.RemoveItem(c))
        assert await listed(store, MembersOf(join.seq)) == [(2, 1)]
        assert await listed(store, MembersOf(join.seq + 1)) == [(1, 0)]
        assert await listed(store, MembersOf(join.seq - 1)) == [(0, 0)]
        counted = changes.Count(join, Join(1, 1, 7, is_open=False))
        await make(store, counted)
        assert await items(store, "j") == [item_after(counted)]
        (dead,) = await items(store, "a")
        assert (dead.joins, dead.state) == (join.seq, State.DEAD)
        await make(store, changes.ReplacePayload(b, b"<other/>", b.publisher))
        assert [one.joins for one in await items(store, "b")] == [join.seq]

    async def test_members_of_a_purged_node_are_seen_when_they_are_swept(self, store):
        await make(store, *(replace(add(name), joins=9) for name in ("a", "b")), add("c"))
        (a,) = await items(store, "a")
        await make(store, changes.GiveUp(a, NOW, "x", 1))
        await make(store, changes.PurgeNode(JOBS))
        found = await listed(store, Orphans())
        assert {one.id: (one.joins, one.is_dead) for one in found} == {
            "a": (9, True),
            "b": (9, False),
            "c": (0, False),
        }
        assert await listed(store, MembersOf(9)) == [(2, 1)]
        await sweep(store, 9)
        assert await listed(store, MembersOf(9)) == [(0, 0)]

    async def test_other_work_in_its_place_has_nothing_of_it(self, store):
        await make(store, add("i1"))
        (before,) = await items(store, "i1")
        await make(store, changes.TakeSignal(before, CAME))
        (before,) = await items(store, "i1")
        await make(store, changes.ReplacePayload(before, b"<other/>", before.publisher))
        (found,) = await items(store, "i1")
        assert (found.wait, found.size) == (None, len(b"<other/>"))
