"""Rows of transactions whose checksum does not match: nothing of the app is committed twice, or lost, until somebody says what holds; on both stores."""

from contextlib import closing

import pytest
from harness.batches.facts import ANN, BOSS, ETL, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.shell import Shell
from harness.batches.transactions import (
    aborts,
    commits,
    in_slices,
    names,
    refusal,
    stages,
    sweep,
)
from harness.batches.two_shells import PostgresShell
from structlog.testing import capture_logs

from pubqueue.engine.damage import DamagedRow, DamageReports
from pubqueue.model.decision import Done, Refusal, Refused
from pubqueue.model.entities import Jid
from pubqueue.model.sums import key_half, key_sum
from pubqueue.model.transactions import Committed, LastVersion, OnTaken, Skipped, key_of
from pubqueue.rules.damage import APP_DAMAGED, RECORD_DAMAGED, VERSION_DAMAGED, ComputeSums
from pubqueue.rules.expire import Expire
from pubqueue.rules.moving import MoveWinners, ResumeMoves
from pubqueue.rules.staging import AskLastVersion, ListTransactions
from pubqueue.stores.sql import columns, kinds

APP, OTHER = (key_of(Jid("etl@x"), name) for name in ("nightly", "hourly"))
MARKS = [
    "name = replace(name, 'nightly', 'nightlx')",
    "owner = 'eve@x'",
    "version = version - 1",
    "version = version + 8",
    "committed = 7",
]


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    sqlite = request.param == "sqlite"
    place = tmp_path / "queue.db" if sqlite else request.getfixturevalue("postgres").address
    with closing(Shell(place) if sqlite else PostgresShell(place)) as made:
        made.do(a_queue(dedup_window=0))
        made.noted = []
        made.rows._note = lambda _seq, name: made.noted.append(name)
        yield made


def staged(shell, *given, app=APP, **mark):
    return shell.do(stages(*given, app=app, **mark))


def committed(shell, version=1, *, app=APP, items=1, **choice):
    return shell.do(commits((0, 0, items), version=version, app=app, **choice))


def damages(shell, table, change, where="true"):
    done = shell.connection.execute(f"UPDATE {table} SET {change} WHERE {where}")
    assert done.rowcount == 1
    shell.changes.forget()


def last(shell, by=ETL, **admin):
    return shell.do(AskLastVersion(who(by, **admin), APP))


def is_refused(reply, why):
    assert reply == why.reply
    assert refusal(reply) is Refusal.INTERNAL_FAULT


def has_two_versions(shell):
    """Commit two versions of the app, whose items are all done, and stage a third."""
    for version in (1, 2):
        staged(shell, f"v{version}", version=version)
        assert isinstance(committed(shell, version), Committed)
    shell.batch(joins(ANN, 9))
    shell.do(retracts(ANN, "v1", "v2"))
    staged(shell, "v3", version=3)
    assert names(shell) == []


@pytest.mark.parametrize("flip", MARKS)
def test_a_damaged_mark_is_neither_missing_nor_another(shell, flip):
    has_two_versions(shell)
    damages(shell, "txn_app", flip)
    before = shell.dump()
    for request in (
        stages("v2", version=2, app=APP),
        stages("v3", version=3, app=APP),
        commits((0, 0, 1), version=2, app=APP),
        commits((0, 0, 1), version=3, app=APP),
        commits((0, 0, 1), version=9, app=APP),
        AskLastVersion(who(ETL), APP),
        AskLastVersion(who(BOSS, admin=True), APP),
        aborts(version=3, app=APP),
        aborts((0, 0), version=3, app=APP, by=BOSS, admin=True),
    ):
        is_refused(shell.do(request), APP_DAMAGED)
    assert shell.dump() == before
    assert DamagedRow("app", "nightly of etl@x") in shell.noted


def alike(count):
    """Return keys of apps whose checksums have the same upper half: a stranger can choose such names."""

    def key(mask):
        return key_of(Jid("etl@x"), "".join("ac"[mask >> place & 1] for place in range(64)))

    first, found, reduced = key_sum([key(0)]), [key(0)], {}
    for place in range(64):
        mask = 1 << place
        while value := key_sum([key(mask)]) ^ first:
            if value.bit_length() not in reduced:
                reduced[value.bit_length()] = mask
                break
            mask ^= reduced[value.bit_length()]
        else:
            found.append(key(mask))
    assert len({key_half(one) for one in found}) == 1
    return found[:count]


