"""The SQLite store: the contract, its settings, the files it refuses, who runs its batches, what they cost."""

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import groupby
from pathlib import Path

import pytest
from harness.batches.facts import ANN, JOBS, NOW, after, held, window
from harness.batches.inside import session_in
from harness.stores.store_contents import everything, recount
from msgspec.structs import replace
from stores.contract import SharedStoreContract
from stores.of_kinds import OfKinds
from stores.of_relational import OfRelational
from stores.steps import EMPTY, add, do, ids, items, make

from pubqueue.engine.listings import Nodes
from pubqueue.engine.ports import ForeignStoreError, StoreError
from pubqueue.engine.rows import Needs, Write, Writes
from pubqueue.model import changes
from pubqueue.model.entities import ItemId, Jid
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.stores.sqlite import store as store_module
from pubqueue.stores.sqlite.schema import APPLICATION_ID, SQL


class TestSqlite(SharedStoreContract, OfKinds, OfRelational):
    """The contract, on a file in a folder of the test."""

    async def ask(self, store, statement):
        await ask(store, statement)

    @pytest.fixture
    def make_store(self, tmp_path):
        return lambda: SqliteStore(tmp_path / "queue.db")


@pytest.fixture
async def store(tmp_path):
    store = SqliteStore(tmp_path / "queue.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def other(store, tmp_path):
    """Another store on the same file, as another process has it."""
    other = SqliteStore(tmp_path / "queue.db")
    await other.open()
    yield other
    await other.close()


async def ask(store, statement, *values):
    """Run a statement of the test's own on the store's connection."""
    return await store.batch(
        lambda tx: session_in(tx).connection.execute(statement, values).fetchall()
    )


# --- settings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "value"), [("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1)]
)
async def test_what_is_confirmed_survives_a_loss_of_power(store, setting, value):
    # synchronous: 2 is FULL; with NORMAL confirmed items are lost
    assert await ask(store, f"PRAGMA {setting}") == [(value,)]


async def test_a_file_is_marked_as_ours(store):
    assert await ask(store, "PRAGMA application_id") == [(APPLICATION_ID,)]


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
        await store.batch(lambda tx: tx.page(Nodes()))


async def test_a_place_without_a_write_ahead_log_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # we make a file of that name, though SQLite takes none
    with pytest.raises(ForeignStoreError, match=r"cannot keep a write-ahead log here$"):
        await SqliteStore(Path(":memory:")).open()


async def test_a_read_only_place_is_refused():
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


def modes(path):
    return {each.name: each.stat().st_mode & 0o777 for each in path.parent.glob(f"{path.name}*")}


async def test_the_files_of_the_store_are_for_their_owner_alone(tmp_path):
    old = os.umask(0o000)
    try:
        store = SqliteStore(tmp_path / "queue.db")
        await store.open()
        assert modes(store.path) == dict.fromkeys(
            ["queue.db", "queue.db-wal", "queue.db-shm"], 0o600
        )
    finally:
        os.umask(old)
        await store.close()


async def test_files_that_others_could_read_are_closed_to_them(store, tmp_path):
    for name in ("queue.db", "queue.db-wal", "queue.db-shm"):
        (tmp_path / name).chmod(0o644)
    another = SqliteStore(store.path)
    await another.open()
    assert set(modes(store.path).values()) == {0o600}
    await another.close()


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


# --- several processes -------------------------------------------------------------------------------


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
    monkeypatch.setattr(store_module, "LOCK_TIMEOUT", 0)
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


# --- cost --------------------------------------------------------------------------------------------

