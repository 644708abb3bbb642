"""`pubqueue backup` and `pubqueue restore`, as their operator runs them: what they say, how they end, and what is in a backup."""

import asyncio
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from harness.databases.small_disk import SmallDisk
from harness.processes.program import PUBQUEUE, Program, write_config
from harness.servers.stub_server import StubServer
from harness.starts import warm_start
from harness.stores import furnished, furnished_then

from pubqueue.stores import store_at
from pubqueue.stores.copying import backups
from pubqueue.stores.copying.copy import BACKUP, running_at, source_at


def run(*arguments, **more):
    """Run the program to its end; return its exit code, and what it has said on stdout and stderr."""
    environment = {name: value for name, value in os.environ.items() if "PUBQUEUE" not in name}
    done = warm_start.run(*map(str, arguments), env=environment | more)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def store(tmp_path):
    furnished.furnish(tmp_path / "a.db")
    return f"sqlite://{tmp_path}/a.db"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "sunday.backup"


class Unwatched:
    """Nobody looks on."""

    def begin(self, rows):
        pass

    def step(self, what, rows):
        pass


def everything(address):
    """Return all rows of all tables, the last numbers given, and who has died."""
    with source_at(address) as place:
        tables = place.tables()
        rows = {name: list(place.rows(tables[name])) for name in sorted(tables)}
        last = place.last_numbers()  # some are numbered in PostgreSQL alone
        return rows, {name: last[name] for name in ("node", "txn")}, place.died()


# --- what is in it ---------------------------------------------------------------------------------


def test_what_is_restored_is_what_was_backed_up_on_both_stores(store, file, tmp_path, postgres):
    back = f"sqlite://{tmp_path}/back.db"
    (tmp_path / "a.db-instance-7").touch()  # a process that died
    assert run("backup", "--store", store, file)[0] == 0
    assert run("restore", "--store", postgres.address, file)[0] == 0
    assert everything(postgres.address) == everything(store)
    again = tmp_path / "again.backup"
    assert run("backup", "--store", postgres.address, again)[0] == 0
    assert run("restore", "--store", back, again)[0] == 0
    assert everything(back) == everything(store)
    assert everything(back)[2] == [7]


def test_it_is_one_file_for_its_owner_alone(store, file, tmp_path):
    before = set(tmp_path.iterdir())
    assert run("backup", "--store", store, file)[0] == 0
    assert set(tmp_path.iterdir()) - before == {file}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_it_reports_what_is_in_it(store, file, tmp_path):
    with closing(sqlite3.connect(store.removeprefix("sqlite://"), isolation_level=None)) as rows:
        rows.execute("UPDATE item SET sum = sum + 1 WHERE seq < 20")
    code, out, err = run("backup", "--store", store, file)
    assert (code, err) == (0, "")
    *tables, damaged, last = out.splitlines()
    assert all(" rows, SHA-256 " in line for line in tables)
    assert damaged.startswith("damaged before, and copied as they are: 10 rows")
    total = sum(int(line.split()[1].replace(",", "")) for line in tables)
    assert last == f"written and compared: {total:,} rows"
    code, out, err = run("restore", "--store", f"sqlite://{tmp_path}/b.db", file)
    assert (code, err) == (0, "")
    assert out.splitlines() == [*tables, damaged, f"restored and compared: {total:,} rows"]


@pytest.mark.parametrize("number", [8, 12])
def test_a_backup_of_an_earlier_version_is_restored(number, store, file, tmp_path):
    """It is what that version's program has written: its schema, with the facts as they are now."""
    furnished_then.sqlite_of(file, number)
    with closing(sqlite3.connect(file, isolation_level=None)) as old:
        old.execute("PRAGMA journal_mode = DELETE").fetchall()
        place = backups.SqlitePlace(file, old)
        tables = [backups.read(place, one, Unwatched()) for one in place.tables().values()]
        facts = backups.Facts("sqlite:///x", 1, "0.0.1", [], tables)
        old.execute(f"CREATE TABLE {BACKUP} (facts TEXT NOT NULL) STRICT")
        old.execute(f"INSERT INTO {BACKUP} VALUES (?)", (backups.json.encode(facts).decode(),))
        old.execute(f"PRAGMA application_id = {0x7075626B}")
    before = file.read_bytes()
    code, _, err = run("restore", "--store", f"sqlite://{tmp_path}/b.db", file)
    assert (code, err) == (0, "")
    assert file.read_bytes() == before
    rows, _, _ = everything(f"sqlite://{tmp_path}/b.db")
    assert {"node", "item"} <= {name for name, found in rows.items() if found}


