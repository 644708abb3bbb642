"""What every store promises about commits that are moved in slices."""

from __future__ import annotations

from harness.batches.facts import after
from harness.stores.rows import rows_of
from msgspec.structs import replace
from stores.staging_steps import ETL, MORE, TOTALS, row, stage, waits
from stores.steps import listed, load, make, sweep

from pubqueue.engine.listings import RecordOf, Unmoved, WinnerRows
from pubqueue.model.entities import State
from pubqueue.model.transactions import App, Commit, Moved, OnTaken, Totals

ROOM = 1_000_000
NAMED = ((0, 6), (1, 7))
OPEN = WinnerRows("app", 1, NAMED, ROOM)
COMMITTED = WinnerRows("app", 1, None, ROOM)


def seen(rows):
    return [(one.part, one.attempt, one.item.draft.id, one.superseded) for one in rows]


async def stage_all(store):
    await make(
        store,
        stage(row("b1", headers=(("a", "1"),)), row("both"), part=1, attempt=7),
        stage(row("lost"), row("both"), part=0, attempt=5),
        stage(row("a1", pause=5000, life=9000, state=State.DELAYED), attempt=6),
        stage(row("x"), row("y"), node=MORE, part=1, attempt=7),
        stage(row("both", b"<1/>"), row("a2"), part=0, attempt=6),
    )


ALL = [
    (0, 6, "a1", False),
    (0, 6, "both", True),
    (0, 6, "a2", False),
    (1, 7, "b1", False),
    (1, 7, "both", False),
    (1, 7, "x", False),
    (1, 7, "y", False),
]


async def unmoved(store):
    return [(one.app, one.version) for one in await listed(store, Unmoved(), None, 9)]


async def commit(store):
    await make(store, Commit("app", ETL, 1, after(1), (), 7, 42, TOTALS, NAMED))


class OfSlices:
    """Part of the contract."""

    async def test_winners_come_in_pages_by_part_and_arrival(self, store):
        await stage_all(store)
        rows = await listed(store, OPEN)
        assert seen(rows) == ALL
        for at, last in enumerate(rows, 1):
            assert await listed(store, OPEN, (last.part, last.row)) == rows[at:]
        assert await listed(store, OPEN, None, 3) == rows[:3]
        assert await listed(store, COMMITTED) == []
        assert await listed(store, WinnerRows("app", 1, ((0, 5),), ROOM)) != []

    async def test_a_page_of_winners_has_so_much_payload_and_one_at_least(self, store):
        await stage_all(store)
        for room, count in ((1, 1), (6, 1), (7, 2), (ROOM, 7)):
            assert len(await listed(store, replace(OPEN, room=room))) == count

    async def test_winners_are_as_they_were_staged(self, store):
        await stage_all(store)
        first, *_, last = await listed(store, OPEN)
        assert first.item == replace(
            row("a1", pause=5000, life=9000, state=State.DELAYED),
            draft=replace(first.item.draft, delay=5000, ttl=9000),
        )
        assert (first.item.draft.payload, last.node) == (b"<job/>", MORE)

    async def test_what_wins_stays_after_the_commit_and_all_else_goes(self, store):
        await stage_all(store)
        await make(store, stage(row("old"), version=0, attempt=6))
        before = await listed(store, OPEN)
        await commit(store)
        assert await listed(store, COMMITTED) == before
        assert await waits(store, ETL) == {}
        keys = {"apps": {"app"}, "versions": {("app", 0), ("app", 1)}}
        app = App("app", ETL, 1, after(1), after(1))
        assert await load(store, **keys) == rows_of(apps=[app])
        await sweep(store, 1)
        assert await listed(store, COMMITTED) == before
        (record,) = await listed(store, RecordOf("app", 1))
        assert (record.owner, record.committed, record.items) == (ETL, after(1), 7)

    async def test_what_is_moved_is_no_longer_there(self, store):
        await stage_all(store)
        await commit(store)
        assert await unmoved(store) == [("app", 1)]
        first, second, *_ = await listed(store, COMMITTED)
        await make(store, Moved("app", 1, ((0, 6, second.row),)))
        assert seen(await listed(store, COMMITTED)) == ALL[2:]
        rest = await listed(store, COMMITTED)
        ends = (0, 6, rest[0].row), (1, 7, rest[2].row)
        await make(store, Moved("app", 1, ends))
        assert seen(await listed(store, COMMITTED)) == ALL[5:]
        assert await unmoved(store) == [("app", 1)]
        rest = await listed(store, COMMITTED)
        await make(store, Moved("app", 1, ((1, 7, rest[1].row),)))
        assert await listed(store, COMMITTED) == []
        assert await unmoved(store) == []
        await sweep(store, 9)
        assert first.item.draft.id == "a1"

    async def test_commits_are_moved_in_their_order(self, store):
        for version in (1, 2):
            await make(store, stage(row("a"), version=version))
            change = Commit("app", ETL, version, after(1), (), 1, 6, TOTALS, ((0, 0),))
            await make(store, change)
        assert await unmoved(store) == [("app", 1), ("app", 2)]

    async def test_what_goes_aside_is_counted_in_the_record(self, store):
        await stage_all(store)
        choice = OnTaken.DEAD_LETTER, MORE
        await make(store, Commit("app", ETL, 1, after(1), (), 7, 42, Totals(), NAMED, *choice))
        (record,) = await listed(store, RecordOf("app", 1))
        assert (record.on_taken, record.dead_letter_node) == choice
        for change, expected in (
            (Moved("app", 1, ()), (7, Totals())),
            (Moved("app", 1, (), skipped=2), (5, Totals(2))),
            (Moved("app", 1, (), dead_lettered=1), (5, Totals(2, 1))),
            (Moved("app", 1, (), 1, 3), (4, Totals(3, 4))),
        ):
            await make(store, change)
            (record,) = await listed(store, RecordOf("app", 1))
            assert (record.items, record.totals) == expected
