"""What the processes on a PostgreSQL have noted of their last batches, and when that is forgotten."""

from contextlib import asynccontextmanager

import psycopg
import pytest
from harness.stores.store_reader import StoreReader
from msgspec.structs import replace
from stores.steps import EMPTY, make

from pubqueue.engine.ports import StoreError
from pubqueue.model import changes as c
from pubqueue.model.entities import NodeName
from pubqueue.stores.postgres import schema
from pubqueue.stores.postgres.store import PostgresStore

IDS = "SELECT id FROM pubqueue.writer"


@asynccontextmanager
async def opened(postgres):
    store = PostgresStore(postgres.address)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def store(postgres):
    async with opened(postgres) as store:
        await make(store, c.CreateNode(EMPTY))
        yield store


async def test_the_last_batch_of_a_process_long_gone_is_forgotten(store, postgres):
    postgres.ask(
        "INSERT INTO pubqueue.writer VALUES ('gone', 7, now() - interval '31 days'), "
        "('quiet', 7, now() - interval '29 days')"
    )
    async with opened(postgres):
        assert set(postgres.ask(IDS)) == {("quiet",), (store.writer_id,)}


async def test_the_batch_of_another_is_not_waited_for(store, postgres):
    postgres.ask("INSERT INTO pubqueue.writer VALUES ('gone', 7, now() - interval '31 days')")
    with postgres.session() as writing:
        writing.execute("SELECT pg_advisory_lock(%s)", (schema.LOCK,))
        async with opened(postgres):
            assert set(postgres.ask(IDS)) == {("gone",), (store.writer_id,)}


async def test_a_batch_whose_note_is_gone_is_not_reported_as_undone(store, postgres):
    postgres.ask("DELETE FROM pubqueue.writer")
    line = store.line
    with pytest.raises(StoreError, match="nobody knows any more"):
        await line.run(lambda: store.is_committed(line, RuntimeError("cut")))


BUSY = "cannot exit pipeline mode while busy"
"""How libpq can report that the server ends, on a connection that is not closed yet."""
OTHER = replace(EMPTY, name=NodeName("other"))


async def is_there(store):
    return await store.read(lambda tx: StoreReader(tx).node(OTHER.name)) is not None


async def test_a_commit_that_was_carried_out_is_one_however_its_answer_failed(store, monkeypatch):
    leave, failed = psycopg.Pipeline.__exit__, []

    def fails_once(self, *problem):
        leave(self, *problem)
        if not failed:
            failed.append(self)
            raise psycopg.OperationalError(BUSY)

    monkeypatch.setattr(psycopg.Pipeline, "__exit__", fails_once)
    await make(store, c.CreateNode(OTHER))
    assert failed
    assert await is_there(store)


async def test_a_commit_that_did_not_reach_the_server_has_not_happened(store, monkeypatch):
    execute, failed = psycopg.Connection.execute, []

    def fails_once(self, query, *values, **options):
        if query == "COMMIT" and not failed:
            failed.append(self)
            raise psycopg.OperationalError(BUSY)
        return execute(self, query, *values, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", fails_once)
    with pytest.raises(StoreError, match=BUSY):
        await make(store, c.CreateNode(OTHER))
    assert failed
    assert not await is_there(store)
    await make(store, c.CreateNode(OTHER))
    assert await is_there(store)
