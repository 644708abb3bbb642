"""The SQLite store: the contract, disks that are full, other processes, who runs its batches; and what it uses of aiosqlite beside its public interface."""

import asyncio
import errno
import os
import sqlite3
import threading
from contextlib import suppress
from itertools import groupby

import aiosqlite
import pytest
from harness.batches.facts import ANN, JOBS, NOW, after, held, window
from harness.stores.store_contents import everything, recount
from msgspec.structs import replace
from stores.contract import SharedStoreContract
from stores.of_kinds import OfKinds
from stores.of_relational import OfRelational
from stores.sqlite.asking import ask
from stores.steps import EMPTY, add, do, ids, items, make

from pubqueue.engine.listings import Nodes
from pubqueue.engine.ports import ForeignStoreError, StoreError, UnreachableStoreError
from pubqueue.engine.rows import Needs, Write, Writes
from pubqueue.model import changes
from pubqueue.model.entities import ItemId, Jid
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.stores.sqlite import connection as connection_module
from pubqueue.stores.sqlite import store as store_module


class TestSqlite(SharedStoreContract, OfKinds, OfRelational):
    """The contract, on a file in a folder of the test."""

    async def ask(self, store, statement):
        await ask(store, statement)

    @pytest.fixture
    def make_store(self, tmp_path):
        return lambda: SqliteStore(tmp_path / "queue.db")


@pytest.fixture
async def other(store, tmp_path):
    """Another store on the same file, as another process has it."""
    other = SqliteStore(tmp_path / "queue.db")
    await other.open()
    yield other
    await other.close()


# --- faults ------------------------------------------------------------------------------------------


@pytest.fixture
async def full(store):
    """A store whose disk is nearly full: SQLite then ends the transaction by itself."""
    await make(store, changes.CreateNode(EMPTY))
    ((pages,),) = await ask(store, "PRAGMA page_count")
    await store.connection.run(lambda raw: raw.execute(f"PRAGMA max_page_count = {pages + 4}"))
    return store


async def test_a_full_disk_leaves_nothing_of_the_batch(full):
    before = await full.batch(everything)

    def job(tx):
        do(tx, add("small"))
        do(tx, add("large", payload=b"x" * 65_536))

    with pytest.raises(StoreError, match="full"):
        await full.batch(job)
    assert await full.batch(everything) == before


def raising(problem):
    """Return a function that only raises this."""

    def fail(*_, **_named):
        raise problem

    return fail


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (sqlite3.SQLITE_FULL, UnreachableStoreError),
        (sqlite3.SQLITE_IOERR_SHMSIZE, UnreachableStoreError),  # no room for the index of the log
        (sqlite3.SQLITE_CORRUPT, ForeignStoreError),
    ],
)
async def test_a_full_disk_at_the_start_may_pass(tmp_path, monkeypatch, code, kind):
    problem = sqlite3.OperationalError("such")
    problem.sqlite_errorcode = code
    monkeypatch.setattr(store_module, "prepare", raising(problem))
    with pytest.raises(ForeignStoreError, match="such") as seen:
        await SqliteStore(tmp_path / "queue.db").open()
    assert seen.type is kind


@pytest.mark.parametrize(
    ("code", "kind"), [(errno.ENOSPC, UnreachableStoreError), (errno.EIO, StoreError)]
)
async def test_a_disk_without_room_for_a_number_takes_none(store, monkeypatch, code, kind):
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", raising(OSError(code, "such")))
        for _ in range(2):
            with pytest.raises(StoreError, match="such") as seen:
                await store.instances.enter()
            assert seen.type is kind
    assert (await store.instances.enter()).number == 0


async def test_what_follows_in_a_batch_that_the_disk_has_ended_is_not_made(full):
    before = await full.batch(everything)

    def job(tx):
        with pytest.raises(StoreError, match="full"):
            do(tx, add("large", payload=b"x" * 65_536))
        with pytest.raises(StoreError, match="has failed"):
            do(tx, add("small"))

    with pytest.raises(StoreError):
        await full.batch(job)
    assert await full.batch(everything) == before
    assert await full.batch(recount) == []


async def test_a_batch_that_caught_the_error_of_a_full_disk_is_not_committed(full):
    """SQLite itself would commit it: it has undone no more than the statement that met the end of the disk."""
    before = await full.batch(everything)

    def job(tx):
        do(tx, add("small"))
        with suppress(StoreError):
            do(tx, add("large", payload=b"x" * 65_536))

    with pytest.raises(StoreError, match="full"):
        await full.batch(job)
    assert await full.batch(everything) == before


