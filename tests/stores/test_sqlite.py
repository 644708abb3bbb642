"""The SQLite store: the contract, its settings, the files it refuses, and what its queries cost."""

import asyncio
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from harness.facts import ANN, JOBS, NOW, window
from harness.picture import everything, recount

from pubqueue.app.ports import ForeignStoreError, StoreError
from pubqueue.core import changes as c
from pubqueue.core.model import Jid
from pubqueue.stores.sqlite import SqliteStore, changes
from pubqueue.stores.sqlite.queries import SQL, TXN
from pubqueue.stores.sqlite.store import APPLICATION_ID

for part in ("contract", "of_nodes", "of_items", "of_time", "of_batches", "of_staging", "steps"):
    pytest.register_assert_rewrite(f"stores.{part}")
from stores.contract import StoreContract  # noqa: E402  # after the line above
from stores.steps import EMPTY, add, make  # noqa: E402


class TestSqlite(StoreContract):
    """The contract, on a file in a folder of the test."""

    @pytest.fixture
    def make_store(self, tmp_path):
        return lambda: SqliteStore(tmp_path / "queue.db")


@pytest.fixture
async def store(tmp_path):
    store = SqliteStore(tmp_path / "queue.db")
    await store.open()
    yield store
    await store.close()


async def ask(store, statement, *values):
    """Run a statement of the test's own on the store's connection."""
    return await store.batch(lambda tx: tx._connection.execute(statement, values).fetchall())


# --- settings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value"), [("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1)]
)
async def test_what_is_confirmed_survives_a_loss_of_power(store, setting, value):
    # synchronous: 2 is FULL; with NORMAL confirmed items are lost
    assert await ask(store, f"PRAGMA {setting}") == [(value,)]


async def test_a_file_is_marked_as_ours(store):
    assert await ask(store, "PRAGMA application_id") == [(APPLICATION_ID,)]


@pytest.mark.parametrize(
    "broken",
    [
        "UPDATE item SET holder = 'ann@x/1' WHERE id = 'free'",
        "UPDATE item SET deadline = 1 WHERE id = 'free'",
        "UPDATE item SET state = 'locked' WHERE id = 'free'",
        "UPDATE item SET state = 'queued' WHERE id = 'held'",
        "UPDATE item SET state = 'delayed' WHERE id = 'free'",
        "UPDATE item SET state = 'dead' WHERE id = 'free'",
        "UPDATE item SET state = 'lost' WHERE id = 'free'",
        "UPDATE item SET id = 'held' WHERE id = 'free'",
        "UPDATE item SET node_id = 99 WHERE id = 'free'",
        "UPDATE item SET failed = -1",
        "UPDATE node SET items = -1",
        "UPDATE subscription SET in_flight = -1",
        "UPDATE subscription SET queue_requests = 0",
        "INSERT INTO receipt VALUES (99, 'ann@x/1')",
        "INSERT INTO affiliation SELECT id, 'ann@x/1', 'owner' FROM node",
        "INSERT INTO token VALUES (2, 1)",
    ],
)
async def test_the_schema_repeats_the_invariants(store, broken):
    await make(store, c.CreateNode(EMPTY), c.AddSubscription(window()), add("free"), add("held"))
    (item,) = await store.batch(lambda tx: [tx.item(JOBS, "held")])
    await make(store, c.Lock(item, ANN, 7, NOW, NOW))
    with pytest.raises(StoreError, match=r"(?i)constraint failed"):
        await ask(store, broken)


# --- files -------------------------------------------------------------------------------------------


def empty(path):
    path.touch()


def foreign(path):
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()


def newer(path):
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("CREATE TABLE node (x)")
        connection.execute("PRAGMA user_version = 999")
    connection.close()


def text(path):
    path.write_text("Dear diary, " * 100)


def directory(path):
    path.mkdir()


def locked_by_a_file(path):
    path.parent.rmdir()
    path.parent.write_text("a file where a folder should be")


