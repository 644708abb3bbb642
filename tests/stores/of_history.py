"""What every store promises about the event log, and about pages for those who look from outside."""

from __future__ import annotations

import pytest
from harness.facts import ANN, BOB, JOBS, NOW, after, window
from msgspec.structs import replace
from stores.steps import DEAD, EMPTY, BrokenError, add, broken, items, lock, make, release

from pubqueue.app.ports import StoreError
from pubqueue.core import changes as c
from pubqueue.core.history import Event, Kind
from pubqueue.core.model import ItemId, Jid, Millis, NodeName, State
from pubqueue.core.pages import Grave, Logged, Shown, Tally

BARE = Event(Kind.PURGED, JOBS, detail="3")
FULL = Event(
    *(Kind.DEAD, JOBS, ItemId("i1"), 2, ANN, Jid("etl@x"), Millis(5), Millis(3), DEAD, DEAD),
    detail="no <seat> & \u00e4",
)


async def record(store, *events, at=NOW):
    await store.batch(lambda tx: tx.history.record(events, at))


async def events(store, nodes=None, after=0, until=99, limit=99):
    return await store.read(lambda tx: tx.history.events(nodes, after, until, limit))


async def numbers(store, *args, **given):
    return [entry.seq for entry in await events(store, *args, **given)]


async def ends(store):
    return await store.read(lambda tx: tx.history.ends())


