"""Two processes on one store: each takes over the unfinished work of the other."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from harness import virtual_time
from harness.batches.facts import ANN, BOB, JOBS
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.batches.witness import WatchedFace
from harness.patience import TIMEOUT, until
from structlog.testing import capture_logs

from pubqueue.engine import reaper
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms, now
from pubqueue.engine.ports import StoreError
from pubqueue.engine.reaper import OtherProcesses, Reaper
from pubqueue.model.entities import ItemId, Jid, Millis
from pubqueue.model.notices import Deliver, Unlocked
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.presence import Arrive, Leave
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.stores.sqlite.in_memory import Memory, MemoryStore


class Notified(asyncio.Queue):
    """The notices of a process, in order."""

    def extend(self, notices):
        for notice in notices:
            self.put_nowait(notice)

    async def next(self):
        async with asyncio.timeout(TIMEOUT):
            return await self.get()


@pytest.fixture
def process(tmp_path, monkeypatch):
    """Return a function that starts a process: its broker, and its notices. The time is `later` than the machine's."""
    monkeypatch.setattr(reaper, "PROCESSES_PERIOD", 0.01)
    monkeypatch.setattr(reaper, "MAX_SLEEP", 0.01)

    def clock():
        return Millis(now() + start.later)

    @asynccontextmanager
    async def start(*, connected=True):
        store, heard = SqliteStore(tmp_path / "queue.db"), Notified()
        await store.open()
        reaper, watch = Reaper(clock=clock), OtherProcesses(store)
        broker = Broker(
            store,
            Terms(CreationPolicy.ANYONE),
            clock=clock,
            on_moment=reaper.on_moment,
            instance=await store.instances.enter(),
        )
        face = WatchedFace(broker, heard)
        broker.start()
        if connected:
            face.up()
        await broker.settled()  # what it may find locked at its start it sends again
        reaper.start(broker)
        watch.start(broker)
        try:
            yield broker, heard
        finally:
            await watch.stop()
            await reaper.stop()
            await broker.stop()
            await store.close()

    start.later = 0
    return start


async def test_items_of_a_process_without_stream_are_delivered_by_the_other(process):
    async with process(connected=False) as (cut_off, _), process() as (_, heard):
        for request in (a_queue(), joins(ANN), publishes("a")):
            await cut_off.handle(request)
        delivery = await heard.next()
        assert (type(delivery), delivery.to, delivery.item.id) == (Deliver, ANN, "a")


async def test_a_lock_of_a_process_that_is_gone_is_ended_by_the_other(process):
    async with process() as (_, heard):
        async with process() as (gone, _):
            for request in (a_queue(), joins(ANN), publishes("a")):
                await gone.handle(request)
        again = await heard.next()
        assert (again.to, again.item.id, again.again) == (ANN, "a", True)
        process.later = 301_000
        assert await heard.next() == Unlocked(ANN, JOBS, (ItemId("a"),))


async def test_unsent_deliveries_of_a_dead_process_are_sent_once_by_another(process):
    async with process() as (_, heard):
        async with process() as (gone, _):
            for request in (a_queue(), joins(ANN), publishes("a")):
                await gone.handle(request)
        again = await heard.next()
        assert (again.to, again.item.id, again.item.token) == (ANN, "a", 1)
        async with process() as (_, heard_too):
            pass
        async with process() as (_, heard_too):
            assert heard_too.empty()
        assert heard.empty()


async def test_a_process_that_stopped_cleanly_leaves_nothing_to_send(process):
    async with process() as (one, heard):
        async with process() as (other, heard_too):
            for request in (a_queue(), joins(ANN), publishes("a")):
                await other.handle(request)
            await heard_too.next()
            await other.undelivered.note_all_delivered()
        await one.handle(joins(BOB))
        await one.handle(publishes("b"))
        assert (await heard.next()).item.id == "b"