@pytest.mark.parametrize(
    ("prepare", "sentence"),
    [
        (foreign, "this SQLite database belongs to another program"),
        (newer, "its schema is number 999, this program knows [0-9]+; use a newer one"),
        (text, "file is not a database"),
        (directory, "unable to open database file"),
        (locked_by_a_file, "unable to open database file"),
    ],
)
async def test_a_file_that_is_not_ours_is_refused_in_one_sentence(tmp_path, prepare, sentence):
    folder = tmp_path / "data"
    folder.mkdir()
    path = folder / "queue.db"
    prepare(path)
    store = SqliteStore(path)
    with pytest.raises(ForeignStoreError) as refused:
        await store.open()
    assert re.fullmatch(f"{re.escape(str(path))}: {sentence}", str(refused.value))
    with pytest.raises(StoreError, match="closed"):
        await store.batch(lambda tx: tx.nodes())


async def test_a_place_without_a_write_ahead_log_is_refused():
    with pytest.raises(ForeignStoreError, match=r"cannot keep a write-ahead log here$"):
        await SqliteStore(Path(":memory:")).open()


async def test_a_place_where_nobody_may_write_is_refused():
    # /proc takes no files, not even from root
    store = SqliteStore(Path("/proc/queue.db"))
    with pytest.raises(ForeignStoreError, match=r"^/proc/queue\.db: unable to open database file$"):
        await store.open()


async def test_another_programs_file_is_left_as_it_was(tmp_path):
    path = tmp_path / "queue.db"
    foreign(path)
    before = path.read_bytes()
    with pytest.raises(ForeignStoreError):
        await SqliteStore(path).open()
    assert path.read_bytes() == before


async def test_an_empty_file_becomes_ours(tmp_path):
    path = tmp_path / "queue.db"
    empty(path)
    store = SqliteStore(path)
    await store.open()
    await store.close()
    assert path.stat().st_size


async def test_a_refused_store_can_be_opened_once_the_place_is_good(tmp_path):
    path = tmp_path / "queue.db"
    text(path)
    store = SqliteStore(path)
    with pytest.raises(ForeignStoreError):
        await store.open()
    path.unlink()
    await store.open()
    await store.close()


# --- faults ------------------------------------------------------------------------------------------


@pytest.fixture
async def full(store):
    """A store whose disk is nearly full: SQLite then ends the transaction by itself."""
    await make(store, c.CreateNode(EMPTY))
    ((pages,),) = await ask(store, "PRAGMA page_count")
    connection = await store.batch(lambda tx: tx._connection)
    await store._connection.run(
        lambda _: connection.execute(f"PRAGMA max_page_count = {pages + 4}")
    )
    return store


async def test_a_full_disk_leaves_nothing_of_the_batch(full):
    before = await full.batch(everything)

    def job(tx):
        tx.apply([add("small")])
        tx.apply([add("large", payload=b"x" * 65_536)])

    with pytest.raises(StoreError, match="full"):
        await full.batch(job)
    assert await full.batch(everything) == before


async def test_what_follows_in_a_batch_that_the_disk_has_ended_is_not_made(full):
    before = await full.batch(everything)

    def job(tx):
        try:
            with tx.savepoint():
                tx.apply([add("large", payload=b"x" * 65_536)])
        except StoreError:
            raise
        except Exception:  # as a batch does for the sake of its other requests
            with tx.savepoint():
                tx.apply([add("small")])

    with pytest.raises(StoreError):
        await full.batch(job)
    assert await full.batch(everything) == before
    assert await full.batch(recount) == []


async def test_those_who_came_first_are_forgotten_beyond_a_bound(store, monkeypatch):
    monkeypatch.setattr(changes, "MOST_RESOURCES", 2)
    await make(store, *(c.NoteResource(Jid(f"ann@x/{n}")) for n in range(4)))
    assert await store.batch(lambda tx: tx.resources(Jid("ann@x"))) == ["ann@x/2", "ann@x/3"]


