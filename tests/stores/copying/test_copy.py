"""A store is copied into another one: wholly, of one moment, and never served while half of it is there."""

import asyncio
import itertools
import os
import sqlite3
import subprocess
import sys
from contextlib import closing, nullcontext
from pathlib import Path

import psycopg
import pytest
from harness.batches.facts import window
from harness.stores import furnished
from harness.stores.store_contents import everything, recount
from stores.steps import EMPTY, add, lock, make

from pubqueue.engine.ports import ForeignStoreError, Instance, StoreError
from pubqueue.model import changes
from pubqueue.stores import store_at
from pubqueue.stores.copying import RefusedError, copy
from pubqueue.stores.copying.copy import AT_ONCE, OF_PROCESSES, agreed, differences
from pubqueue.stores.copying.postgres import PostgresPlace
from pubqueue.stores.copying.sqlite import SqlitePlace, _batches
from pubqueue.stores.postgres import schema
from pubqueue.stores.sqlite.schema import prepare


class Unwatched:
    """Nobody looks on."""

    def begin(self, rows):
        self.rows = rows

    def step(self, what, rows):
        self.rows -= rows


def moved(source, target):
    """Copy, and return the rows of each table."""
    watch = Unwatched()
    copied = copy(source, target, watch)
    assert watch.rows == 0, "every row is counted twice: once read, once compared"
    return {one.table: one.rows for one in copied}


