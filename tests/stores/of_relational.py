"""What stores promise besides that keep rows in SQL: the schema repeats the invariants, and ids of nodes are not mixed up."""

from __future__ import annotations

import pytest
from harness.batches.facts import ANN, BOB, JOBS, NOW, after, held, window
from harness.stores.store_contents import everything, recount
from msgspec.structs import replace
from stores.staging_steps import ETL, TOTALS, commit, commits, row, stage
from stores.steps import DEAD, EMPTY, add, do, items, listed, load, lock, make

from pubqueue.engine.listings import (
    NewestRecord,
    Nodes,
    RecordOf,
    RowSums,
    Sweepable,
    Unmoved,
)
from pubqueue.engine.ports import StaleError, StoreError, UnfitError
from pubqueue.engine.rows import APPS, VERSIONS, Needs, Write, Writes
from pubqueue.model import changes
from pubqueue.model.entities import Jid, Millis, NodeName
from pubqueue.model.sums import UNREADABLE
from pubqueue.model.transactions import Abort, App, Commit, Restore, Sweep


class Subclass(str):
    """Text as some XML libraries hand it out: more than a string."""

    __slots__ = ()


class OfRelational:
    """Part of the contract. A test class says how a statement of the test's own is run (`ask`)."""

    @pytest.mark.parametrize(
        "broken",
        [
            "UPDATE item SET holder = 'ann@x/1' WHERE id = 'free'",
            "UPDATE item SET deadline = 1 WHERE id = 'free'",
            "UPDATE item SET state = 'locked' WHERE id = 'free'",
            "UPDATE item SET state = 'queued' WHERE id = 'held'",
            "UPDATE item SET state = 'delayed' WHERE id = 'free'",
            "UPDATE item SET state = 'dead' WHERE id = 'free'",
            "UPDATE item SET state = 'lost' WHERE id = 'free'",
            "UPDATE item SET id = 'held' WHERE id = 'free'",
            "UPDATE item SET node_id = 99 WHERE id = 'free'",
            "UPDATE item SET failed = -1",
            "UPDATE item SET turn = 9 WHERE id = 'free'",
            "UPDATE item SET group_name = '' WHERE id = 'free'",
            "UPDATE item SET group_name = 'g' WHERE id = 'held'",
            "UPDATE node SET items = -1",
            "UPDATE node SET spent = -1",
            "UPDATE node SET bytes = -1",
            "UPDATE item SET size = -1",
            "UPDATE subscription SET in_flight = -1",
            "UPDATE subscription SET queue_requests = 0",
            "UPDATE sequence SET next = 0",
            "INSERT INTO receipt VALUES (99, 'ann@x/1')",
            "INSERT INTO affiliation SELECT id, 'ann@x/1', 'owner', 0 FROM node",
            "INSERT INTO sequence VALUES ('token', 1)",
        ],
    )
    async def test_the_schema_repeats_the_invariants(self, store, broken):
        await make(store, changes.AddSubscription(window()), add("free"), add("held"))
        await lock(store, "held")
        with pytest.raises(StoreError, match=r"(?i)constraint"):
            await self.ask(store, broken)

    async def test_a_row_that_cannot_be_read_is_named_with_what_has_run_out(self, store):
        await make(
            store,
            changes.AddSubscription(window(expire=NOW)),
            changes.AddSubscription(window(BOB, expire=NOW)),
        )
        for name in ("locked", "odd", "delayed", "living", "old"):
            await make(store, add(name, expires=NOW if name in {"living", "old"} else None))
        for name in ("locked", "odd"):
            await lock(store, name)
        await self.ask(store, "UPDATE item SET headers = 'no list' WHERE id IN ('odd', 'old')")
        await self.ask(
            store, f"UPDATE subscription SET several = '[1, 2]', sum = NULL WHERE jid = '{ANN}'"
        )
        due = await store.batch(lambda tx: tx.due(Millis(NOW + 1_000_000), 99))
        found = [(item.id, item.headers) for item in (*due.locks, *due.lives)]
        assert found == [("locked", ()), ("odd", UNREADABLE), ("living", ()), ("old", UNREADABLE)]
        assert [one.jid for one in due.leases] == [BOB]
        assert due.unread == [("lease", JOBS, ANN)]
        await self.ask(store, "UPDATE item SET headers = NULL")
        await self.ask(store, "UPDATE subscription SET several = NULL")

    @pytest.mark.parametrize(
        "unfit",
        [
            lambda tx: do(tx, add("b", headers=((Subclass("name"), "value"),))),
            lambda tx: do(tx, add("b", headers=(("name", "\ud800"),))),
            lambda tx: do(tx, add("\ud800")),
            lambda tx: do(tx, add("b", priority=1 << 70)),
            lambda tx: do(tx, add("b", priority=object())),
            lambda tx: tx.load(Needs(nodes={NodeName("\ud800")})),
            lambda tx: tx.number("token", 1 << 70),
        ],
    )
    async def test_what_cannot_be_kept_is_unfit_and_nothing_of_its_batch_is(self, store, unfit):
        await make(store, add("there"))
        before = await store.batch(everything)

        def job(tx):
            do(tx, add("a"))
            unfit(tx)
            tx.page(Nodes())

        with pytest.raises(UnfitError):
            await store.batch(job)
        assert await store.batch(everything) == before
        await make(store, add("next"))

    async def test_settings_of_an_older_program_are_guarded_by_what_they_mean(self, store):
        await self.ask(store, """UPDATE node SET config = '{"queueing":true}'""")
        config = replace(EMPTY.config, title="new")
        await make(store, changes.ConfigureNode(JOBS, config))
        (node,) = await store.batch(lambda tx: tx.page(Nodes()))
        assert node.config == config

    async def test_a_node_that_others_have_made_again_is_not_taken_for_the_old_one(
        self, store, make_store
    ):
        await make(store, add("old"))
        other = make_store()
        await other.open()
        await make(other, changes.DeleteNode(JOBS), changes.CreateNode(EMPTY))
        await make(store, add("new"))
        for one in (store, other):
            assert [item.id for item in await items(one, "new")] == ["new"]
            assert await one.batch(recount) == []
        await other.close()

    async def test_a_node_whose_making_is_undone_is_not_remembered(self, store):
        def job(tx):
            do(tx, changes.CreateNode(replace(EMPTY, name=DEAD)), add("a", node=DEAD))
            raise StaleError("node", DEAD)

        with pytest.raises(StaleError):
            await store.batch(job)
        await make(store, changes.CreateNode(replace(EMPTY, name=NodeName("next"))))
        row = replace(held(1), node=DEAD, taken=NOW)
        writes = Writes(NOW, items=[Write(None, row)], payloads={1: b"<job/>"})
        with pytest.raises(StaleError) as stale:
            await store.batch(lambda tx: tx.write(writes))
        assert (stale.value.kind, stale.value.key) == ("node", DEAD)

    async def test_items_may_change_places(self, store):
        await make(store, changes.CreateNode(replace(EMPTY, name=DEAD)))
        await make(store, add("a"), add("a", node=DEAD, payload=b"<dead/>"))
        (here,), (there,) = await items(store, "a"), await items(store, "a", node=DEAD)
        moves = [Write(here, replace(here, node=DEAD)), Write(there, replace(there, node=JOBS))]
        nodes = (await load(store, nodes={JOBS, DEAD})).nodes
        byte_count = [Write(one, replace(one, bytes=13 - one.bytes)) for one in nodes]
        await store.batch(lambda tx: tx.write(Writes(NOW, items=moves, nodes=byte_count)))
        assert await items(store, "a") == [replace(there, node=JOBS)]
        assert await items(store, "a", node=DEAD) == [replace(here, node=DEAD)]

    async def test_an_id_is_free_again_at_once(self, store):
        await make(store, add("a"))
        (gone,) = await items(store, "a")
        come = replace(gone, seq=9)
        for rows in (
            [Write(None, come), Write(gone, None)],
            [Write(come, None), Write(None, gone)],
        ):
            writes = Writes(NOW, items=rows, payloads={9: b"<job/>", gone.seq: b"<job/>"})
            await store.batch(lambda tx, writes=writes: tx.write(writes))
        assert await items(store, "a") == [gone]

    # --- rows of transactions that are not what was written ---

    @pytest.mark.parametrize(
        "flip", ["name = 'apq'", "owner = 'eve@x'", "version = version + 8", "committed = 7"]
    )
    async def test_the_mark_of_an_app_is_found_damaged_whatever_of_it_is(self, store, flip):
        await make(store, stage(row("a")))
        await commits(store, (0, 0), change=commit(1))
        mark = App("app", ETL, 1, after(1), after(1))
        assert (await load(store, apps={"app", "other"})).of[APPS] == [mark]
        await self.ask(store, f"UPDATE txn_app SET {flip}")
        (found,) = (await load(store, apps={"app", "other"})).of[APPS]
        assert (found.name, found.damaged) == ("app", True)
        (sums,) = await listed(store, RowSums("txn_app"), None, 9)
        assert sums.known != sums.due
        (record,) = await listed(store, NewestRecord("app"))
        assert (record.version, record.committed, record.damaged) == (1, after(1), False)
        await make(store, Restore(replace(mark, version=2, committed=after(3))))
        (found,) = (await load(store, apps={"app"})).of[APPS]
        assert found == replace(mark, version=2, committed=after(3))
        assert await listed(store, NewestRecord("app")) == []  # is for damaged apps

    async def test_an_app_whose_name_was_that_of_another_is_not_taken_for_it(self, store):
        await make(store, stage(row("a")), stage(row("b"), app="apq"))
        found = (await load(store, apps={"app", "apq"})).of[APPS]
        assert sorted((one.name, one.damaged) for one in found) == [("app", False), ("apq", False)]
        await self.ask(store, "UPDATE txn_app SET name = 'apr' WHERE name = 'apq'")
        found = (await load(store, apps={"app", "apq", "apr"})).of[APPS]
        names = [("app", False), ("apq", True), ("apr", True)]
        assert sorted((one.name, one.damaged) for one in found) == names

    @pytest.mark.parametrize(
        "flip",
        [
            *("owner = 'eve@x'", "immediate = (1 = 1)", "began = 7", "until = 7"),
            *("committed = 7", "on_taken = 'skip'", "dead_letter_node = 'more'"),
        ],
    )
    async def test_a_damaged_version_is_neither_open_nor_committed_and_does_not_run_out(
        self, store, flip
    ):
        await make(store, stage(row("a")), stage(row("b"), version=2))
        await make(store, stage(row("c"), attempt=3))
        assert not any(one.damaged for one in await versions(store))
        await self.ask(store, f"UPDATE txn SET {flip} WHERE version = 1")
        assert [one.damaged for one in await versions(store)] == [True, False]
        due = await store.batch(lambda tx: tx.due(after(99), 9))
        assert due.versions == [("app", 2)]
        assert due.unread == ([] if "committed" in flip else [("version", "app", "1")])
        await make(store, Abort("app", 1))
        assert [one.number for one in await versions(store)] == [2]
        await make(store, stage(row("a")))
        assert [one.damaged for one in await versions(store)] == [False, False]

    async def test_a_committed_version_is_not_open_whatever_asks_for_it(self, store):
        await make(store, stage(row("a")))
        await commits(store, (0, 0), change=commit(1))
        assert await versions(store) == []
        await make(store, Abort("app", 1))
        (record,) = await listed(store, RecordOf("app", 1))
        assert not record.damaged

    async def test_the_record_of_a_commit_is_written_anew_and_its_winners_are_not_lost(self, store):
        for version in (1, 2):
            await make(store, stage(row("a"), version=version))
            moving = ((0, 0),)
            await make(store, Commit("app", ETL, version, after(1), (), 1, 6, TOTALS, moving))
        await self.ask(store, "UPDATE txn SET dead_letter_node = 'other' WHERE version = 1")
        found = await listed(store, Unmoved(), None, 9)
        assert [(one.version, one.damaged) for one in found] == [(1, True), (2, False)]
        mark = App("app", ETL, 2, after(1), after(1))
        await make(store, Sweep(after(50), 9))
        assert len(await listed(store, Unmoved(), None, 9)) == 2  # old, and not yet done with
        assert await listed(store, Sweepable(after(50))) == [False]
        await make(store, Restore(mark, 1))
        (record,) = await listed(store, RecordOf("app", 1))
        assert (record.damaged, record.owner, record.committed) == (False, ETL, after(1))
        assert record.dead_letter_node is None

    async def test_no_flip_of_one_time_lets_a_sweep_drop_what_was_committed(self, store):
        await make(store, stage(row("a")))
        await commits(store, (0, 0), change=commit(1))
        await make(store, Sweep(NOW, 9))  # what else has gone

        for flip in ("txn_app SET used = 7", "txn SET committed = 7"):
            await self.ask(store, f"UPDATE {flip}")
        assert await listed(store, Sweepable(after(1))) == [False]
        await make(store, Sweep(after(1), 9))
        assert (await load(store, apps={"app"})).of[APPS][0].version == 1
        assert len(await listed(store, RecordOf("app", 1))) == 1

    async def test_a_sweep_puts_a_damaged_app_off_and_drops_the_others(self, store):
        for app in ("app", "other"):
            await make(store, stage(row("a"), app=app), Abort(app, 1))
        await self.ask(store, "UPDATE txn_app SET owner = 'eve@x' WHERE name = 'app'")
        await make(store, Sweep(after(61), 9))
        (left,) = (await load(store, apps={"app", "other"})).of[APPS]
        assert (left.name, left.damaged) == ("app", True)
        assert await listed(store, Sweepable(after(61))) == [False]

    async def test_rows_of_transactions_of_an_earlier_program_are_believed_until_they_have_sums(
        self, store
    ):
        await make(store, stage(row("a")))
        await commits(store, (0, 0), change=commit(1))
        await make(store, stage(row("b"), version=2))
        for table in ("txn_app", "txn"):
            await self.ask(store, f"UPDATE {table} SET sum = NULL")
        (app,), (version,) = (await load(store, apps={"app"})).of[APPS], await versions(store)
        assert (app.damaged, version.damaged) == (False, False)
        for table, count in (("txn_app", 1), ("txn", 2)):
            rows = await listed(store, RowSums(table, missing=True), None, 9)
            assert len(rows) == count
            noted = tuple((table, one.place, one.due) for one in rows)
            await make(store, changes.NoteSums((), noted))
            assert await listed(store, RowSums(table, missing=True), None, 9) == []
        await make(store, Abort("app", 2), Restore(replace(app, owner=Jid("eve@x"))))
        assert (await load(store, apps={"app"})).of[APPS][0].owner == ETL  # it is not damaged


async def versions(store):
    """Return the rows of both versions, as far as they are not committed."""
    found = (await load(store, versions={("app", 1), ("app", 2)})).of[VERSIONS]
    return sorted(found, key=lambda one: one.number)