async def test_many_processes_may_make_the_file_at_once(tmp_path):
    script = (
        "import asyncio, pathlib, sys; from pubqueue.stores.sqlite import SqliteStore\n"
        "sys.stdin.read(1)\n"
        "asyncio.run(SqliteStore(pathlib.Path(sys.argv[1])).open())\n"
        "import os; os._exit(0)"
    )
    command = (sys.executable, "-I", "-c", script, str(tmp_path / "queue.db"))
    streams = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    makers = [await asyncio.create_subprocess_exec(*command, **streams) for _ in range(6)]
    for maker in makers:
        maker.stdin.write(b"x")
    said = [await maker.communicate() for maker in makers]
    assert [maker.returncode for maker in makers] == [0] * 6, said


# --- cost --------------------------------------------------------------------------------------------

PLANS = {
    "item": "sqlite_autoindex_item_1",
    "item_at": "INTEGER PRIMARY KEY",
    "payload": "INTEGER PRIMARY KEY",
    "held": "PRIMARY KEY",
    "finished": "PRIMARY KEY",
    "held_by": "item_held",
    "held_count": "item_held",
    "ready": "item_ready",
    "aside": "item_aside",
    "dead": "item_dead",
    "ripe": "item_due",
    "expired_locks": "item_deadline",
    "expired_lives": "item_expires",
    "locks_beyond": "item_deadline",
    "ripen": "item_due",
    "forget": "finished_until",
    "open_windows": "subscription_account",
    "subscribed": "subscription_account",
    "subscriptions_of": "subscription_jid",
    "resources": "resource_account",
    "crowd_out": "INTEGER PRIMARY KEY",
    "forget_resource": "sqlite_autoindex_resource_1",
    "lock": "INTEGER PRIMARY KEY",
    "release": "INTEGER PRIMARY KEY",
    "remove_item": "INTEGER PRIMARY KEY",
}


TXN_PLANS = {
    "standing": "sqlite_autoindex_txn_app_1",
    "attempt": "sqlite_autoindex_attempt_1",
    "staged_size": "staged_id",
    "noted": "staged_id",
    "overdue": "txn_open",
    "litter": "txn_committed",
    "records": "INTEGER PRIMARY KEY",
    "records_of_app": "txn_of_app (app_id=? AND rowid>?)",
    "records_of_owner": "txn_of_owner (owner=? AND rowid>?)",
    "sweep_staged": "sqlite_autoindex_attempt_1 (txn_id=?)",
    "drop_until": "sqlite_autoindex_attempt_1 (txn_id=?)",
}


async def plan(store, query, statements=SQL):
    statement = statements[query]
    values = max(map(int, re.findall(r"\?(\d+)", statement)), default=statement.count("?"))
    rows = await ask(store, f"EXPLAIN QUERY PLAN {statement}", *[None] * values)
    return [row[-1] for row in rows]


@pytest.mark.parametrize(("query", "index"), PLANS.items())
async def test_a_long_queue_costs_no_more_than_a_short_one(store, query, index):
    steps = await plan(store, query)
    assert any(index in step for step in steps), steps
    assert not [step for step in steps if step.startswith("SCAN")], steps


@pytest.mark.parametrize(("query", "index"), TXN_PLANS.items())
async def test_many_versions_cost_no_more_than_few(store, query, index):
    steps = await plan(store, query, TXN)
    assert any(index in step for step in steps), steps
    scans = [step for step in steps if step.startswith("SCAN") and step != "SCAN CONSTANT ROW"]
    assert not scans, steps


@pytest.mark.parametrize("query", ["records", "records_of_app", "records_of_owner", "appear"])
async def test_records_and_winners_are_not_sorted(store, query):
    assert not [step for step in await plan(store, query, TXN) if "TEMP B-TREE" in step]


@pytest.mark.parametrize("query", ["ready", "aside", "expired_locks", "expired_lives"])
async def test_what_comes_in_order_is_read_in_order(store, query):
    assert not [step for step in await plan(store, query) if "TEMP B-TREE" in step]


async def test_the_next_moment_reads_one_end_of_each_index(store):
    steps = await plan(store, "next_moment")
    for index in ("item_deadline", "item_due", "item_expires", "txn_open", "attempt_1"):
        assert any(index in step for step in steps), steps
