"""What every store promises about order and time: what is ready, what is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from harness.facts import ANN, BOB, JOBS, NOW, after, queue
from msgspec.structs import replace
from stores.steps import (
    ANN_ACCOUNT,
    DEAD,
    EMPTY,
    ENOUGH,
    add,
    items,
    lock,
    make,
    release,
)

from pubqueue.core import changes as c
from pubqueue.core.model import (
    State,
)

if TYPE_CHECKING:
    from pubqueue.app.ports import Transaction


class OfTime:
    """Part of the contract."""

    async def test_ready_items_come_by_priority_then_age(self, store):
        await make(store, add("a"), add("b", priority=5), add("c"), add("d", priority=-1))
        rows = await store.batch(lambda tx: tx.ready(JOBS, NOW, 9, ENOUGH))
        assert [item.id for item, _ in rows] == ["b", "a", "c", "d"]
        rows = await store.batch(lambda tx: tx.ready(JOBS, NOW, 2, ENOUGH))
        assert [item.id for item, _ in rows] == ["b", "a"]

    async def test_no_more_payload_is_read_than_was_asked_for_but_for_the_last(self, store):
        await make(store, *(add(name, payload=b"x" * 10) for name in "abc"))
        for octets, names in ((1, "a"), (10, "a"), (11, "ab"), (20, "ab"), (30, "abc")):
            rows = await store.batch(lambda tx, most=octets: tx.ready(JOBS, NOW, 9, most))
            assert [item.id for item, _ in rows] == list(names)

    async def test_a_released_item_returns_to_its_old_place(self, store):
        await make(store, *map(add, "abc"))
        await make(store, release(await lock(store, "a")))
        rows = await store.batch(lambda tx: tx.ready(JOBS, NOW, 9, ENOUGH))
        assert [item.id for item, _ in rows] == ["a", "b", "c"]

    async def test_only_what_waits_and_lives_is_ready(self, store):
        await make(
            store,
            *map(add, ("locked", "dead", "postponed")),
            add("delayed", state=State.DELAYED, due=NOW),
            add("too-old", expires=NOW),
            add("ready", expires=after(1), payload=b"<ready/>"),
        )
        await lock(store, "locked")
        dead, postponed = await items(store, "dead", "postponed")
        await make(store, c.GiveUp(dead, NOW, "x", 1), c.Postpone(postponed, after(1)))
        rows = await store.batch(lambda tx: tx.ready(JOBS, NOW, 9, ENOUGH))
        assert [(item.id, payload) for item, payload in rows] == [("ready", b"<ready/>")]

    async def test_locks_run_out_oldest_deadline_first(self, store):
        await make(store, *map(add, "abc"))
        for name, deadline in (("a", 30), ("b", 20), ("c", 10)):
            await lock(store, name, deadline=after(deadline))

        def look(tx: Transaction) -> object:
            return [
                [item.id for item in tx.expired_locks(after(moment), limit)]
                for moment, limit in ((9.999, 9), (10, 9), (30, 9), (30, 2))
            ]

        assert await store.batch(look) == [[], ["c"], ["c", "b", "a"], ["c", "b"]]

    async def test_locks_that_end_late_are_found_in_their_node(self, store):
        other = queue(name=DEAD, subscriptions=0)
        await make(store, c.CreateNode(other), *map(add, "abc"), add("a", node=DEAD))
        for name, deadline in (("a", 30), ("b", 20), ("c", 10)):
            await lock(store, name, deadline=after(deadline))
        late = await store.batch(lambda tx: tx.locks_beyond(JOBS, after(10)))
        assert [item.id for item in late] == ["b", "a"]
        assert await store.batch(lambda tx: tx.locks_beyond(DEAD, after(0))) == []

    async def test_lives_end_unless_somebody_works_on_the_item(self, store):
        await make(
            store,
            add("a", expires=after(20)),
            add("b", expires=after(10), state=State.DELAYED, due=after(99)),
            add("held", expires=after(10)),
            add("eternal"),
        )
        await lock(store, "held")

        def look(tx: Transaction) -> object:
            return [
                [item.id for item in tx.expired_lives(after(moment), limit)]
                for moment, limit in ((9, 9), (10, 9), (20, 9), (20, 1))
            ]

        assert await store.batch(look) == [[], ["b"], ["b", "a"], ["b"]]

    async def test_without_anything_to_end_there_is_no_next_moment(self, store):
        await make(store, add("i1"))
        assert await store.batch(lambda tx: tx.next_moment()) is None

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
        assert await store.batch(lambda tx: tx.next_moment()) == after(20)

    async def test_what_somebody_holds_is_found_in_all_nodes(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)), *map(add, "abc"))
        await make(store, add("d", node=DEAD))
        first, second = await lock(store, "a"), await lock(store, "b", BOB)
        (other,) = await items(store, "d", node=DEAD)
        await make(store, c.Lock(other, ANN_ACCOUNT, 9, after(9), NOW))
        found = await store.batch(lambda tx: tx.held_by([ANN, ANN_ACCOUNT]))
        assert [(item.node, item.id) for item in found] == [(JOBS, "a"), (DEAD, "d")]
        assert first in found
        assert second not in found
        assert await store.batch(lambda tx: tx.held_count(DEAD, ANN_ACCOUNT)) == 1

    async def test_items_are_read_in_pages(self, store):
        await make(store, *map(add, "abcd"))
        await lock(store, "b")
        await lock(store, "c", ANN_ACCOUNT)
        (first,) = await items(store, "a")

        def look(tx: Transaction) -> object:
            mine = (ANN, ANN_ACCOUNT)
            pages = [
                tx.oldest(JOBS, None, 0, 2),
                tx.oldest(JOBS, None, first.seq, 9),
                tx.oldest(JOBS, mine, 0, 9),
                tx.newest(JOBS, None, 2),
                tx.newest(JOBS, mine, 1),
            ]
            return ["".join(item.id for item, _ in page) for page in pages]

        assert await store.batch(look) == ["ab", "bcd", "bc", "cd", "c"]
