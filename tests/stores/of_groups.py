"""What every store promises about groups, whose items wait in line for their turns, and about rates."""

from __future__ import annotations

import pytest
from harness.batches.facts import JOBS, NOW, after
from msgspec.structs import replace
from stores.steps import (
    DEAD,
    EMPTY,
    add,
    ids,
    items,
    listed,
    lock,
    make,
    node_row,
    ready,
    release,
    write,
)

from pubqueue.engine.listings import (
    Counted,
    GroupLines,
    GroupsReady,
    GroupsWithTurns,
    GroupTaken,
    GroupTurns,
    NodeEntries,
    WaitingGroups,
)
from pubqueue.engine.ports import StaleError
from pubqueue.engine.rows import Passed, Reach, Write
from pubqueue.model import changes as c
from pubqueue.model.entities import State

G, H = (JOBS, "g"), (JOBS, "h")


async def line(store, *groups, limit=9):
    return "".join(item.id for item in await listed(store, GroupLines(groups), None, limit))


async def taken(store, *groups):
    rows = await listed(store, GroupTaken(groups), None, 9)
    return "".join(item.id for item in sorted(rows, key=lambda item: item.turn))


async def take_turns(store, *names, first=100):
    """Let the items have turns, from this number on."""
    rows = await items(store, *names)
    await make(store, *(c.TakeTurn(row, turn) for turn, row in enumerate(rows, first)))


async def first_ready(store, *groups, limit=9, now=NOW, size=1 << 30):
    rows = await listed(store, GroupsReady(groups, now, size), None, limit)
    return "".join(sorted(item.id for item in rows))


async def alone(store, behind, places):
    """Return the items without a group, and those put aside, and where the look has ended."""
    reach = Reach({JOBS: behind}, places, {JOBS: 1 << 30}, is_alone=True)
    found = await store.batch(lambda tx: tx.ready({JOBS: 2}, NOW, 1 << 20, reach))
    return "".join(item.id for item, _ in found.rows), found.passed.get(JOBS)


