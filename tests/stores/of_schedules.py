"""What every store promises about schedules: rows by name, which of them are due, and when the next one is."""

from __future__ import annotations

import pytest
from harness.batches.facts import JOBS, NIGHTLY, NOW, after
from harness.stores.rows import needs_of, writes_of
from msgspec.structs import replace
from stores.steps import RowMaker, add, ids

from pubqueue.engine.listings import DueSchedules, Schedules
from pubqueue.engine.ports import StaleError
from pubqueue.engine.rows import SCHEDULES, Write
from pubqueue.model.entities import Jid, seconds
from pubqueue.model.schedules import Definition, Missed, Schedule, Source

FULL = Schedule(
    Definition(
        name="weekly ä",
        cron="*/5 2-4 * * MON",
        zone="Europe/Berlin",
        node=JOBS,
        payload="<job xmlns='urn:x'>€</job>".encode(),
        type="urn:x",
        priority=-7,
        ttl=seconds(60),
        headers=(("a", "1"), ("a", "2")),
        missed=Missed.ALL,
        enabled=False,
        group="of one",
    ),
    source=Source.FILE,
    by=Jid("queue.example"),
    fired_through=after(1),
    due=after(2),
    last=NOW,
    error="node full",
    tries=3,
    revision=9,
)


def named(name, **changes):
    return replace(NIGHTLY, definition=replace(NIGHTLY.definition, name=name), **changes)


async def write(store, *pairs):
    writes = [Write(before, now) for before, now in pairs]
    await store.batch(lambda tx: tx.write(writes_of(NOW, schedules=writes)))


async def there(store, *names):
    found = await store.batch(lambda tx: tx.load(needs_of(schedules=set(names))).of[SCHEDULES])
    return sorted(found, key=lambda one: one.name)


async def due(store, moment, limit=9):
    return await store.batch(lambda tx: tx.page(DueSchedules(moment), None, limit))


class OfSchedules:
    """Part of the contract."""

    async def test_a_schedule_is_kept_with_all_that_is_known_of_it(self, store):
        await write(store, (None, NIGHTLY), (None, FULL))
        assert await there(store, "nightly", FULL.name, "none") == [NIGHTLY, FULL]
        changed = replace(FULL, paused=True, due=None, error="", tries=0, revision=10)
        await write(store, (FULL, changed), (NIGHTLY, None))
        assert await there(store, "nightly", FULL.name) == [changed]

    async def test_schedules_are_listed_by_name(self, store):
        rows = [named(name) for name in "bca"]
        await write(store, *((None, row) for row in rows))

        async def page(after, limit):
            found = await store.batch(lambda tx: tx.page(Schedules(), after, limit))
            return "".join(one.name for one in found)

        assert (await page(None, 9), await page("a", 1), await page("c", 9)) == ("abc", "b", "")

    async def test_due_is_what_has_something_to_do_the_longest_overdue_first(self, store):
        rows = [named("a", due=after(2)), named("b", due=after(1)), named("c"), named("d", due=NOW)]
        await write(store, *((None, row) for row in rows))
        assert [await due(store, after(n)) for n in (-1, 0, 1, 2)] == [
            [],
            ["d"],
            ["d", "b"],
            ["d", "b", "a"],
        ]
        assert await due(store, after(2), 1) == ["d"]

    async def test_the_next_due_moment_counts_schedules(self, store):
        first = named("a", due=after(7))
        await write(store, (None, first))
        assert await store.batch(lambda tx: tx.next_due()) == after(7)
        later = replace(first, due=None, revision=2)
        await write(store, (first, later))
        assert await store.batch(lambda tx: tx.next_due()) is None

    @pytest.mark.parametrize("change", ["change", "drop", "add"])
    async def test_a_revision_that_is_not_there_is_stale_and_nothing_is_written(
        self, store, change
    ):
        known = named("a", revision=2)
        await write(store, (None, known))
        believed = None if change == "add" else replace(known, revision=1)
        now = None if change == "drop" else replace(known, revision=3)
        with pytest.raises(StaleError):
            await write(store, (None, named("b")), (believed, now))
        assert await there(store, "a", "b") == [known]

    async def test_an_item_and_its_schedule_are_written_together_or_not_at_all(self, store):
        known = named("a", due=NOW)
        await write(store, (None, known))
        fired = replace(known, fired_through=NOW, due=after(60), revision=2)

        async def publish(believed):
            await store.batch(lambda tx: _together(tx, believed, fired))

        with pytest.raises(StaleError):
            await publish(replace(known, revision=7))
        assert await ids(store) == []
        await publish(known)
        assert await ids(store) == ["i1"]
        assert await there(store, "a") == [fired]


def _together(tx, believed, fired):
    maker = RowMaker(tx)
    maker.make(add("i1"))
    maker.write()
    tx.write(writes_of(NOW, schedules=[Write(believed, fired)]))
