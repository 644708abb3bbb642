"""What every store promises about commits: who wins, what winners meet, and what becomes of them."""

from __future__ import annotations

import pytest
from harness.batches.facts import ANN, JOBS, NOW, after, draft, queue, window
from harness.stores.rows import rows_of
from msgspec.structs import replace
from stores.staging_steps import (
    ETL,
    MORE,
    TOTALS,
    choose,
    classes,
    commit,
    commits,
    judge,
    row,
    stage,
    waits,
)
from stores.steps import (
    add,
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

from pubqueue.engine.listings import (
    Conflicts,
    Events,
    NodeBytes,
    NodeWinners,
    RecordOf,
    TakenWinners,
    WinningBytes,
    WinningDrafts,
)
from pubqueue.engine.ports import StaleError
from pubqueue.engine.rows import VERSIONS, Rows, Writes
from pubqueue.model import changes
from pubqueue.model.entities import ItemId, Millis, State, digest
from pubqueue.model.records import Event, EventKind
from pubqueue.model.sums import sum_of
from pubqueue.model.transactions import App, Commit, CommittedNode, Record, SetAside, TakenId
from pubqueue.rules import event_log


class OfCommits:
    """Part of the contract."""

    async def test_a_version_is_committed_once(self, store):
        await make(store, stage(row("a")))
        await commits(store, (0, 0), change=commit(1))
        for version in (1, 0):
            with pytest.raises(StaleError):
                await commits(store, (0, 0), change=commit(0, version=version))

    async def test_an_app_may_begin_with_a_commit_of_nothing(self, store):
        await commits(store, change=Commit("app", ETL, 3, after(1), (), 0, 0, TOTALS))
        app = App("app", ETL, 3, after(1), after(1))
        assert await load(store, apps={"app"}) == rows_of(apps=[app])
        (record,) = await listed(store, RecordOf("app", 3))
        expected = Record(record.id, "app", ETL, 3, after(1), after(1), 0, 0, TOTALS)
        assert record == expected

    async def test_winners_take_their_places_by_part_and_arrival(self, store):
        await make(store, changes.CreateNode(queue(name=MORE, subscriptions=0)), add("first"))
        await make(
            store,
            stage(row("b1", headers=(("a", "1"),)), part=1, attempt=7),
            stage(row("lost"), part=0, attempt=5),
            stage(row("a1"), row("a2", pause=5000, life=9000, state=State.DELAYED), attempt=6),
            stage(row("x"), node=MORE, part=1, attempt=7),
            stage(row("b2", priority=4), part=1, attempt=7),
        )
        outcomes = (CommittedNode(JOBS, True, 4, 0, 0), CommittedNode(MORE, True, 1, 0, 0))  # noqa: FBT003
        change = Commit("app", ETL, 1, after(1), outcomes, 5, 30, TOTALS)
        tally = await commits(store, (1, 7), (0, 6), (2, 9), change=change)
        assert tally == [NodeWinners(JOBS, 4, 4), NodeWinners(MORE, 1, 1)]
        assert await ids(store) == ["first", "a1", "a2", "b1", "b2"]
        first, a1, a2, b1, b2 = await items(store, "first", "a1", "a2", "b1", "b2")
        facts = {"publisher": ETL, "published": after(1), "transaction": ("app", 1), "node": JOBS}
        facts["sum"] = a1.sum
        plain = replace(first, seq=a1.seq, id="a1", **facts)
        times = {"state": State.DELAYED, "due": after(6), "expires": after(10)}
        assert [a1, a2, b1, b2] == [
            plain,
            replace(plain, seq=a2.seq, id="a2", sum=a2.sum, **times),
            replace(plain, seq=b1.seq, id="b1", headers=(("a", "1"),), sum=b1.sum),
            replace(plain, seq=b2.seq, id="b2", priority=4, sum=b2.sum),
        ]
        assert [one.sum for one in (a1, b1)] == [
            sum_of(a1.id, b"<job/>"),
            sum_of(b1.id, b"<job/>", "", (("a", "1"),)),
        ]
        assert (await node_row(store)).items == 5
        assert await waits(store, ETL) == {}
        app = App("app", ETL, 1, after(1), after(1))
        keys = {"apps": {"app"}, "versions": {("app", 1)}, "attempts": {("app", 1, 1, 7)}}
        assert await load(store, **keys) == rows_of(apps=[app])
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
        assert [one.number for one in found.of[VERSIONS]] == [3]
        assert await waits(store, ETL) == {ETL: (1, 6), "": (1, 6)}
        assert await ids(store) == ["a"]
        await commits(store, (0, 0), change=commit(1, version=3))
        assert await ids(store) == ["a", "new"]

    # --- what winners meet ---

    async def test_winners_meet_what_is_there_in_classes(self, store):
        await make(store, *(add(name) for name in ("same", "like", "other", "locked", "bad")))
        await make(store, changes.AddSubscription(window(ANN, 3)))
        await lock(store, "locked")
        await make(store, release(await lock(store, "other", token=8)))
        await make(store, add("done"))
        (item,) = await items(store, "done")
        await make(store, changes.RemoveItem(item, after(60), digest(b"<job/>")))
        (bad,) = await items(store, "bad")
        await make(store, changes.Postpone(bad, after(5)))
        (other,) = await items(store, "other")
        rows = [row("same"), row("like", b"<JOB/>"), row("other", b"<x/>", headers=(("h", "1"),))]
        await make(store, stage(*rows, row("locked"), row("done"), row("new")))

        def compare(tx):
            conflicts = tx.page(Conflicts(JOBS, NOW), None, 9)
            found = {(one.finished, one.there, one.offered) for one in conflicts}
            assert found == {
                (False, b"<job/>", b"<JOB/>"),
                (False, b"<job/>", b"<x/>"),
                (True, digest(b"<job/>"), b"<job/>"),
            }
            assert len(tx.page(Conflicts(JOBS, NOW), None, 2)) == 2
            judge(tx, *((one, one.offered != b"<x/>") for one in conflicts))
            assert tx.page(Conflicts(JOBS, NOW), None, 9) == []
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
        facts = {"publisher": ETL, "transaction": ("app", 1), "headers": (("h", "1"),)}
        facts["sum"] = sum_of(other.id, b"<x/>", "", (("h", "1"),))
        assert await items(store, "other") == [replace(other, size=4, **facts)]
        assert await losers(store, other) == [ANN]
        assert (await node_row(store)).items == 6

    @pytest.mark.parametrize("state", [State.DELAYED, State.DEAD])
    async def test_winners_meet_items_in_every_state(self, store, state):
        await make(store, add("a"))
        (a,) = await items(store, "a")
        end = {
            State.DELAYED: changes.Postpone(a, after(5)),
            State.DEAD: changes.GiveUp(a, NOW, "x", 1),
        }
        await make(store, end[state], stage(row("a", b"<x/>")))

        def compare(tx):
            choose(tx, (0, 0))
            judge(tx, *((one, False) for one in tx.page(Conflicts(JOBS, None), None, 9)))
            return classes(tx)

        assert await store.batch(compare) == [(state, False, 1, "a")]

    async def test_what_is_put_aside_gets_the_payload_of_a_winner_where_it_is(self, store):
        await make(store, add("a"))
        (a,) = await items(store, "a")
        await make(store, changes.Postpone(a, after(5)), stage(row("a", b"<x/>")))

        def compare(tx):
            judge(tx, *((one, False) for one in tx.page(Conflicts(JOBS, None), None, 9)))

        await commits(store, (0, 0), change=commit(0, replaced=1), before=compare)
        assert (await ready(store), await payloads(store)) == (("", "a"), {"a": b"<x/>"})

    @pytest.mark.parametrize("to", [None, MORE])
    async def test_winners_whose_ids_are_taken_are_set_aside(self, store, to):
        """They change nothing, or take places in another node, under other ids."""
        await make(
            store,
            changes.CreateNode(queue(name=MORE, subscriptions=0)),
            changes.AddSubscription(window(ANN, 1)),
        )
        await make(store, add("locked"), add("dead"), add("same"))
        await lock(store, "locked")
        (dead,) = await items(store, "dead")
        await make(store, changes.GiveUp(dead, NOW, "x", 1))
        rows = [row(name, b"<x/>") for name in ("locked", "new", "dead")]
        await make(store, stage(row("own"), node=MORE), stage(*rows, row("same"), part=1))

        def compare(tx):
            judge(tx, *((one, False) for one in tx.page(Conflicts(JOBS, None), None, 9)))
            taken = TakenId(JOBS, ItemId("dead"), State.DEAD)
            locked = TakenId(JOBS, ItemId("locked"), State.LOCKED)
            assert tx.page(TakenWinners(JOBS), None, 9) == [taken, locked]
            assert tx.page(TakenWinners(JOBS), None, 1) == [taken]
            assert tx.page(TakenWinners(MORE), None, 9) == []
            tx.write(Writes(after(1), bulk=[SetAside(to, after(1))]))

        before = await items(store, "locked", "dead", "same")
        there = 1 if to is None else 3
        outcomes = (
            CommittedNode(JOBS, True, 1, 0, 1),  # noqa: FBT003
            CommittedNode(MORE, True, there, 0, 0),  # noqa: FBT003
        )
        change = Commit("app", ETL, 1, after(1), outcomes, 2 + there, 30, TOTALS)
        entries = [
            event_log.PublishedByCommit(it.node, queueing=True, publisher=ETL) for it in outcomes
        ]
        await commits(store, (0, 0), (1, 0), change=change, before=compare, entries=entries)
        assert await items(store, "locked", "dead", "same") == before
        assert sorted(await ids(store)) == ["dead", "locked", "new", "same"]
        moved = [f"jobs/{name}.{after(1)}" for name in ("locked", "dead")] if to else []
        assert await ids(store, MORE) == ["own", *moved]
        log = await listed(store, Events(None, 99))
        reported = [(entry.event.node, entry.event.item) for entry in log]
        assert reported == [(JOBS, "new"), *((MORE, name) for name in ["own", *moved])]

    async def test_what_was_not_judged_the_same_is_not_the_same(self, store):
        await make(store, add("a"), stage(row("a", b"<x/>")))

        def job(tx):
            choose(tx, (0, 0))
            (conflict,) = tx.page(Conflicts(JOBS, None), None, 9)
            judge(tx, (conflict, False))
            first = classes(tx)
            choose(tx, (0, 0))
            judge(tx, (conflict, True))
            return first, classes(tx)

        both = [("queued", False, 1, "a")], [("queued", True, 1, "a")]
        assert await store.batch(job) == both

    async def test_finished_work_is_met_only_where_it_absorbs(self, store):
        await make(store, add("done"))
        (item,) = await items(store, "done")
        await make(
            store, changes.RemoveItem(item, after(60), digest(b"<job/>")), stage(row("done"))
        )

        def conflicts(tx, moment):
            choose(tx, (0, 0))
            return len(tx.page(Conflicts(JOBS, moment), None, 9))

        moments = (None, NOW, after(59), after(60))
        assert [await store.batch(lambda tx, m=m: conflicts(tx, m)) for m in moments] == [
            0,
            1,
            1,
            0,
        ]

    async def test_finished_work_with_another_payload_counts_no_longer(self, store):
        await make(store, add("done"))
        (item,) = await items(store, "done")
        await make(
            store,
            changes.RemoveItem(item, after(60), digest(b"<job/>")),
            stage(row("done", b"<x/>")),
        )

        def compare(tx):
            (conflict,) = tx.page(Conflicts(JOBS, NOW), None, 9)
            judge(tx, (conflict, False))
            assert (classes(tx), tx.page(Conflicts(JOBS, NOW), None, 9)) == ([], [])

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
            assert [one for one, _ in found] == [draft("b"), draft("a", b"<two/>")]
            assert classes(tx) == []

        winners = (0, 0), (1, 0)
        tally = await commits(store, *winners, change=commit(2), before=drafts)
        assert tally == [NodeWinners(JOBS, 3, 2)]
        assert await payloads(store) == {"b": b"<job/>", "a": b"<two/>"}
        assert await ids(store) == ["b", "a"]

    async def test_the_last_of_several_meets_what_is_there(self, store):
        await make(store, add("a"), stage(row("a", b"<one/>")), stage(row("a"), part=1))

        def compare(tx):
            assert tx.page(Conflicts(JOBS, None), None, 9) == []
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
        drafts = draft("b"), draft("a", **spans, **said)
        expected = list(zip(drafts, [row.sum for row in rows], strict=True))
        assert await store.batch(job) == expected

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
            judge(tx, *((one, False) for one in tx.page(Conflicts(JOBS, None), None, 9)))

        bare = Event(EventKind.PURGED, JOBS, detail="1")
        winners = event_log.PublishedByCommit(JOBS, queueing=True, publisher=ETL)
        await commits(
            *(store, (0, 0), (1, 0)),
            change=commit(2, replaced=1),
            before=compare,
            entries=[bare, winners, bare],
        )

        def published(name, detail=""):
            facts = 0, None, ETL, Millis(0)
            return Event(EventKind.PUBLISHED, JOBS, ItemId(name), *facts, detail=detail)

        gone = Event(EventKind.RETRACTED, JOBS, ItemId("a"), 0, None, ETL, Millis(1000))
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
        winners = event_log.PublishedByCommit(JOBS, queueing=False, publisher=ETL)
        change = commit(1, replaced=1, queueing=False)
        await commits(store, (0, 0), change=change, entries=[winners])
        log = [entry.event for entry in await listed(store, Events((JOBS,), 99))]
        assert [(one.kind, one.item, one.detail) for one in log] == [
            (EventKind.RETRACTED, "a", "replaced"),
            (EventKind.PUBLISHED, "a", "replaced"),
            (EventKind.PUBLISHED, "c", ""),
        ]

    async def test_the_bytes_that_winners_bring_are_known_before_they_take_their_places(
        self, store
    ):
        await make(store, changes.CreateNode(queue(name=MORE, subscriptions=0)))
        await make(store, add("same", payload=b"<one/>"), add("other", payload=b"<long/>"))
        await make(store, add("held", payload=b"<mine/>"), changes.AddSubscription(window(ANN, 3)))
        await lock(store, "held")
        payloads_staged = {"new": b"<new/>", "same": b"<one/>", "other": b"<o/>", "held": b"<h/>"}
        await make(store, stage(*(row(n, payload=p) for n, p in payloads_staged.items())))
        await make(store, stage(row("x", payload=b"<xx/>"), node=MORE, attempt=0, part=1))

        def look(tx):
            choose(tx, (0, 0), (1, 0))
            found = tx.page(Conflicts(JOBS, None), None, 99)
            judge(tx, *((conflict, False) for conflict in found))
            return sorted(tx.page(WinningBytes(), None, 99), key=lambda one: one.node)

        assert await store.batch(look) == [
            NodeBytes(JOBS, 6 + 4 - 7, 6 + 0 + (4 - 7) + (4 - 7), 4),
            NodeBytes(MORE, 5, 5, 0),
        ]
