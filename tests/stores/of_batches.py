"""What every store promises about transactions: guards, what a failure leaves, opening and closing."""

from __future__ import annotations

import asyncio

import pytest
from harness.batches.facts import ANN, BOB, EVE, JOBS, NOW, after, waiting, window
from harness.stores.rows import writes_of
from harness.stores.store_contents import everything
from msgspec.structs import replace
from stores.steps import (
    ANN_ACCOUNT,
    DEAD,
    EMPTY,
    BrokenError,
    add,
    do,
    ids,
    items,
    listed,
    lock,
    make,
    node_row,
    release,
)

from pubqueue.engine.listings import ItemIds, Nodes
from pubqueue.engine.ports import StaleError, StoreError, UnfitError
from pubqueue.engine.rows import AffiliationRow, Finished, Write, Writes
from pubqueue.model import changes
from pubqueue.model.entities import Affiliation, Jid, State
from pubqueue.model.transactions import App, Attempt, StagedTotals, Version

OWNER = AffiliationRow(JOBS, ANN_ACCOUNT, Affiliation.OWNER)
MEMBER = replace(OWNER, affiliation=Affiliation.MEMBER)
DONE = Finished(JOBS, "done", b"digest", after(5))
APP = App("app", Jid("etl@x"), 4, NOW, NOW)
VERSION = Version("app", 5, Jid("etl@x"), False, NOW, after(9))  # noqa: FBT003
ATTEMPT = Attempt("app", 5, 0, 0)
WAITING = StagedTotals("etl@x", 1, 2)

# What is there in these tests, of each kind: a row, and the same row in another state.
THERE = {
    "nodes": (EMPTY, replace(EMPTY, config=replace(EMPTY.config, title="other"))),
    "affiliations": (OWNER, MEMBER),
    "subscriptions": (window(ANN, 3), window(ANN, 3, subid="other")),
    "finished": (DONE, replace(DONE, digest=b"other")),
    "apps": (APP, replace(APP, version=3, committed=NOW)),
    "versions": (VERSION, None),
    "attempts": (ATTEMPT, None),
    "waiting": (WAITING, None),
}
# And rows that are not there.
ABSENT = {
    "nodes": replace(EMPTY, name=DEAD),
    "affiliations": replace(OWNER, account=Jid("eve@x")),
    "subscriptions": window(EVE),
    "finished": replace(DONE, id="none"),
    "apps": replace(APP, name="none"),
    "versions": replace(VERSION, number=6),
    "attempts": replace(ATTEMPT, part=1),
    "waiting": replace(WAITING, account="none"),
}


async def furnish(store):
    """Write all that is there."""
    rows = {kind: [Write(None, row)] for kind, (row, _) in THERE.items() if kind != "nodes"}
    rows["nodes"] = [Write(EMPTY, replace(EMPTY, subscriptions=1))]
    await store.batch(lambda tx: tx.write(writes_of(NOW, **rows)))


