"""No request waits behind work that does not end: a store may block a batch, or a read, for any time."""

import asyncio

import pytest
from harness.batches.facts import BOSS, NOW, who
from harness.batches.queue_requests import a_queue, publishes

from pubqueue.engine import task
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.model.decision import Refusal, Refused
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.presence import Leave
from pubqueue.rules.read import ReadNodes
from pubqueue.stores.sqlite.in_memory import MemoryStore

FAILED = Refused(Refusal.STORE_FAILED)


class Held:
    """A store that blocks until it is released; `asked` counts its callers."""

    def __init__(self, store):
        self._store = store
        self.asked = asyncio.Semaphore(0)
        self.free = asyncio.Event()

    async def batch(self, job):
        self.asked.release()
        await self.free.wait()
        return await self._store.batch(job)

    async def read(self, job):
        self.asked.release()
        await self.free.wait()
        return await self._store.read(job)


@pytest.fixture
async def held(monkeypatch):
    monkeypatch.setattr(task, "STALLED_AFTER", 0.01)
    monkeypatch.setattr(task, "PERIOD", 0.01)
    store = MemoryStore()
    await store.open()
    yield Held(store)
    await store.close()


@pytest.fixture
async def broker(held):
    broker = Broker(
        held,
        Terms(CreationPolicy.ANYONE),
        clock=lambda: NOW,
    )
    broker.start()
    held.free.set()
    await broker.handle(a_queue())
    await held.asked.acquire()
    held.free.clear()
    yield broker
    held.free.set()
    await broker.stop()


async def test_requests_behind_a_stalled_batch_are_refused(broker, held):
    first = asyncio.create_task(broker.handle(publishes("a")))
    await held.asked.acquire()
    assert await broker.handle(publishes("b")) == FAILED
    assert await broker.handle(publishes("c")) == FAILED  # who came later is found, too
    assert not first.done()
    held.free.set()
    assert (await first) != FAILED
    assert await broker.handle(publishes("b")) != FAILED


async def test_requests_behind_a_stalled_read_are_refused(broker, held):
    look = ReadNodes(who(BOSS))
    first = asyncio.create_task(broker.handle(look))
    await held.asked.acquire()
    assert await broker.handle(look) == FAILED
    assert not first.done()
    held.free.set()
    assert (await first) != FAILED
    assert await broker.handle(look) != FAILED


async def test_a_leave_during_a_stall_is_kept(broker, held):
    first = asyncio.create_task(broker.handle(publishes("a")))
    await held.asked.acquire()
    assert await broker.handle(Leave("bee@x/1")) == FAILED
    assert broker.presence_retry
    held.free.set()
    await first
