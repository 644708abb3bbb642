"""What every store promises about transactions: guards, savepoints, opening and closing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from harness.facts import ANN, BOB, EVE, JOBS, NOW, after, plain, window
from harness.picture import everything
from msgspec.structs import replace
from stores.steps import (
    ANN_ACCOUNT,
    DEAD,
    EMPTY,
    BrokenError,
    add,
    broken,
    items,
    lock,
    make,
    release,
)

from pubqueue.app.ports import StaleError, StoreError
from pubqueue.core import changes as c
from pubqueue.core.model import (
    Affiliation,
    Jid,
    NodeName,
    State,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.app.ports import Transaction


class OfBatches:
    """Part of the contract."""

    @pytest.mark.parametrize(
        "change",
        [
            lambda free, held: c.CreateNode(EMPTY),
            lambda free, held: c.ConfigureNode(DEAD, EMPTY.config),
            lambda free, held: c.DeleteNode(DEAD),
            lambda free, held: c.SetAffiliation(DEAD, ANN_ACCOUNT, Affiliation.OWNER),
            lambda free, held: c.AddSubscription(window(ANN)),
            lambda free, held: c.AddSubscription(replace(window(EVE), node=DEAD)),
            lambda free, held: c.SetWindow(JOBS, EVE, 2),
            lambda free, held: c.SetAvailable(JOBS, EVE, available=True),
            lambda free, held: c.EndSubscription(JOBS, EVE),
            lambda free, held: add("free"),
            lambda free, held: add("new", node=DEAD),
            lambda free, held: c.ReplacePayload(held, b"<new/>", Jid("eve@x")),
            lambda free, held: c.ReplacePayload(replace(free, seq=99), b"<new/>", Jid("eve@x")),
            lambda free, held: c.Lock(held, BOB, 9, after(9), NOW),
            lambda free, held: c.Lock(replace(held, state=State.QUEUED), BOB, 9, after(9), NOW),
            lambda free, held: c.Lock(replace(free, token=3), BOB, 9, after(9), NOW),
            lambda free, held: c.Lock(replace(free, seq=99), BOB, 9, after(9), NOW),
            lambda free, held: release(free),
            lambda free, held: release(replace(held, token=6)),
            lambda free, held: release(replace(held, seq=99)),
            lambda free, held: c.Extend(free, after(99)),
            lambda free, held: c.Extend(replace(held, token=6), after(99)),
            lambda free, held: c.Postpone(held, after(9)),
            lambda free, held: c.GiveUp(replace(free, state=State.DELAYED), NOW, "x", 1),
            lambda free, held: c.GiveUp(replace(held, token=6), NOW, "x", 1),
            lambda free, held: c.GiveUp(replace(held, token=6), NOW, "x", 1, to=DEAD),
            lambda free, held: c.GiveUp(held, NOW, "x", 1, to=NodeName("no-such-node")),
            lambda free, held: c.Revive(replace(free, state=State.DEAD), JOBS),
            lambda free, held: c.RemoveItem(replace(held, token=6)),
            lambda free, held: c.RemoveItem(replace(free, state=State.LOCKED)),
            lambda free, held: c.RemoveItem(replace(free, seq=99)),
            lambda free, held: c.RemoveItem(replace(free, seq=99), absorb_until=after(9)),
        ],
    )
    async def test_a_change_that_finds_something_else_is_not_made(self, store, change):
        await make(store, c.AddSubscription(window(ANN, 3)), add("free"), add("held"))
        held = await lock(store, "held")
        (free,) = await items(store, "free")
        before = await store.batch(everything)

        def attempt(tx: Transaction) -> None:
            with pytest.raises(StaleError), tx.savepoint():
                tx.apply([add("in-vain"), change(free, held)])

        await store.batch(attempt)
        assert await store.batch(everything) == before
        with pytest.raises(StaleError):
            await make(store, add("in-vain"), change(free, held))
        assert await store.batch(everything) == before

    async def test_a_dead_item_does_not_take_the_place_of_another(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)), add("i1"), add("i1", node=DEAD))
        (item,) = await items(store, "i1")
        before = await store.batch(everything)
        with pytest.raises(StaleError):
            await make(store, c.GiveUp(item, NOW, "x", 1, to=DEAD))
        assert await store.batch(everything) == before

    async def test_one_stale_lock_of_many_makes_none(self, store):
        await make(store, c.AddSubscription(window(ANN, 3)), *map(add, "abc"))
        known = await items(store, "a", "b", "c")
        await lock(store, "b", BOB)
        before = await store.batch(everything)
        with pytest.raises(StaleError):
            await make(store, *(c.Lock(item, ANN, 9, after(9), NOW) for item in known))
        assert await store.batch(everything) == before

    async def test_a_savepoint_undoes_what_is_inside_and_only_that(self, store):
        def inside(tx: Transaction) -> None:
            tx.apply([add("inside"), c.AddSubscription(window(ANN))])
            assert tx.node(JOBS).items == 2
            assert tx.subscribed(JOBS, ANN_ACCOUNT)

        def job(tx: Transaction) -> object:
            tx.apply([add("before")])
            broken(tx, lambda: inside(tx))
            seen = tx.node(JOBS).items, tx.subscribed(JOBS, ANN_ACCOUNT)
            tx.apply([add("after")])
            return seen

        assert await store.batch(job) == (1, False)
        assert await store.batch(lambda tx: tx.item_ids(JOBS, 9)) == ["before", "after"]

    async def test_savepoints_nest(self, store):
        def inner(tx: Transaction) -> None:
            tx.apply([add("inner")])
            tx.nodes()  # which writes what has been counted so far

        def job(tx: Transaction) -> None:
            with tx.savepoint():
                tx.apply([add("outer")])
                broken(tx, lambda: inner(tx))
                tx.apply([add("outer-too")])

        await store.batch(job)
        assert await store.batch(lambda tx: tx.item_ids(JOBS, 9)) == ["outer", "outer-too"]

    async def test_an_outer_savepoint_undoes_the_inner_ones(self, store):
        def inner(tx: Transaction) -> None:
            with tx.savepoint():
                tx.apply([add("inner")])

        def job(tx: Transaction) -> None:
            broken(tx, lambda: inner(tx))
            tx.apply([add("after")])

        await store.batch(job)
        assert await store.batch(lambda tx: tx.item_ids(JOBS, 9)) == ["after"]

    @pytest.mark.parametrize("fault", [BrokenError, asyncio.CancelledError, StoreError])
    async def test_a_batch_that_raises_leaves_nothing(self, store, fault):
        before = await store.batch(everything)

        def job(tx: Transaction) -> None:
            tx.apply([add("i1"), c.AddSubscription(window(ANN))])
            tx.tokens(5)
            raise fault

        with pytest.raises(fault):
            await store.batch(job)
        assert await store.batch(everything) == before

    async def test_batches_wait_for_each_other(self, store):
        def job(tx: Transaction) -> int:
            tx.apply([add(f"i{tx.node(JOBS).items}")])
            return tx.node(JOBS).items

        counts = await asyncio.gather(*(store.batch(job) for _ in range(20)))
        assert sorted(counts) == list(range(1, 21))

    async def test_tokens_only_rise(self, store):
        def job(tx: Transaction) -> Sequence[int]:
            return tx.tokens(3), tx.tokens(1), tx.tokens(1)

        first, second, third = await store.batch(job)
        assert (second - first, third - second) == (3, 1)

    async def test_what_was_confirmed_is_there_after_opening_again(self, store, make_store):
        await make(store, c.AddSubscription(window(ANN, 3)), add("i1"), add("i2"))
        await lock(store, "i1")
        before = await store.batch(everything)
        await store.close()
        again = make_store()
        await again.open()
        try:
            assert await again.batch(everything) == before
        finally:
            await again.close()
            await store.open()

    async def test_tokens_rise_over_re_opening(self, store):
        given = await store.batch(lambda tx: tx.tokens(5))
        await store.close()
        await store.open()
        assert await store.batch(lambda tx: tx.tokens(1)) == given + 5

    async def test_opening_twice_does_no_harm(self, store):
        await store.open()
        await make(store, add("i1"))
        assert await store.batch(lambda tx: tx.item_ids(JOBS, 9)) == ["i1"]

    async def test_two_stores_at_one_place_see_the_same(self, store, make_store):
        other = make_store()
        await other.open()
        try:
            await make(other, add("i1"))
            await make(store, add("i2"))
            assert await other.batch(everything) == await store.batch(everything)
        finally:
            await other.close()

    async def test_closing_twice_does_no_harm(self, make_store):
        store = make_store()
        await store.open()
        await store.close()
        await store.close()

    async def test_a_closed_store_says_so(self, make_store):
        with pytest.raises(StoreError, match="closed"):
            await make_store().batch(lambda tx: tx.nodes())

    async def test_plain_nodes_and_queues_live_side_by_side(self, store):
        node = replace(plain(), name=NodeName("news"))
        await make(store, c.CreateNode(node), add("i1", node=node.name), add("i1"))
        assert await store.batch(lambda tx: [n.items for n in tx.nodes()]) == [1, 1]
