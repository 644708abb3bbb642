"""A newer version beside an older one: it leaves the store as it is while somebody serves, and goes on when nobody does."""

import asyncio
import fcntl
import os
import sqlite3
from contextlib import closing, contextmanager

import psycopg
import pytest
from harness.stores import furnished_then
from harness.stores.store_contents import everything
from stores.copying.test_copy import empty_database
from stores.steps import EMPTY, add, make

from pubqueue.engine.ports import ForeignStoreError, Instance, StoreError, UnreachableStoreError
from pubqueue.model import changes as c
from pubqueue.stores import postgres as on_postgres
from pubqueue.stores import sqlite as on_sqlite
from pubqueue.stores import store_at
from pubqueue.stores.copying import backups
from pubqueue.stores.postgres.schema import LOCK, nobody_serves
from pubqueue.stores.sql.columns import LEASE
from pubqueue.stores.sql.session import scripts
from pubqueue.stores.sqlite.instances import alone

SERVED = "a process of another version serves from it; stop that first"
LIVES = "SELECT pg_advisory_lock_shared(%s, 7)"
DIES = "SELECT pg_advisory_unlock_shared(%s, 7)"


class Unwatched:
    """Nobody looks on."""

    def begin(self, rows):
        """Pass over it."""

    def step(self, what, rows):
        """Pass over it."""


class OnSqlite:
    """A file of the last schema but one."""

    newest = len(scripts(on_sqlite.__name__))

    def __init__(self, folder):
        self.path = folder / "queue.db"
        self.address = f"sqlite://{self.path}"
        furnished_then.sqlite_of(self.path, self.newest - 1)

    @property
    def number(self):
        with closing(sqlite3.connect(self.path)) as file:
            return file.execute("PRAGMA user_version").fetchone()[0]

    def change_schema(self, number):
        with closing(sqlite3.connect(self.path)) as file:
            file.execute(f"PRAGMA user_version = {number}")

    @contextmanager
    def served(self):
        """Have an older program serve from it: it has the lock of its number."""
        number = os.open(f"{self.path}-instance-0", os.O_RDWR | os.O_CREAT)
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
        os.close(number)

    @contextmanager
    def brought_up(self):
        """Have somebody bring it to another schema."""
        with alone(self.path):
            yield


class OnPostgres:
    """A schema of the last number but one."""

    newest = len(scripts(on_postgres.__name__))

    def __init__(self, address):
        self.address = address
        furnished_then.postgres_of(address, self.newest - 1)

    def ask(self, statement, *values):
        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute("SET search_path = pubqueue")
            cursor = connection.execute(statement, values)
            return cursor.fetchone()[0] if cursor.description else None

    @property
    def number(self):
        return self.ask("SELECT schema FROM pubqueue")

    def change_schema(self, number):
        self.ask("UPDATE pubqueue SET schema = %s", number)

    @contextmanager
    def served(self):
        """Have an older program serve from it: it has the lock of its epoch."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute(LIVES, (LOCK,))
            yield
            connection.execute(DIES, (LOCK,))  # its end alone is noticed a moment later

    @contextmanager
    def brought_up(self):
        """Have somebody bring it to another schema."""
        with psycopg.connect(self.address, cursor_factory=psycopg.RawCursor) as connection:
            connection.execute("SET search_path = pubqueue")
            assert nobody_serves(connection, self.newest)
            yield


@pytest.fixture(params=["sqlite", "postgres"])
def older(request, tmp_path):
    """A store that another version has left."""
    if request.param == "sqlite":
        yield OnSqlite(tmp_path)
        return
    server = request.getfixturevalue("postgres")
    yield OnPostgres(empty_database(server))
    server.ask("DROP DATABASE other WITH (FORCE)")


async def test_a_store_that_is_served_keeps_its_schema(older):
    with older.served():
        store = store_at(older.address)
        with pytest.raises(UnreachableStoreError, match=SERVED):  # the service waits for it
            await store.open()
        assert older.number == older.newest - 1
        await store.close()
    store = store_at(older.address)
    await store.open()
    assert older.number == older.newest
    assert isinstance(await store.instances.enter(), Instance)
    await store.close()


async def test_a_lease_that_is_not_over_counts_as_a_process(postgres):
    older = OnPostgres(empty_database(postgres))
    try:
        older.ask(f"UPDATE instance SET until = clock_timestamp() + interval '{LEASE} seconds'")
        store = store_at(older.address)
        with pytest.raises(UnreachableStoreError, match=SERVED):
            await store.open()
        older.ask("UPDATE instance SET until = 'epoch'")
        await store.open()
        assert older.number == older.newest
        await store.close()
    finally:
        postgres.ask("DROP DATABASE other WITH (FORCE)")


async def test_a_process_that_waited_while_the_schema_changed_does_not_serve(older):
    store = store_at(older.address)
    await store.open()  # it waits for its place at the server
    older.change_schema(older.newest + 1)
    with pytest.raises(ForeignStoreError, match=f"its schema is number {older.newest + 1}"):
        await store.instances.enter()
    older.change_schema(older.newest)
    assert isinstance(await store.instances.enter(), Instance)
    await store.close()


async def test_no_process_begins_to_serve_during_a_migration(older):
    store = store_at(older.address)
    await store.open()
    with older.brought_up(), pytest.raises(StoreError, match="is being copied"):
        await store.instances.enter()  # as it is in older programs too
    assert isinstance(await store.instances.enter(), Instance)
    await store.close()


async def test_two_that_bring_it_up_at_once_both_go_on(older):
    stores = [store_at(older.address) for _ in range(3)]
    await asyncio.gather(*(store.open() for store in stores))
    assert older.number == older.newest
    await asyncio.gather(*(store.close() for store in stores))


# --- a backup beside a service -------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_backup_carries_no_living_process_and_disturbs_none(tmp_path, postgres, kind):
    address = postgres.address if kind == "postgresql" else f"sqlite://{tmp_path}/served.db"
    serves = store_at(address)
    await serves.open()
    assert await serves.instances.enter() == Instance(0)
    await make(serves, c.CreateNode(EMPTY), add("before"))
    seen = await serves.batch(everything)
    file = tmp_path / "sunday.backup"
    backups.backup(address, file, Unwatched())
    await serves.instances.renew()
    await make(serves, add("after"))
    other = empty_database(postgres)
    try:
        for target in (other, f"sqlite://{tmp_path}/restored.db"):
            backups.restore(file, target, Unwatched())
            store = store_at(target)
            await store.open()
            assert await store.batch(everything) == seen
            # at once, without a wait for the end of a lease; what it may have left unsaid is said again
            assert await store.instances.enter() == Instance(0, died=True)
            assert await store.instances.abandoned() == []
            await store.close()
    finally:
        postgres.ask("DROP DATABASE other WITH (FORCE)")
    await make(serves, add("later"))
    await serves.close()
