"""What every store promises about transactions of publishers: what waits, who wins, what winners meet."""

from __future__ import annotations

import pytest
from harness.facts import ANN, JOBS, NOW, after, draft, queue, window
from harness.picture import everything
from msgspec.structs import replace
from stores.steps import (
    BrokenError,
    add,
    do,
    ids,
    items,
    listed,
    load,
    lock,
    losers,
    make,
    node_row,
    payloads,
    ready,
    release,
)

from pubqueue.app.listings import (
    AttemptsOf,
    Contests,
    Events,
    Litter,
    NodeWinners,
    NotedWinners,
    RecordOf,
    Records,
    WinnerClasses,
    Winners,
    WinningDrafts,
)
from pubqueue.app.ports import StaleError
from pubqueue.app.rows import Judged, NotedKey, Rows, StagedKey, Writes
from pubqueue.core import changes as c
from pubqueue.core import history
from pubqueue.core.history import Event, Kind
from pubqueue.core.model import ItemId, Jid, Millis, NodeName, State, digest
from pubqueue.core.transactions import (
    Abort,
    App,
    Attempt,
    Commit,
    Mark,
    Outcome,
    Record,
    Row,
    Stage,
    Sweep,
    Told,
    Version,
    Waiting,
)

ETL = Jid("etl@x")
TOLD = Told(1, 2, 0.5)
MORE = NodeName("more")
OPEN = Version("app", 1, ETL, False, NOW, after(60))  # noqa: FBT003


def row(name: str, payload: bytes = b"<job/>", over: int | None = None, **changes) -> Row:
    known = {"state": State.QUEUED, "pause": None, "life": None, "size": len(payload)}
    of_draft = {key: changes.pop(key) for key in ("priority", "headers") if key in changes}
    return Row(draft(name, payload, **of_draft), **(known | changes), over=over)


def stage(*rows: Row, node: NodeName = JOBS, **mark) -> Stage:
    kind = {"immediate": mark.pop("immediate", False)}
    place = {"app": "app", "version": 1, "part": 0, "attempt": 0} | mark
    return Stage(Mark(**place, **kind), ETL, node, rows, NOW, after(60))


def commit(added: int = 0, *, replaced: int = 0, version: int = 1, **changes) -> Commit:
    outcome = Outcome(changes.get("node", JOBS), changes.get("queueing", True), added, replaced, 0)
    return Commit("app", ETL, version, after(1), (outcome,), added, 6 * added, TOLD)


def choose(tx, *parts, version=1):
    return tx.page(Winners("app", version, parts), None, 99)


def classes(tx, node=JOBS):
    found = [
        (one.state, one.same, one.count, one.first)
        for one in tx.page(WinnerClasses(node), None, 99)
    ]
    return sorted(found)


def judge(tx, *verdicts):
    tx.write(Writes(NOW, bulk=[Judged(verdicts)]))


async def commits(store, *parts, change, before=lambda tx: None, entries=()):
    """Choose the winners and commit them in one transaction, as a request does."""

    def job(tx):
        found = choose(tx, *parts, version=change.version)
        before(tx)
        tx.write(Writes(after(1), events=list(entries), bulk=[change]))
        return sorted(found, key=lambda one: one.node)

    return await store.batch(job)