def dump(path):
    """Return all rows of all tables of a SQLite store, but the payloads that a sweep is to delete: those are not copied."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name != 'large_payload_gone'"
        ).fetchall()
        return {
            name: sorted(connection.execute(f"SELECT * FROM {name}").fetchall(), key=repr)
            for (name,) in tables
        }


@pytest.fixture
def files(tmp_path):
    """Addresses of SQLite stores that are not there yet."""
    return [f"sqlite://{tmp_path}/{name}.db" for name in "abc"]


def path_of(address):
    return Path(address.removeprefix("sqlite://"))


def empty_database(server):
    server.ask("CREATE DATABASE other")
    server.ask("GRANT CREATE ON DATABASE other TO queue")
    return server.address.replace("/queues", "/other")


@pytest.fixture
def other(postgres):
    """Another database, in which there is no schema yet."""
    yield empty_database(postgres)
    postgres.ask("DROP DATABASE other WITH (FORCE)")


# --- everything ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_everything_comes_through_every_kind_of_store(files, postgres, other, seed):
    furnished.furnish(path_of(files[0]), seed)
    before = dump(path_of(files[0]))
    assert all(before.values()), "there is something in every table"
    way = [*files[:2], postgres.address, other, files[2]]
    counts = [moved(*step) for step in itertools.pairwise(way)]
    assert counts == [counts[0]] * 4
    assert dump(path_of(files[1])) == dump(path_of(files[2])) == before


def test_there_is_a_value_in_every_column(tmp_path):
    furnished.furnish(tmp_path / "a.db")
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        for table, found in SqlitePlace(tmp_path / "a.db", connection).tables().items():
            for column in found.columns:
                own = {"place": "row"}.get(column, column) if table == "staged" else column
                (count,) = connection.execute(f'SELECT count("{own}") FROM {table}').fetchone()
                assert count, f"nothing is in {table}.{column}"


def test_the_schemas_of_both_have_the_same_to_copy(tmp_path, postgres):
    with (
        closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as one,
        psycopg.connect(postgres.address, cursor_factory=psycopg.RawCursor) as other,
    ):
        prepare(one, tmp_path / "a.db")
        schema.prepare(other)
        here, there = SqlitePlace(tmp_path / "a.db", one).tables(), PostgresPlace(other).tables()
        all_there = {
            name
            for (name,) in other.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = 'pubqueue'"
            ).fetchall()
        }
    assert differences(here, there) == []
    assert all_there - there.keys() == OF_PROCESSES
    assert {name: table.key for name, table in here.items()} == {
        name: table.key for name, table in there.items()
    }


def test_what_only_one_schema_has_is_an_error(files, tmp_path):
    furnished.furnish(path_of(files[0]))
    furnished.furnish(path_of(files[1]))
    with closing(sqlite3.connect(path_of(files[0]))) as connection:
        connection.execute("ALTER TABLE item ADD COLUMN forgotten TEXT")
        connection.execute("CREATE TABLE forgotten (id INTEGER PRIMARY KEY) STRICT")
    with pytest.raises(
        StoreError, match=r"only one has forgotten; item.forgotten is text in one only"
    ):
        copy(*files[:2], Unwatched())


def test_rows_are_written_behind_those_that_they_refer_to(tmp_path):
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as connection:
        prepare(connection, tmp_path / "a.db")
        tables = SqlitePlace(tmp_path / "a.db", connection).tables()
    order = [table.name for table in agreed(tables, tables)]
    for table in tables.values():
        assert all(order.index(one) < order.index(table.name) for one in table.refers)
    assert order.index("node") < order.index("contents") < order.index("item")


def test_no_more_is_kept_at_once_than_a_few_rows():
    read = []

    def rows(byte_count, count):
        for number in range(count):
            read.append(number)
            yield number, b"x" * byte_count

    for byte_count, most in ((1_000_000, 5), (10_000_000, 1), (1, AT_ONCE)):
        read.clear()
        sizes = []
        for batch, _ in _batches(rows(byte_count, 12 if byte_count > 1 else 1200)):
            sizes.append(len(batch))
            assert len(read) == sum(sizes), "nothing is read ahead"
        assert max(sizes) == most


# --- the service goes on ---------------------------------------------------------------------------


async def seen(address):
    store = store_at(address)
    await store.open()
    try:
        assert await store.batch(recount) == []
        return await store.batch(everything)
    finally:
        await store.close()


async def work(address, name):
    """Publish and lock on a store, and return what was locked."""
    store = store_at(address)
    await store.open()
    try:
        await make(store, add(name), changes.PurgeNode(EMPTY.name)) if name == "purged" else None
        await make(store, add(f"{name}2"))
        number = await store.batch(lambda tx: tx.number("token", 1))
        return await lock(store, f"{name}2", token=number)
    finally:
        await store.close()


async def test_a_service_goes_on_from_its_copy_and_comes_back(files, postgres):
    store = store_at(files[0])
    await store.open()
    await make(
        store, changes.CreateNode(EMPTY), changes.AddSubscription(window(requests=9)), add("first")
    )
    await store.close()
    ways = [(files[0], postgres.address), (postgres.address, files[1])]
    known = [await work(files[0], "a")]
    for source, target in ways:
        before = await seen(source)
        moved(source, target)
        assert await seen(target) == before
        known.append(await work(target, f"on{len(known)}"))
    assert [item.seq for item in known] == sorted({item.seq for item in known})
    assert [item.token for item in known] == sorted({item.token for item in known})


async def test_ids_are_not_given_again_on_the_other_side(files, postgres, other):
    store = store_at(files[0])
    await store.open()
    await make(store, changes.CreateNode(EMPTY), changes.DeleteNode(EMPTY.name))
    await store.close()
    way = [files[0], postgres.address, other, files[1]]
    for source, target in itertools.pairwise(way):
        moved(source, target)
    store = store_at(files[1])
    await store.open()
    await make(store, changes.CreateNode(EMPTY))
    await store.close()
    with closing(sqlite3.connect(path_of(files[1]))) as connection:
        assert connection.execute("SELECT id FROM node").fetchall() == [(2,)]


async def test_an_item_that_is_dead_is_dead_in_the_copy(files, postgres):
    furnished.furnish(path_of(files[0]))
    store = store_at(files[0])
    await store.open()
    for number in range(3):
        assert await store.instances.enter() == Instance(number)
    await store.instances.leave(1)
    await store.close()  # 0 and 2 have not left
    way = [files[0], postgres.address, files[1]]
    for source, target in itertools.pairwise(way):
        moved(source, target)
        store = store_at(target)
        await store.open()
        assert sorted(await store.instances.abandoned()) == [0, 2]
        await store.close()


# --- what is refused -------------------------------------------------------------------------------


def kinds(test):
    return pytest.mark.parametrize("kind", ["sqlite", "postgresql"])(test)


def place(kind, files, server):
    return files[0] if kind == "sqlite" else server.address


@kinds
async def test_a_store_that_is_served_is_neither_source_nor_target(files, postgres, kind):
    address = place(kind, files, postgres)
    store = store_at(address)
    await store.open()
    await store.instances.enter()
    for way in ((address, files[1]), (files[2], address)):
        furnished.furnish(path_of(files[2])) if way[0] == files[2] else None
        with pytest.raises(StoreError, match="a process serves from it; stop it first"):
            copy(*way, Unwatched())
    await store.instances.leave(0)
    await store.close()
    assert moved(address, files[1])["item"] == 0


class Meanwhile(Unwatched):
    """Does something once in the middle of a copy."""

    def __init__(self, what):
        self._what = what

    def step(self, what, rows):
        if what == "copying item":
            job, self._what = self._what, lambda: None
            job()


@kinds
def test_no_process_serves_from_a_store_while_it_is_copied(files, postgres, kind):
    furnished.furnish(path_of(files[1]))
    address = place(kind, files, postgres)
    said = []

    async def enter(address):
        store = store_at(address)
        try:
            await store.open()
            await store.instances.enter()
        except StoreError as problem:
            said.append(str(problem))
        finally:
            await store.close()

    copy(files[1], address, Meanwhile(lambda: asyncio.run(enter(address))))
    assert "is not complete" in said.pop()
    copy(address, files[2], Meanwhile(lambda: asyncio.run(enter(address))))
    assert "is being copied; serve when that is done" in said.pop()
    asyncio.run(enter(address))
    assert said == []


def test_a_copy_has_given_its_locks_back_when_it_is_over(files, postgres, monkeypatch):
    """Before its connection is closed, whose end the server notices when it has time."""
    furnished.furnish(path_of(files[0]))
    left = []
    monkeypatch.setattr(
        "pubqueue.stores.copying.postgres.closing", lambda one: nullcontext(left.append(one) or one)
    )
    copy(files[0], postgres.address, Unwatched())
    copy(postgres.address, files[1], Unwatched())

    async def enter():
        store = store_at(postgres.address)
        await store.open()
        await store.instances.enter()
        await store.close()

    asyncio.run(enter())
    for one in left:
        one.close()


@kinds
def test_two_copies_at_once_are_refused(files, postgres, kind):
    address = place(kind, files, postgres)
    furnished.furnish(path_of(files[1]))
    said = []

    def again(*way):
        with pytest.raises(StoreError) as refused:
            copy(*way, Unwatched())
        said.append(str(refused.value))

    copy(files[1], address, Meanwhile(lambda: again(files[1], address)))
    copy(address, files[2], Meanwhile(lambda: again(address, files[1])))
    assert ["somebody copies it just now" in sentence for sentence in said] == [True, True]


@kinds
async def test_a_target_with_something_in_it_stays_as_it_is(files, postgres, kind):
    address = place(kind, files, postgres)
    furnished.furnish(path_of(files[1]))
    store = store_at(address)
    await store.open()
    await make(store, changes.CreateNode(EMPTY))
    before = await store.batch(everything)
    await store.close()
    with pytest.raises(RefusedError, match="is not empty"):
        copy(files[1], address, Unwatched())
    assert await seen(address) == before


@kinds
def test_a_complete_copy_is_compared_once_more(files, postgres, kind):
    address = place(kind, files, postgres)
    furnished.furnish(path_of(files[1]))
    assert moved(files[1], address) == moved(files[1], address)
    if kind == "sqlite":
        with closing(sqlite3.connect(path_of(address))) as connection:
            connection.execute("UPDATE item SET payload = x'00' WHERE seq = 10")
            connection.commit()
    else:
        postgres.ask("UPDATE pubqueue.item SET payload = '\\x00' WHERE seq = 10")
    with pytest.raises(RefusedError, match="is not empty"):
        copy(files[1], address, Unwatched())


def test_what_does_not_read_back_is_no_copy(files, monkeypatch):
    furnished.furnish(path_of(files[0]))
    rows = SqlitePlace.rows

    def forgetful(self, table):
        found = list(rows(self, table))
        yield from found[:-1] if self.copied_from() and table.name == "event" else found

    monkeypatch.setattr(SqlitePlace, "rows", forgetful)
    with pytest.raises(StoreError, match="event does not read back as it was written"):
        copy(*files[:2], Unwatched())
    with pytest.raises(ForeignStoreError, match="is not complete"):
        asyncio.run(seen(files[1]))


def test_there_has_to_be_a_store_to_copy(files, postgres, other):
    for source in (files[0], other):
        with pytest.raises(RefusedError, match="there is no store"):
            copy(source, files[1], Unwatched())
    assert not path_of(files[0]).exists()
    assert not path_of(files[1]).exists()


def test_a_store_is_not_copied_into_itself(files, postgres):
    furnished.furnish(path_of(files[0]))
    copy(files[0], postgres.address, Unwatched())
    for address in (files[0], postgres.address):
        with pytest.raises(RefusedError, match="both the source and the target"):
            copy(address, address, Unwatched())


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("memory:", "memory: keeps nothing that could be copied"),
        ("mysql://root:secret@x/y", "store must be .* not 'mysql://root:...@x/y'"),
        ("postgresql://queue:secret@127.0.0.1:x/y", "no address that PostgreSQL's library reads"),
    ],
)
def test_an_invalid_address_is_refused_without_its_password(files, address, sentence):
    furnished.furnish(path_of(files[0]))
    for way in ((files[0], address), (address, files[0])):
        with pytest.raises(RefusedError, match=sentence) as refused:
            copy(*way, Unwatched())
        assert "secret" not in str(refused.value)


def test_a_part_of_another_copy_is_left_alone(files):
    for address in files[:2]:
        furnished.furnish(path_of(address))

    begin_only(files[0], files[2])
    with pytest.raises(RefusedError, match=r"holds a part of a copy from .*a.db: go on with that"):
        copy(files[1], files[2], Unwatched())
    with pytest.raises(ForeignStoreError, match="is not complete"):
        copy(files[2], files[1], Unwatched())
    moved(files[0], files[2])
    assert dump(path_of(files[2])) == dump(path_of(files[0]))


# --- what ends in the middle -----------------------------------------------------------------------


class BrokenError(Exception):
    """What ends a copy in the middle."""


def begin_only(source, target):
    """Copy, and fail on the way."""

    def end():
        raise BrokenError

    with pytest.raises(BrokenError):
        copy(source, target, Meanwhile(end))


@kinds
async def test_a_store_that_is_there_and_empty_is_filled_at_the_first_try(files, postgres, kind):
    furnished.furnish(path_of(files[1]))
    address = place(kind, files, postgres)
    store = store_at(address)
    await store.open()
    await store.close()
    copied = moved(files[1], address)
    assert copied["item"]
    assert moved(files[1], address) == copied, "it is compared, row by row"


@kinds
async def test_a_process_that_opened_the_store_before_does_not_serve_from_half_a_copy(
    files, postgres, kind
):
    furnished.furnish(path_of(files[1]))
    address = place(kind, files, postgres)
    store = store_at(address)
    await store.open()
    begin_only(files[1], address)
    with pytest.raises(ForeignStoreError, match="is not complete"):
        await store.instances.enter()
    moved(files[1], address)
    assert await store.instances.enter() == Instance(0)
    await store.close()


@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
def test_a_copy_may_be_killed_between_any_two_statements(files, postgres, target):
    furnished.furnish(path_of(files[0]), items=12)
    address = files[1] if target == "sqlite" else postgres.address
    script = Path(__file__).parents[2] / "harness" / "processes" / "killed_copy.py"
    done = subprocess.run(
        [sys.executable, "-P", script, files[0], address, files[2]],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": str(script.parents[3])},
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    assert int(done.stdout) > 20, "so many kills"
    assert dump(path_of(files[2])) == dump(path_of(files[0]))
