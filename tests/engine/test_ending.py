"""Stopping does not wait for a store that does not answer: unsent deliveries are left to the next start."""

import asyncio

import pytest
from harness.batches.facts import BOSS, NOW, who
from harness.batches.queue_requests import a_queue, publishes
from harness.patience import TIMEOUT, turns
from structlog.testing import capture_logs

from pubqueue.engine import broker as broker_module
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.ports import StoreError
from pubqueue.engine.reader import ENDING
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.read import ReadNodes
from pubqueue.stores.sqlite.in_memory import MemoryStore
from pubqueue.wiring import serving as wired_store


class Silent(MemoryStore):
    """A store whose calls never return once `is_silent` is set."""

    def __init__(self):
        super().__init__()
        self.is_silent = False
        self.asked = asyncio.Event()

    async def _answer(self):
        if self.is_silent:
            self.asked.set()
            await asyncio.Event().wait()

    async def batch(self, job):
        await self._answer()
        return await super().batch(job)

    async def read(self, job):
        await self._answer()
        return await super().read(job)

    async def close(self):
        await self._answer()
        await super().close()


@pytest.fixture
async def store():
    store = Silent()
    await store.open()
    return store


@pytest.fixture
async def broker(store, monkeypatch):
    monkeypatch.setattr(broker_module, "ENDING", 0.05)
    broker = Broker(
        store,
        Terms(CreationPolicy.ANYONE),
        clock=lambda: NOW,
    )
    broker.start()
    await broker.handle(a_queue())
    return broker


@pytest.mark.parametrize("request_of", [lambda: publishes("a"), lambda: ReadNodes(who(BOSS))])
async def test_a_store_that_does_not_answer_does_not_keep_the_broker_from_stopping(
    store, broker, request_of
):
    reported = []
    store.is_silent = True
    broker.submit(request_of(), reported.append)
    await store.asked.wait()
    waiting = asyncio.create_task(broker.handle(publishes("b")))
    await turns()
    async with asyncio.timeout(TIMEOUT):
        await broker.drain(0)
        await broker.stop()
    assert broker.has_given_up
    assert reported == [], "whether it is done is not known"
    if isinstance(request_of(), ReadNodes):
        waiting.cancel()
    else:
        assert await waiting == ENDING


async def test_without_a_drain_the_end_is_bounded_as_well(store, broker):
    store.is_silent = True
    broker.submit(publishes("a"), lambda _reply: None)
    await store.asked.wait()
    async with asyncio.timeout(TIMEOUT):
        await broker.stop()
    assert broker.has_given_up


async def test_an_end_in_time_gives_nothing_up(broker):
    reported = []
    broker.submit(publishes("a"), reported.append)
    await broker.drain(TIMEOUT)
    await broker.stop()
    assert len(reported) == 1
    assert not broker.has_given_up


async def test_a_store_that_cannot_be_closed_keeps_no_process(store, monkeypatch):
    monkeypatch.setattr(wired_store, "CLOSING", 0.05)
    store.is_silent = True
    with capture_logs() as said:
        async with asyncio.timeout(TIMEOUT):
            await wired_store.close(store)
    assert [entry["event"] for entry in said] == ["store.not_closed"]


async def test_an_error_on_closing_a_store_is_logged():
    class Broken(MemoryStore):
        async def close(self):
            raise StoreError("disk I/O error")

    with capture_logs() as said:
        await wired_store.close(Broken())
    assert [(entry["event"], entry["why"]) for entry in said] == [
        ("store.not_closed", "disk I/O error")
    ]


async def test_a_store_that_does_not_open_is_not_waited_for_at_the_end():
    stop, begun = asyncio.Event(), asyncio.Event()

    async def opens():
        begun.set()
        await asyncio.Event().wait()

    reaching = asyncio.create_task(wired_store.reached(stop, opens))
    await begun.wait()
    stop.set()
    async with asyncio.timeout(TIMEOUT):
        assert await reaching is False
