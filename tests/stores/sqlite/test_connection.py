"""The SQLite file: how it is opened, for whom it can be read, and which files are refused."""

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from harness.patience import LOOK
from stores.sqlite.asking import ask

from pubqueue.engine.listings import Nodes
from pubqueue.engine.ports import ForeignStoreError, StoreError
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.stores.sqlite.schema import APPLICATION_ID

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


# --- several processes -------------------------------------------------------------------------------


async def test_a_store_waits_for_the_log_that_another_process_makes(tmp_path):
    """SQLite itself does not wait there: the process that reads would become one that writes."""
    path = tmp_path / "queue.db"
    empty(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store = SqliteStore(path)
    opening = asyncio.create_task(store.open())
    await asyncio.wait([opening], timeout=LOOK)
    assert not opening.done()
    other.execute("COMMIT")
    other.close()
    await opening
    await store.close()


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
