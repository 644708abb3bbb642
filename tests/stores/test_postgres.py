"""The PostgreSQL store: the contract, on a server of the tests' own, and the schemas that it refuses."""

import asyncio
import re

import psycopg
import pytest
from harness.batches.inside import postgres_connection_in
from stores.contract import SharedStoreContract
from stores.of_kinds import OfKinds
from stores.of_relational import OfRelational

from pubqueue.engine.listings import Nodes
from pubqueue.engine.ports import ForeignStoreError, StoreError
from pubqueue.stores.postgres.store import PostgresStore
from pubqueue.stores.reading_errors import look


class TestPostgres(SharedStoreContract, OfKinds, OfRelational):
    """The contract, in a database whose role may do nothing else."""

    @pytest.fixture
    def make_store(self, postgres):
        return lambda: PostgresStore(postgres.address)

    async def ask(self, store, statement):
        await store.batch(
            lambda tx: postgres_connection_in(tx).execute(statement.encode()) and None
        )


# --- schemas ---------------------------------------------------------------------------------------


@pytest.fixture
def database(postgres):
    """A database of its own, in which the role may make a schema."""
    postgres.ask("CREATE DATABASE other")
    postgres.ask("GRANT CREATE ON DATABASE other TO queue")
    yield postgres.address.replace("/queues", "/other")
    postgres.ask("DROP DATABASE other WITH (FORCE)")


def as_role(database, *statements):
    with psycopg.connect(database) as connection:
        for statement in statements:
            connection.execute(statement.encode())


OURS = "CREATE TABLE pubqueue.pubqueue (program text, schema integer)"


@pytest.mark.parametrize(
    ("statements", "sentence"),
    [
        (
            ["CREATE TABLE pubqueue.theirs (x int)"],
            "the schema pubqueue belongs to another program",
        ),
        (
            ["CREATE TABLE pubqueue.pubqueue (x int)"],
            "the schema pubqueue belongs to another program",
        ),
        (
            [OURS, "INSERT INTO pubqueue.pubqueue VALUES ('theirs', 1)"],
            "the schema pubqueue belongs to another program",
        ),
        (
            [OURS, "INSERT INTO pubqueue.pubqueue VALUES ('pubqueue', 999)"],
            "its schema is number 999, this program knows [0-9]+; use a newer one",
        ),
    ],
)
async def test_a_schema_that_is_not_ours_is_refused_in_one_sentence(database, statements, sentence):
    as_role(database, "CREATE SCHEMA pubqueue", *statements)
    store = PostgresStore(database)
    with pytest.raises(ForeignStoreError) as refused:
        await store.open()
    assert re.fullmatch(f"PostgreSQL: {sentence}", str(refused.value))
    with pytest.raises(StoreError, match="closed"):
        await store.batch(lambda tx: tx.page(Nodes()))
    as_role(database, "DROP SCHEMA pubqueue CASCADE")
    await store.open()  # once the place is good
    await store.close()


async def test_a_schema_that_may_not_be_made_is_refused_in_one_sentence(postgres, database):
    postgres.ask("REVOKE CREATE ON DATABASE other FROM queue")
    with pytest.raises(ForeignStoreError, match="the schema pubqueue cannot be made: permission"):
        await PostgresStore(database).open()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("/queues", "/none", 'database "none" does not exist'),
        ("queue@", "nobody@", 'role "nobody" does not exist'),
    ],
)
async def test_a_place_that_is_not_there_is_refused(postgres, old, new, sentence):
    with pytest.raises(ForeignStoreError, match=sentence):
        await PostgresStore(postgres.address.replace(old, new)).open()


async def test_many_processes_may_make_the_schema_at_once(database):
    stores = [PostgresStore(database) for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    assert [await store.batch(lambda tx: tx.page(Nodes())) for store in stores] == [[]] * 6
    await asyncio.gather(*(store.close() for store in stores))


async def test_settings_that_lose_confirmed_work_are_reported(postgres):
    store = PostgresStore(postgres.address)
    await store.open()
    await store.close()

    def reported():
        said = look(postgres.address, lambda tx: tx.page(Nodes())).says
        return [sentence.partition(":")[0] for sentence in said]

    assert reported() == ["the server has fsync off"]  # as the tests have it
    postgres.ask("ALTER ROLE queue SET synchronous_commit = off")
    try:
        expected = ["the server has fsync off", "the server has synchronous_commit off"]
        assert reported() == expected
    finally:
        postgres.ask("ALTER ROLE queue RESET synchronous_commit")


async def test_what_is_confirmed_is_on_disk_under_any_setting_of_the_server(postgres):
    store = PostgresStore(postgres.address)
    postgres.ask("ALTER ROLE queue SET synchronous_commit = off")
    try:
        await store.open()
        setting = await store.batch(
            lambda tx: postgres_connection_in(tx).execute("SHOW synchronous_commit").fetchone()
        )
    finally:
        postgres.ask("ALTER ROLE queue RESET synchronous_commit")
        await store.close()
    assert setting == ("on",)
