"""What every store promises about order and time: what is ready, what is due, what comes in pages."""

from __future__ import annotations

import pytest
from harness.batches.facts import ANN, BOB, JOBS, NOW, after, queue
from msgspec.structs import replace
from stores.steps import (
    ANN_ACCOUNT,
    DEAD,
    EMPTY,
    ENOUGH,
    add,
    items,
    listed,
    load,
    lock,
    make,
    ready,
    release,
)

from pubqueue.engine.listings import (
    DelayedFromLast,
    HeldBy,
    HeldOf,
    Holders,
    HoldersOf,
    Items,
    ItemsFromLast,
    Locks,
    LocksFromLast,
    Stride,
    TooLarge,
    Total,
)
from pubqueue.engine.rows import BEGINNING, HELD, Due, Passed, Reach, Ready
from pubqueue.model import changes as c
from pubqueue.model.entities import Jid, State


def names(rows):
    return "".join(row.id for row in rows)


async def due(store, moment, limit=9):
    return await store.batch(lambda tx: tx.due(moment, limit))


async def next_due(store):
    return await store.batch(lambda tx: tx.next_due())


async def load_held(store, *jids):
    return (await load(store, held=set(jids))).items


class OfTime:
    """Part of the contract."""

    async def test_ready_items_come_by_priority_then_age(self, store):
        await make(store, add("a"), add("b", priority=5), add("c"), add("d", priority=-1))
        assert await ready(store) == ("bacd", "")
        assert await ready(store, 2) == ("ba", "")
        rows = await store.batch(lambda tx: tx.ready({JOBS: 1}, NOW, ENOUGH).rows)
        assert rows == [((await items(store, "b"))[0], b"<job/>")]

    async def test_of_each_node_there_is_so_much_ready_as_it_has_room_for(self, store):
        await make(store, *(c.CreateNode(replace(EMPTY, name=name)) for name in (DEAD, "other")))
        for node in (JOBS, DEAD, "other"):
            await make(store, *(add(name, node=node) for name in "abc"))
        rooms = {DEAD: 2, JOBS: 1, "none": 5}
        rows = await store.batch(lambda tx: tx.ready(rooms, NOW, ENOUGH).rows)
        assert sorted((row.node, row.id) for row, _ in rows) == [
            (JOBS, "a"),
            (DEAD, "a"),
            (DEAD, "b"),
        ]
        assert await store.batch(lambda tx: tx.ready({}, NOW, ENOUGH).rows) == []
        assert await store.batch(lambda tx: tx.ready({JOBS: 0}, NOW, ENOUGH).rows) == []

    async def test_what_is_put_aside_comes_besides_and_as_many_again_at_most(self, store):
        await make(store, *map(add, "abc"), *(add(name, priority=3) for name in "def"))
        await make(store, *(c.Postpone(row, after(5)) for row in await items(store, *"aceb")))
        assert await ready(store) == ("df", "eabc")
        assert await ready(store, 1) == ("d", "e")
        assert await ready(store, 3) == ("df", "eab")

    async def test_no_more_payload_is_read_than_was_asked_for_but_for_the_last(self, store):
        await make(store, *(add(name, payload=b"x" * 10) for name in "abc"))
        for byte_count, expected in ((1, "a"), (10, "a"), (11, "ab"), (20, "ab"), (30, "abc")):
            assert await ready(store, 9, byte_count) == (expected, "")

    async def test_the_bound_of_payload_is_one_for_all(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)))
        await make(store, *(add(name, payload=b"x" * 10) for name in "abc"))
        await make(store, *(add(name, payload=b"x" * 10, node=DEAD) for name in "abc"))
        await make(store, *(c.Postpone(row, after(5)) for row in await items(store, "b", "c")))
        for byte_count, count in ((10, 1), (11, 2), (30, 3), (60, 6)):
            rooms = {JOBS: 9, DEAD: 9}
            rows = await store.batch(
                lambda tx, r=rooms, most=byte_count: tx.ready(r, NOW, most).rows
            )
            assert len(rows) == count

    async def test_a_released_item_returns_to_its_old_place(self, store):
        await make(store, *map(add, "abc"))
        await make(store, release(await lock(store, "a")))
        assert await ready(store) == ("abc", "")

    async def test_only_what_waits_and_lives_is_ready(self, store):
        await make(
            store,
            *map(add, ("locked", "dead")),
            add("delayed", state=State.DELAYED, due=NOW),
            add("aside-too-old", expires=NOW),
            add("too-old", expires=NOW),
            add("aside", expires=after(1)),
            add("ready", expires=after(1), payload=b"<ready/>"),
        )
        await lock(store, "locked")
        (dead,) = await items(store, "dead")
        put_aside = await items(store, "aside", "aside-too-old")
        await make(
            store, c.GiveUp(dead, NOW, "x", 1), *(c.Postpone(row, after(1)) for row in put_aside)
        )
        assert await ready(store) == ("ready", "aside")
        assert await ready(store, 1) == ("ready", "aside")
        assert await ready(store, now=after(1)) == ("", "")

    async def test_of_what_is_too_old_so_much_is_passed_over_and_the_next_look_goes_on_behind(
        self, store
    ):
        await make(
            store,
            *(add(name, expires=NOW, priority=9) for name in "abc"),
            *(add(name, expires=NOW) for name in "defg"),
            *map(add, "hi"),
        )
        numbers = {row.id: row.seq for row in await items(store, *"abcdefghi")}
        behind, seen = {}, []
        for _ in range(9):
            reach = Reach(behind, 3)
            found = await store.batch(lambda tx, r=reach: tx.ready({JOBS: 1}, NOW, ENOUGH, r))
            seen.append(names(row for row, _ in found.rows))
            if not found.passed:
                break
            behind = found.passed
            assert behind[JOBS].aside == BEGINNING
            seen[-1] += str(behind[JOBS].queued)
        assert seen == [str((0, numbers["d"])), "h"]

    async def test_what_lives_is_not_passed_over(self, store):
        await make(
            store,
            add("a", expires=NOW),
            add("b"),
            *(add(name, expires=NOW) for name in "cdefgh"),
            add("i"),
        )
        (row,) = await items(store, "b")
        found = await store.batch(lambda tx: tx.ready({JOBS: 2}, NOW, ENOUGH, Reach({}, 3)))
        assert names(item for item, _ in found.rows) == "b"
        assert found.passed == {JOBS: Passed((0, row.seq - 1))}

    async def test_what_is_put_aside_is_passed_over_likewise(self, store):
        await make(store, *(add(name, expires=NOW) for name in "abcd"), add("e"))
        await make(store, *(c.Postpone(row, after(5)) for row in await items(store, *"abcde")))
        first = await store.batch(lambda tx: tx.ready({JOBS: 1}, NOW, ENOUGH, Reach({}, 2)))
        (row,) = await items(store, "c")
        assert first == Ready([], {JOBS: Passed(aside=(0, row.seq))})
        reach = Reach(first.passed, 2)
        then = await store.batch(lambda tx: tx.ready({JOBS: 1}, NOW, ENOUGH, reach))
        assert (names(item for item, _ in then.rows), then.passed) == ("e", {})

    async def test_what_is_larger_than_wanted_is_passed_over_likewise(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)))
        large = {"payload": b"123456789"}
        await make(store, *(add(name, **large) for name in "abc"), add("d"), add("e", **large))
        await make(store, add("f"), *(add(name, node=DEAD, **large) for name in "xy"))
        await make(store, add("z", expires=NOW), add("old", expires=NOW, **large))
        await make(store, *(c.Postpone(row, after(5)) for row in await items(store, *"ef")))
        sizes = {JOBS: 8}
        find = {JOBS: 9, DEAD: 9}, NOW, ENOUGH
        found = await store.batch(lambda tx: tx.ready(*find, Reach(sizes=sizes)))
        assert (names(row for row, _ in found.rows), found.passed) == ("dfxy", {})
        reach = Reach({}, 2, sizes)
        found = await store.batch(lambda tx: tx.ready({JOBS: 1}, NOW, ENOUGH, reach))
        (row,) = await items(store, "c")
        assert (names(row for row, _ in found.rows), found.passed[JOBS].queued) == (
            "f",
            (0, row.seq),
        )
        reach = Reach(found.passed, 9, sizes)
        found = await store.batch(lambda tx: tx.ready({JOBS: 1}, NOW, ENOUGH, reach))
        assert names(row for row, _ in found.rows) == "df"

    async def test_what_is_too_large_is_counted(self, store):
        large = {"payload": b"123456789"}
        await make(store, *(add(name, **large) for name in "abc"), add("d"))
        await make(store, *(c.Postpone(row, after(5)) for row in await items(store, "a")))
        assert await listed(store, TooLarge(JOBS, 8)) == [2]
        assert await listed(store, TooLarge(JOBS, 9)) == [0]

    async def test_places_are_shared_by_the_nodes(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)))
        for node in (JOBS, DEAD):
            await make(store, *(add(f"{n}", expires=NOW, node=node) for n in range(200)))
        rooms = {JOBS: 1, DEAD: 1}
        found = await store.batch(lambda tx: tx.ready(rooms, NOW, ENOUGH, Reach({}, 200)))
        assert found.rows == []
        assert found.passed.keys() == rooms.keys()

    async def test_what_moves_is_ready_where_it_is(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)), add("a"), add("b"))
        (item,) = await items(store, "a")
        await make(store, c.GiveUp(item, NOW, "x", 1, to=DEAD))
        rows = await store.batch(lambda tx: tx.ready({JOBS: 9, DEAD: 9}, NOW, ENOUGH).rows)
        assert sorted((row.node, row.id) for row, _ in rows) == [(JOBS, "b"), (DEAD, "a")]

    async def test_locks_run_out_oldest_deadline_first(self, store):
        await make(store, *map(add, "abc"))
        for name, deadline in (("a", 30), ("b", 20), ("c", 10)):
            await lock(store, name, deadline=after(deadline))
        for moment, limit, expected in (
            (9.999, 9, ""),
            (10, 9, "c"),
            (30, 9, "cba"),
            (30, 2, "cb"),
        ):
            assert names((await due(store, after(moment), limit)).locks) == expected
        a, b, c_ = await items(store, *"abc")
        assert await due(store, after(30)) == Due([c_, b, a], [], [], [], [])

    async def test_locks_come_in_pages_the_last_to_end_first(self, store):
        other = queue(name=DEAD, subscriptions=0)
        await make(store, c.CreateNode(other), *map(add, "abc"), add("a", node=DEAD))
        for name, deadline in (("a", 30), ("b", 20), ("c", 10)):
            await lock(store, name, deadline=after(deadline))
        (elsewhere,) = await items(store, "a", node=DEAD)
        await make(store, c.Lock(elsewhere, BOB, 9, after(20), NOW))
        seen = [(row.node, row.id) for row in await listed(store, LocksFromLast())]
        assert seen == [(JOBS, "a"), (DEAD, "a"), (JOBS, "b"), (JOBS, "c")]
        last = after(20), elsewhere.seq
        assert names(await listed(store, LocksFromLast(), last, 1)) == "b"
        assert names(await listed(store, LocksFromLast(), last)) == "bc"
        await make(store, c.PurgeNode(JOBS))
        assert [row.node for row in await listed(store, LocksFromLast(), None, 1)] == [DEAD]
        assert await listed(store, LocksFromLast(), last) == []

    async def test_delayed_items_come_in_pages_the_last_to_be_due_first(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)), add("now"))
        waits = (("a", 30, JOBS), ("b", 20, JOBS), ("c", 10, JOBS), ("a", 20, DEAD))
        for name, due_in, node in waits:
            await make(store, add(name, node=node, state=State.DELAYED, due=after(due_in)))
        (elsewhere,) = await items(store, "a", node=DEAD)
        seen = [(row.node, row.id) for row in await listed(store, DelayedFromLast())]
        assert seen == [(JOBS, "a"), (DEAD, "a"), (JOBS, "b"), (JOBS, "c")]
        last = after(20), elsewhere.seq
        assert names(await listed(store, DelayedFromLast(), last, 1)) == "b"
        assert names(await listed(store, DelayedFromLast(), last)) == "bc"
        await make(store, c.PurgeNode(JOBS))
        assert [row.node for row in await listed(store, DelayedFromLast())] == [DEAD]

    async def test_the_newest_items_of_all_nodes_come_first(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)), *map(add, "ab"))
        await make(store, add("c", node=DEAD))
        found = await listed(store, ItemsFromLast())
        assert [(row.node, row.id) for row in found] == [(DEAD, "c"), (JOBS, "b"), (JOBS, "a")]
        assert names(await listed(store, ItemsFromLast(), (NOW, found[0].seq), 1)) == "b"
        await make(store, c.PurgeNode(JOBS))
        assert names(await listed(store, ItemsFromLast())) == "c"

    async def test_the_times_of_an_item_can_be_corrected(self, store):
        wrong = {"due": after(99), "expires": after(999)}
        await make(store, add("a", state=State.DELAYED, **wrong))
        (item,) = await items(store, "a")
        right = {"published": after(-5), "due": after(1), "expires": after(9)}
        await make(store, c.SetTimes(item, taken=None, deadline=None, **right))
        assert await items(store, "a") == [replace(item, **right)]
        assert await next_due(store) == after(1)

    async def test_all_locks_are_listed_by_deadline_and_number(self, store):
        await make(store, *map(add, "abcd"))
        for name, deadline in (("a", 30), ("b", 20), ("c", 30)):
            await lock(store, name, deadline=after(deadline))
        b, a, c_ = await listed(store, Locks(), None, 9)
        assert names([b, a, c_]) == "bac"
        assert await listed(store, Locks(), (b.deadline, b.seq), 1) == [a]
        assert await listed(store, Locks(), (a.deadline, a.seq), 9) == [c_]
        assert await listed(store, Locks(), (c_.deadline, c_.seq), 9) == []

    async def test_lifetimes_end_unless_a_worker_holds_the_item(self, store):
        await make(
            store,
            add("a", expires=after(20)),
            add("b", expires=after(10), state=State.DELAYED, due=after(99)),
            *(add(name, expires=after(10)) for name in ("held", "dead")),
            add("eternal"),
        )
        await lock(store, "held", deadline=after(999))
        (dead,) = await items(store, "dead")
        await make(store, c.GiveUp(dead, NOW, "x", 1))
        for moment, limit, expected in ((9, 9, ""), (10, 9, "b"), (20, 9, "ba"), (20, 1, "b")):
            found = await due(store, after(moment), limit)
            assert (names(found.lives), found.locks, found.delayed) == (expected, [], [])

    async def test_pauses_end_the_longest_overdue_first(self, store):
        await make(
            store,
            *(
                add(name, state=State.DELAYED, due=after(at))
                for name, at in zip("abc", (6, 5, 7), strict=True)
            ),
        )
        await make(store, add("queued", due=NOW), add("aside"))
        (item,) = await items(store, "aside")
        await make(store, c.Postpone(item, after(4)))
        for moment, limit, expected in (
            (3, 9, ""),
            (4, 9, "aside"),
            (6, 9, "asideba"),
            (7, 2, "asideb"),
        ):
            assert names((await due(store, after(moment), limit)).delayed) == expected

    async def test_without_anything_to_end_there_is_no_next_moment(self, store):
        await make(store, add("i1"), add("ripe", due=NOW))
        assert await next_due(store) is None

    @pytest.mark.parametrize("first", ["lock", "pause", "life"])
    async def test_the_next_moment_is_the_earliest_of_all(self, store, first):
        when = {"lock": 50, "pause": 50, "life": 50} | {first: 20}
        await make(
            store,
            add("lock", expires=after(1)),
            add("pause", state=State.DELAYED, due=after(when["pause"])),
            add("life", expires=after(when["life"])),
        )
        await lock(store, "lock", deadline=after(when["lock"]))
        assert await next_due(store) == after(20)

    async def test_the_next_moment_goes_with_what_would_end(self, store):
        await make(store, add("a", expires=after(5)), add("b"), add("c"))
        b = await lock(store, "b", deadline=after(6))
        await lock(store, "c", deadline=after(7))
        (a,) = await items(store, "a")
        await make(store, c.RemoveItem(a))
        assert await next_due(store) == after(6)
        await make(store, c.Extend(b, after(8)))
        assert await next_due(store) == after(7)

    async def test_the_items_of_a_holder_are_found_in_all_nodes(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)), *map(add, "abc"))
        await make(store, add("d", node=DEAD))
        first, second = await lock(store, "a"), await lock(store, "b", BOB)
        (other,) = await items(store, "d", node=DEAD)
        await make(store, c.Lock(other, ANN_ACCOUNT, 9, after(9), NOW))
        found = await load_held(store, ANN, ANN_ACCOUNT)
        assert sorted((item.node, item.id) for item in found) == [(JOBS, "a"), (DEAD, "d")]
        assert first in found
        assert second not in found
        await make(store, release(first))
        assert [item.id for item in await load_held(store, ANN, ANN_ACCOUNT)] == ["d"]

    async def test_of_a_large_holder_some_items_are_loaded_and_one_more(self, store):
        names_ = [f"i{number}" for number in range(HELD + 9)]
        await make(store, *map(add, names_))
        for token, name in enumerate(names_, 1):
            await lock(store, name, token=token)
        await make(store, add("other"))
        other = await lock(store, "other", BOB, token=HELD + 99)
        found = await load_held(store, ANN, BOB)
        assert sorted(item.holder for item in found) == [ANN] * (HELD + 1) + [BOB]
        assert other in found

    async def test_the_items_of_a_holder_come_in_pages_the_oldest_first(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)), *map(add, "abcd"))
        await make(store, add("x", node=DEAD))
        for token, name in enumerate("cabd", 1):
            await lock(store, name, BOB if name == "b" else ANN, token=token)
        (x,) = await items(store, "x", node=DEAD)
        await make(store, c.Lock(x, ANN, 9, after(9), NOW))
        a, _, c_, _ = await items(store, *"abcd")
        held, here = HeldBy(ANN), HeldBy(ANN, JOBS)
        assert names(await listed(store, held, None, 9)) == "acdx"
        assert names(await listed(store, held, None, 2)) == "ac"
        assert names(await listed(store, held, c_.seq, 9)) == "dx"
        assert names(await listed(store, here, a.seq, 9)) == "cd"
        assert (await listed(store, held, None, 1))[0] == a
        assert names(await listed(store, HeldBy(ANN_ACCOUNT), None, 9)) == ""
        counts = {of: await listed(store, Total(of)) for of in (held, here, HeldBy(BOB, DEAD))}
        assert counts == {held: [4], here: [3], HeldBy(BOB, DEAD): [0]}
        await make(store, release(c_))
        assert names(await listed(store, held, None, 9)) == "adx"

    async def test_holders_that_are_connections_of_an_instance_come_once_each_in_pages(self, store):
        await make(store, *map(add, "abcdefg"))
        service, long = Jid("q_x.example"), f"{'a' * 600}@q_x.example/line.3.1"
        bees = [f"bee@q_x.example/line.3.{number}" for number in (1, 2)]
        others = ["bee@q_x.example/line.4.3", "bee@qyx.example/line.3.1", "ann@x/1"]
        for token, (name, holder) in enumerate(
            zip("abcdefg", [*others, *bees, bees[1], long], strict=True), 1
        ):
            await lock(store, name, Jid(holder), token=token)
        which = HoldersOf(service, 3)
        assert await listed(store, which, None, 9) == [long, *bees]
        assert await listed(store, which, None, 1) == [long]
        assert await listed(store, which, Jid(long), 1) == [bees[0]]
        assert await listed(store, which, Jid(bees[1]), 9) == []
        assert await listed(store, HoldersOf(service, 33), None, 9) == []
        everybody = sorted({Jid(one) for one in (*others, *bees, long)})
        assert await listed(store, Holders(), None, 9) == everybody
        assert await listed(store, Holders(), everybody[1], 2) == everybody[2:4]

    async def test_what_an_account_holds_of_a_node_is_that_of_all_its_addresses(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)), *map(add, "abcdefg"))
        await make(store, add("x", node=DEAD))
        long = Jid(f"{'a' * 600}@x")
        # neighbours of an account in the order of characters, and ones that only begin as it does
        holders = [
            "ann@x",
            "ann@x/1",
            "ann@x/2",
            "ann@x.org/1",
            "ann@x-1/1",
            f"{long}/1",
            f"{long}b",
        ]
        for token, (name, holder) in enumerate(zip("abcdefg", holders, strict=True), 1):
            await lock(store, name, Jid(holder), token=token)
        (x,) = await items(store, "x", node=DEAD)
        await make(store, c.Lock(x, ANN, 9, after(9), NOW))
        asked = [(JOBS, "ann@x"), (DEAD, "ann@x"), (JOBS, long), (JOBS, "eve@x"), ("none", "ann@x")]
        assert await listed(store, HeldOf(tuple(asked)), None, 9) == [3, 1, 1, 0, 0]

    async def test_an_item_without_a_worker_has_no_holder(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)), add("x", node=DEAD))
        names_ = [f"i{number}" for number in range(HELD + 9)]
        await make(store, *map(add, names_))
        for token, name in enumerate(names_, 1):
            await lock(store, name, token=token)
        (x,) = await items(store, "x", node=DEAD)
        await make(store, c.Lock(x, ANN, 9_999, after(9), NOW))
        await make(store, c.PurgeNode(JOBS))
        assert await load_held(store, ANN) == await listed(store, HeldBy(ANN), None, 1)
        assert names(await listed(store, HeldBy(ANN), None, 1)) == "x"
        assert await listed(store, Total(HeldBy(ANN))) == [1]
        assert await listed(store, HeldBy(ANN, JOBS), None, 9) == []

    async def test_items_are_read_in_pages(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)), add("x", node=DEAD))
        await make(store, *map(add, "abcd"))
        await lock(store, "b")
        await lock(store, "c", ANN_ACCOUNT)
        a, b, *_ = await items(store, *"abcd")
        mine = (ANN, ANN_ACCOUNT)
        pages = [
            (Items(JOBS), None, 2, "ab"),
            (Items(JOBS), a.seq, 9, "bcd"),
            (Items(JOBS, mine), None, 9, "bc"),
            (Items(JOBS, mine), b.seq, 9, "c"),
            (Items(JOBS, mine), None, 1, "b"),
            (Items(JOBS, (ANN,)), None, 9, "b"),
            (Items(JOBS, (BOB,)), None, 9, ""),
            (Items(JOBS, newest=True), None, 2, "cd"),
            (Items(JOBS, newest=True), None, 9, "abcd"),
            (Items(JOBS, newest=True), b.seq + 1, 1, "b"),
            (Items(JOBS, newest=True), b.seq, 9, "a"),
            (Items(JOBS, newest=True), a.seq, 9, ""),
            (Items(JOBS, mine, newest=True), b.seq + 1, 9, "b"),
            (Items(JOBS, mine, newest=True), None, 1, "c"),
            (Items(JOBS, mine, newest=True), None, 2, "bc"),
            (Items(JOBS, room=12), None, 9, "ab"),
            (Items(JOBS, room=1), None, 9, "a"),
            (Items(JOBS, newest=True, room=12), None, 9, "cd"),
            (Items(JOBS, numbers=(b.seq, a.seq, 99)), None, 9, "ba"),
            (Items(JOBS, numbers=(a.seq, b.seq), room=6), None, 9, "a"),
        ]
        seen = [names(row for row, _ in await listed(store, *page[:3])) for page in pages]
        assert seen == [page[3] for page in pages]
        assert await listed(store, Items(JOBS), None, 1) == [(a, b"<job/>")]
        steps = (None, 1), (None, 2), (a.seq, 1), (None, 9)
        strides = [await listed(store, Stride(JOBS), *step) for step in steps]
        assert strides == [[a.seq], [b.seq], [b.seq], []]