class OfBatches:
    """Part of the contract."""

    async def is_stale(self, store, **rows):
        """Say that the batch fails, and leaves nothing of what it did before."""
        before = await store.batch(everything)

        def attempt(tx):
            do(tx, add("in-vain"))
            tx.write(writes_of(NOW, **rows))

        with pytest.raises(StaleError):
            await store.batch(attempt)
        assert await store.batch(everything) == before

    @pytest.mark.parametrize("kind", ABSENT)
    async def test_a_row_that_is_not_there_is_neither_changed_nor_removed(self, store, kind):
        await furnish(store)
        row = ABSENT[kind]
        await self.is_stale(store, **{kind: [Write(row, None)]})
        await self.is_stale(store, **{kind: [Write(row, other(row))]})

    @pytest.mark.parametrize("kind", THERE)
    async def test_a_row_that_is_there_does_not_come_again(self, store, kind):
        await furnish(store)
        await self.is_stale(store, **{kind: [Write(None, THERE[kind][0])]})

    @pytest.mark.parametrize("kind", [kind for kind, (_, row) in THERE.items() if row])
    async def test_a_row_that_is_otherwise_is_neither_changed_nor_removed(self, store, kind):
        await furnish(store)
        _, row = THERE[kind]
        await self.is_stale(store, **{kind: [Write(row, None)]})
        await self.is_stale(store, **{kind: [Write(row, other(row))]})

    @pytest.mark.parametrize("kind", ["affiliations", "subscriptions", "finished"])
    async def test_nothing_is_written_of_a_node_that_is_not_there(self, store, kind):
        row = replace(THERE[kind][0], node=DEAD)
        await self.is_stale(store, **{kind: [Write(None, row)]})

    @pytest.mark.parametrize(
        "believed",
        [
            lambda free, held: replace(free, state=State.LOCKED, holder=BOB, deadline=NOW),
            lambda free, held: replace(free, state=State.DELAYED, due=NOW),
            lambda free, held: replace(free, token=3),
            lambda free, held: replace(free, seq=99),
            lambda free, held: replace(free, node=DEAD),
            lambda free, held: replace(held, token=6),
            lambda free, held: replace(held, seq=99),
            lambda free, held: replace(held, state=State.QUEUED, holder=None, deadline=None),
        ],
    )
    async def test_an_item_that_is_otherwise_is_neither_changed_nor_removed(self, store, believed):
        await make(
            store,
            changes.AddSubscription(window(ANN, 3)),
            changes.CreateNode(replace(EMPTY, name=DEAD)),
        )
        await make(store, add("free"), add("held"))
        held = await lock(store, "held")
        (free,) = await items(store, "free")
        row = believed(free, held)
        await self.is_stale(store, items=[Write(row, None)])
        await self.is_stale(store, items=[Write(row, replace(row, failed=7))])

    async def test_an_item_does_not_come_where_it_cannot(self, store):
        await make(
            store, changes.CreateNode(replace(EMPTY, name=DEAD)), add("a"), add("a", node=DEAD)
        )
        (a,) = await items(store, "a")
        for row in (a, replace(a, id="b"), replace(a, seq=99), replace(a, seq=99, node="none")):
            await self.is_stale(store, items=[Write(None, row)], payloads={row.seq: b"<job/>"})
        for node in (DEAD, "none"):
            await self.is_stale(store, items=[Write(a, replace(a, node=node))])

    async def test_one_stale_lock_of_many_makes_none(self, store):
        await make(store, changes.AddSubscription(window(ANN, 3)), *map(add, "abc"))
        known = await items(store, "a", "b", "c")
        await lock(store, "b", BOB)
        before = await store.batch(everything)
        with pytest.raises(StaleError):
            await make(store, *(changes.Lock(item, ANN, 9, after(9), NOW) for item in known))
        assert await store.batch(everything) == before

    @pytest.mark.parametrize("fault", [BrokenError, asyncio.CancelledError, StoreError])
    async def test_a_batch_that_raises_leaves_nothing(self, store, fault):
        await furnish(store)
        await make(
            store, changes.AddSubscription(window(BOB)), *map(add, ("a", "gone", "held", "late"))
        )
        await make(store, release(await lock(store, "a", BOB)))
        await make(store, changes.NoteResource(ANN))
        held = await lock(store, "held", token=8)
        a, gone, late = await items(store, "a", "gone", "late")
        before = await store.batch(everything)
        ready, due = await store.batch(look)

        def job(tx):
            do(tx, add("i1"), changes.AddSubscription(window(EVE)), changes.RemoveItem(gone, NOW))
            do(
                tx,
                release(held),
                changes.Lock(a, BOB, 9, after(9), NOW),
                changes.Postpone(late, after(3)),
            )
            do(
                tx,
                changes.EndSubscription(JOBS, BOB),
                changes.NoteResource(EVE),
                changes.ForgetResource(ANN),
            )
            do(
                tx,
                changes.SetAffiliation(JOBS, ANN_ACCOUNT, Affiliation.NONE),
                changes.PurgeNode(JOBS),
            )
            do(tx, changes.CreateNode(replace(EMPTY, name=DEAD)), changes.DeleteNode(JOBS))
            tx.number("token", 5)
            raise fault

        with pytest.raises(fault):
            await store.batch(job)
        assert await store.batch(everything) == before
        assert await store.batch(look) == (ready, due)

    @pytest.mark.parametrize(
        "failing",
        [
            lambda tx: tx.write(Writes(NOW, nodes=[Write(ABSENT["nodes"], None)])),
            lambda tx: do(tx, add("b"), changes.RemoveItem(waiting(99), NOW)),
            lambda tx: tx.page("no listing"),
            lambda tx: tx.load("no needs"),
            lambda tx: tx.number(None, "no count"),
            lambda tx: tx.write(Writes(NOW, bulk=["no change"])),
        ],
    )
    async def test_a_batch_with_a_fault_is_not_committed_even_if_the_fault_was_caught(
        self, store, failing
    ):
        await make(store, add("there"))
        before = await store.batch(everything)

        def job(tx):
            do(tx, add("a"))
            with pytest.raises(StoreError):
                fail(tx, failing)
            with pytest.raises(StoreError, match="has failed"):
                tx.page(Nodes())

        with pytest.raises(StoreError, match="has failed"):
            await store.batch(job)
        assert await store.batch(everything) == before
        await make(store, add("next"))
        assert await ids(store) == ["there", "next"]

    async def test_a_reader_in_which_anything_has_failed_returns_nothing(self, store):
        def read(tx):
            with pytest.raises(UnfitError):
                tx.page("no listing")
            return "a part"

        with pytest.raises(StoreError, match="has failed"):
            await store.read(read)
        assert await store.read(lambda tx: tx.page(ItemIds(JOBS), None, 9)) == []

    async def test_a_batch_sees_what_it_has_written(self, store):
        def job(tx):
            do(tx, add("a"))
            seen = tx.page(ItemIds(JOBS), None, 9)
            do(tx, add("b"))
            return seen, tx.page(ItemIds(JOBS), None, 9), tx.page(Nodes())[0].items

        assert await store.batch(job) == (["a"], ["a", "b"], 2)

    async def test_batches_wait_for_each_other(self, store):
        def job(tx):
            do(tx, add(f"i{tx.page(Nodes())[0].items}"))
            return tx.page(Nodes())[0].items

        counts = await asyncio.gather(*(store.batch(job) for _ in range(20)))
        assert sorted(counts) == list(range(1, 21))

    async def test_a_reader_sees_all_of_a_batch_or_nothing(self, store):
        def job(tx):
            do(tx, add(f"i{tx.page(Nodes())[0].items}"))
            do(tx, add(f"i{tx.page(Nodes())[0].items}"))

        def read(tx):
            return tx.page(Nodes())[0].items, len(tx.page(ItemIds(JOBS), None, 99))

        asked = [asked for _ in range(10) for asked in (store.batch(job), store.read(read))]
        seen = [one for one in await asyncio.gather(*asked) if one]
        assert {(count % 2, count == listed) for count, listed in seen} == {(0, True)}

    async def test_reading_sees_what_is_committed_and_changes_nothing(self, store):
        await make(store, add("a"))
        for write in (lambda tx: do(tx, add("b")), lambda tx: tx.write(Writes(NOW, anew=[1]))):
            with pytest.raises(StoreError):
                await store.read(write)
        assert await store.read(lambda tx: tx.page(ItemIds(JOBS), None, 9)) == ["a"]
        await make(store, add("b"))
        assert await store.read(lambda tx: tx.page(ItemIds(JOBS), None, 9)) == ["a", "b"]

    async def test_a_reader_that_raises_does_no_harm(self, store):
        def fail(tx):
            tx.page(Nodes())
            raise BrokenError

        with pytest.raises(BrokenError):
            await store.read(fail)
        await make(store, add("a"))
        assert await store.read(lambda tx: tx.page(ItemIds(JOBS), None, 9)) == ["a"]

    @pytest.mark.parametrize("sequence", ["item", "token", "told"])
    async def test_numbers_only_rise(self, store, sequence):
        def job(tx):
            return tx.number(sequence, 3), tx.number(sequence, 1), tx.number(sequence, 1)

        first, second, third = await store.batch(job)
        assert (first > 0, second - first >= 3, third > second) == (True, True, True)
        assert await store.batch(lambda tx: tx.number(sequence, 1)) > third

    async def test_the_next_number_is_returned_without_reserving_it(self, store):
        def ask(tx):
            return tx.number("told", 0), tx.number("told", 4), tx.number("told", 0)

        first, again, after_four = await store.batch(ask)
        assert (again, after_four) == (first, first + 4)

    @pytest.mark.parametrize("sequence", ["item", "token", "told"])
    async def test_numbers_rise_over_re_opening(self, store, sequence):
        given = await store.batch(lambda tx: tx.number(sequence, 5))
        await store.close()
        await store.open()
        assert await store.batch(lambda tx: tx.number(sequence, 1)) >= given + 5

    async def test_an_empty_write_changes_nothing(self, store):
        before = await store.batch(everything)
        await store.batch(lambda tx: tx.write(Writes(NOW)))
        assert await store.batch(everything) == before

    async def test_an_own_write_is_not_that_of_another(self, store):
        await make(store, add("a"))
        assert not await store.batch(lambda tx: tx.foreign)
        await make(store, add("b"))
        assert not await store.batch(lambda tx: tx.foreign)
        assert not await store.changes()

    async def test_opening_twice_does_no_harm(self, store):
        await store.open()
        await make(store, add("i1"))
        assert await ids(store) == ["i1"]

    async def test_a_store_that_was_closed_opens_again_with_all_that_was_there(self, store):
        await make(store, changes.AddSubscription(window(ANN, 3)), add("i1"), add("i2"))
        await lock(store, "i1")
        before = await store.batch(everything)
        await store.close()
        await store.open()
        assert await store.batch(everything) == before

    async def test_closing_twice_does_no_harm(self, make_store):
        store = make_store()
        await store.open()
        await store.close()
        await store.close()

    async def test_a_closed_store_reports_it(self, make_store):
        store = make_store()
        for asked in (store.batch, store.read):
            with pytest.raises(StoreError, match="closed"):
                await asked(lambda tx: tx.page(Nodes()))
        with pytest.raises(StoreError, match="closed"):
            await store.changes()


