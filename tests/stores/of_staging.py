"""What every store promises about transactions of publishers: what waits, who wins, what winners meet."""

from __future__ import annotations

import pytest
from harness.facts import JOBS, NOW, after, draft, queue
from harness.picture import everything
from stores.steps import BrokenError, add, broken, items, lock, make

from pubqueue.app.ports import StaleError
from pubqueue.app.txn_ports import Class
from pubqueue.core import changes as c
from pubqueue.core.model import ItemId, Jid, NodeName, State, digest
from pubqueue.core.transactions import (
    Abort,
    App,
    Commit,
    Mark,
    Noted,
    Open,
    Outcome,
    Record,
    Row,
    Stage,
    Sweep,
    Told,
    Usage,
)

ETL = Jid("etl@x")
TOLD = Told(1, 2, 0.5)
MORE = NodeName("more")


def row(name: str, payload: bytes = b"<job/>", over: int | None = None, **changes) -> Row:
    known = {"state": State.QUEUED, "pause": None, "life": None, "size": len(payload)}
    return Row(draft(name, payload), **(known | changes), over=over)


def stage(*rows: Row, node: NodeName = JOBS, **mark) -> Stage:
    kind = {"immediate": mark.pop("immediate", False)}
    place = {"version": 1, "part": 0, "attempt": 0} | mark
    return Stage(Mark("app", **place, **kind), ETL, node, rows, NOW, after(60))


def commit(added: int = 0, *, replaced: int = 0, version: int = 1, **changes) -> Commit:
    outcome = Outcome(changes.get("node", JOBS), changes.get("queueing", True), added, replaced, 0)
    return Commit("app", ETL, version, after(1), (outcome,), added, 6 * added, TOLD)


async def look(store, what):
    return await store.batch(lambda tx: what(tx.staging))


async def commits(store, *parts, change, before=lambda tx: None):
    """Choose the winners and commit them in one transaction, as a request does."""

    def job(tx):
        tally = tx.staging.choose("app", change.version, parts)
        before(tx)
        tx.apply([change])
        return tally

    return await store.batch(job)