PLANS = {
    "nodes": "sqlite_autoindex_node_1",
    "affiliations": "PRIMARY KEY (node_id=? AND jid=?)",
    "subscriptions": "subscription_account (account=? AND node_id=?)",
    "subscribers": "sqlite_autoindex_subscription_2 (node_id=?)",
    "subscribers_of": "subscription_state (node_id=? AND state=? AND jid>?)",
    "subscriptions_of": "subscription_state (node_id=? AND state=? AND jid>?)",
    "former_subscribers": "subscription_state (node_id=? AND state=? AND jid>?)",
    "due_leases": "subscription_lease (<expr><?)",
    "accounts": "subscription_account (account=?)",
    "jids": "subscription_jid (jid=?)",
    "resources": "resource_account",
    "note_activity": "sqlite_autoindex_resource_1 (jid=?)",
    "people": "affiliation_account",
    "items": "sqlite_autoindex_item_1 (node_id=? AND id=?)",
    "numbers": "INTEGER PRIMARY KEY",
    "held": "item_held",
    "payloads": "INTEGER PRIMARY KEY",
    "receipts": "PRIMARY KEY (seq=?)",
    "finished": "PRIMARY KEY (node_id=? AND id=?)",
    "apps": "sqlite_autoindex_txn_app_1",
    "versions": "sqlite_autoindex_txn_1 (app_id=? AND version=?)",
    "attempts": "sqlite_autoindex_attempt_1 (txn_id=? AND part=? AND number=?)",
    "waiting": "PRIMARY KEY (account=?)",
    "staged": "staged_id (txn_id=? AND node=? AND id=? AND attempt_id=?)",
    "noted": "staged_id (txn_id=? AND node=? AND id=?)",
    "ready": "item_ready",
    "ready_places": "item_ready",
    "ready_ends": "item_ready (node_id=? AND priority=? AND <expr>>?)",
    "ready_items": "INTEGER PRIMARY KEY",
    "due_locks": "item_deadline",
    "due_lives": "item_expires",
    "due_delayed": "item_due",
    "due_versions": "txn_open",
    "nodes_of_account": "affiliation_account",
    "holdings": "node_creator (creator=?)",
    "node_sums": "node_creator (creator>?)",
    "page_nodes_with": "node_access (<expr>=? AND name>?)",
    "nodes_pushed": "node_pushed (name>?)",
    "nodes_named": "sqlite_autoindex_node_1 (name>? AND name<?)",
    "nodes_named_with": "node_access (<expr>=? AND name>? AND name<?)",
    "nodes_of_account_named": "sqlite_autoindex_node_1 (name>? AND name<?)",
    "count_nodes_with": "node_access",
    "ready_nodes": "subscription_free",
    "item_ids": "item_node (node_id=? AND rowid>?)",
    "oldest": "item_node (node_id=? AND rowid>?)",
    "newest": "item_node (node_id=? AND rowid<?)",
    "shown": "item_node (node_id=? AND rowid>? AND rowid<?)",
    "number_further_on": "COVERING INDEX item_node",
    "subscriptions_of_account": "subscription_account (account=?)",
    "dead": "item_dead",
    "done_items": "done_item_published (node_id=? AND published=? AND seq>?)",
    "keep_item": "INTEGER PRIMARY KEY",
    "revive_item": "INTEGER PRIMARY KEY",
    "drop_done_item": "INTEGER PRIMARY KEY",
    "seeks": "INTEGER PRIMARY KEY",
    "queues_that_keep": "node_done (name>?)",
    "locks": "item_deadline",
    "locks_from_last": "item_deadline",
    "held_numbers": "item_held",
    "held_by": "item_held (holder=? AND rowid>?)",
    "holders_of": "item_held (holder>?)",
    "count_held_by": "item_held (holder=?)",
    "shown_dead": "item_death",
    "count_queued": "item_ready (node_id=? AND priority=? AND <expr>>?)",
    "queued_end": "item_ready (node_id=? AND priority=? AND <expr>>?)",
    "count_line": "item_grouped (node_id=? AND seq>?)",
    "group_turns": "item_turn (node_id=? AND group_name=? AND turn>?)",
    "group_lines": "item_line (node_id=? AND group_name=?)",
    "waiting_groups": "item_line (node_id=? AND group_name>?)",
    "count_dead": "COVERING INDEX item_death (node_id=? AND death>?)",
    "anything_to_sweep": "txn_committed",
    "records": "INTEGER PRIMARY KEY",
    "records_of_app": "txn_of_app (app_id=? AND rowid>?)",
    "records_of_owner": "txn_of_owner (owner=? AND rowid>?)",
    "remove_item": "INTEGER PRIMARY KEY",
    "change_lock": "INTEGER PRIMARY KEY",
    "change_lock_and_turn": "INTEGER PRIMARY KEY",
    "change_item": "INTEGER PRIMARY KEY",
    "change_subscription": "sqlite_autoindex_subscription_1 (subid=?)",
    "outdated": "finished_until",
    "forget": "PRIMARY KEY (node_id=? AND id=?)",
    "forgettable": "finished_until",
    "settled": "INTEGER PRIMARY KEY",
    "forget_settled": "settled_until",
    "ping_answers": "PRIMARY KEY (jid=?)",
    "forget_ping_answers": "ping_answer_until",
    "answered_deliveries": "INTEGER PRIMARY KEY",
    "forget_answered": "answered_until",
    "used_keys": "sqlite_autoindex_used_key_1",
    "forget_used_keys": "used_key_until",
    "key_totals": "PRIMARY KEY (account=?)",
    "free_keys": "PRIMARY KEY (account=?)",
    "place": "sqlite_autoindex_attempt_1",
    "sweep_staged": "sqlite_autoindex_attempt_1 (txn_id=?)",
    "drop_until": "sqlite_autoindex_attempt_1 (txn_id=?)",
}