class OfGroups:
    """Part of the contract."""

    async def test_an_item_that_is_recalled_waits_in_its_group_again(self, store):
        await make(store, *(add(name, group="g") for name in "abc"), add("x", group="h"))
        await take_turns(store, *"abcx")
        await lock(store, "b")
        (locked,) = await items(store, "b")
        await make(store, release(locked, released=0, is_recalled=True))
        assert (await taken(store, G), await taken(store, H)) == ("ac", "x")
        assert await line(store, G) == "b"
        (row,) = await items(store, "b")
        assert (row.avoid, row.turn, row.released, row.failed) == (None, 0, 0, 0)

    async def test_an_item_of_a_group_comes_back_as_it_was(self, store):
        await make(store, add("a", group="kunde ä", priority=2, expires=after(9)))
        (row,) = await items(store, "a")
        assert (row.group, row.turn, row.priority, row.expires) == ("kunde ä", 0, 2, after(9))
        await make(store, c.TakeTurn(row, 41))
        assert await items(store, "a") == [replace(row, turn=41)]

    async def test_an_item_that_waits_for_its_turn_is_not_ready(self, store):
        await make(store, add("a"), add("b", group="g"), add("c", group="g"), add("d"))
        assert await ready(store) == ("ad", "")
        assert await line(store, G) == "bc"

    async def test_a_turn_stands_at_its_number_among_what_is_ready(self, store):
        await make(store, add("a"), add("b", group="g"), add("c", group="h"), add("d"))
        await make(store, add("e", group="i", priority=3))
        await take_turns(store, "c", "e", "b")
        assert await ready(store) == ("eadcb", "")
        assert await ready(store, 3) == ("ead", "")
        await make(store, add("f"))
        assert await ready(store) == ("eadfcb", "")

    async def test_turns_of_many_nodes_come_in_their_order_too(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)))
        await make(store, add("a", group="g"), add("b"), add("x", node=DEAD), add("y", node=DEAD))
        await take_turns(store, "a")
        rooms = {JOBS: 1, DEAD: 1}
        rows = await store.batch(lambda tx: tx.ready(rooms, NOW, 1 << 20).rows)
        assert sorted((item.node, item.id) for item, _ in rows) == [(JOBS, "b"), (DEAD, "x")]

    async def test_what_is_put_aside_stands_at_its_turn(self, store):
        await make(store, add("a", group="g"), add("b"), add("c", group="h"))
        await take_turns(store, "c", "a")
        await make(store, *(c.Postpone(row, after(5)) for row in await items(store, *"abc")))
        assert await ready(store) == ("", "bca")

    async def test_turns_are_counted_whatever_becomes_of_them_until_they_end(self, store):
        await make(store, *(add(name, group="g") for name in "abcd"))
        await take_turns(store, *"abc")
        await lock(store, "b")
        await make(store, c.Postpone((await items(store, "c"))[0], after(5)))
        assert await listed(store, GroupTurns((G, H, ("none", "g")))) == [3, 0, 0]
        assert await taken(store, G, H, ("none", "g")) == "abc"
        assert await line(store, G) == "d"
        (locked,) = await items(store, "b")
        await make(store, release(locked, state=State.DELAYED, due=after(5)))
        assert await listed(store, GroupTurns((H, G))) == [0, 3]

    async def test_a_turn_ends_with_the_item_its_life_or_its_stay(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)))
        await make(store, *(add(name, group="g") for name in "abc"))
        await take_turns(store, *"abc")
        a, b, d = await items(store, *"abc")
        await make(
            store, c.RemoveItem(a), c.GiveUp(b, NOW, "why", 1), c.GiveUp(d, NOW, "why", 1, DEAD)
        )
        assert await listed(store, GroupTurns((G, (DEAD, "g")))) == [0, 0]
        assert await line(store, G, (DEAD, "g")) == "c"
        (dead,) = await items(store, "b")
        assert (dead.group, dead.turn) == ("g", 0)
        await make(store, c.Revive(dead, JOBS))
        assert await line(store, G) == "b"

    async def test_a_turn_that_comes_and_is_used_in_one_batch_is_one_write(self, store):
        await make(store, *(add(name, group="g") for name in "ab"))
        (row,) = await items(store, "a")
        now = replace(
            row,
            turn=50,
            state=State.LOCKED,
            holder="ann@x/1",
            deadline=after(9),
            taken=NOW,
            token=3,
            acquired=1,
        )
        node = await node_row(store)
        await write(store, items=[Write(row, now)], nodes=[Write(node, node)])
        assert await items(store, "a") == [now]
        await make(store, c.RemoveItem(now))

    async def test_lines_are_read_as_far_as_is_asked_in_the_order_of_publish(self, store):
        for name in "abcdef":
            await make(store, add(name, group="gh"["aceb".find(name) < 0], priority=ord(name) % 3))
        assert await line(store, G, limit=2) == "ab"
        assert await line(store, H, G, limit=3) == "dfabc"
        assert await line(store, H, limit=0) == ""

    async def test_groups_with_waiting_items_come_by_name(self, store):
        await make(
            store, *(add(name, group=group) for name, group in zip("abcde", "gkhgz", strict=True))
        )
        await take_turns(store, "c")
        await make(store, add("f", group="m", state=State.DELAYED, due=after(5)))
        assert await listed(store, WaitingGroups(JOBS)) == ["g", "k", "z"]
        assert await listed(store, WaitingGroups(JOBS), "", 2) == ["g", "k"]
        assert await listed(store, WaitingGroups(JOBS), "g", 9) == ["k", "z"]
        assert await listed(store, WaitingGroups(DEAD)) == []

    async def test_the_ready_items_of_groups_are_the_first_of_each_by_priority_and_then_by_turn(
        self, store
    ):
        for at, name in enumerate("abcdef"):
            await make(store, add(name, group="gh"[name > "d"], priority=at % 2))
        await take_turns(store, *"acbfe")
        assert await first_ready(store, G, H) == "abcef"
        assert await first_ready(store, G, H, limit=1) == "bf"
        assert await first_ready(store, H, (DEAD, "g"), (JOBS, "none")) == "ef"
        await lock(store, "b")
        await make(store, c.Postpone((await items(store, "a"))[0], after(5)))
        assert await first_ready(store, G, H, limit=1) == "cf"

    async def test_expired_items_and_large_ones_of_groups_are_not_ready(self, store):
        await make(
            store, add("a", group="g", expires=after(1)), add("b", group="g", payload=b"x" * 9)
        )
        await make(store, add("c", group="h", payload=b"x" * 300_000))
        await take_turns(store, *"abc")
        assert await first_ready(store, G, H) == "abc"
        assert await first_ready(store, G, H, now=after(1)) == "bc"
        assert await first_ready(store, G, H, size=300_000 - 1) == "ab"
        assert await first_ready(store, G, H, size=8) == "a"

    async def test_groups_with_turns_come_by_name_whatever_becomes_of_their_items(self, store):
        await make(
            store, *(add(name, group=group) for name, group in zip("abcde", "gkhgz", strict=True))
        )
        await take_turns(store, *"acde")
        await lock(store, "c")
        assert await listed(store, GroupsWithTurns(JOBS)) == ["g", "h", "z"]
        assert await listed(store, GroupsWithTurns(JOBS), "", 2) == ["g", "h"]
        assert await listed(store, GroupsWithTurns(JOBS), "g", 9) == ["h", "z"]
        assert await listed(store, GroupsWithTurns(DEAD)) == []

    async def test_items_without_a_group_are_found_among_others_as_far_as_is_looked(self, store):
        await make(store, *(add(f"g{n}", group=f"g{n}") for n in range(6)))
        await take_turns(store, *(f"g{n}" for n in range(6)), first=1)
        await make(store, add("x"), add("y"))
        await make(store, c.Postpone((await items(store, "g0"))[0], after(5)))
        found, passed = await alone(store, Passed(), 9)
        assert (found, passed) == ("xyg0", None)
        found, passed = await alone(store, Passed(), 2)
        assert (found, passed.queued) == ("g0", (0, 5))
        found, passed = await alone(store, passed, 9)
        assert (found, passed) == ("xyg0", None)

    async def test_an_item_that_waits_for_its_turn_counts_as_queued(self, store):
        await make(store, *(add(f"g{n}", group=f"g{n % 2}") for n in range(5)), *map(add, "xyz"))
        await take_turns(store, "g3", "g0")
        (entry,) = await listed(store, NodeEntries((JOBS,)))
        assert (entry.queued, entry.delayed, entry.locked) == (8, 0, 0)
        for limit in (1, 2, 3, 8, 9):
            total, end, rounds = 0, None, 0
            while rounds == 0 or end is not None:
                ((found, end),) = await listed(store, Counted(JOBS, State.QUEUED), end, limit)
                total, rounds = total + found, rounds + 1
                assert found <= limit
            assert total == 8

    async def test_the_oldest_that_waits_may_be_in_line_or_have_its_turn_late(self, store):
        for moment, (name, group) in enumerate([("a", "g"), ("b", "g"), ("c", ""), ("d", "h")]):
            await make(store, replace(add(name, group=group), published=after(moment)))
        assert await self._oldest(store) == after(0)
        await take_turns(store, "d", "a")
        assert await self._oldest(store) == after(0)
        await make(store, c.RemoveItem((await items(store, "a"))[0]))
        assert await self._oldest(store) == after(1)
        await make(store, c.RemoveItem((await items(store, "b"))[0]))
        assert await self._oldest(store) == after(2)

    async def _oldest(self, store):
        (entry,) = await listed(store, NodeEntries((JOBS,)))
        return entry.oldest

    async def test_a_purge_leaves_no_item_in_line_and_no_turn(self, store):
        await make(store, *(add(name, group="g") for name in "abc"))
        await take_turns(store, "a")
        await make(store, c.PurgeNode(JOBS, 3))
        assert await ids(store) == []
        assert await line(store, G) == ""
        assert await listed(store, GroupTurns((G,))) == [0]
        assert await listed(store, WaitingGroups(JOBS)) == []

    async def test_until_when_a_rate_is_used_up_is_kept(self, store):
        node = await node_row(store)
        assert node.spent == 0
        await write(store, nodes=[Write(node, replace(node, spent=17_000_000_000_000_001))])
        assert (await node_row(store)).spent == 17_000_000_000_000_001
        with pytest.raises(StaleError):
            await write(store, nodes=[Write(replace(node, spent=5), replace(node, spent=6))])