class OfHistory:
    """Part of the contract."""

    async def test_an_event_is_read_as_it_was_written(self, store):
        assert (await ends(store), await events(store)) == ((0, 0), [])
        await record(store, BARE, FULL, at=after(1))
        await record(store, BARE, at=after(2))
        expected = [Logged(1, after(1), BARE), Logged(2, after(1), FULL), Logged(3, after(2), BARE)]
        assert await events(store) == expected
        assert await ends(store) == (1, 3)

    async def test_events_come_by_number_and_node(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)))
        await record(store, BARE, replace(BARE, node=DEAD), BARE, BARE)
        assert await numbers(store, after=1, until=3) == [2, 3]
        assert await numbers(store, limit=2) == [1, 2]
        assert await numbers(store, [DEAD]) == [2]
        assert await numbers(store, [JOBS], after=1) == [3, 4]
        assert await numbers(store, [JOBS, DEAD, NodeName("none")]) == [1, 2, 3, 4]
        assert await numbers(store, []) == []

    async def test_numbers_that_were_not_committed_are_given_again(self, store):
        await record(store, BARE)

        def fail(tx):
            broken(tx, lambda: tx.history.record([BARE, BARE], NOW))
            tx.history.record([FULL], NOW)
            raise BrokenError

        with pytest.raises(BrokenError):
            await store.batch(fail)
        assert await numbers(store) == [1]

        def recover(tx):
            broken(tx, lambda: tx.history.record([BARE, BARE], NOW))
            tx.history.record([FULL], NOW)

        await store.batch(recover)
        assert await events(store) == [Logged(1, NOW, BARE), Logged(2, NOW, FULL)]

    async def test_what_is_forgotten_is_no_more_but_the_newest_stays(self, store):
        await record(store, *[BARE] * 4)
        await make(store, c.ForgetEvents(2))
        assert (await numbers(store), await ends(store)) == ([3, 4], (3, 4))
        await make(store, c.ForgetEvents(9))
        assert (await numbers(store), await ends(store)) == ([4], (4, 4))
        await store.close()
        await store.open()
        await record(store, FULL)
        assert await numbers(store) == [4, 5]

    async def test_what_is_too_old_is_found_among_the_oldest(self, store):
        for at in (after(1), after(2), after(3), after(2)):
            await record(store, BARE, at=at)

        async def aged(before, among):
            return await store.read(lambda tx: tx.history.aged(before, among))

        assert [await aged(after(s), 9) for s in (1, 2, 3, 4)] == [None, 1, 4, 4]
        assert await aged(after(3), 3) == 2

    async def test_the_events_of_a_deleted_node_are_not_those_of_the_next_by_its_name(self, store):
        await record(store, BARE)
        await make(store, c.DeleteNode(JOBS))
        assert (await numbers(store), await ends(store)) == ([], (1, 1))
        await make(store, c.CreateNode(EMPTY))
        await record(store, FULL)
        assert await numbers(store) == [2]

    # --- pages ---

    async def page(self, store, **wanted):
        known = {"after": 0, "until": 99, "state": None, "payloads": True, "limit": 9, "room": 99}
        return await store.read(lambda tx: tx.history.items(JOBS, **(known | wanted)))

    async def names(self, store, **wanted):
        shown, more = await self.page(store, **wanted)
        return "".join(one.item.id for one in shown), more

    async def test_an_item_is_shown_as_it_is(self, store):
        await make(store, add("a", headers=(("n", "v"),)), add("b", payload=b"<\xc3\xa4/>"))
        held = await lock(store, "b")
        (first, _) = await items(store, "a", "b")
        expected = [Shown(first, 6, b"<job/>"), Shown(held, 5, b"<\xc3\xa4/>")]
        assert await self.page(store) == (expected, False)
        without = [replace(shown, payload=None) for shown in expected]
        assert await self.page(store, payloads=False) == (without, False)

    async def test_items_come_by_number_state_and_room(self, store):
        at_hand = {"state": State.DELAYED, "due": after(5)}
        await make(store, add("a"), add("b", **at_hand), add("c"), add("d", priority=5))
        seqs = [item.seq for item in await items(store, *"abcd")]
        assert await self.names(store, after=seqs[0], until=seqs[2]) == ("bc", False)
        assert await self.names(store, limit=2) == ("ab", True)
        assert await self.names(store, limit=4) == ("abcd", False)
        assert await self.names(store, state=State.QUEUED) == ("acd", False)
        assert await self.names(store, state=State.DELAYED, limit=1) == ("b", False)
        assert await self.names(store, room=12) == ("ab", True)
        assert await self.names(store, room=1) == ("a", True)
        assert await self.names(store, room=1, payloads=False) == ("abcd", False)
        assert await store.read(lambda tx: tx.history.newest(JOBS, dead=False)) == seqs[3]
        assert await store.read(lambda tx: tx.history.newest(DEAD, dead=False)) == 0

    async def test_the_dead_come_by_their_deaths_here_or_elsewhere(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)))
        await make(store, add("x", node=DEAD), *map(add, "abc"))
        (x,) = await items(store, "x", node=DEAD)
        a, *_ = await items(store, *"abc")
        held = await lock(store, "b")
        for item, to, at in ((held, None, 1), (x, JOBS, 2), (a, None, 3)):
            await make(store, c.GiveUp(item, after(at), f"why {at}", 1, to))
        shown, more = await self.page(store, state=State.DEAD, payloads=False)
        assert (more, [one.item.id for one in shown]) == (False, ["b", "x", "a"])
        deaths = [one.grave.seq for one in shown]
        assert deaths == sorted(set(deaths))
        assert [one.grave for one in shown] == [
            Grave(deaths[0], after(1), "why 1", ANN),
            Grave(deaths[1], after(2), "why 2", None, DEAD),
            Grave(deaths[2], after(3), "why 3"),
        ]
        assert await self.names(store, state=State.DEAD, after=deaths[0], limit=1) == ("x", True)
        assert await self.names(store, state=State.DEAD, until=deaths[1]) == ("bx", False)
        assert await store.read(lambda tx: tx.history.newest(JOBS, dead=True)) == deaths[2]
        assert await store.read(lambda tx: tx.history.newest(DEAD, dead=True)) == 0
        (dead,) = await items(store, "b")
        await make(store, c.Revive(dead, JOBS))
        (again,) = await items(store, "b")
        await make(store, c.GiveUp(again, after(4), "again", 1))
        assert await self.names(store, state=State.DEAD, after=deaths[2]) == ("b", False)

    async def test_a_node_is_counted_by_state(self, store):
        await make(store, c.AddSubscription(window(ANN, 3)), c.AddSubscription(window(BOB, 2)))
        await make(store, c.SetAvailable(JOBS, BOB, available=False))
        await make(store, *map(add, "abcde"), add("f", state=State.DELAYED, due=after(5)))
        await lock(store, "a")
        _, b, *_ = await items(store, *"abc")
        await make(store, c.GiveUp(b, NOW, "x", 1))
        await make(store, release(await lock(store, "c", token=9)))

        def tally(tx):
            return tx.history.tally(tx.node(JOBS))

        node = await store.read(lambda tx: tx.node(JOBS))
        assert (node.items, node.subscriptions) == (6, 2)
        expected = Tally(node, queued=3, locked=1, delayed=1, dead=1, window_free=2, oldest=NOW)
        assert await store.read(tally) == expected

    async def test_reading_sees_what_is_committed_and_changes_nothing(self, store):
        await make(store, add("a"))

        def write(tx):
            tx.apply([add("b")])

        with pytest.raises(StoreError):
            await store.read(write)

        assert await store.read(lambda tx: tx.item_ids(JOBS, 9)) == ["a"]
        await make(store, add("b"))
        assert await store.read(lambda tx: tx.item_ids(JOBS, 9)) == ["a", "b"]

    async def test_a_closed_store_cannot_be_read(self, make_store):
        other = make_store()
        with pytest.raises(StoreError):
            await other.read(lambda tx: tx.nodes())
