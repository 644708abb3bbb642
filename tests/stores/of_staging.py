"""What every store promises about what waits for a commit of its publisher: it is counted, kept, dropped."""

from __future__ import annotations

import pytest
from harness.batches.facts import JOBS, NOW, after
from harness.stores.rows import rows_of
from harness.stores.store_contents import everything
from msgspec.structs import replace
from stores.staging_steps import (
    ETL,
    MORE,
    OPEN,
    TOTALS,
    choose,
    commit,
    commits,
    row,
    stage,
    waits,
)
from stores.steps import (
    BrokenError,
    do,
    ids,
    listed,
    load,
    make,
    payloads,
)

from pubqueue.engine.listings import (
    AppsOf,
    AttemptsOf,
    NodeWinners,
    RecordOf,
    Records,
    Sweepable,
)
from pubqueue.engine.ports import StaleError
from pubqueue.engine.rows import (
    APPS,
    ATTEMPTS,
    NOTED,
    STAGED,
    VERSIONS,
    WAITING,
    NotedKey,
    NotedRow,
    Rows,
    StagedKey,
    StagedSize,
)
from pubqueue.model.entities import ItemId, Jid
from pubqueue.model.transactions import (
    Abort,
    App,
    Attempt,
    Commit,
    Record,
    StagedTotals,
    Sweep,
    key_of,
)


