"""The task that pings holders: a holder that answers keeps its items, others lose them."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from harness.batches.facts import ANN, JOBS, NOW
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.batches.witness import WatchedFace
from harness.patience import until
from harness.stores.store_reader import StoreReader

from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.silent_workers import SilentWorkers
from pubqueue.model.entities import ItemId, Jid, Principal
from pubqueue.rules.access import CreationPolicy
from pubqueue.stores.sqlite.in_memory import MemoryStore

SERVICE = Jid("queue.x")
LINE = Jid(f"bee@{SERVICE}/line.1.1")
OURS = [LINE, *(Jid(f"bee@{SERVICE}/{resource}") for resource in ("grpc.1-2", "rest.c.0a"))]
"""Connections, and other addresses of accounts of the service, at which no server answers a ping."""


class Pinger:
    """Counts pings; `then` is the result of each."""

    def __init__(self, then):
        self.pings, self._then = [], then

    def ping(self, jid):
        self.pings.append(jid)
        return self._then(jid)


@asynccontextmanager
async def served(*holders):
    store = MemoryStore()
    await store.open()
    broker = Broker(
        store,
        Terms(CreationPolicy.ANYONE),
        clock=lambda: NOW,
        service=Principal(SERVICE, admin=True),
    )
    WatchedFace(broker, []).up()
    broker.start()
    await broker.handle(a_queue(access_model="open"))
    for number, jid in enumerate(holders):
        await broker.handle(joins(jid))
        await broker.handle(publishes(f"{number}"))
    try:
        yield broker, store
    finally:
        await broker.stop()
        await store.close()


@asynccontextmanager
async def watching(broker, store, workers, then):
    pinger = Pinger(then)
    task = asyncio.create_task(workers.run(broker, store, pinger))
    try:
        yield pinger
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def holder(store, number=0):
    item = await store.read(lambda tx: StoreReader(tx).item(JOBS, ItemId(f"{number}")))
    return item.holder, item.failed


async def freed(store):
    return await holder(store) == (None, 1)


async def test_a_holder_that_answers_nothing_is_pinged_twice_and_has_left():
    async with served(ANN, *OURS) as (broker, store):
        workers = SilentWorkers(0.06)
        async with watching(broker, store, workers, lambda _jid: True) as pinger:
            await until(lambda: freed(store))
        assert pinger.pings == [ANN, ANN]
        for number, jid in enumerate(OURS, 1):
            assert await holder(store, number) == (jid, 0), "its own face watches it"


async def test_a_holder_that_answers_keeps_its_item():
    async with served(ANN) as (broker, store):
        workers = SilentWorkers(0.06)

        def answer(jid):
            workers.answered(jid)
            return True

        async with watching(broker, store, workers, answer) as pinger:
            await until(lambda: len(pinger.pings) >= 4)
        assert await holder(store) == (ANN, 0)


async def test_a_holder_that_its_server_reports_as_gone_has_left_at_once():
    async with served(ANN) as (broker, store):
        workers = SilentWorkers(0.06)

        def refuse(jid):
            workers.is_gone(jid)
            return True

        async with watching(broker, store, workers, refuse) as pinger:
            await until(lambda: freed(store))
        assert pinger.pings == [ANN]


async def test_an_answer_that_another_instance_got_counts():
    async with served(ANN) as (broker, store):
        workers, other = SilentWorkers(0.06), SilentWorkers(0)
        async with watching(broker, store, other, lambda _jid: True):

            def answer(jid):
                other.answered_elsewhere(jid)
                return True

            async with watching(broker, store, workers, answer) as pinger:
                await until(lambda: len(pinger.pings) >= 6)
        assert await holder(store) == (ANN, 0)


async def test_a_ping_that_cannot_be_sent_proves_nothing_about_the_holder():
    async with served(ANN) as (broker, store):
        async with watching(broker, store, SilentWorkers(0.06), lambda _jid: False) as pinger:
            await until(lambda: len(pinger.pings) >= 4)
        assert await holder(store) == (ANN, 0)


async def test_without_a_time_no_worker_is_pinged(monkeypatch):
    monkeypatch.setattr("pubqueue.engine.silent_workers.MAX_PAUSE", 0.01)
    async with served(ANN) as (broker, store):
        workers = SilentWorkers(0.03)
        async with watching(broker, store, workers, lambda _jid: False) as pinger:
            await until(lambda: pinger.pings)
            workers.ping_after = 0
            await until(lambda: not workers.silent)
        assert await holder(store) == (ANN, 0)