class Stubborn:
    """SQLite's connection, on which some statements fail in a way of the test's own."""

    def __init__(self, raw, *failing):
        self._raw = raw
        self.failing = set(failing)

    def execute(self, statement, *values):
        if statement in self.failing:
            raise sqlite3.OperationalError("disk I/O error")
        return self._raw.execute(statement, *values)

    def __getattr__(self, name):
        return getattr(self._raw, name)

    def connect(self, *_where, **_how):
        return self

    def close(self):
        if self._raw is not None:
            self._raw.close()


def make_stubborn(connection, *failing):
    """Put one between that fails in these statements."""
    connection._connection = stubborn = Stubborn(connection._connection, *failing)
    return stubborn


async def test_a_batch_that_cannot_be_undone_is_not_gone_on_with(store):
    await make(store, changes.CreateNode(EMPTY))
    stubborn = make_stubborn(store.connection, "COMMIT", "ROLLBACK")
    for _ in range(3):
        with pytest.raises(StoreError, match="disk I/O"):
            await make(store, add("in-vain"))
    stubborn.failing.clear()
    await make(store, add("a"))
    assert await ids(store) == ["a"]


async def test_whatever_sqlite_meets_is_the_stores_error(store, tmp_path, monkeypatch):
    await make(store, changes.CreateNode(EMPTY))
    await store.read(lambda tx: tx.page(Nodes()))
    make_stubborn(store.reader, "BEGIN")
    with pytest.raises(StoreError, match="disk I/O"):
        await store.read(lambda tx: tx.page(Nodes()))
    make_stubborn(store.connection, "PRAGMA data_version")
    with pytest.raises(StoreError, match="disk I/O"):
        await store.changes()
    os.close(os.open(f"{tmp_path / 'queue.db'}-alone", os.O_CREAT))
    monkeypatch.setattr(sqlite3, "connect", Stubborn(None, "BEGIN").connect)
    with pytest.raises(StoreError, match="disk I/O"):
        await store.instances.enter()


async def test_a_connection_that_cannot_be_closed_keeps_no_other_from_it(store):
    await store.read(lambda tx: tx.page(Nodes()))
    reader, writer = store.reader, store.connection

    async def fail():
        await type(reader).close(reader)
        raise sqlite3.OperationalError("disk I/O error")

    reader.close = fail
    with pytest.raises(StoreError, match="disk I/O"):
        await store.close()
    with pytest.raises(ValueError, match="no active connection"):
        assert writer.raw
    await store.close()


async def test_a_batch_learns_once_that_others_have_written(store, other):
    async def foreign():
        return await store.batch(lambda tx: tx.foreign)

    assert [await foreign(), await foreign()] == [True, False]
    await make(other, changes.CreateNode(EMPTY))
    assert await store.changes()
    assert [await foreign(), await foreign(), await store.changes()] == [True, False, False]
    await store.read(lambda tx: tx.page(Nodes()))
    await other.read(lambda tx: tx.page(Nodes()))
    assert not await foreign()


