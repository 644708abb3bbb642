"""What every store promises about the event log, and about pages for those who look from outside."""

from __future__ import annotations

import pytest
from harness.batches.facts import ANN, BOB, JOBS, NOW, after, window
from msgspec.structs import replace
from stores.steps import (
    DEAD,
    EMPTY,
    BrokenError,
    add,
    items,
    listed,
    lock,
    make,
    node_row,
    release,
    write,
)

from pubqueue.engine.listings import (
    AgedEvents,
    Counted,
    DeathBeyond,
    DroppingDead,
    Events,
    EventsOf,
    ItemEntries,
    LogEnds,
    NewestItem,
    NodeEntries,
)
from pubqueue.engine.rows import Write, Writes
from pubqueue.model import changes
from pubqueue.model.entities import DeadLetter, ItemId, Jid, Millis, NodeName, State
from pubqueue.model.records import Event, EventKind
from pubqueue.model.replies import EventEntry, ItemEntry, NodeEntry

BARE = Event(EventKind.PURGED, JOBS, detail="3")
FULL = Event(
    *(EventKind.DEAD, JOBS, ItemId("i1"), 2, ANN, Jid("etl@x"), Millis(5), Millis(3), DEAD, DEAD),
    detail="no <seat> & \u00e4",
)


async def record(store, *events, at=NOW):
    await store.batch(lambda tx: tx.write(Writes(at, events=list(events))))


async def events(store, nodes=None, after=None, until=99, limit=99):
    return await listed(store, Events(nodes, until), after, limit)


async def numbers(store, *args, **given):
    return [entry.seq for entry in await events(store, *args, **given)]


async def ends(store):
    (both,) = await store.read(lambda tx: tx.page(LogEnds()))
    return both