def test_a_read_only_backup_can_be_restored(store, file, tmp_path):
    assert run("backup", "--store", store, file)[0] == 0
    file.chmod(0o400)
    assert run("restore", "--store", f"sqlite://{tmp_path}/b.db", file)[0] == 0


# --- what is refused -------------------------------------------------------------------------------


def test_what_is_asked_wrongly_is_one_sentence(store, file, tmp_path):
    assert run("backup", "--store", store, file)[0] == 0
    furnished.furnish(tmp_path / "full.db", seed=1)
    empty, full = f"sqlite://{tmp_path}/b.db", f"sqlite://{tmp_path}/full.db"
    cases = {
        ("backup", "--store", store, file): f"{file} is there already",
        ("backup", "--store", empty, tmp_path / "x"): f"{tmp_path}/b.db: there is no store",
        ("backup", "--store", "memory:", tmp_path / "x"): "memory: keeps nothing that could be copied",
        ("restore", "--store", empty, tmp_path / "x"): f"{tmp_path}/x: No such file or directory",
        ("restore", "--store", empty, tmp_path / "a.db"): f"{tmp_path}/a.db is no backup of pubqueue",
        ("restore", "--store", full, file): f"{full} is not empty",
        ("backup", "--config", tmp_path / "x.toml", "x"): f"{tmp_path}/x.toml cannot be read: No such file or directory",
    }  # fmt: skip
    for words, sentence in cases.items():
        assert run(*words) == (2, "", f"pubqueue: {sentence}\n")
    assert not (tmp_path / "x").exists()


def test_no_process_serves_from_a_backup(store, file, tmp_path):
    assert run("backup", "--store", store, file)[0] == 0
    code, _, err = run("serve", "--jid", "q.x", "--store", f"sqlite://{file}", PUBQUEUE_SECRET="s")
    assert (code, "this is a backup; `pubqueue restore` fills a store from it" in err) == (1, True)


@pytest.mark.parametrize("how", ["a row less", "a bit", "half", "facts"])
def test_a_damaged_backup_is_refused_and_the_store_stays_empty(how, store, file, tmp_path):
    assert run("backup", "--store", store, file)[0] == 0
    damage(file, how)
    code, out, err = run("restore", "--store", f"sqlite://{tmp_path}/b.db", file)
    assert (code, out) == (1, "")
    assert err.startswith("pubqueue: ")
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "b.db").exists()


