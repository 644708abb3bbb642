"""The task that pings holders: a holder that answers keeps its items, others lose them."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from harness.batches.facts import ANN, BOB, JOBS, NOW
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.batches.witness import WatchedFace
from harness.patience import until
from harness.stores.store_reader import StoreReader

from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.rows import Needs
from pubqueue.engine.silent_workers import SilentWorkers
from pubqueue.model.decision import Doubted
from pubqueue.model.entities import ItemId, Jid, Principal
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.presence import Arrive, Leave
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


async def test_a_holder_that_has_come_back_at_another_instance_keeps_what_it_has():
    """Pings that its earlier session left unanswered say nothing about the later one."""
    async with served(ANN) as (broker, store):

        def come_back(jid):
            broker.submit(Arrive(jid, NOW), lambda _reply: None)
            return True

        async def is_decided():
            return len(pinger.pings) >= 6 or await freed(store)

        workers = SilentWorkers(0.06)
        async with watching(broker, store, workers, come_back) as pinger:
            await until(is_decided)
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


# Those that are noted as here, and hold nothing themselves.

ACCOUNT, PHONE = Jid("ann@x"), Jid("ann@x/phone")


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr("pubqueue.engine.silent_workers.MAX_PAUSE", 0.01)


async def known(store):
    """Return the known resources of ann's and bob's."""
    found = await store.read(lambda tx: tx.load(Needs(resources={ACCOUNT, Jid("bob@x")})))
    return {*found.resources}


async def is_known(store, *jids):
    return await known(store) == {*jids}


async def test_when_a_stream_begins_all_are_asked_and_who_is_not_there_has_left(quick):
    async with served() as (broker, store):
        for jid in (ANN, BOB):
            await broker.handle(joins(jid))
            await broker.handle(Arrive(jid))
        workers = SilentWorkers(0)

        def answer(jid):
            (workers.is_gone if jid == ANN and len(pinger.pings) > 2 else workers.answered)(jid)
            return True

        async with watching(broker, store, workers, answer) as pinger:
            await until(lambda: len(pinger.pings) == 2)
            assert await is_known(store, ANN, BOB)
            workers.ask_all()
            await until(lambda: is_known(store, BOB))
        assert sorted(pinger.pings) == sorted([ANN, BOB] * 2)


async def test_after_an_hour_all_are_asked_again(quick, monkeypatch):
    monkeypatch.setattr("pubqueue.engine.silent_workers.ROUND", 0.03)
    async with served() as (broker, store):
        await broker.handle(joins(ANN))
        workers = SilentWorkers(0)
        async with watching(broker, store, workers, lambda _jid: True) as pinger:
            await until(lambda: len(pinger.pings) > 3)
            assert await is_known(store, ANN), "silence is no report"
            workers.is_gone(ANN)
            await until(lambda: is_known(store))


async def test_a_round_goes_on_page_by_page(quick, monkeypatch):
    monkeypatch.setattr("pubqueue.engine.silent_workers.PAGE", 2)
    jids = [Jid(f"ann@x/{number}") for number in range(5)]
    async with served() as (broker, store):
        for jid in jids:
            await broker.handle(joins(jid))
        workers = SilentWorkers(0)
        async with watching(broker, store, workers, lambda _jid: True) as pinger:
            await until(lambda: len(pinger.pings) >= len(jids))
        assert pinger.pings == jids


async def test_connections_of_a_former_life_that_earlier_versions_noted_are_forgotten(quick):
    async with served() as (broker, store):
        former = Jid(f"ann@{SERVICE}/line.{broker.instance.number}.before-1")
        mine = Jid(f"ann@{SERVICE}/line.{broker.instance.number}.{broker.new_name(1)}")
        for jid in (former, mine):
            await broker.handle(Arrive(jid))
            await broker.handle(joins(jid))

        async def noted():
            found = await store.read(lambda tx: tx.load(Needs(resources={Jid(f"ann@{SERVICE}")})))
            return found.resources

        assert sorted(await noted()) == sorted([former, mine])
        async with watching(broker, store, SilentWorkers(0), lambda _jid: True) as pinger:

            async def is_forgotten():
                return await noted() == [mine]

            await until(is_forgotten)
        assert not pinger.pings


async def account_holds(broker, *present):
    """Let these be present, and lock the item to the account."""
    await broker.handle(joins(ACCOUNT))
    for jid in present:
        await broker.handle(Arrive(jid))
    await broker.handle(publishes("0"))


async def test_who_keeps_the_work_of_an_account_is_asked_when_another_leaves_and_may_be_gone(
    quick,
):
    async with served() as (broker, store):
        await account_holds(broker, ANN, PHONE)
        workers = SilentWorkers(0)
        async with watching(broker, store, workers, lambda _jid: True) as pinger:
            await until(lambda: len(pinger.pings) == 2)
            reply = await broker.handle(Leave(ANN))
            assert reply == Doubted((PHONE,))
            workers.doubt(reply.jids)
            assert (await holder(store), pinger.pings[2:]) == ((ACCOUNT, 0), [PHONE])
            workers.is_gone(PHONE)
            await until(lambda: freed(store))


async def test_who_is_present_for_an_account_that_holds_items_is_pinged_like_a_holder():
    async with served() as (broker, store):
        await account_holds(broker, ANN, PHONE)
        workers = SilentWorkers(0.06)

        def answer(jid):
            if jid == ANN:
                workers.answered(jid)
            return True

        async with watching(broker, store, workers, answer) as pinger:
            await until(lambda: is_known(store, ANN))
            assert await holder(store) == (ACCOUNT, 0)
            assert pinger.pings.count(PHONE) >= 2
        async with watching(broker, store, workers, lambda _jid: True):
            await until(lambda: freed(store))


async def test_without_a_stream_nobody_is_doubted_in_vain(quick):
    async with served() as (broker, store):
        for jid in (ANN, BOB):
            await broker.handle(joins(jid))
        workers = SilentWorkers(0)
        async with watching(broker, store, workers, lambda _jid: False) as pinger:
            await until(lambda: pinger.pings)
            workers.doubt([ANN, PHONE])
            assert not workers.doubts(PHONE)
        assert pinger.pings.count(PHONE) == 0