class OfHistory:
    """Part of the contract."""

    async def test_an_event_is_read_as_it_was_written(self, store):
        assert (await ends(store), await events(store)) == ((0, 0), [])
        await record(store, BARE, FULL, at=after(1))
        await record(store, BARE, at=after(2))
        expected = [
            EventEntry(1, after(1), BARE),
            EventEntry(2, after(1), FULL),
            EventEntry(3, after(2), BARE),
        ]
        assert await events(store) == expected
        assert await ends(store) == (1, 3)

    async def test_events_come_by_number_and_node(self, store):
        await make(store, changes.CreateNode(replace(EMPTY, name=DEAD)))
        await record(store, BARE, replace(BARE, node=DEAD), BARE, BARE)
        assert await numbers(store, after=1, until=3) == [2, 3]
        assert await numbers(store, limit=2) == [1, 2]
        assert await numbers(store, (DEAD,)) == [2]
        assert await numbers(store, (JOBS,), after=1) == [3, 4]
        assert await numbers(store, (JOBS, DEAD, NodeName("none"))) == [1, 2, 3, 4]
        assert await numbers(store, ()) == []

    async def test_the_events_of_one_item_come_by_number_and_page(self, store):
        await make(store, changes.CreateNode(replace(EMPTY, name=DEAD)))
        other, elsewhere = replace(FULL, item=ItemId("i2")), replace(FULL, node=DEAD)
        await record(store, FULL, BARE, other, elsewhere, FULL, FULL)
        of_item = EventsOf(JOBS, ItemId("i1"))
        found = await listed(store, of_item)
        assert found == [EventEntry(seq, NOW, FULL) for seq in (1, 5, 6)]
        assert await listed(store, of_item, 1, 1) == found[1:2]
        assert await listed(store, replace(of_item, node=NodeName("none"))) == []
        in_all = await listed(store, Events(None, 5, item=ItemId("i1")))
        assert [entry.seq for entry in in_all] == [1, 4, 5]

    async def test_numbers_that_were_not_committed_are_given_again(self, store):
        await record(store, BARE)

        def fail(tx):
            tx.write(Writes(NOW, events=[BARE, BARE]))
            raise BrokenError

        with pytest.raises(BrokenError):
            await store.batch(fail)
        assert (await numbers(store), await ends(store)) == ([1], (1, 1))
        await record(store, FULL)
        assert await events(store) == [EventEntry(1, NOW, BARE), EventEntry(2, NOW, FULL)]

    async def test_events_are_written_before_the_node_is_gone(self, store):
        await write(store, events=[BARE], nodes=[Write(EMPTY, None)])
        assert (await numbers(store), await ends(store)) == ([], (1, 1))

    async def test_events_of_a_node_that_is_made_with_them_are_its(self, store):
        node = replace(EMPTY, name=DEAD)
        await write(store, events=[replace(BARE, node=DEAD), BARE], nodes=[Write(None, node)])
        assert await numbers(store, (DEAD,)) == [1]
        assert await numbers(store) == [1, 2]

    async def test_what_is_forgotten_is_no_more_but_the_newest_stays(self, store):
        await record(store, *[BARE] * 4)
        await make(store, changes.ForgetEvents(2))
        assert (await numbers(store), await ends(store)) == ([3, 4], (3, 4))
        await make(store, changes.ForgetEvents(9))
        assert (await numbers(store), await ends(store)) == ([4], (4, 4))
        await store.close()
        await store.open()
        await record(store, FULL)
        assert await numbers(store) == [4, 5]

    async def test_what_is_forgotten_in_vain_is_there_again(self, store):
        await record(store, *[BARE] * 4)

        def fail(tx):
            tx.write(Writes(NOW, bulk=[changes.ForgetEvents(2)]))
            assert tx.page(LogEnds()) == [(3, 4)]
            raise BrokenError

        with pytest.raises(BrokenError):
            await store.batch(fail)
        assert (await numbers(store), await ends(store)) == ([1, 2, 3, 4], (1, 4))

    async def test_what_is_too_old_is_found_among_the_oldest(self, store):
        for at in (after(1), after(2), after(3), after(2)):
            await record(store, BARE, at=at)

        async def aged(before, among):
            return await listed(store, AgedEvents(before), None, among)

        assert [await aged(after(s), 9) for s in (1, 2, 3, 4)] == [[], [1], [4], [4]]
        assert await aged(after(3), 3) == [2]

    async def test_the_events_of_a_deleted_node_are_not_those_of_the_next_by_its_name(self, store):
        await record(store, BARE)
        await make(store, changes.DeleteNode(JOBS))
        assert (await numbers(store), await ends(store)) == ([], (1, 1))
        await make(store, changes.CreateNode(EMPTY))
        await record(store, FULL)
        assert await numbers(store) == await numbers(store, (JOBS,)) == [2]

    # --- pages ---

    async def page(self, store, after=None, limit=9, **wanted):
        known = {"until": 99, "state": None, "payloads": True, "room": 99} | wanted
        return await listed(store, ItemEntries(JOBS, **known), after, limit)

    async def names(self, store, *place, **wanted):
        return "".join(one.item.id for one in await self.page(store, *place, **wanted))

    async def newest(self, store, node=JOBS, *, dead=False):
        (number,) = await store.read(lambda tx: tx.page(NewestItem(node, dead)))
        return number

    async def test_an_item_is_shown_as_it_is(self, store):
        await make(store, add("a", headers=(("n", "v"),)), add("b", payload=b"<\xc3\xa4/>"))
        held = await lock(store, "b")
        (first, _) = await items(store, "a", "b")
        expected = [ItemEntry(first, 6, b"<job/>"), ItemEntry(held, 5, b"<\xc3\xa4/>")]
        assert await self.page(store) == expected
        without = [replace(shown, payload=None) for shown in expected]
        assert await self.page(store, payloads=False) == without

    async def test_items_come_by_number_state_and_room(self, store):
        await make(store, changes.CreateNode(replace(EMPTY, name=DEAD)))
        at_hand = {"state": State.DELAYED, "due": after(5)}
        await make(store, add("a"), add("b", **at_hand), add("c"), add("d", priority=5))
        seqs = [item.seq for item in await items(store, *"abcd")]
        assert await self.names(store, seqs[0], until=seqs[2]) == "bc"
        assert await self.names(store, None, 2) == "ab"
        assert await self.names(store, None, 4) == "abcd"
        assert await self.names(store, state=State.QUEUED) == "acd"
        assert await self.names(store, state=State.DELAYED) == "b"
        assert await self.names(store, room=12) == "ab"
        assert await self.names(store, room=17) == "ab"
        assert await self.names(store, room=1) == "a"
        assert await self.names(store, room=1, payloads=False) == "abcd"
        assert await self.newest(store) == seqs[3]
        assert await self.newest(store, DEAD) == 0
        assert await self.newest(store, NodeName("none")) == 0

    async def test_the_dead_come_by_their_deaths_here_or_elsewhere(self, store):
        await make(store, changes.CreateNode(replace(EMPTY, name=DEAD)))
        await make(store, add("x", node=DEAD), *map(add, "abc"))
        (x,) = await items(store, "x", node=DEAD)
        a, *_ = await items(store, *"abc")
        held = await lock(store, "b")
        for item, to, at in ((held, None, 1), (x, JOBS, 2), (a, None, 3)):
            await make(store, changes.GiveUp(item, after(at), f"why {at}", 1, to))
        dead = {"state": State.DEAD}
        shown = await self.page(store, **dead, payloads=False)
        assert [one.item.id for one in shown] == ["b", "x", "a"]
        letters = [one.item.dead_letter for one in shown]
        deaths = [letter.number for letter in letters]
        assert deaths == sorted(set(deaths))
        assert letters == [
            DeadLetter(deaths[0], after(1), "why 1", None, ANN),
            DeadLetter(deaths[1], after(2), "why 2", DEAD),
            DeadLetter(deaths[2], after(3), "why 3"),
        ]
        assert await self.names(store, deaths[0], 1, **dead) == "x"
        assert await self.names(store, until=deaths[1], **dead) == "bx"
        assert await self.names(store, **dead, room=6) == "b"
        assert await self.newest(store, dead=True) == deaths[2]
        assert await self.newest(store, DEAD, dead=True) == 0
        beyond = [await listed(store, DeathBeyond(JOBS), None, most) for most in (0, 2, 3)]
        assert beyond == [[deaths[2]], [deaths[0]], []]
        (b,) = await items(store, "b")
        await make(store, changes.Revive(b, JOBS))
        (again,) = await items(store, "b")
        await make(store, changes.GiveUp(again, after(4), "again", 1))
        assert await self.names(store, deaths[2], **dead) == "b"
        assert await self.names(store, **dead) == "xab"

    async def test_nodes_that_delete_dead_items_are_named(self, store):
        limits = {
            "a": {"dead_max": 1},
            "b": {},
            "c": {"dead_ttl": 9},
            "d": {"dead_ttl": 9, "dead_max": 1},
        }
        for name, limit in limits.items():
            config = replace(EMPTY.config, title='"dead_ttl":9', **limit)
            await make(
                store, changes.CreateNode(replace(EMPTY, name=NodeName(name), config=config))
            )
        assert await listed(store, DroppingDead()) == ["a", "c", "d"]
        assert await listed(store, DroppingDead(), "a", 1) == ["c"]

    async def test_nodes_are_counted_by_state(self, store):
        await make(
            store, changes.AddSubscription(window(ANN, 3)), changes.AddSubscription(window(BOB, 2))
        )
        await make(store, changes.SetAvailable(JOBS, BOB, available=False))
        await make(store, changes.CreateNode(replace(EMPTY, name=DEAD)))
        published = {"published": after(3)}
        await make(store, replace(add("a"), **published), replace(add("b"), **published))
        await make(store, replace(add("c"), **published), add("d"), add("e"))
        await make(store, add("f", state=State.DELAYED, due=after(5)))
        await lock(store, "a")
        _, b, *_ = await items(store, *"abc")
        await make(store, changes.GiveUp(b, NOW, "x", 1))
        await make(store, release(await lock(store, "c", token=9)))
        node = await node_row(store)
        assert (node.items, node.subscriptions) == (6, 2)
        counted = {"queued": 3, "locked": 1, "delayed": 1, "dead": 1, "window_free": 2}
        expected = NodeEntry(node, **counted, oldest=after(3))
        assert await listed(store, NodeEntries((JOBS,))) == [expected]
        empty = NodeEntry(await node_row(store, DEAD), 0, 0, 0, 0, 0)
        tallies = await listed(store, NodeEntries((JOBS, NodeName("none"), DEAD)))
        assert sorted(tallies, key=lambda one: one.node.name) == [expected, empty]

    async def test_what_died_and_moved_is_counted_as_what_it_is(self, store):
        await make(store, changes.CreateNode(replace(EMPTY, name=DEAD)), add("a"))
        (a,) = await items(store, "a")
        await make(store, changes.GiveUp(a, NOW, "x", 1, to=DEAD))
        (tally,) = await listed(store, NodeEntries((DEAD,)))
        assert (tally.queued, tally.dead) == (1, 0)

    async def test_the_oldest_that_waits_is_so_whatever_its_priority(self, store):
        for moment, (name, priority) in enumerate([("a", 0), ("b", 9), ("c", -3), ("d", 9)]):
            change = replace(add(name, priority=priority), published=after(moment))
            await make(store, change)
        for expected in range(4):
            (tally,) = await listed(store, NodeEntries((JOBS,)))
            assert (tally.queued, tally.oldest) == (4 - expected, after(expected))
            (item,) = await items(store, "abcd"[expected])
            await make(store, changes.RemoveItem(item))

    async def test_what_is_queued_and_what_is_dead_are_counted_part_by_part(self, store):
        await make(store, changes.CreateNode(replace(EMPTY, name=DEAD)))
        await make(store, *(add(name, priority=ord(name) % 3) for name in "abcdefgh"))
        for name in "bdfh":
            (item,) = await items(store, name)
            await make(store, changes.GiveUp(item, NOW, "x", 1, to=DEAD if name == "b" else None))
        found = {
            (node, state): await counts(store, node, state)
            for node in (JOBS, DEAD)
            for state in (State.QUEUED, State.DEAD)
        }
        assert found == {
            (JOBS, State.QUEUED): [2, 2, 0],
            (JOBS, State.DEAD): [2, 1],
            (DEAD, State.QUEUED): [1],
            (DEAD, State.DEAD): [0],
        }

    async def test_what_is_counted_before_is_not_counted_again(self, store):
        await make(store, *map(add, "abc"))
        (tally,) = await listed(store, NodeEntries((JOBS,), (2, 1)))
        assert (tally.queued, tally.delayed, tally.dead) == (2, 0, 1)


async def counts(store, node, state):
    """Return what is counted, two places at a time."""
    found, after, more = [], None, True
    while more:
        ((count, after),) = await listed(store, Counted(node, state), after, 2)
        found.append(count)
        more = after is not None
    return found
