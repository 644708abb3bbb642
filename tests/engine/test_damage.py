"""What is stored and does not match its checksum is never given out, dies, and holds up nothing else; on both stores."""

import sqlite3
from contextlib import closing

import pytest
from harness.batches.facts import ANN, BOSS, JOBS, after, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.shell import Shell
from harness.batches.transactions import commits, stages
from harness.batches.two_shells import PostgresShell
from harness.stores.store_contents import recount
from structlog.testing import capture_logs

from pubqueue.engine.damage import DamageReports
from pubqueue.engine.facts import transactions
from pubqueue.model.decision import Damaged, Done, Refusal, Refused
from pubqueue.model.entities import ItemId, NodeName, State
from pubqueue.model.sums import DAMAGED
from pubqueue.rules.damage import ComputeSums, EndDamaged
from pubqueue.rules.dead_letters import Redrive
from pubqueue.rules.inspect import Peek
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Create
from pubqueue.rules.retrieve import ReadNewer, Retrieve
from pubqueue.rules.seek import Seek
from pubqueue.rules.unlock import Resend

NEWS = NodeName("news")


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    place = tmp_path / "queue.db"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").address
    made = {"sqlite": Shell, "postgres": PostgresShell}[request.param](place)
    made.do(a_queue(event_log=1))
    yield made
    assert made.look_within(recount) == []
    made.close()


def flips(shell, name, column="payload", to=b"<jOb/>", table="item"):
    """Change a column of an item, as a bad disk may."""
    value = f"'{to}'" if isinstance(to, str) else f"CAST('{to.decode()}' AS BLOB)"
    if isinstance(shell, PostgresShell) and not isinstance(to, str):
        value = f"'{to.decode()}'::bytea"
    shell.connection.execute(f"UPDATE {table} SET {column} = {value} WHERE id = '{name}'")


def ends(shell):
    """Let what was found damaged die, and deliver what was behind it."""
    seqs, shell.damaged[:] = tuple(dict.fromkeys(shell.damaged)), []
    assert seqs
    return shell.batch(EndDamaged(seqs))


def given(result):
    return [(one.item.id, one.payload) for one in result.deliveries]


def state(shell, name):
    item = shell.do(Peek(who(BOSS, admin=True), JOBS, ItemId(name)))
    return item.item.state, item.item.error, item.payload


@pytest.mark.parametrize(
    ("column", "to"),
    [
        ("payload", b"<jOb/>"),
        ("headers", '[["a","2"]]'),
        ("headers", "no list"),
        ("group_name", "x"),
    ],
)
def test_what_is_damaged_is_not_given_out_and_the_others_are(shell, column, to):
    shell.do(publishes("a", "c"))
    shell.do(publishes("b", headers=(("a", "1"),)))
    flips(shell, "b", column, to)
    found = shell.batch(joins(ANN, 9))
    if column == "group_name":  # a group's item waits for its turn
        found = shell.batch(joins(ANN, 9), everywhere=True)
    assert {name for name, _ in given(found)} <= {"a", "c"}
    if column != "group_name":
        assert ends(shell).decisions[0].reply == Damaged(((JOBS, "b"),))
        assert state(shell, "b") == (State.DEAD, DAMAGED, b"")


def test_what_is_behind_it_comes_as_soon_as_it_is_dead(shell):
    shell.do(publishes("a", "b"))
    flips(shell, "a")
    assert given(shell.batch(joins(ANN, 1))) == []
    assert given(ends(shell)) == [("b", b"<job/>")]


def test_it_dies_where_it_is_and_is_not_redriven(shell):
    shell.do(a_queue(NodeName("dead")))
    shell.do(a_queue(dead_letter_node="dead"))
    shell.do(publishes("a"))
    flips(shell, "a")
    shell.batch(joins(ANN, 1))
    ends(shell)
    no = shell.do(Redrive(who(BOSS, admin=True), JOBS, (ItemId("a"),)))
    assert no == Refused(Refusal.WRONG_PAYLOAD, f"of item a {DAMAGED}: publish it again")
    all_of_them = shell.do(Redrive(who(BOSS, admin=True), JOBS))
    assert (all_of_them.count, state(shell, "a")) == (0, (State.DEAD, DAMAGED, b""))


def test_one_that_is_locked_is_not_sent_again_and_its_holder_loses_it(shell):
    shell.do(publishes("a", "b"))
    assert len(shell.batch(joins(ANN, 2)).deliveries) == 2
    flips(shell, "a")
    sent = shell.batch(Resend()).decisions[0].notices
    assert [one.item.id for one in sent] == ["b"]
    (lost,) = ends(shell).decisions[0].notices
    assert (lost.to, lost.ids) == (ANN, ("a",))
    assert state(shell, "a")[:2] == (State.DEAD, DAMAGED)
    assert shell.do(retracts(ANN, "b")) == Done()


def test_what_was_done_comes_back_and_dies(shell):
    shell.do(a_queue(keep_done=1, item_expire=1_000))
    shell.do(joins(ANN, 9))
    shell.batch(publishes("a", "b"))
    shell.do(retracts(ANN, "a", "b"))
    flips(shell, "a", table="done_item")
    shell.now = after(5)
    shell.do(Seek(who(BOSS), JOBS, after(0)))
    found = shell.batch(everywhere=True)
    assert ("a", b"<jOb/>") not in given(found)
    ends(shell)
    assert state(shell, "a") == (State.DEAD, DAMAGED, b"")
    assert state(shell, "b")[0] is State.LOCKED