async def test_a_batch_waits_for_the_lock_of_another_process(store, tmp_path):
    await make(store, changes.CreateNode(EMPTY))
    other = sqlite3.connect(tmp_path / "queue.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(make(store, add("a")))
    assert len(await store.read(lambda tx: tx.page(Nodes()))) == 1  # nor does the loop wait
    assert not waiting.done()
    other.execute("COMMIT")
    other.close()
    await waiting
    assert len(await items(store, "a")) == 1


async def test_patience_with_another_process_ends(store, tmp_path, monkeypatch):
    monkeypatch.setattr(connection_module, "LOCK_TIMEOUT", 0)
    other = sqlite3.connect(tmp_path / "queue.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        await make(store, changes.CreateNode(EMPTY))
    other.close()
    await make(store, changes.CreateNode(EMPTY))


# --- threads -----------------------------------------------------------------------------------------


async def runner(store):
    return await store.batch(lambda tx: threading.get_ident())


@pytest.mark.parametrize(("quick", "here"), [(0, False), (1e9, True)])
async def test_a_batch_runs_on_the_loops_thread_while_batches_are_quick(
    store, monkeypatch, quick, here
):
    monkeypatch.setattr(store_module, "QUICK", quick)
    assert (await runner(store) == threading.get_ident()) is here


async def test_a_batch_that_must_wait_for_the_lock_leaves_the_loops_thread(
    store, tmp_path, monkeypatch
):
    monkeypatch.setattr(store_module, "QUICK", 1e9)
    other = sqlite3.connect(tmp_path / "queue.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waiting = asyncio.create_task(runner(store))
    await store.read(lambda tx: tx.page(Nodes()))
    other.close()
    assert await waiting != threading.get_ident()


async def test_a_batch_whose_asker_has_gone_is_not_met_by_the_next(store, monkeypatch):
    monkeypatch.setattr(store_module, "QUICK", 0)
    begun, go_on = threading.Event(), threading.Event()

    def slow(tx):
        begun.set()
        go_on.wait()
        do(tx, changes.CreateNode(EMPTY))

    gone = asyncio.create_task(store.batch(slow))
    await asyncio.to_thread(begun.wait)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    monkeypatch.setattr(store_module, "QUICK", 1e9)
    after_it = asyncio.create_task(store.batch(lambda tx: tx.page(Nodes())))
    await store.read(lambda tx: tx.page(Nodes()))
    go_on.set()
    assert [node.name for node in await after_it] == [JOBS]


async def test_a_batch_of_many_items_takes_few_statements(store):
    await make(store, changes.CreateNode(EMPTY), changes.AddSubscription(window(ANN, 99)))
    await make(store, *(add(f"i{n}") for n in range(20)))
    said = []
    store.connection.raw.set_trace_callback(said.append)
    await store.batch(live)
    store.connection.raw.set_trace_callback(None)
    words = [
        " ".join(statement.split()[:3]) for statement in said if not statement.startswith("--")
    ]
    assert [word for word, _ in groupby(words)] == [
        "BEGIN IMMEDIATE",
        "PRAGMA data_version",
        "SELECT n.id, n.name,",
        "SELECT s.id, s.node_id,",
        "SELECT i.node_id, i.seq,",
        "INSERT INTO sequence",
        "DELETE FROM item",
        "INSERT INTO item",
        "UPDATE subscription SET",
        "UPDATE node SET",
        "COMMIT",
    ]


def live(tx):
    """Let twenty items go, and ten more come and be locked at once."""
    ids = {(JOBS, ItemId(f"i{n}")) for n in range(20)}
    rows = tx.load(Needs(nodes={JOBS}, subscriptions={(JOBS, Jid("ann@x"))}, items=ids))
    first = tx.number("item", 10)
    come = [replace(held(first + n), taken=NOW, deadline=after(9)) for n in range(10)]
    (node,), (window,) = rows.nodes, rows.subscriptions
    tx.write(
        Writes(
            NOW,
            nodes=[Write(node, replace(node, items=10))],
            subscriptions=[Write(window, replace(window, in_flight=10))],
            items=[Write(item, None) for item in rows.items] + [Write(None, i) for i in come],
            payloads={item.seq: b"<job/>" for item in come},
        )
    )


LOOKED_AT = "0.22.1"
"""The version in which `_conn`, `_execute` and `_thread` are as `stores/sqlite/store.py` needs them."""


@pytest.fixture
async def connection():
    async with aiosqlite.Connection(lambda: sqlite3.connect(":memory:"), 64) as found:
        yield found


def test_the_version_is_the_one_that_was_looked_at():
    assert aiosqlite.__version__ == LOOKED_AT


def execute(connection, job, *given):
    return connection._execute(job, *given)


def thread_of(connection):
    return connection._thread


async def test_a_job_runs_on_the_thread_of_the_connection_and_its_result_comes_back(connection):
    thread = await execute(connection, threading.current_thread)
    assert thread is thread_of(connection)
    assert thread is not threading.current_thread()
    assert await execute(connection, divmod, 7, 2) == (3, 1)


async def test_jobs_run_one_after_the_other_in_their_order(connection):
    found = []
    await asyncio.gather(*(execute(connection, found.append, number) for number in range(100)))
    assert found == list(range(100))


async def test_what_a_job_raises_comes_back_and_the_thread_lives(connection):
    with pytest.raises(ZeroDivisionError):
        await execute(connection, divmod, 7, 0)
    assert await execute(connection, divmod, 7, 2) == (3, 1)


async def test_the_connection_itself_can_be_used_while_the_thread_is_idle():
    connection = aiosqlite.Connection(
        lambda: sqlite3.connect(":memory:", check_same_thread=False), 64
    )
    async with connection:
        assert connection._conn.execute("SELECT 1").fetchone() == (1,)


async def test_the_thread_ends_when_the_connection_is_closed():
    connection = aiosqlite.Connection(lambda: sqlite3.connect(":memory:"), 64)
    await connection
    thread = thread_of(connection)
    await connection.close()
    await asyncio.to_thread(thread.join, 10)
    assert not thread.is_alive()
