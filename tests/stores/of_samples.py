"""What every store promises about samples: one row for a node and a minute, whoever adds to it, and no more than the last hours."""

from __future__ import annotations

import pytest
from harness.batches.facts import JOBS, NOW
from msgspec.structs import replace
from stores.steps import DEAD, EMPTY, BrokenError, make, write

from pubqueue.engine.listings import Samples
from pubqueue.engine.rows import Write, Writes
from pubqueue.model import changes as c
from pubqueue.model.entities import Millis, NodeName
from pubqueue.model.records import SLOT, Sample

BEGIN = Millis(NOW - NOW % SLOT)
EVER = Millis(0)
FULL = Sample(
    JOBS,
    BEGIN,
    *(1, 2, 3, 4),
    published=10,
    delivered=20,
    completed=30,
    failed=40,
    waited=50,
    longest=60,
)


def at(minute, node=JOBS, **changes):
    return replace(FULL, node=node, at=Millis(BEGIN + minute * SLOT), **changes)


async def note(store, *samples, before=EVER, limit=100):
    await make(store, c.NoteSamples(samples, before, limit))


async def there(store, *nodes, since=EVER, limit=100):
    which = Samples(nodes or (JOBS,), since)
    return await store.batch(lambda tx: tx.page(which, None, limit))


class OfSamples:
    async def test_a_sample_is_kept_with_all_that_it_says(self, store):
        await note(store, FULL)
        assert await there(store) == [FULL]
        await store.close()
        await store.open()
        assert await there(store) == [FULL]

    async def test_two_processes_make_one_sample_of_a_minute(self, store):
        await note(store, FULL)
        await note(store, replace(FULL, queued=9, locked=0, published=1, longest=70))
        both = replace(
            FULL,
            queued=9,
            locked=0,
            published=11,
            delivered=40,
            completed=60,
            failed=80,
            waited=100,
            longest=70,
        )
        assert await there(store) == [both]

    async def test_samples_come_by_node_and_time_from_a_moment_on(self, store):
        await write(store, nodes=[Write(None, replace(EMPTY, name=DEAD))])
        await note(store, at(2), at(1, DEAD), at(1), at(3, DEAD))
        every = [at(1), at(2), at(1, DEAD), at(3, DEAD)]
        assert await there(store, JOBS, DEAD) == every
        assert await there(store, JOBS, DEAD, limit=2) == every[:2]
        since = Millis(BEGIN + 2 * SLOT)
        assert await there(store, JOBS, DEAD, since=since) == [at(2), at(3, DEAD)]

    async def test_a_sample_of_a_node_that_is_not_there_is_passed_over(self, store):
        other = NodeName("other")
        await note(store, at(1, other), at(1))
        assert await there(store, JOBS, other) == [at(1)]

    async def test_a_node_that_is_made_again_has_none_of_those_before(self, store):
        await note(store, FULL)
        await write(store, nodes=[Write(EMPTY, None)])
        await write(store, nodes=[Write(None, EMPTY)])
        assert await there(store) == []

    async def test_the_oldest_go_so_many_at_a_time(self, store):
        await note(store, at(1), at(2), at(3), at(4))
        end = Millis(BEGIN + 4 * SLOT)
        await note(store, before=end, limit=2)
        assert await there(store) == [at(3), at(4)]
        await note(store, before=end, limit=2)
        assert await there(store) == [at(4)]

    async def test_what_is_noted_in_vain_is_not_there(self, store):
        await note(store, at(1))

        def fail(tx):
            change = c.NoteSamples((at(1), at(5)), Millis(BEGIN + 2 * SLOT), 10)
            tx.write(Writes(NOW, bulk=[change]))
            raise BrokenError

        with pytest.raises(BrokenError):
            await store.batch(fail)
        assert await there(store) == [at(1)]
