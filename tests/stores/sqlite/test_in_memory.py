"""The store in the memory of a process: the contract, and what it costs to begin."""

import asyncio
import sqlite3
from functools import partial
from pathlib import Path

import pytest
from harness.batches.inside import session_in
from harness.stores.store_contents import next_token
from stores.contract import SharedStoreContract
from stores.of_kinds import OfKinds
from stores.of_relational import OfRelational

from pubqueue.engine.listings import Nodes
from pubqueue.stores import store_at
from pubqueue.stores.sqlite import in_memory
from pubqueue.stores.sqlite.in_memory import Memory, MemoryStore
from pubqueue.stores.sqlite.schema import migrations, prepare, schema_number


class TestInMemory(SharedStoreContract, OfKinds, OfRelational):
    """The contract, of stores beside each other in the same memory."""

    @pytest.fixture
    def make_store(self):
        return partial(MemoryStore, Memory())

    async def ask(self, store, statement):
        await store.batch(lambda tx: session_in(tx).connection.execute(statement) and None)


async def test_what_one_store_keeps_another_knows_nothing_of():
    one, another = MemoryStore(), MemoryStore()
    for store in (one, another):
        await store.open()
    await one.batch(lambda tx: tx.number("token", 5))
    assert await another.batch(next_token) == 1
    assert not await another.changes()


async def test_a_batch_that_writes_nothing_is_no_change_for_others():
    memory = Memory()
    one, another = MemoryStore(memory), MemoryStore(memory)
    for store in (one, another):
        await store.open()
    await one.batch(lambda tx: tx.page(Nodes()))
    assert not await another.changes()
    await one.batch(next_token)
    assert (await one.changes(), await another.changes()) == (False, True)


def schema(connection):
    return connection.execute("SELECT type, name, sql FROM sqlite_schema ORDER BY 1, 2").fetchall()


def test_it_has_the_schema_of_a_file(tmp_path):
    file = sqlite3.connect(tmp_path / "queue.db", isolation_level=None)
    prepare(file, Path(tmp_path, "queue.db"))
    memory = Memory()
    assert schema(memory.connection) == schema(file)
    assert schema_number(memory.connection) == len(migrations())
    assert memory.connection.execute("PRAGMA foreign_keys").fetchone() == (1,)
    file.close()


def test_only_the_first_store_of_a_process_runs_the_migrations(monkeypatch):
    MemoryStore()
    monkeypatch.setattr(in_memory, "migrate", None)
    store_at("memory:")


def test_a_store_in_memory_without_users_is_closed():
    store = MemoryStore()
    asyncio.run(store.open())
    connection = store._memory.connection
    del store
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
