"""Damage of a store is found: by the check, on the way of a copy, and when a file is opened."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
from click.testing import CliRunner
from harness.batches.facts import ANN, BOSS, JOBS, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.shell import Shell
from harness.batches.transactions import stages

from pubqueue.cli import stores
from pubqueue.engine.ports import ForeignStoreError, StoreError
from pubqueue.model.entities import Awaited, ItemId, Jid, Joined
from pubqueue.model.records import Registration
from pubqueue.model.schedules import Definition
from pubqueue.model.transactions import key_of
from pubqueue.rules.registrations import Register
from pubqueue.rules.schedules import AddSchedule
from pubqueue.stores import run_read_only
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.wiring.checking import see_that_contents_are_sound

ROOT = who(BOSS, admin=True)
DAMAGED = "the stored content of 1 items is damaged: a of jobs"
MISCOUNTED = "1 joins do not wait for as many members as there are: j of jobs"
FLIP = "UPDATE {} SET payload = CAST('<jOb/>' AS BLOB) WHERE id = 'a'"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "queue.db"


def furnished(path, *, done=False, staged=False):
    with closing(Shell(path)) as shell:
        shell.do(a_queue(keep_done=1, item_expire=1_000))
        shell.do(stages("a", "b") if staged else publishes("a", "b"))
        if done:
            shell.batch(joins(ANN, 9))
            shell.do(retracts(ANN, "a"))
    return path


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (
            "UPDATE item SET joins = joins | 1 << 40 WHERE id = 'a'",
            f"{DAMAGED}; {MISCOUNTED}",
        ),
        (
            "UPDATE item SET joins = joins + CASE joins & 1 WHEN 0 THEN 1 ELSE -1 END WHERE id = 'a'",
            DAMAGED,
        ),
        (
            "DELETE FROM item WHERE id = 'a'",
            MISCOUNTED,
        ),
    ],
)
def test_a_join_that_waits_for_others_than_its_members_is_found(path, statement, found):
    with closing(Shell(path)) as shell:
        shell.do(a_queue())
        shell.do(publishes("j", hold=Awaited(is_join=True)))
        shell.do(publishes("a", "b", joins=Joined(JOBS, ItemId("j"))))
    checks(path)
    change(path, statement)
    with pytest.raises(StoreError, match=rf"^{found}$"):
        checks(path)


def change(path, statement):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(statement)


def checks(path):
    return run_read_only(f"sqlite:///{path}", see_that_contents_are_sound)


@pytest.mark.parametrize("table", ["item", "done_item", "staged"])
def test_the_check_names_the_items_that_are_damaged(path, table):
    furnished(path, done=table == "done_item", staged=table == "staged")
    checks(path)
    change(path, FLIP.format(table))
    with pytest.raises(
        StoreError, match=rf"^the stored content of 1 items is damaged: a of {JOBS}$"
    ):
        checks(path)


def test_the_check_finds_a_schema_that_is_not_the_one_that_was_made(path):
    content = furnished(path).read_bytes()
    assert content.count(b"known IN (0, 1)") == 1
    path.write_bytes(content.replace(b"known IN (0, 1)", b"known IN (0, 3)"))
    with pytest.raises(ForeignStoreError, match="is damaged: its schema is not the one"):
        checks(path)


def test_the_check_finds_what_sqlite_itself_finds(path):
    furnished(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, 'sum IS NULL', 'sum IS NOT NULL')"
            " WHERE name = 'item_without_sum'"
        )
    with pytest.raises(ForeignStoreError, match=r"is damaged: (row|wrong).* item_without_sum"):
        checks(path)


def test_a_schema_that_is_no_text_any_more_is_one_sentence(path):
    content = furnished(path).read_bytes()
    path.write_bytes(
        content.replace(b"CHECK (known IN (0, 1))", b"CHECK (known IN (\xa00, 1))"[:23])
    )
    store = SqliteStore(path)
    with pytest.raises(ForeignStoreError):
        asyncio.run(store.open())


def test_a_copy_keeps_what_is_damaged_and_says_so(path, tmp_path):
    furnished(path)
    change(path, FLIP.format("item"))
    backup, again = tmp_path / "x.backup", tmp_path / "again.db"
    for command, given in (
        (stores.backup, [str(backup), "--store", f"sqlite:///{path}"]),
        (stores.restore, [str(backup), "--store", f"sqlite:///{again}"]),
        (stores.migrate, [f"sqlite:///{path}", f"sqlite:///{tmp_path}/third.db"]),
    ):
        result = CliRunner().invoke(command, given)
        assert result.exit_code == 0, result.output
        assert "damaged before, and copied as they are: 1 rows" in result.output
    for copied in (again, tmp_path / "third.db"):
        with pytest.raises(StoreError, match="damaged: a of jobs"):
            checks(copied)


@pytest.mark.parametrize(
    ("table", "column", "name"),
    [
        ("node", "creator", "node jobs"),
        ("affiliation", "jid", "affiliation 1 xoss@x"),
        ("subscription", "subid", "subscription 1 ann@x/1"),
        ("schedule", "author", "schedule nightly"),
        ("registration", "account", "registration push"),
        ("txn_app", "owner", "txn_app etl@x nightly"),
        ("txn", "on_taken", "txn 1 1"),
    ],
)
def test_the_check_and_copies_name_and_count_other_damaged_rows(
    path, tmp_path, table, column, name
):
    with closing(Shell(path)) as shell:
        shell.do(a_queue())
        shell.batch(joins(ANN, 9))
        shell.do(AddSchedule(ROOT, Definition("nightly", "0 3 * * *", "UTC", JOBS, b"<work/>")))
        shell.do(Register(ROOT, Registration("push", ROOT.account, JOBS, queueing=True, words=b"")))
        shell.do(stages("a", app=key_of(Jid("etl@x"), "nightly")))
    checks(path)
    new = "'skip'" if column == "on_taken" else f"'x' || substr({column}, 2)"
    spared = "" if table == "txn_app" else f" WHERE {column} NOT LIKE 'etl%'"
    change(path, f"UPDATE {table} SET {column} = {new}{spared}")
    with pytest.raises(StoreError, match=rf"^1 rows are damaged: {name}$"):
        checks(path)
    copied = f"sqlite:///{tmp_path}/copy.db"
    result = CliRunner().invoke(stores.migrate, [f"sqlite:///{path}", copied])
    assert "damaged before, and copied as they are: 1" in result.output
    with pytest.raises(StoreError, match=rf"^1 rows are damaged: {name}$"):
        run_read_only(copied, see_that_contents_are_sound)