class OfStaging:
    """Part of the contract."""

    async def test_what_waits_is_counted_and_is_no_item(self, store):
        before = await store.batch(everything)
        await make(store, stage(row("a"), row("b", b"<other/>")), stage(row("a"), attempt=1))
        assert await store.batch(everything) == before
        found = await load(
            store,
            apps={"app", "other"},
            versions={("app", 1), ("app", 2), ("other", 1)},
            attempts={("app", 1, 0, 1), ("app", 1, 1, 0)},
            waiting={ETL, "", Jid("x@x")},
        )
        assert sorted(found.of[WAITING], key=lambda one: one.account) == [
            StagedTotals("", 3, 20),
            StagedTotals(ETL, 3, 20),
        ]
        del found.of[WAITING]
        assert found == rows_of(
            apps=[App("app", ETL, used=NOW)],
            versions=[replace(OPEN, items=3, bytes=20)],
            attempts=[Attempt("app", 1, 0, 1, 1, 6)],
        )
        attempts = await listed(store, AttemptsOf("app", 1))
        expected = [Attempt("app", 1, 0, 0, 2, 14), Attempt("app", 1, 0, 1, 1, 6)]
        assert sorted(attempts, key=lambda one: one.number) == expected
        assert await listed(store, AttemptsOf("app", 2)) == []

    async def test_the_apps_of_an_account_are_counted_up_to_a_limit(self, store):
        """By the names of their keys: what other accounts have is not read, however their names begin."""
        for name in ("a", "b", "c"):
            await make(store, stage(row("a"), app=key_of(ETL, name)))
        others = Jid(f"{ETL}x"), Jid(ETL[:-1]), Jid(f"{ETL} x")
        for other in others:
            await make(store, stage(row("a"), app=key_of(other, "a")))
        counts = [await listed(store, AppsOf(ETL), None, most) for most in (9, 3, 2)]
        assert counts == [[3], [3], [2]]
        assert [await listed(store, AppsOf(one), None, 9) for one in others] == [[1]] * 3
        assert await listed(store, AppsOf(Jid("none@x")), None, 9) == [0]

    async def test_an_attempt_knows_what_it_has_staged_under_an_id(self, store):
        await make(store, stage(row("a"), attempt=4))
        place = {"app": "app", "version": 1, "part": 0, "attempt": 4, "node": JOBS, "id": "a"}
        key = StagedKey(**place)
        others = {"attempt": 5, "version": 2, "app": "b", "node": MORE, "id": "b", "part": 1}
        keys = {key, *(replace(key, **{name: value}) for name, value in others.items())}
        assert await load(store, staged=keys) == rows_of(staged=[StagedSize(key, 6)])
        await make(store, stage(row("a", b"<longer/>", over=6), attempt=4))
        assert await load(store, staged=keys) == rows_of(staged=[StagedSize(key, 9)])
        assert await waits(store, ETL) == {ETL: (1, 9), "": (1, 9)}

    async def test_a_version_knows_what_any_attempt_has_noted(self, store):
        await make(store, stage(row("a", known=True), row("c"), immediate=True, attempt=4))
        a, b, c_ = (NotedKey("app", 1, JOBS, ItemId(name)) for name in "abc")
        found = await load(store, noted={a, b, c_, replace(a, version=2), replace(a, node=MORE)})
        assert sorted(found.of[NOTED], key=lambda one: one.key.id) == [
            NotedRow(a, b"<job/>", known=True),
            NotedRow(c_, b"<job/>", known=False),
        ]

        await make(store, stage(row("a", known=True), row("b", known=True), immediate=True, part=1))
        assert await listed(store, AttemptsOf("app", 1)) == [
            Attempt("app", 1, 0, 4, 2, 12, known=1),
            Attempt("app", 1, 1, 0, 2, 12, known=2),
        ]
        key = "app", 1, 0, 4
        await make(store, stage(row("d", known=True), immediate=True, attempt=4))
        assert (await load(store, attempts={key})).of[ATTEMPTS] == [Attempt(*key, 3, 18, known=2)]
        assert (await load(store, noted={a})).of[NOTED] == [NotedRow(a, b"<job/>", known=True)]

    async def test_hundreds_of_keys_are_found_at_once(self, store):
        await make(store, stage(*(row(f"i{n}") for n in range(700))))
        keys = {StagedKey("app", 1, 0, 0, JOBS, ItemId(f"i{n}")) for n in range(700)}
        assert {one.key for one in (await load(store, staged=keys)).of[STAGED]} == keys

    async def test_a_batch_that_fails_leaves_nothing_staged(self, store):
        def job(tx):
            do(tx, stage(row("a")))
            raise BrokenError

        with pytest.raises(BrokenError):
            await store.batch(job)
        keys = {"apps": {"app"}, "versions": {("app", 1)}, "attempts": {("app", 1, 0, 0)}}
        staged = {StagedKey("app", 1, 0, 0, JOBS, ItemId("a"))}
        assert await load(store, **keys, waiting={ETL, ""}, staged=staged) == Rows()

    @pytest.mark.parametrize(
        "change",
        [
            stage(row("a")),
            stage(row("b", over=6)),
            commit(2),
            commit(0),
            commit(0, replaced=1),
            commit(0, replaced=1, queueing=False),
            Commit("app", Jid("boss@x"), 1, NOW, (), 0, 0, TOTALS),
        ],
    )
    async def test_a_change_that_finds_something_else_is_not_made(self, store, change):
        await make(store, stage(row("a")))

        def attempt(tx):
            choose(tx, (0, 0))
            do(tx, stage(row("c"), part=1))
            do(tx, change)

        with pytest.raises(StaleError):
            await store.batch(attempt)
        assert await waits(store, ETL) == {ETL: (1, 6), "": (1, 6)}
        assert await commits(store, (0, 0), change=commit(1)) == [NodeWinners(JOBS, 1, 1)]

    # --- what is dropped ---

    @pytest.mark.parametrize(
        "bounds", [{"limit": 2}, {"limit": 99, "byte_count": 7}], ids=["of rows", "of bytes"]
    )
    async def test_what_is_dropped_goes_in_slices(self, store, bounds):
        names = [row(f"i{n}") for n in range(5)]
        await make(store, stage(*names), stage(row("kept"), app="b"))
        await make(store, Abort("app", 1), Abort("app", 9), Abort("none", 1))
        assert await waits(store, ETL) == {ETL: (1, 6), "": (1, 6)}
        keys = {"versions": {("app", 1)}, "attempts": {("app", 1, 0, 0)}}
        assert await load(store, **keys) == Rows()
        assert (await store.batch(lambda tx: tx.next_due())) < NOW
        for _ in range(3):
            assert await listed(store, Sweepable(NOW)) == [True]
            await make(store, Sweep(NOW, **bounds))
        assert await listed(store, Sweepable(NOW)) == [False]
        assert await store.batch(lambda tx: tx.next_due()) == after(60)

    async def test_dropped_attempts_leave_the_others(self, store):
        await make(
            store,
            stage(row("a"), row("b"), part=0, attempt=1),
            stage(row("c"), part=1, attempt=1),
            stage(row("a", b"<new/>"), part=0, attempt=2),
        )
        await make(store, Abort("app", 1, ((0, 1), (1, 1), (9, 9), (0, 1))), Abort("app", 1, ()))
        assert await waits(store, ETL) == {ETL: (1, 6), "": (1, 6)}
        (version,) = (await load(store, versions={("app", 1)})).of[VERSIONS]
        assert (version.items, version.bytes) == (1, 6)
        left = await listed(store, AttemptsOf("app", 1), None, 9)
        assert [(one.part, one.number, one.items) for one in left] == [(0, 2, 1)]
        await make(store, Sweep(NOW, 9), Abort("app", 1, ((0, 2),)), Sweep(NOW, 9))
        assert await load(store, versions={("app", 1)}) == Rows()
        assert await listed(store, Sweepable(NOW)) == [False]

    async def test_a_dropped_version_may_begin_again_at_once(self, store):
        await make(store, stage(row("a", b"<old/>"), row("b")), Abort("app", 1), stage(row("a")))
        key = StagedKey("app", 1, 0, 0, JOBS, ItemId("b"))
        noted = NotedKey("app", 1, JOBS, ItemId("b"))
        assert await load(store, staged={key}, noted={noted}) == Rows()
        await make(store, Sweep(NOW, 9))
        await commits(store, (0, 0), change=commit(1))
        assert await payloads(store) == {"a": b"<job/>"}

    async def test_what_was_dropped_in_vain_is_there_again(self, store):
        await make(store, stage(row("a"), row("b")))

        def job(tx):
            do(tx, Abort("app", 1), Sweep(NOW, 1), stage(row("a", b"<new/>")))
            raise BrokenError

        with pytest.raises(BrokenError):
            await store.batch(job)
        assert await listed(store, Sweepable(NOW)) == [False]
        await commits(store, (0, 0), change=commit(2))
        assert await payloads(store) == {"a": b"<job/>", "b": b"<job/>"}

    async def test_versions_that_wait_too_long_are_found(self, store):
        later = replace(stage(row("c"), version=3), until=after(50))
        await make(store, stage(row("a")), stage(row("b"), version=2), later)
        assert await store.batch(lambda tx: tx.next_due()) == after(50)

        async def overdue(moment, limit=9):
            return (await store.batch(lambda tx: tx.due(moment, limit))).versions

        assert await overdue(after(49)) == []
        first, *others = await overdue(after(60))
        assert (first, sorted(others)) == (("app", 3), [("app", 1), ("app", 2)])
        assert await overdue(after(60), 1) == [("app", 3)]

    async def test_records_are_listed_and_forgotten(self, store):
        await make(store, stage(row("a")), stage(row("b"), version=2), stage(row("c"), app="b"))
        await commits(store, (0, 0), change=commit(1))
        (record,) = await listed(store, RecordOf("app", 1))
        assert record == Record(record.id, "app", ETL, 1, NOW, after(1), 1, 6, TOTALS)
        assert await listed(store, RecordOf("app", 2)) == []
        assert await listed(store, Records(waiting=False)) == [record]
        first, second = await listed(store, Records(waiting=True))
        assert first == Record(first.id, "app", ETL, 2, NOW, None, 1, 6)
        assert second == Record(second.id, "b", ETL, 1, NOW, None, 1, 6)
        assert first.id < second.id
        for waiting, every in ((False, [record]), (True, [first, second])):
            mine = Records(waiting, "app", ETL)
            assert await listed(store, mine) == every[:1]
            assert await listed(store, Records(waiting, owner=ETL)) == every
            assert await listed(store, Records(waiting), every[0].id) == every[1:]
            assert await listed(store, Records(waiting), None, 1) == every[:1]
            for nothing in (Records(waiting, "z"), Records(waiting, owner=Jid("b@x"))):
                assert await listed(store, nothing) == []
        await make(store, Sweep(after(1), 9))
        assert await listed(store, Records(waiting=False)) == [record]
        await make(store, Sweep(after(2), 9))
        assert await listed(store, Records(waiting=False)) == []

    async def test_records_come_in_the_order_of_their_commits(self, store):
        await make(store, stage(row("b"), version=2), stage(row("a")))
        await commits(store, (0, 0), change=commit(1))
        await commits(store, (0, 0), change=commit(1, version=2))
        found = await listed(store, Records(waiting=False))
        assert [one.version for one in found] == [1, 2]
        assert await listed(store, Records(waiting=False), found[0].id) == found[1:]

    async def test_an_app_is_known_as_long_as_it_is_used(self, store):
        async def known():
            return bool((await load(store, apps={"app"})).of[APPS])

        await make(store, stage(row("a")), Sweep(after(99), 9))
        assert await known()  # a version is open
        await make(store, Abort("app", 1), Sweep(after(59), 9), Sweep(after(60), 9))
        assert await known()  # it was heard of until 60
        assert await listed(store, Sweepable(after(60))) == [False]
        assert await listed(store, Sweepable(after(61))) == [True]
        await make(store, Sweep(after(61), 9))
        assert not await known()

    async def test_what_waits_is_there_after_opening_again(self, store):
        await make(store, stage(row("a")))
        await store.close()
        await store.open()
        assert await waits(store, ETL) == {ETL: (1, 6), "": (1, 6)}
        await commits(store, (0, 0), change=commit(1))
        assert await ids(store) == ["a"]
