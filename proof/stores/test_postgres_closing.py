"""A PostgreSQL store is closed in about a second, also where its server has gone, or hangs."""

import asyncio
import os
import signal
import threading
from contextlib import suppress

import pytest
from harness.databases.postgres import Postgres
from harness.databases.postgres_cuts import CutWire
from harness.patience import TIMEOUT, turns
from stores.steps import EMPTY, add, ids, make

from pubqueue.engine.ports import StoreError
from pubqueue.model import changes as c
from pubqueue.stores.postgres import connection
from pubqueue.stores.postgres.connection import OwnThread
from pubqueue.stores.postgres.store import PostgresStore


@pytest.fixture
def server():
    with Postgres() as server:
        yield server


@pytest.fixture
async def store(server):
    store = PostgresStore(server.address)
    await store.open()
    await make(store, c.CreateNode(EMPTY))
    yield store
    await store.close()


class Hung:
    """The server and all that it has begun, stopped: they take in what is sent, and say nothing."""

    def __init__(self, server):
        self._server = server
        self._pids = []

    def __enter__(self):
        main = self._server.pid
        self._stop(main)  # it begins no more of them
        with open(f"/proc/{main}/task/{main}/children") as file:
            for pid in map(int, file.read().split()):
                self._stop(pid)

    def _stop(self, pid):
        self._pids.append(pid)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)

    def __exit__(self, *_):
        for pid in reversed(self._pids):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


async def test_a_batch_on_a_server_that_hangs_is_cut_off(server, store):
    with Hung(server):
        hanging = asyncio.create_task(make(store, add("a")))
        await turns()
        async with asyncio.timeout(TIMEOUT):
            await store.close()
            with pytest.raises(StoreError):
                await hanging
    await store.open()
    await make(store, add("b"))
    assert await ids(store) == ["b"]


async def test_a_read_on_a_server_that_hangs_is_cut_off(server, store):
    await store.read(lambda tx: None)
    with Hung(server):
        hanging = asyncio.create_task(store.read(lambda tx: tx.next_due()))
        await turns()
        async with asyncio.timeout(TIMEOUT):
            await store.close()
            with pytest.raises(StoreError):
                await hanging


async def test_a_commit_in_doubt_is_given_up_when_the_store_is_closed(server):
    """The server has committed and is gone before it can say so; for whoever asks nobody knows."""

    async def end():
        await asyncio.to_thread(server.stop)

    async with CutWire(server.port, end) as wire:
        store = PostgresStore(wire.address(server.address))
        await store.open()
        await make(store, c.CreateNode(EMPTY))
        wire.arm(3, answers=True)
        doubtful = asyncio.create_task(make(store, add("a")))
        async with asyncio.timeout(TIMEOUT):
            await wire.was_cut.wait()
            await store.close()
            with pytest.raises(StoreError):
                await doubtful
    server.start()


async def test_to_open_a_store_whose_server_hangs_can_be_given_up(server):
    store = PostgresStore(server.address)
    with Hung(server):
        opening = asyncio.create_task(store.open())
        await turns()
        opening.cancel()
        async with asyncio.timeout(TIMEOUT):
            await asyncio.wait([opening])
    assert opening.cancelled()


async def test_a_thread_that_does_not_come_back_is_left_alone(monkeypatch):
    monkeypatch.setattr(connection, "CLOSE_TIMEOUT", 0.05)
    line, go_on = connection.DatabaseConnection("host=nowhere"), threading.Event()
    stuck = asyncio.create_task(line.run(go_on.wait))
    await turns()
    async with asyncio.timeout(TIMEOUT):
        await line.close()
        assert not stuck.done()
        go_on.set()
        assert await stuck


def test_a_thread_of_ours_does_what_is_asked_in_order_and_keeps_no_process():
    thread, done = OwnThread("test"), []
    first, broken = thread.submit(done.append, "a"), thread.submit(done.remove, "none")
    dropped = thread.submit(done.append, "b")
    last = thread.submit(done.append, "c")
    assert first.result(TIMEOUT) is None
    with pytest.raises(ValueError, match="not in list"):
        broken.result(TIMEOUT)
    last.result(TIMEOUT)
    assert done == ["a", "b", "c"]
    assert dropped.done()
    (inner,) = [each for each in threading.enumerate() if each.name == "test"]
    assert inner.daemon
    thread.shutdown()
    assert not inner.is_alive()