def test_apps_with_names_that_share_a_checksum_are_no_load_for_each_other(shell, monkeypatch):
    one, *others = alike(30)
    assert len(set(others)) == 29
    staged(shell, "i", app=one)
    for number, other in enumerate(others):
        staged(shell, f"o{number}", app=other)
    assert isinstance(committed(shell, app=one), Committed)
    shell.changes.forget()
    looked = []
    monkeypatch.setattr(
        kinds, "is_whole", lambda *row: looked.append(row) or columns.is_whole(*row)
    )
    assert shell.do(AskLastVersion(who(ETL), one)).version == 1
    assert 0 < len(looked) <= 17
    assert shell.noted == []


@pytest.mark.parametrize("flip", MARKS)
def test_the_other_apps_go_on(shell, flip):
    has_two_versions(shell)
    staged(shell, "o", app=OTHER)
    damages(shell, "txn_app", flip, f"name = '{APP}'")
    staged(shell, "p", app=OTHER)
    assert committed(shell, app=OTHER, items=2).published == 2
    staged(shell, "q", app=OTHER, version=2)
    assert shell.do(aborts(version=2, app=OTHER)) == Done()
    assert not isinstance(shell.do(publishes("by itself")), Refused)
    assert names(shell) == ["o", "p", "by itself"]


@pytest.mark.parametrize("flip", MARKS)
def test_an_administrator_has_the_mark_written_anew_from_the_records(shell, flip):
    has_two_versions(shell)
    damages(shell, "txn_app", flip)
    assert shell.do(aborts(version=3, app=APP, by=BOSS, admin=True)) == Done()
    assert last(shell) == LastVersion("nightly", 2, shell.now)
    assert isinstance(staged(shell, "v2", version=2), Skipped)
    assert committed(shell, 2).already
    staged(shell, "again", version=3)
    assert committed(shell, 3).published == 1
    assert names(shell) == ["again"]


def test_a_version_that_was_committed_stays_so_whichever_the_administrator_names(shell):
    has_two_versions(shell)
    damages(shell, "txn_app", "owner = 'eve@x'")
    assert shell.do(aborts(version=1, app=APP, by=BOSS, admin=True)) == Done()
    assert last(shell).version == 2
    staged(shell, "v3", version=3)
    assert committed(shell, 3).published == 1  # it was not the version that was aborted


def test_without_records_what_precedes_the_version_counts_as_committed(shell):
    has_two_versions(shell)
    shell.connection.execute("DELETE FROM txn WHERE committed IS NOT NULL")
    damages(shell, "txn_app", "version = 1")
    assert shell.do(aborts(version=3, app=APP, by=BOSS, admin=True)) == Done()
    assert last(shell).version == 2
    shell.connection.execute("DELETE FROM txn")
    damages(shell, "txn_app", "version = 1")
    assert shell.do(aborts(version=0, app=APP, by=BOSS, admin=True)) == Done()
    assert last(shell) == LastVersion("nightly", None, None)


def test_a_damaged_record_is_not_the_one_that_a_mark_is_written_from(shell):
    has_two_versions(shell)
    damages(shell, "txn", "version = 64", "version = 2")
    damages(shell, "txn_app", "owner = 'eve@x'")
    assert shell.do(aborts(version=3, app=APP, by=BOSS, admin=True)) == Done()
    assert last(shell).version == 2  # what precedes the version that is named


VERSIONS = [
    "owner = 'eve@x'",
    "immediate = (1 = 1)",
    "began = 7",
    "until = 7",
    "committed = 7",
    "on_taken = 'skip'",
    "dead_letter_node = 'more'",
]


@pytest.mark.parametrize("flip", VERSIONS)
def test_a_damaged_version_is_not_committed_until_it_is_aborted_and_staged_again(shell, flip):
    staged(shell, "a", "b")
    damages(shell, "txn", flip)
    for request in (
        stages("c", app=APP),
        stages("c", app=APP, immediate=True),
        commits((0, 0, 2), app=APP),
        commits(app=APP),
        aborts((0, 0), app=APP),
    ):
        is_refused(shell.do(request), VERSION_DAMAGED)
    shell.now += 86_400_001
    shell.do(Expire())
    is_refused(shell.do(commits((0, 0, 2), app=APP)), VERSION_DAMAGED)
    assert DamagedRow("version", "1 of nightly of etl@x") in shell.noted
    staged(shell, "o", app=OTHER)
    assert committed(shell, app=OTHER).published == 1
    assert shell.do(aborts(app=APP)) == Done()
    staged(shell, "a", "b")
    assert committed(shell, items=2).published == 2
    assert names(shell) == ["o", "a", "b"]