def test_in_a_plain_node_it_is_left_out(shell):
    shell.do(Create(who(BOSS, admin=True), NEWS, Settings({"access_model": "open"})))
    shell.do(publishes("a", "b", "c", by=BOSS, node=NEWS))
    flips(shell, "b")
    for request in (ReadNewer(who(ANN), NEWS, 0), Retrieve(who(ANN), NEWS)):
        assert [item.id for item, _ in shell.do(request).items] == ["a", "c"]
    assert ends(shell).decisions[0].reply == Damaged(((NEWS, "b"),))
    flips(shell, "a")
    newest = shell.do(ReadNewer(who(ANN), NEWS, 0, most=1)).items
    assert [item.id for item, _ in newest] == ["c"]


def test_another_publish_of_it_replaces_it(shell):
    shell.do(publishes("a"))
    flips(shell, "a")
    shell.do(publishes("a", payload=b"<new/>"))
    assert given(shell.batch(joins(ANN, 1))) == [("a", b"<new/>")]


def test_rows_of_an_earlier_version_get_a_checksum_in_slices(shell, monkeypatch):
    monkeypatch.setattr("pubqueue.engine.facts.queue.SUMS", 2)
    shell.do(a_queue(keep_done=1, item_expire=1_000))
    shell.do(joins(ANN, 1))
    shell.batch(publishes("done"))
    shell.do(retracts(ANN, "done"))
    shell.batch(publishes("a", "b", "c"))
    for table in ("item", "done_item"):
        shell.connection.execute(f"UPDATE {table} SET sum = NULL")
    shell.rows.cache.forget()
    assert shell.do(ComputeSums()) == Done()
    for table in ("item", "done_item"):
        left = shell.connection.execute(f"SELECT count(*) FROM {table} WHERE sum IS NULL")
        assert left.fetchone()[0] == 0
    flips(shell, "b")
    assert given(shell.batch(retracts(ANN, "a"))) == []
    assert given(ends(shell)) == [("c", b"<job/>")]


def test_each_damaged_item_is_counted_and_logged_once():
    asked = []
    reports = DamageReports(lambda request, answer: asked.append((request, answer)))
    reports.end()
    assert asked == []
    reports.note(7)
    reports.end()
    reports.note(7)  # while it is being ended
    reports.end()
    ((request, answer),) = asked
    with capture_logs() as logs:
        answer(Damaged(((JOBS, ItemId("a")),)))
        reports.note(7)
        reports.end()
        asked[1][1](Damaged(((JOBS, ItemId("a")),)))
        reports.note(0, (JOBS, ItemId("staged")))
    assert (request, reports.count) == (EndDamaged((7,)), 2)
    assert [(one["event"], one["node"], one["item"]) for one in logs] == [
        ("item.damaged", JOBS, "a"),
        ("item.damaged", JOBS, "staged"),
    ]


def test_an_item_without_a_number_holds_nothing_up(tmp_path):
    with closing(Shell(tmp_path / "queue.db")) as shell:
        shell.do(a_queue())
        shell.do(publishes("a", "b"))
        with closing(sqlite3.connect(tmp_path / "queue.db", isolation_level=None)) as other:
            other.execute("PRAGMA writable_schema = ON")
            for old in ("priority     INTEGER NOT NULL", "priority    INTEGER NOT NULL"):
                other.execute(
                    "UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE name = 'item'",
                    (old, "priority INTEGER"),
                )
        with closing(sqlite3.connect(tmp_path / "queue.db", isolation_level=None)) as other:
            other.execute("UPDATE item SET priority = NULL WHERE id = 'a'")
        assert given(shell.batch(joins(ANN, 9))) == [("b", b"<job/>")]
        ends(shell)
        assert state(shell, "a") == (State.DEAD, DAMAGED, b"")


def test_a_version_with_a_damaged_item_is_not_committed_if_its_winners_are_looked_at(
    shell, monkeypatch
):
    monkeypatch.setattr(transactions, "MAX_WINNERS", 0)
    shell.do(stages("a", "b"))
    flips(shell, "b", table="staged")
    no = shell.do(commits((0, 0, 2)))
    assert no == Refused(Refusal.NOT_AS_STAGED, f"of item b of jobs {DAMAGED}: stage it again")
    shell.do(stages("b"))
    shell.do(commits((0, 0, 2)))
    assert given(shell.batch(joins(ANN, 9))) == [("a", b"<job/>"), ("b", b"<job/>")]


def test_a_damaged_item_of_a_small_version_dies(shell):
    shell.do(stages("a", "b"))
    flips(shell, "b", table="staged")
    shell.do(commits((0, 0, 2)))
    assert given(shell.batch(joins(ANN, 9))) == [("a", b"<job/>")]
    ends(shell)
    assert state(shell, "b") == (State.DEAD, DAMAGED, b"")


def test_an_id_that_is_no_text_any_more_holds_nothing_up(tmp_path):
    with closing(Shell(tmp_path / "queue.db")) as shell:
        shell.do(a_queue())
        shell.do(publishes("a", "b", "c"))
        flips(shell, "b", "id", "x")
        shell.connection.execute("UPDATE item SET id = CAST(x'62ff' AS TEXT) WHERE id = 'x'")
        assert [name for name, _ in given(shell.batch(joins(ANN, 9)))] == ["a", "c"]
        assert ends(shell).decisions[0].reply == Damaged(((JOBS, "b\ufffd"),))