class OfStaging:
    """Part of the contract."""

    async def test_what_waits_is_counted_and_is_no_item(self, store):
        before = await store.batch(everything)
        await make(store, stage(row("a"), row("b", b"<other/>")), stage(row("a"), attempt=1))
        assert await store.batch(everything) == before
        app = App("app", ETL, None, None)
        standing = await look(store, lambda s: s.standing("app", 1))
        assert standing == (app, Open(immediate=False, items=3, bytes=20))
        assert await look(store, lambda s: s.standing("app", 2)) == (app, None)
        assert await look(store, lambda s: s.standing("other", 1)) == (None, None)
        assert await look(store, lambda s: s.usage(ETL)) == Usage(3, 20, 3, 20)
        assert await look(store, lambda s: s.usage(Jid("x@x"))) == Usage(0, 0, 3, 20)
        assert await look(store, lambda s: s.attempts("app", 1)) == {
            (0, 0): (2, 14),
            (0, 1): (1, 6),
        }

    async def test_an_attempt_knows_what_it_has_staged_under_an_id(self, store):
        await make(store, stage(row("a"), attempt=4))

        def sizes(staging):
            marks = [Mark("app", 1, 0, 4), Mark("app", 1, 0, 5), Mark("app", 2), Mark("b", 1, 0, 4)]
            return [staging.size(mark, JOBS, ItemId("a")) for mark in marks]

        assert await look(store, sizes) == [6, None, None, None]
        await make(store, stage(row("a", b"<longer/>", over=6), attempt=4))
        assert (await look(store, sizes))[0] == 9
        assert await look(store, lambda s: s.usage(ETL)) == Usage(1, 9, 1, 9)

    async def test_a_version_knows_what_any_attempt_has_noted(self, store):
        await make(store, stage(row("a", known=True), immediate=True, attempt=4))
        mark = Mark("app", 1, 0, 5, immediate=True)
        assert await look(store, lambda s: s.noted(mark, JOBS, ItemId("a"))) == Noted(
            b"<job/>", known=True
        )
        assert await look(store, lambda s: s.noted(mark, JOBS, ItemId("b"))) is None
        assert await look(store, lambda s: s.choose_noted("app", 1, [(0, 4)])) == (1, 1)
        assert await look(store, lambda s: s.choose_noted("app", 1, [(0, 5)])) == (0, 0)

    async def test_counts_are_right_whatever_is_undone_between(self, store):
        def job(tx):
            tx.apply([stage(row("a"))])
            broken(tx, lambda: tx.apply([stage(row("b")), stage(row("c"), version=2)]))
            tx.apply([stage(row("d"))])
            return tx.staging.usage(ETL), tx.staging.standing("app", 2)[1]

        assert await store.batch(job) == (Usage(2, 12, 2, 12), None)
        assert await look(store, lambda s: s.attempts("app", 1)) == {(0, 0): (2, 12)}

    async def test_a_batch_that_fails_leaves_nothing_staged(self, store):
        def job(tx):
            tx.apply([stage(row("a"))])
            raise BrokenError

        with pytest.raises(BrokenError):
            await store.batch(job)
        assert await look(store, lambda s: s.standing("app", 1)) == (None, None)
        assert await look(store, lambda s: s.usage(ETL)) == Usage()

    @pytest.mark.parametrize(
        "change",
        [
            Stage(Mark("app", 2), Jid("boss@x"), JOBS, (row("a"),), NOW, after(9)),
            stage(row("b"), immediate=True),
            stage(row("a")),
            stage(row("b", over=6)),
            commit(2),
            commit(0, replaced=1),
            commit(0, replaced=1, queueing=False),
            Commit("app", Jid("boss@x"), 1, NOW, (), 0, 0, TOLD),
        ],
    )
    async def test_a_change_that_finds_something_else_is_not_made(self, store, change):
        await make(store, stage(row("a")))

        def attempt(tx):
            tx.staging.choose("app", 1, [(0, 0)])
            with pytest.raises(StaleError), tx.savepoint():
                tx.apply([change])

        await store.batch(attempt)
        assert await look(store, lambda s: s.usage(ETL)) == Usage(1, 6, 1, 6)
        assert await commits(store, (0, 0), change=commit(1)) == [(JOBS, 1, 1)]

    async def test_a_version_is_committed_once(self, store):
        await make(store, stage(row("a")))
        await commits(store, (0, 0), change=commit(1))
        for version in (1, 0):
            with pytest.raises(StaleError):
                await commits(store, (0, 0), change=commit(0, version=version))

    async def test_winners_take_their_places_by_part_and_arrival(self, store):
        await make(store, c.CreateNode(queue(name=MORE)))
        await make(
            store,
            stage(row("b1"), part=1, attempt=7),
            stage(row("lost"), part=0, attempt=5),
            stage(row("a1"), row("a2", pause=5000, life=9000, state=State.DELAYED), attempt=6),
            stage(row("x"), node=MORE, part=1, attempt=7),
            stage(row("b2"), part=1, attempt=7),
        )
        outcomes = (Outcome(JOBS, True, 4, 0, 0), Outcome(MORE, True, 1, 0, 0))  # noqa: FBT003
        change = Commit("app", ETL, 1, after(1), outcomes, 5, 30, TOLD)
        tally = await commits(store, (1, 7), (0, 6), (2, 9), change=change)
        assert sorted(tally) == [(JOBS, 4, 4), (MORE, 1, 1)]
        found = await store.batch(lambda tx: tx.oldest(JOBS, None, 0, 9))
        assert [(item.id, item.publisher, item.published) for item, _ in found] == [
            (name, ETL, after(1)) for name in ("a1", "a2", "b1", "b2")
        ]
        delayed = found[1][0]
        assert (delayed.state, delayed.due, delayed.expires) == (State.DELAYED, after(6), after(10))
        assert await store.batch(lambda tx: tx.node(JOBS).items) == 4
        assert await look(store, lambda s: s.usage(ETL)) == Usage()
        standing = await look(store, lambda s: s.standing("app", 1))
        assert standing == (App("app", ETL, 1, after(1)), None)

    async def test_winners_meet_what_is_there_in_classes(self, store):
        await make(store, *(add(name) for name in ("same", "like", "other", "locked", "bad")))
        await lock(store, "locked")
        done = add("done")
        await make(store, done)
        (item,) = await items(store, "done")
        await make(store, c.RemoveItem(item, after(60), digest(b"<job/>")))
        names = ("same", "locked", "done", "new")
        await make(store, stage(*map(row, names), row("like", b"<JOB/>"), row("other", b"<x/>")))

        def judge(tx):
            staging = tx.staging
            staging.choose("app", 1, [(0, 0)])
            staging.meet_finished(JOBS, NOW)
            contests = staging.contested(JOBS, 9)
            finished = [c.there for c in contests if c.finished]
            assert len(finished) == 1
            pairs = {(c.there, c.offered) for c in contests if not c.finished}
            assert pairs == {(b"<job/>", b"<JOB/>"), (b"<job/>", b"<x/>")}
            staging.judge([(c, c.offered != b"<x/>") for c in contests])
            assert staging.contested(JOBS, 9) == []
            return staging.classes(JOBS)

        assert sorted(await store.batch(judge), key=str) == [
            Class("finished", True, 1, "done"),  # noqa: FBT003
            Class("locked", True, 1, "locked"),  # noqa: FBT003
            Class("queued", False, 1, "other"),  # noqa: FBT003
            Class("queued", True, 2, "like"),  # noqa: FBT003
        ]
        change = commit(1, replaced=1)
        await commits(store, (0, 0), change=change, before=judge)
        payloads = await store.batch(lambda tx: {i.id: p for i, p in tx.oldest(JOBS, None, 0, 99)})
        assert (payloads["other"], payloads["like"]) == (b"<x/>", b"<job/>")
        assert set(payloads) == {"same", "like", "other", "locked", "bad", "new"}

    async def test_finished_work_with_another_payload_counts_no_longer(self, store):
        await make(store, add("done"))
        (item,) = await items(store, "done")
        await make(
            store, c.RemoveItem(item, after(60), digest(b"<job/>")), stage(row("done", b"<x/>"))
        )

        def judge(tx):
            tx.staging.meet_finished(JOBS, NOW)
            (contest,) = tx.staging.contested(JOBS, 9)
            tx.staging.judge([(contest, False)])
            assert tx.staging.classes(JOBS) == []

        await commits(store, (0, 0), change=commit(1), before=judge)
        assert await store.batch(lambda tx: tx.item_ids(JOBS, 9)) == ["done"]

    async def test_of_winners_under_one_id_the_last_counts(self, store):
        await make(
            store,
            stage(row("a", b"<one/>"), row("b")),
            stage(row("a", b"<two/>"), part=1),
            stage(row("a", b"<lost/>"), part=2),
        )

        def drafts(tx):
            assert [g.payload for g in tx.staging.drafts(JOBS)] == [b"<job/>", b"<two/>"]

        winners = (0, 0), (1, 0)
        tally = await commits(store, *winners, change=commit(2), before=drafts)
        assert tally == [(JOBS, 3, 2)]
        found = await store.batch(lambda tx: tx.oldest(JOBS, None, 0, 9))
        assert [payload for _, payload in found] == [b"<job/>", b"<two/>"]

    async def test_a_plain_node_has_its_items_overwritten(self, store):
        await make(store, add("a", payload=b"<old/>"), add("b"), stage(row("a"), row("c")))
        await commits(store, (0, 0), change=commit(1, replaced=1, queueing=False))
        assert await store.batch(lambda tx: tx.item_ids(JOBS, 9)) == ["b", "a", "c"]
        assert await store.batch(lambda tx: tx.node(JOBS).items) == 3

    async def test_what_is_dropped_goes_in_slices(self, store):
        names = [row(f"i{n}") for n in range(5)]
        await make(store, stage(*names), Abort("app", 1), Abort("app", 9))
        assert await look(store, lambda s: s.usage(ETL)) == Usage()
        assert await look(store, lambda s: s.standing("app", 1)[1]) is None
        assert await store.batch(lambda tx: tx.next_moment()) == 0
        for _ in range(3):
            assert await look(store, lambda s: s.litter(NOW))
            await make(store, Sweep(NOW, 2))
        assert not await look(store, lambda s: s.litter(NOW))
        assert await store.batch(lambda tx: tx.next_moment()) is None

    async def test_a_dropped_version_may_begin_anew_at_once(self, store):
        await make(store, stage(row("a", b"<old/>")), Abort("app", 1), stage(row("a")))
        await make(store, Sweep(NOW, 9))
        await commits(store, (0, 0), change=commit(1))
        (item,) = await items(store, "a")
        assert await store.batch(lambda tx: tx.payload(item)) == b"<job/>"

    async def test_versions_that_wait_too_long_are_found(self, store):
        await make(store, stage(row("a")), stage(row("b"), version=2))
        assert await store.batch(lambda tx: tx.next_moment()) == after(60)
        assert await look(store, lambda s: s.overdue(after(59), 9)) == []
        assert await look(store, lambda s: s.overdue(after(60), 9)) == [("app", 1), ("app", 2)]
        assert await look(store, lambda s: s.overdue(after(60), 1)) == [("app", 1)]

    async def test_records_are_listed_and_forgotten(self, store):
        await make(store, stage(row("a")), stage(row("b"), version=2))
        await commits(store, (0, 0), change=commit(1))
        record = Record(3, "app", ETL, 1, NOW, after(1), 1, 6, TOLD)
        waits = Record(2, "app", ETL, 2, NOW, None, 1, 6)
        every = {"app": None, "owner": None, "after": 0, "limit": 9}

        def listed(**which):
            return look(store, lambda s: s.records(**({"waiting": False} | every | which)))

        assert await listed() == [record]
        assert await listed(waiting=True) == [waits]
        assert await listed(app="app", owner=ETL) == [record]
        for nothing in ({"app": "b"}, {"owner": Jid("b@x")}, {"after": 3}, {"limit": 0}):
            assert await listed(**nothing) == []
        assert await look(store, lambda s: s.record("app", 1)) == record
        assert await look(store, lambda s: s.record("app", 2)) is None
        await make(store, Sweep(after(1), 9))
        assert await listed() == [record]
        await make(store, Sweep(after(2), 9))
        assert await listed() == []
        assert (await look(store, lambda s: s.standing("app", 2)))[0] is not None
        await make(store, Abort("app", 2), Sweep(after(2), 9))
        assert (await look(store, lambda s: s.standing("app", 2)))[0] is not None  # until 60
        await make(store, Sweep(after(61), 9))
        assert await look(store, lambda s: s.standing("app", 2)) == (None, None)

    async def test_what_waits_is_there_after_opening_again(self, store):
        await make(store, stage(row("a")))
        await store.close()
        await store.open()
        assert await look(store, lambda s: s.usage(ETL)) == Usage(1, 6, 1, 6)
        await commits(store, (0, 0), change=commit(1))
        assert await store.batch(lambda tx: tx.item_ids(JOBS, 9)) == ["a"]