async def plan(store, query):
    statement = SQL[query]
    values = max(map(int, re.findall(r"\?(\d+)", statement)), default=statement.count("?"))
    rows = await ask(store, f"EXPLAIN QUERY PLAN {statement}", *[None] * values)
    return [row[-1] for row in rows]


def scans(steps):
    """Return the steps that walk all of a table; lists that come with the question, and what another step yields, are none."""
    short = (
        *(step.replace("CO-ROUTINE", "SCAN") for step in steps if step.startswith("CO-ROUTINE ")),
        "VIRTUAL TABLE",
        "SCAN (subquery",
        "SCAN CONSTANT ROW",
        "SCAN w",
        "SCAN walk",
        "SCAN q",
    )
    return [step for step in steps if "SCAN" in step and not any(word in step for word in short)]


@pytest.mark.parametrize(("query", "index"), PLANS.items())
async def test_a_long_queue_costs_no_more_than_a_short_one(store, query, index):
    steps = await plan(store, query)
    assert any(index in step for step in steps), steps
    assert scans(steps) == []


@pytest.mark.parametrize(
    "query",
    [
        *(
            "ready",
            "ready_ends",
            "count_queued",
            "queued_end",
            "count_line",
            "group_lines",
            "waiting_groups",
            "count_dead",
            "due_locks",
            "due_lives",
            "due_delayed",
            "due_versions",
            "locks",
        ),
        *(
            "shown_dead",
            "records",
            "records_of_app",
            "records_of_owner",
            "add_items_of_winners",
            "dead",
            "done_items",
            "queues_that_keep",
        ),
        *(
            "item_ids",
            "oldest",
            "newest",
            "shown",
            "number_further_on",
            "page_nodes_with",
            "ready_nodes",
        ),
        *("nodes_pushed", "nodes_named", "nodes_named_with", "nodes_of_account_named"),
        *("numbered", "held_numbers", "held_by", "holders_of", "locks_from_last"),
    ],
)
async def test_what_comes_in_order_is_read_in_order(store, query):
    assert not [step for step in await plan(store, query) if "TEMP B-TREE" in step]


async def test_what_is_next_due_reads_one_end_of_each_index(store):
    steps = await plan(store, "next_due")
    for index in ("item_deadline", "item_due", "item_expires", "txn_open", "attempt_1"):
        assert any(index in step for step in steps), steps


async def test_a_look_around_sees_in_the_index_what_is_ready(store):
    steps = await plan(store, "ready_nodes")
    for index in ("item_ready (node_id=?)", "item_aside (node_id=?)"):
        assert any(index in step for step in steps), steps
    assert not any("item_node" in step for step in steps), steps


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