def other(row):
    """Return the row, changed by its batch."""
    known = {
        "config": lambda row: replace(row.config, title="new"),
        "affiliation": lambda row: Affiliation.OUTCAST,
        "queue_requests": lambda row: 9,
        "until": lambda row: after(99),
        "used": lambda row: after(99),
        "items": lambda row: row.items + 1,
    }
    name = next(name for name in known if hasattr(row, name))
    return replace(row, **{name: known[name](row)})


def fail(tx, failing):
    """Meet the failure, at the latest with the next answer."""
    failing(tx)
    tx.page(Nodes())


def look(tx):
    """Return what is ready, and when something ends."""
    return tx.ready({JOBS: 9}, NOW, 999).rows, tx.next_due()


class OfSharing:
    """Part of the contract of stores that several processes may use at once."""

    async def test_what_was_confirmed_is_there_after_opening_again(self, store, make_store):
        await make(store, changes.AddSubscription(window(ANN, 3)), add("i1"), add("i2"))
        await lock(store, "i1")
        before = await store.batch(everything)
        given = await store.batch(lambda tx: tx.number("token", 5))
        await store.close()
        again = make_store()
        await again.open()
        try:
            assert await again.batch(everything) == before
            assert await again.batch(lambda tx: tx.number("token", 1)) >= given + 5
        finally:
            await again.close()
            await store.open()

    async def test_two_stores_at_one_place_see_the_same(self, store, make_store):
        other = make_store()
        await other.open()
        try:
            await make(other, add("i1"))
            await make(store, add("i2"))
            assert await other.batch(everything) == await store.batch(everything)
            assert await listed(other, ItemIds(JOBS)) == ["i1", "i2"]
            assert (await node_row(other)).items == 2
        finally:
            await other.close()

    async def test_what_another_has_changed_is_not_as_was_believed(self, store, make_store):
        await make(store, add("i1"))
        (item,) = await items(store, "i1")
        other = make_store()
        await other.open()
        await lock(other, "i1", BOB)
        await other.close()
        with pytest.raises(StaleError):
            await make(store, changes.Lock(item, ANN, 9, after(9), NOW))
        assert [one.holder for one in await items(store, "i1")] == [BOB]

    async def test_numbers_are_given_once_to_all(self, store, make_store):
        other = make_store()
        await other.open()
        given = [
            await each.batch(lambda tx: tx.number("token", 1)) for each in (store, other, store)
        ]
        await other.close()
        assert given == sorted(set(given))

    async def test_a_write_of_another_process_is_seen_once_and_an_own_one_never(
        self, store, make_store
    ):
        await make(store, add("a"))
        assert not await store.changes()
        other = make_store()
        await other.open()
        await other.batch(lambda tx: tx.page(ItemIds(JOBS), None, 9))
        assert not await store.changes()
        await make(other, add("b"))
        assert (await store.changes(), await store.changes()) == (True, False)
        assert not await other.changes()
        await other.close()

    async def test_a_transaction_knows_that_another_has_written_since_the_last(
        self, store, make_store
    ):
        async def foreign():
            return await store.batch(lambda tx: tx.foreign)

        other = make_store()
        await other.open()
        await make(store, add("a"))
        assert not await foreign()
        await other.batch(lambda tx: tx.page(ItemIds(JOBS), None, 9))
        assert not await foreign()
        await make(other, add("b"))
        assert (await foreign(), await foreign()) == (True, False)
        await make(other, add("c"))
        assert await store.changes()
        assert (await foreign(), await foreign()) == (True, False)
        await other.close()