def damage(file, how):
    content = file.read_bytes()
    if how == "half":
        file.write_bytes(content[: len(content) // 2])
    elif how == "a bit":
        place = content.index(b"etl@x/") + 2
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    else:
        with closing(sqlite3.connect(file, isolation_level=None)) as opened:
            row = f"UPDATE {BACKUP} SET facts = 'none'", "DELETE FROM event WHERE seq = 9"
            opened.execute(row[how == "a row less"])


def test_an_address_without_a_secret_is_enough_in_the_file(store, file, tmp_path):
    config = tmp_path / "pubqueue.toml"
    config.write_text(f'jid = "q.x"\nsecret_file = "/nowhere"\nstore = {json.dumps(store)}\n')
    assert run("backup", "--config", config, file)[0] == 0
    assert run("backup", tmp_path / "more", PUBQUEUE_STORE=store)[0] == 0
    config.write_text("store = 7\n")
    code, _, err = run("backup", "--config", config, tmp_path / "x")
    assert (code, "store must be sqlite:///" in err) == (2, True)


# --- how it ends -----------------------------------------------------------------------------------


def test_killed_at_any_moment_it_leaves_a_whole_file_or_none(store, file):
    program = Path(__file__).parents[2] / "harness" / "processes" / "killed_backup.py"
    done = subprocess.run(
        [sys.executable, "-I", str(program), store, str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
    assert [one.name for one in file.parent.iterdir() if file.name in one.name] == [file.name]


def test_a_full_disk_is_one_sentence_and_nothing_is_left(store):
    with SmallDisk(256 << 10) as small:
        words = *small.inside, PUBQUEUE, "backup", "--store", store, small.folder / "x.backup"
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        there = subprocess.run(
            [*small.inside, "ls", "-A", small.folder], capture_output=True, check=True
        )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1), done
    assert there.stdout == b""


def test_only_one_backup_is_written_under_a_name(store, file):
    with backups.part_of(file):
        said = f"pubqueue: {file}.part: another backup is being written there\n"
        assert run("backup", "--store", store, file) == (2, "", said)
    assert run("backup", "--store", store, file)[0] == 0


async def make_store(address):
    """Make the tables of a store, unless a test before has done it."""
    store = store_at(address)
    await store.open()
    await store.close()


def test_a_store_of_another_version_is_not_backed_up(tmp_path, file, postgres):
    furnished_then.sqlite_of(tmp_path / "old.db", 9)
    code, _, err = run("backup", "--store", f"sqlite://{tmp_path}/old.db", file)
    assert (code, "use the version that serves from it" in err) == (1, True)
    asyncio.run(make_store(postgres.address))
    (number,) = postgres.ask("SELECT schema FROM pubqueue.pubqueue")[0]
    postgres.ask("UPDATE pubqueue.pubqueue SET schema = schema + 1")
    try:
        code, _, err = run("backup", "--store", postgres.address, file)
    finally:
        postgres.ask("UPDATE pubqueue.pubqueue SET schema = %s", number)
    assert (code, "use the version that serves from it" in err) == (1, True)
    assert not file.exists()


# --- beside a service ------------------------------------------------------------------------------


async def test_beside_a_service_it_can_be_written_and_not_restored(tmp_path, file, postgres):
    for address in (f"sqlite://{tmp_path}/pubqueue.db", postgres.address):
        async with StubServer() as server:
            config = write_config(tmp_path, server, store=address)
            async with Program(config):
                words = "--config", config, file
                code, _, err = await asyncio.to_thread(run, "backup", *words)
                assert (code, err) == (0, "")
                code, _, err = await asyncio.to_thread(run, "restore", *words)
                assert (code, "a process serves from it; stop it first" in err) == (1, True)
                with backups.opened(file, Unwatched()) as found:
                    assert found.died() == [0], (
                        "who serves now has died for whoever goes on from it"
                    )
        file.unlink()


def test_half_a_restore_is_not_served_and_is_begun_again(store, file, tmp_path):
    target = f"sqlite://{tmp_path}/b.db"
    assert run("backup", "--store", store, file)[0] == 0
    with backups.opened(file, Unwatched()) as found, backups.target_at(target, found) as other:
        other.begin(found.name)
    code, _, err = run("serve", "--jid", "q.x", "--store", target, PUBQUEUE_SECRET="s")
    sentence = f"the copy from backup:{file} is not complete; `pubqueue restore` can be begun again"
    assert (code, sentence in err) == (1, True)
    assert run("restore", "--store", target, file)[0] == 0
    assert everything(target) == everything(store)


def test_no_request_waits_for_a_backup(store):
    """Whoever writes meanwhile does so at once; the backup goes on to read what was there."""
    with running_at(store) as place:
        tables = place.tables()
        rows = place.rows(tables["item"])
        first = next(rows)
        with closing(
            sqlite3.connect(store.removeprefix("sqlite://"), timeout=0, isolation_level=None)
        ) as other:
            (count,) = other.execute("SELECT count(*) FROM item").fetchone()
            other.execute("DELETE FROM event")
            other.execute("DELETE FROM item WHERE seq = 11")
        assert len([first, *rows]) == count
        assert place.count(tables["event"]) == 3


ENDED = """
import os, sys
from pubqueue.cli import main
from pubqueue.stores.copying import backups

number, fill = int(sys.argv.pop(1)), backups.fill

class Ends:
    def __init__(self, watch):
        self.begin = watch.begin

    def step(self, what, rows):
        if what == "copying item" and rows:
            os.kill(os.getpid(), number)

backups.fill = lambda source, target, watch: fill(source, target, Ends(watch))
main()
"""
"""`pubqueue backup`, which gets a signal when it has written items."""


def test_ended_by_a_signal_it_leaves_nothing(store, file, tmp_path):
    part = file.with_name(f"{file.name}.part")
    for number in (signal.SIGINT, signal.SIGKILL):
        words = sys.executable, "-Ic", ENDED, str(int(number)), "backup", "--store", store, file
        done = subprocess.run(words, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == (1 if number == signal.SIGINT else -number), done.stderr
        assert not file.exists()
        assert part.exists() == (number == signal.SIGKILL)
    assert run("backup", "--store", store, file)[0] == 0
    assert [one.name for one in tmp_path.iterdir() if file.name in one.name] == [file.name]
