"""Samples: what a process has done, a minute at a time, once; and what is there, whoever looks."""

import asyncio
from contextlib import asynccontextmanager

from harness.batches.facts import ANN, ETL, JOBS, NOW, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks
from harness.operators.page_service import SERVICE, Face
from harness.patience import TIMEOUT

from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.model.decision import Done, Refusal, Refused, refuse
from pubqueue.model.entities import Millis, NodeName
from pubqueue.model.records import KEPT, SLOT, Sample, SamplePage, slot_of
from pubqueue.monitor.counters import Tally
from pubqueue.monitor.event_counters import ItemEvent, Why
from pubqueue.monitor.sampling import Sampling
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.settle import Outcome
from pubqueue.rules.survey import MAX_SAMPLED, KeepSamples, ReadSamples
from pubqueue.stores.sqlite.in_memory import MemoryStore

MINUTE = slot_of(NOW)


class Process:
    """A broker that is watched, on a store that may be another's too."""

    def __init__(self, store):
        self.now = NOW
        self.sampling = Sampling(SERVICE, lambda: self.now)
        self.broker = Broker(
            store,
            Terms(CreationPolicy.ANYONE),
            clock=lambda: self.now,
            observers=(Tally(self.sampling),),
        )

        Face.up(self.broker)

    async def do(self, *requests):
        return [await self.broker.handle(request) for request in requests]

    async def keep(self, at=MINUTE):
        await self.sampling.keep(self.broker.handle, at)

    async def samples(self, *nodes):
        (page,) = await self.do(ReadSamples(SERVICE, nodes or (JOBS,), Millis(0)))
        return list(page.samples)


@asynccontextmanager
async def processes(count=1):
    store = MemoryStore()
    await store.open()
    found = [Process(store) for _ in range(count)]
    for one in found:
        one.broker.start()
    try:
        yield found
    finally:
        for one in found:
            await one.broker.stop()
        await store.close()


async def test_a_sample_counts_what_is_there_and_what_happened():
    async with processes() as (process,):
        await process.do(a_queue(), publishes("a", "b"))
        await process.keep()
        assert await process.samples() == [Sample(JOBS, MINUTE, queued=2, published=2)]


async def test_the_time_of_work_is_noted_and_failures_are_counted():
    async with processes() as (process,):
        await process.do(a_queue(), publishes("a", "b"), joins(ANN, 2))
        await process.broker.settled()
        process.now = Millis(NOW + 5_000)
        await process.do(retracts(ANN, "a"), unlocks(ANN, "b", outcome=Outcome.FAILED))
        await process.broker.settled()
        await process.keep()
        (sample,) = await process.samples()
        done = {"completed": 1, "failed": 1, "waited": 5_000, "longest": 5_000}
        assert {name: getattr(sample, name) for name in done} == done
        assert (sample.published, sample.delivered) == (2, 2)
        assert sample.queued + sample.locked + sample.delayed == 1


async def test_a_death_is_seen_in_the_node_that_the_item_goes_to():
    dead = NodeName("dead")
    async with processes() as (process,):
        await process.do(a_queue(dead), a_queue(dead_letter_node=dead), publishes("a"), joins(ANN))
        await process.broker.settled()
        await process.do(unlocks(ANN, "a", outcome=Outcome.REJECT))
        await process.keep()
        assert await process.samples(dead) == [Sample(dead, MINUTE, queued=1)]


async def test_at_the_end_of_each_minute_a_sample_is_kept_whatever_became_of_the_last():
    kept = asyncio.Event()
    async with processes() as (process,):
        await process.do(a_queue(), publishes("a"))
        process.now = Millis(MINUTE + SLOT - 1)
        asked = process.broker.handle
        faults = [RuntimeError("for once")]

        class Broken:
            async def handle(self, request):
                if faults:
                    raise faults.pop()
                reply = await asked(request)
                if isinstance(request, KeepSamples):
                    kept.set()
                return reply

        there = [None, Broken(), Broken()]
        running = process.sampling.task(lambda: there.pop(0) if len(there) > 1 else there[0])
        running.start()
        async with asyncio.timeout(TIMEOUT):
            await kept.wait()
        await running.stop()
        assert await process.samples() == [Sample(JOBS, MINUTE, queued=1, published=1)]


async def test_minutes_in_which_nothing_happened_have_no_sample():
    async with processes() as (process,):
        await process.do(a_queue(), publishes("a"))
        await process.keep()
        await process.keep(Millis(MINUTE + SLOT))
        assert len(await process.samples()) == 1


async def test_two_processes_do_not_count_double():
    async with processes(2) as (one, other):
        await one.do(a_queue(), publishes("a", "b"))
        await other.do(publishes("c"))
        await one.keep()
        await other.keep()
        expected = [Sample(JOBS, MINUTE, queued=3, published=3)]
        assert await one.samples() == await other.samples() == expected


async def test_what_could_not_be_kept_counts_for_the_next_minute():
    async with processes() as (process,):
        await process.do(a_queue(), publishes("a"))

        async def lost(request):
            if isinstance(request, KeepSamples):
                return refuse(Refusal.STORE_FAILED).reply
            return await process.broker.handle(request)

        async def silent(_request):
            return Refused(Refusal.STORE_FAILED)

        await process.sampling.keep(lost, MINUTE)
        await process.sampling.keep(silent, MINUTE)
        assert await process.samples() == []
        await process.do(publishes("b"))
        following = Millis(MINUTE + SLOT)
        await process.keep(following)
        assert await process.samples() == [Sample(JOBS, following, queued=2, published=2)]


async def test_old_samples_go():
    async with processes() as (process,):
        await process.do(a_queue(), publishes("a"))
        await process.keep()
        process.now = Millis(NOW + KEPT + 2 * SLOT)
        await process.do(publishes("b"))
        await process.keep(slot_of(process.now))
        assert [one.at for one in await process.samples()] == [slot_of(process.now)]


async def test_plain_nodes_and_nodes_that_are_gone_have_none():
    plain, gone = NodeName("plain"), NodeName("gone")
    async with processes() as (process,):
        await process.do(a_queue(plain, queueing=False), publishes("a", node=plain))
        process.sampling.note((), {(gone, ItemEvent.PUBLISHED, Why.NONE): 1}, {})
        await process.keep()
        assert await process.samples(plain, gone) == []


async def test_samples_are_for_administrators():
    async with processes() as (process,):
        no = await process.do(ReadSamples(who(ETL), (JOBS,), Millis(0)), KeepSamples(who(ETL), ()))
        assert [reply.refusal for reply in no] == [Refusal.FORBIDDEN] * 2
        yes = await process.do(ReadSamples(SERVICE, (JOBS,), Millis(0)), KeepSamples(SERVICE, ()))
        assert yes == [SamplePage((), NOW), Done()]


def test_no_more_nodes_are_counted_than_are_kept():
    sampling = Sampling(SERVICE, lambda: NOW)
    for number in range(MAX_SAMPLED + 5):
        sampling.note((), {(f"n{number}", ItemEvent.PUBLISHED, Why.NONE): 1}, {})
    sampling.note((), {("", ItemEvent.PUBLISHED, Why.NONE): 1}, {})
    assert len(sampling.counts) == MAX_SAMPLED


def test_a_process_without_a_page_counts_nothing_of_it():
    assert Tally().sampling is None