async def test_an_account_that_one_saw_come_is_gone_when_the_other_sees_it_leave(process):
    account, phone, laptop = Jid("ann@x"), Jid("ann@x/phone"), Jid("ann@x/laptop")
    async with process() as (one, heard), process() as (other, heard_too):
        for request in (a_queue(backoff_min=0), joins(account), Arrive(phone), Arrive(laptop)):
            await one.handle(request)
        await one.handle(publishes("a"))
        assert (await heard.next()).to == account
        await other.handle(joins(BOB))
        await other.handle(Leave(phone))
        assert heard_too.empty()
        await other.handle(Leave(laptop))
        assert (await heard_too.next()).to == BOB


async def test_a_store_that_cannot_report_changes_is_polled(process, monkeypatch):
    async def cannot(_store):
        raise StoreError("the disk is gone")

    monkeypatch.setattr(SqliteStore, "changes", cannot)
    async with process(connected=False) as (cut_off, _), process() as (_, heard):
        for request in (a_queue(), joins(ANN), publishes("a")):
            await cut_off.handle(request)
        assert (await heard.next()).to == ANN


@pytest.mark.parametrize("place", ["changes", "instances.wait_for_change", "instances.abandoned"])
async def test_errors_do_not_end_the_task(process, monkeypatch, place):
    """Items of others are delivered after any error, not only after an error of the store."""
    faults = [ZeroDivisionError(), RuntimeError("a fault of the test's")]
    *path, name = place.split(".")

    def failing(owner):
        call = getattr(owner, name)

        async def fails_at_first(*given):
            if faults:
                raise faults.pop()
            return await call(*given)

        return fails_at_first

    monkeypatch.setattr(reaper, "PROCESSES_PERIOD", 0.01)
    with capture_logs() as said:
        async with process(connected=False) as (cut_off, _), process() as (broker, heard):
            owner = broker.committer.store.instances if path else broker.committer.store
            monkeypatch.setattr(owner, name, failing(owner))
            for request in (a_queue(), joins(ANN, 2), publishes("a")):
                await cut_off.handle(request)
            assert (await heard.next()).to == ANN
            await until(lambda: not faults)
            await cut_off.handle(publishes("b"))
            assert (await heard.next()).item.id == "b"
    assert [entry["event"] for entry in said].count("other_processes.failed") == 2


async def test_starting_and_stopping_twice_do_no_harm(process):
    async with process() as (broker, _):
        watch = OtherProcesses(broker.committer.store)
        watch.start(broker)
        watch.start(broker)
        await watch.stop()
        await watch.stop()


@pytest.mark.parametrize("moment", [0.0, 0.3, 0.6, 0.9, 1.15])
def test_work_of_a_dead_process_is_continued_within_five_seconds(moment):
    """In virtual time, whenever it dies, its deliveries are sent again."""

    async def main():
        memory, loop = Memory(), asyncio.get_running_loop()
        async with in_memory(memory) as (_, heard), in_memory(memory) as (other, _):
            await asyncio.sleep(10 + moment)
            for request in (a_queue(lock_timeout=3600), joins(ANN), publishes("a")):
                await other.handle(request)
            began = loop.time()
            await other.committer.store.close()  # as the system does when a process is gone
            delivery = await heard.get()
            assert (delivery.to, delivery.item.id) == (ANN, "a")
            return loop.time() - began

    assert virtual_time.run(main()) < 5


@asynccontextmanager
async def in_memory(memory):
    """A process on a shared memory store."""
    store, heard = MemoryStore(memory), Notified()
    await store.open()
    watch = OtherProcesses(store)
    broker = Broker(
        store,
        Terms(CreationPolicy.ANYONE),
        clock=now,
        instance=await store.instances.enter(),
    )
    face = WatchedFace(broker, heard)
    broker.start()
    face.up()
    watch.start(broker)
    yield broker, heard
    await watch.stop()
    await broker.stop()