def test_a_version_whose_number_is_damaged_is_staged_again(shell):
    staged(shell, "a")
    damages(shell, "txn", "version = 3")
    assert refusal(committed(shell)) is Refusal.NOT_AS_STAGED
    staged(shell, "a")
    assert committed(shell).published == 1
    assert names(shell) == ["a"]


def test_what_the_mark_counts_as_committed_needs_no_record(shell):
    has_two_versions(shell)
    damages(shell, "txn", "owner = 'eve@x'", "version = 2")
    assert committed(shell, 2) == Committed(2, 0, 0, already=True)
    assert isinstance(staged(shell, "v2", version=2), Skipped)
    damages(shell, "txn", "committed = NULL", "version = 1")
    assert isinstance(committed(shell, 1), Committed)
    assert isinstance(staged(shell, "v1", version=1), Skipped)


def test_a_list_leaves_out_damaged_records_and_has_all_others(shell):
    for version in range(1, 5):
        staged(shell, f"v{version}", version=version)
        committed(shell, version)
    damages(shell, "txn", "owner = 'eve@x'", "version = 2")
    mine = shell.do(ListTransactions(who(ETL), open=False))
    assert [one.version for one in mine.records] == [1, 3, 4]
    page = shell.do(ListTransactions(who(ETL), open=False, max=2))
    assert ([one.version for one in page.records], page.more) == ([1, 3], True)
    assert shell.do(ListTransactions(who("eve@x/1"), open=False)).records == ()
    assert DamagedRow("record", "2 of nightly of etl@x") in shell.noted


def moving(shell, monkeypatch):
    """Commit a version whose items are not in their places yet, and another one behind it."""
    in_slices(monkeypatch)
    for version, name in ((1, "a"), (2, "b")):
        staged(shell, name, version=version)
        request = commits((0, 0, 1), version=version, app=APP, on_taken=OnTaken.SKIP)
        while not isinstance(request, MoveWinners):
            request = shell.batch(request).decisions[0].then
    assert names(shell) == []
    return request


def test_the_items_of_a_commit_with_a_damaged_record_wait_and_are_not_lost(shell, monkeypatch):
    moving(shell, monkeypatch)
    damages(shell, "txn", "on_taken = 'dead-letter'", "version = 1")
    is_refused(shell.do(MoveWinners(APP, 1)), RECORD_DAMAGED)
    shell.do(ResumeMoves())
    assert names(shell) == ["b"]  # the commit behind it goes on
    shell.now += 86_400_000 * 99
    sweep(shell)
    shell.do(Expire())
    shell.do(ResumeMoves())
    assert names(shell) == ["b"]
    assert shell.do(aborts(version=1, app=APP)) == Done()  # its owner cannot say what holds
    shell.do(ResumeMoves())
    assert names(shell) == ["b"]
    assert shell.do(aborts(version=1, app=APP, by=BOSS, admin=True)) == Done()
    shell.do(ResumeMoves())
    assert names(shell) == ["b", "a"]
    assert committed(shell, 1).already


def test_rows_of_an_earlier_version_get_a_checksum_in_slices(shell, monkeypatch):
    monkeypatch.setattr("pubqueue.engine.facts.queue.SUMS", 2)
    has_two_versions(shell)
    for table in ("txn_app", "txn"):
        shell.connection.execute(f"UPDATE {table} SET sum = NULL")
    shell.changes.forget()
    assert committed(shell, 2).already
    staged(shell, "more", version=3)
    assert shell.do(ComputeSums()) == Done()
    for table, count in (("txn_app", 1), ("txn", 3)):
        left = shell.connection.execute(f"SELECT count(*), count(sum) FROM {table}").fetchone()
        assert tuple(left) == (count, count)
    assert committed(shell, 3, items=2).published == 2
    damages(shell, "txn_app", "version = 1")
    is_refused(last(shell), APP_DAMAGED)


def test_each_is_logged_once_by_its_account_and_its_name():
    reports = DamageReports(lambda _request, _answer: None)
    with capture_logs() as logs:
        for _ in range(2):
            reports.note(0, DamagedRow("app", "nightly of etl@x"))
    assert [(one["event"], one["kind"], one["key"]) for one in logs] == [
        ("row.damaged", "app", "nightly of etl@x")
    ]