async def waits(store, *accounts):
    """Return what waits for these accounts, and in all; nothing where there is no row for it."""
    found = (await load(store, waiting={*accounts, ""})).waiting
    return {one.account: (one.items, one.bytes) for one in found if one.items or one.bytes}


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
        assert sorted(found.waiting, key=lambda one: one.account) == [
            Waiting("", 3, 20),
            Waiting(ETL, 3, 20),
        ]
        assert replace(found, waiting=[]) == Rows(
            apps=[App("app", ETL, used=NOW)],
            versions=[replace(OPEN, items=3, bytes=20)],
            attempts=[Attempt("app", 1, 0, 1, 1, 6)],
        )
        attempts = await listed(store, AttemptsOf("app", 1))
        expected = [Attempt("app", 1, 0, 0, 2, 14), Attempt("app", 1, 0, 1, 1, 6)]
        assert sorted(attempts, key=lambda one: one.number) == expected
        assert await listed(store, AttemptsOf("app", 2)) == []

    async def test_an_attempt_knows_what_it_has_staged_under_an_id(self, store):
        await make(store, stage(row("a"), attempt=4))
        place = {"app": "app", "version": 1, "part": 0, "attempt": 4, "node": JOBS, "id": "a"}
        key = StagedKey(**place)
        others = {"attempt": 5, "version": 2, "app": "b", "node": MORE, "id": "b", "part": 1}
        keys = {key, *(replace(key, **{name: value}) for name, value in others.items())}
        assert await load(store, staged=keys) == Rows(staged=[(key, 6)])
        await make(store, stage(row("a", b"<longer/>", over=6), attempt=4))
        assert await load(store, staged=keys) == Rows(staged=[(key, 9)])
        assert await waits(store, ETL) == {ETL: (1, 9), "": (1, 9)}

    async def test_a_version_knows_what_any_attempt_has_noted(self, store):
        await make(store, stage(row("a", known=True), row("c"), immediate=True, attempt=4))
        a, b, c_ = (NotedKey("app", 1, JOBS, ItemId(name)) for name in "abc")
        found = await load(store, noted={a, b, c_, replace(a, version=2), replace(a, node=MORE)})
        assert sorted(found.noted, key=lambda one: one[0].id) == [
            (a, b"<job/>", True),
            (c_, b"<job/>", False),
        ]

        def noted(*parts):
            return listed(store, NotedWinners("app", 1, parts))

        assert (await noted((0, 4)), await noted((0, 5))) == ([(2, 1)], [(0, 0)])
        await make(store, stage(row("a", known=True), immediate=True, part=1))
        assert await noted((0, 4), (1, 0)) == [(3, 2)]
        assert (await load(store, noted={a})).noted == [(a, b"<job/>", True)]

    async def test_hundreds_of_keys_are_found_at_once(self, store):
        await make(store, stage(*(row(f"i{n}") for n in range(700))))
        keys = {StagedKey("app", 1, 0, 0, JOBS, ItemId(f"i{n}")) for n in range(700)}
        assert {key for key, _ in (await load(store, staged=keys)).staged} == keys

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
            Commit("app", Jid("boss@x"), 1, NOW, (), 0, 0, TOLD),
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

    async def test_a_version_is_committed_once(self, store):
        await make(store, stage(row("a")))
        await commits(store, (0, 0), change=commit(1))
        for version in (1, 0):
            with pytest.raises(StaleError):
                await commits(store, (0, 0), change=commit(0, version=version))

    async def test_an_app_may_begin_with_a_commit_of_nothing(self, store):
        await commits(store, change=Commit("app", ETL, 3, after(1), (), 0, 0, TOLD))
        app = App("app", ETL, 3, after(1), after(1))
        assert await load(store, apps={"app"}) == Rows(apps=[app])
        (record,) = await listed(store, RecordOf("app", 3))
        expected = Record(record.id, "app", ETL, 3, after(1), after(1), 0, 0, TOLD)
        assert record == expected

    async def test_winners_take_their_places_by_part_and_arrival(self, store):
        await make(store, c.CreateNode(queue(name=MORE, subscriptions=0)), add("first"))
        await make(
            store,
            stage(row("b1", headers=(("a", "1"),)), part=1, attempt=7),
            stage(row("lost"), part=0, attempt=5),
            stage(row("a1"), row("a2", pause=5000, life=9000, state=State.DELAYED), attempt=6),
            stage(row("x"), node=MORE, part=1, attempt=7),
            stage(row("b2", priority=4), part=1, attempt=7),
        )
        outcomes = (Outcome(JOBS, True, 4, 0, 0), Outcome(MORE, True, 1, 0, 0))  # noqa: FBT003
        change = Commit("app", ETL, 1, after(1), outcomes, 5, 30, TOLD)
        tally = await commits(store, (1, 7), (0, 6), (2, 9), change=change)
        assert tally == [NodeWinners(JOBS, 4, 4), NodeWinners(MORE, 1, 1)]
        assert await ids(store) == ["first", "a1", "a2", "b1", "b2"]
        first, a1, a2, b1, b2 = await items(store, "first", "a1", "a2", "b1", "b2")
        facts = {"publisher": ETL, "published": after(1), "txn": ("app", 1), "node": JOBS}
        plain = replace(first, seq=a1.seq, id="a1", **facts)
        times = {"state": State.DELAYED, "due": after(6), "expires": after(10)}
        assert [a1, a2, b1, b2] == [
            plain,
            replace(plain, seq=a2.seq, id="a2", **times),
            replace(plain, seq=b1.seq, id="b1", headers=(("a", "1"),)),
            replace(plain, seq=b2.seq, id="b2", priority=4),
        ]
        assert (await node_row(store)).items == 5
        assert await waits(store, ETL) == {}
        app = App("app", ETL, 1, after(1), after(1))
        keys = {"apps": {"app"}, "versions": {("app", 1)}, "attempts": {("app", 1, 1, 7)}}
        assert await load(store, **keys) == Rows(apps=[app])
        assert await ready(store, now=after(1)) == ("b2firsta1b1", "")
        assert await store.batch(lambda tx: tx.number("item", 1)) > b2.seq

    async def test_winners_come_in_the_order_of_their_first_arrival(self, store):
        await make(store, stage(*map(row, "zax")))
        await make(store, stage(row("a", b"<again/>", over=6), row("b")))
        await commits(store, (0, 0), change=commit(4))
        assert await ids(store) == ["z", "a", "x", "b"]
        assert (await payloads(store))["a"] == b"<again/>"

    async def test_a_commit_takes_older_open_versions_with_it(self, store):
        await make(
            store, stage(row("old")), stage(row("a"), version=2), stage(row("new"), version=3)
        )
        await commits(store, (0, 0), change=commit(1, version=2))
        found = await load(store, versions={("app", number) for number in (1, 2, 3)})
        assert [one.number for one in found.versions] == [3]
        assert await waits(store, ETL) == {ETL: (1, 6), "": (1, 6)}
        assert await ids(store) == ["a"]
        await commits(store, (0, 0), change=commit(1, version=3))
        assert await ids(store) == ["a", "new"]

    # --- what winners meet ---

    async def test_winners_meet_what_is_there_in_classes(self, store):
        await make(store, *(add(name) for name in ("same", "like", "other", "locked", "bad")))
        await make(store, c.AddSubscription(window(ANN, 3)))
        await lock(store, "locked")
        await make(store, release(await lock(store, "other", token=8)))
        await make(store, add("done"))
        (item,) = await items(store, "done")
        await make(store, c.RemoveItem(item, after(60), digest(b"<job/>")))
        (bad,) = await items(store, "bad")
        await make(store, c.Postpone(bad, after(5)))
        (other,) = await items(store, "other")
        rows = [row("same"), row("like", b"<JOB/>"), row("other", b"<x/>", headers=(("h", "1"),))]
        await make(store, stage(*rows, row("locked"), row("done"), row("new")))

        def compare(tx):
            contests = tx.page(Contests(JOBS, NOW), None, 9)
            found = {(one.finished, one.there, one.offered) for one in contests}
            assert found == {
                (False, b"<job/>", b"<JOB/>"),
                (False, b"<job/>", b"<x/>"),
                (True, digest(b"<job/>"), b"<job/>"),
            }
            assert len(tx.page(Contests(JOBS, NOW), None, 2)) == 2
            judge(tx, *((one, one.offered != b"<x/>") for one in contests))
            assert tx.page(Contests(JOBS, NOW), None, 9) == []
            assert classes(tx) == [
                ("finished", True, 1, "done"),
                ("locked", True, 1, "locked"),
                ("queued", False, 1, "other"),
                ("queued", True, 2, "like"),
            ]

        before = await items(store, "same", "like", "locked", "bad")
        await commits(store, (0, 0), change=commit(1, replaced=1), before=compare)
        found = await payloads(store)
        assert (found["other"], found["like"]) == (b"<x/>", b"<job/>")
        assert set(found) == {"same", "like", "other", "locked", "bad", "new"}
        assert await items(store, "same", "like", "locked", "bad") == before
        facts = {"publisher": ETL, "txn": ("app", 1), "headers": (("h", "1"),)}
        assert await items(store, "other") == [replace(other, **facts)]
        assert await losers(store, other) == [ANN]
        assert (await node_row(store)).items == 6

    @pytest.mark.parametrize("state", [State.DELAYED, State.DEAD])
    async def test_winners_meet_items_in_every_state(self, store, state):
        await make(store, add("a"))
        (a,) = await items(store, "a")
        end = {State.DELAYED: c.Postpone(a, after(5)), State.DEAD: c.GiveUp(a, NOW, "x", 1)}
        await make(store, end[state], stage(row("a", b"<x/>")))

        def compare(tx):
            choose(tx, (0, 0))
            judge(tx, *((one, False) for one in tx.page(Contests(JOBS, None), None, 9)))
            return classes(tx)

        assert await store.batch(compare) == [(state, False, 1, "a")]

    async def test_what_is_put_aside_gets_the_payload_of_a_winner_where_it_is(self, store):
        await make(store, add("a"))
        (a,) = await items(store, "a")
        await make(store, c.Postpone(a, after(5)), stage(row("a", b"<x/>")))

        def compare(tx):
            judge(tx, *((one, False) for one in tx.page(Contests(JOBS, None), None, 9)))

        await commits(store, (0, 0), change=commit(0, replaced=1), before=compare)
        assert (await ready(store), await payloads(store)) == (("", "a"), {"a": b"<x/>"})

    async def test_what_was_not_judged_the_same_is_not_the_same(self, store):
        await make(store, add("a"), stage(row("a", b"<x/>")))

        def job(tx):
            choose(tx, (0, 0))
            (contest,) = tx.page(Contests(JOBS, None), None, 9)
            judge(tx, (contest, False))
            first = classes(tx)
            choose(tx, (0, 0))
            judge(tx, (contest, True))
            return first, classes(tx)

        both = [("queued", False, 1, "a")], [("queued", True, 1, "a")]
        assert await store.batch(job) == both

    async def test_finished_work_is_met_only_where_it_absorbs(self, store):
        await make(store, add("done"))
        (item,) = await items(store, "done")
        await make(store, c.RemoveItem(item, after(60), digest(b"<job/>")), stage(row("done")))

        def contests(tx, moment):
            choose(tx, (0, 0))
            return len(tx.page(Contests(JOBS, moment), None, 9))

        moments = (None, NOW, after(59), after(60))
        assert [await store.batch(lambda tx, m=m: contests(tx, m)) for m in moments] == [0, 1, 1, 0]

    async def test_finished_work_with_another_payload_counts_no_longer(self, store):
        await make(store, add("done"))
        (item,) = await items(store, "done")
        await make(
            store, c.RemoveItem(item, after(60), digest(b"<job/>")), stage(row("done", b"<x/>"))
        )

        def compare(tx):
            (contest,) = tx.page(Contests(JOBS, NOW), None, 9)
            judge(tx, (contest, False))
            assert (classes(tx), tx.page(Contests(JOBS, NOW), None, 9)) == ([], [])

        await commits(store, (0, 0), change=commit(1), before=compare)
        assert await ids(store) == ["done"]

    async def test_of_winners_under_one_id_the_last_counts(self, store):
        await make(
            store,
            stage(row("a", b"<one/>"), row("b")),
            stage(row("a", b"<two/>"), part=1),
            stage(row("a", b"<lost/>"), part=2),
        )

        def drafts(tx):
            found = tx.page(WinningDrafts(JOBS), None, 99)
            assert found == [draft("b"), draft("a", b"<two/>")]
            assert classes(tx) == []

        winners = (0, 0), (1, 0)
        tally = await commits(store, *winners, change=commit(2), before=drafts)
        assert tally == [NodeWinners(JOBS, 3, 2)]
        assert await payloads(store) == {"b": b"<job/>", "a": b"<two/>"}
        assert await ids(store) == ["b", "a"]

    async def test_the_last_of_several_meets_what_is_there(self, store):
        await make(store, add("a"), stage(row("a", b"<one/>")), stage(row("a"), part=1))

        def compare(tx):
            assert tx.page(Contests(JOBS, None), None, 9) == []
            assert classes(tx) == [("queued", True, 1, "a")]

        tally = await commits(store, (0, 0), (1, 0), change=commit(0), before=compare)
        assert tally == [NodeWinners(JOBS, 2, 1)]
        assert await payloads(store) == {"a": b"<job/>"}

    async def test_winning_drafts_are_as_they_were_staged(self, store):
        said = {"priority": 3, "headers": (("a", "1"), ("a", "2"))}
        rows = row("b"), row("a", state=State.DELAYED, pause=5000, life=9000, **said)
        await make(store, stage(*rows), stage(row("c"), node=MORE))

        def job(tx):
            choose(tx, (0, 0))
            return tx.page(WinningDrafts(JOBS), None, 99)

        spans = {"delay": 5000, "ttl": 9000}
        assert await store.batch(job) == [draft("b"), draft("a", **spans, **said)]

    async def test_a_plain_node_has_its_items_overwritten(self, store):
        await make(store, add("a", payload=b"<old/>"), add("b"), add("c"))
        await make(store, stage(row("a"), row("d"), row("c")))
        old = await items(store, "a", "b", "c")
        await commits(store, (0, 0), change=commit(1, replaced=2, queueing=False))
        assert await ids(store) == ["b", "a", "d", "c"]
        assert (await node_row(store)).items == 4
        assert await load(store, numbers={old[0].seq, old[2].seq}) == Rows()
        assert (await payloads(store))["a"] == b"<job/>"

    # --- what a commit tells ---

    async def test_what_a_commit_makes_visible_is_logged_item_by_item(self, store):
        await make(store, add("a"), add("same"), add("b"))
        await make(store, stage(row("z")), stage(row("a", b"<x/>"), row("same"), row("c"), part=1))

        def compare(tx):
            judge(tx, *((one, False) for one in tx.page(Contests(JOBS, None), None, 9)))

        bare = Event(Kind.PURGED, JOBS, detail="1")
        winners = history.Winners(JOBS, queueing=True, publisher=ETL)
        await commits(
            *(store, (0, 0), (1, 0)),
            change=commit(2, replaced=1),
            before=compare,
            entries=[bare, winners, bare],
        )

        def published(name, detail=""):
            facts = 0, None, ETL, Millis(0)
            return Event(Kind.PUBLISHED, JOBS, ItemId(name), *facts, detail=detail)

        gone = Event(Kind.RETRACTED, JOBS, ItemId("a"), 0, None, ETL, Millis(1000))
        log = await listed(store, Events(None, 99))
        assert [(entry.seq, entry.at) for entry in log] == [(n, after(1)) for n in range(1, 7)]
        assert [entry.event for entry in log] == [
            bare,
            replace(gone, detail="replaced"),
            published("z"),
            published("a", "replaced"),
            published("c"),
            bare,
        ]

    async def test_in_a_plain_node_whatever_is_there_is_replaced(self, store):
        await make(store, add("a"), add("b"), stage(row("a"), row("c")))
        winners = history.Winners(JOBS, queueing=False, publisher=ETL)
        change = commit(1, replaced=1, queueing=False)
        await commits(store, (0, 0), change=change, entries=[winners])
        log = [entry.event for entry in await listed(store, Events((JOBS,), 99))]
        assert [(one.kind, one.item, one.detail) for one in log] == [
            (Kind.RETRACTED, "a", "replaced"),
            (Kind.PUBLISHED, "a", "replaced"),
            (Kind.PUBLISHED, "c", ""),
        ]

    # --- what is dropped ---

    async def test_what_is_dropped_goes_in_slices(self, store):
        names = [row(f"i{n}") for n in range(5)]
        await make(store, stage(*names), stage(row("kept"), app="b"))
        await make(store, Abort("app", 1), Abort("app", 9), Abort("none", 1))
        assert await waits(store, ETL) == {ETL: (1, 6), "": (1, 6)}
        keys = {"versions": {("app", 1)}, "attempts": {("app", 1, 0, 0)}}
        assert await load(store, **keys) == Rows()
        assert (await store.batch(lambda tx: tx.next_due())) < NOW
        for _ in range(3):
            assert await listed(store, Litter(NOW)) == [True]
            await make(store, Sweep(NOW, 2))
        assert await listed(store, Litter(NOW)) == [False]
        assert await store.batch(lambda tx: tx.next_due()) == after(60)

    async def test_a_dropped_version_may_begin_anew_at_once(self, store):
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
        assert await listed(store, Litter(NOW)) == [False]
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
        assert record == Record(record.id, "app", ETL, 1, NOW, after(1), 1, 6, TOLD)
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
            return bool((await load(store, apps={"app"})).apps)

        await make(store, stage(row("a")), Sweep(after(99), 9))
        assert await known()  # a version is open
        await make(store, Abort("app", 1), Sweep(after(59), 9), Sweep(after(60), 9))
        assert await known()  # it was heard of until 60
        assert await listed(store, Litter(after(60))) == [False]
        assert await listed(store, Litter(after(61))) == [True]
        await make(store, Sweep(after(61), 9))
        assert not await known()

    async def test_what_waits_is_there_after_opening_again(self, store):
        await make(store, stage(row("a")))
        await store.close()
        await store.open()
        assert await waits(store, ETL) == {ETL: (1, 6), "": (1, 6)}
        await commits(store, (0, 0), change=commit(1))
        assert await ids(store) == ["a"]
