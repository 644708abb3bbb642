"""Rows that say who may do what, and whose checksum does not match, give nobody anything; on both stores."""

from contextlib import closing

import pytest
from harness.batches.facts import ANN, BOB, BOSS, ETL, JOBS, after, who
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell
from structlog.testing import capture_logs

from pubqueue.engine import listings
from pubqueue.engine.damage import ComparedRows, DamagedRow, DamageReports
from pubqueue.engine.rows import Needs
from pubqueue.model.decision import Done, Refusal, Refused
from pubqueue.model.entities import AccessModel, Affiliation, Jid, Node, NodeName
from pubqueue.model.records import Registration
from pubqueue.model.schedules import Definition, Fired
from pubqueue.model.sums import DAMAGED
from pubqueue.rules import registrations as r
from pubqueue.rules.audience import NextSubscribers
from pubqueue.rules.damage import ComputeSums
from pubqueue.rules.declare import Declare
from pubqueue.rules.discovery import Describe
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import (
    Configure,
    Create,
    Delete,
    GetAffiliations,
    SetAffiliations,
)
from pubqueue.rules.presence import Departure, Leave
from pubqueue.rules.retrieve import Retrieve
from pubqueue.rules.schedules import (
    AddSchedule,
    ChangeSchedule,
    DeclareSchedules,
    FireNow,
    FireSchedule,
    ListSchedules,
    PauseSchedule,
)
from pubqueue.rules.subscribe import Options, SetOptions, Subscribe

NEWS, OTHER = NodeName("news"), NodeName("other")
ROOT = who(BOSS, admin=True)
TABLES = ("node", "affiliation", "subscription", "schedule", "registration")
STRANGER = Jid("mallory@x/1")
WHAT = Definition("nightly", "0 3 * * *", "UTC", JOBS, b"<work/>")
PUSH = Registration("push", Jid("etl@x"), JOBS, queueing=True, words=b"{}", revision=1)


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    sqlite = request.param == "sqlite"
    place = tmp_path / "queue.db" if sqlite else request.getfixturevalue("postgres").address
    with closing(Shell(place) if sqlite else PostgresShell(place)) as made:
        made.do(a_queue(event_log=1))
        made.do(Create(ROOT, NEWS, Settings({"access_model": "whitelist"})))
        yield made


def flips(shell, table, column, *change, where="true"):
    """Change a part of a text, as a bad disk may."""
    old, new = change
    done = shell.connection.execute(
        f"UPDATE {table} SET {column} = replace({column}, '{old}', '{new}')"
        f" WHERE {column} LIKE '%{old}%' AND {where}"
    )
    assert done.rowcount == 1
    shell.changes.forget()


def refusal(reply):
    assert isinstance(reply, Refused), reply
    return reply.refusal


def opens(shell):
    """Turn the access model of a closed node into another, which anyone may read."""
    flips(shell, "node", "config", '"whitelist"', '"open"', where="name = 'news'")


def test_a_node_with_damaged_settings_is_open_to_nobody(shell):
    shell.do(publishes("a", by=BOSS, node=NEWS))
    assert isinstance(shell.do(Retrieve(who(STRANGER), NEWS)), Refused)
    opens(shell)
    for request in (
        Retrieve(who(STRANGER), NEWS),
        Retrieve(ROOT, NEWS),
        Subscribe(who(STRANGER), NEWS, STRANGER, "s"),
        publishes("b", by=BOSS, node=NEWS),
    ):
        no = shell.do(request)
        assert refusal(no) is Refusal.INTERNAL_FAULT
        assert "settings of the node are damaged" in no.reason
    assert not isinstance(shell.do(publishes("c")), Refused)


def test_a_store_returns_what_it_has_of_such_a_node_and_whoever_loads_it_finds_it_closed(shell):
    shell.do(publishes("a", by=BOSS, node=NEWS))
    listed = (
        listings.Nodes(),
        listings.NodesNamed("ne"),
        listings.NodesOfAccount(ROOT.account),
        listings.NodesOfAccountNamed(ROOT.account, "ne"),
        listings.NodeEntries((NEWS,)),
    )
    opens(shell)

    def found(tx):
        pages = [tx.page(which, None, 9) for which in listed]
        rows = [row for page in pages for row in page] + tx.load(Needs(nodes={NEWS})).nodes
        nodes = [row if type(row) is Node else getattr(row, "node", None) or row[0] for row in rows]
        news = [node for node in nodes if node.name == NEWS]
        return [(node.damaged, node.config.access_model, node.config.paused) for node in news]

    noted = []
    stored = shell.look_within(found)
    loaded = shell.look_within(lambda tx: found(ComparedRows(tx, lambda _, row: noted.append(row))))
    assert stored == [(True, AccessModel.OPEN, False)] * 6
    assert loaded == [(True, AccessModel.WHITELIST, True)] * 6
    assert set(noted) == {DamagedRow("node", "news")}


def test_settings_that_are_no_json_any_more_close_the_node_alone(tmp_path):
    path = tmp_path / "queue.db"
    with closing(Shell(path)) as shell:
        shell.do(a_queue(lock_timeout=77))
        shell.do(a_queue(OTHER))
        shell.batch(joins(ANN, 9), joins(ANN, 9, node=OTHER))
    content = path.read_bytes()
    assert content.count(b'"lock_timeout":77') == 1
    path.write_bytes(content.replace(b'"lock_timeout":77', b'"lock_timeout"z77'))
    with closing(Shell(path)) as shell:
        assert refusal(shell.do(publishes("a"))) is Refusal.INTERNAL_FAULT
        given = shell.batch(publishes("b", node=OTHER), everywhere=True).deliveries
        assert [one.item.id for one in given] == ["b"]
        node = shell.do(Describe(ROOT, JOBS, manage=True)).node
        assert (node.config.queueing, node.config.paused) == (True, True)


def test_the_items_of_such_a_node_wait_and_the_locks_of_all_others_end(shell):
    shell.do(a_queue(OTHER))
    shell.batch(joins(ANN, 1), joins(ANN, 1, node=OTHER), joins(BOB, 9))
    shell.batch(publishes("a", "b"), publishes("c", node=OTHER))
    flips(shell, "node", "config", '"max_failures":20', '"max_failures":28', where="name = 'jobs'")
    done = shell.batch(Leave(ANN, how=Departure.CLOSED), everywhere=True)
    assert done.deliveries == ()
    rows = shell.connection.execute("SELECT id, state FROM item ORDER BY id").fetchall()
    assert [tuple(row) for row in rows] == [("a", "queued"), ("b", "locked"), ("c", "queued")]


def test_an_owner_sets_such_a_node_again_or_deletes_it(shell):
    opens(shell)
    seen = shell.do(Describe(ROOT, NEWS, manage=True))
    assert seen.node.config.access_model is AccessModel.WHITELIST
    assert shell.do(Configure(ROOT, NEWS, Settings({"title": "again"}))) == Done()
    config = shell.do(Describe(ROOT, NEWS, manage=True)).node.config
    assert (config.access_model, config.publish_paused) == (AccessModel.WHITELIST, True)
    assert shell.do(Configure(ROOT, NEWS, Settings({"publish_paused": "0"}))) == Done()
    assert not isinstance(shell.do(publishes("a", by=BOSS, node=NEWS)), Refused)
    opens(shell)
    assert refusal(shell.do(Delete(who(STRANGER), NEWS))) is Refusal.FORBIDDEN
    assert shell.do(Delete(ROOT, NEWS)) == Done()


def test_the_file_sets_such_a_node_again(shell):
    flips(shell, "node", "config", '"max_failures":20', '"max_failures":28', where="name = 'jobs'")
    settings = Settings(
        {"queueing": "1", "max_failures": "20", "paused": "0", "publish_paused": "0"}
    )
    assert not isinstance(shell.do(Declare(ROOT, JOBS, settings)), Refused)
    assert not isinstance(shell.do(publishes("a")), Refused)


@pytest.mark.parametrize(
    ("column", "old", "new"), [("jid", "bob@x", "cob@x"), ("affiliation", "member", "owner")]
)
def test_a_damaged_affiliation_lets_its_account_do_nothing_until_it_is_given_anew(
    shell, column, old, new
):
    cob = Jid("cob@x/1") if column == "jid" else BOB
    give = SetAffiliations(ROOT, NEWS, ((Jid("bob@x"), Affiliation.MEMBER),))
    shell.do(give)
    assert not isinstance(shell.do(Retrieve(who(BOB), NEWS)), Refused)
    flips(shell, "affiliation", column, old, new)
    for jid in (BOB, cob):
        assert isinstance(shell.do(Retrieve(who(jid), NEWS)), Refused)
        assert refusal(shell.do(GetAffiliations(who(jid), NEWS))) is Refusal.FORBIDDEN
    shell.do(give)
    assert not isinstance(shell.do(Retrieve(who(BOB), NEWS)), Refused)


def test_an_outcast_stays_one_when_the_row_is_damaged(shell):
    shell.do(Create(ROOT, OTHER, Settings({"access_model": "open"})))
    shell.do(SetAffiliations(ROOT, OTHER, ((Jid("bob@x"), Affiliation.OUTCAST),)))
    flips(shell, "affiliation", "affiliation", "outcast", "member")
    assert refusal(shell.do(Retrieve(who(BOB), OTHER))) is Refusal.FORBIDDEN
    assert not isinstance(shell.do(Retrieve(who(ANN), OTHER)), Refused)


def hears(shell):
    return shell.do(NextSubscribers(who(BOSS), NEWS)).jids


def test_nothing_is_sent_to_a_damaged_subscription(shell):
    for jid in (ANN, BOB, Jid("zoe@x/1")):
        shell.do(SetAffiliations(ROOT, NEWS, ((Jid(jid.partition("/")[0]), Affiliation.MEMBER),)))
        shell.do(Subscribe(who(jid), NEWS, jid, jid))
        shell.do(joins(jid, 1))
    assert len(hears(shell)) == 3
    shell.connection.execute(
        "UPDATE subscription SET jid = 'cob@x/1', account = 'cob@x' WHERE jid = 'bob@x/1'"
    )
    shell.changes.forget()
    assert hears(shell) == (ANN, Jid("zoe@x/1"))
    given = shell.batch(publishes("a", "b", "c"), everywhere=True).deliveries
    assert {one.to for one in given} == {ANN, Jid("zoe@x/1")}
    told = shell.batch(publishes("n", by=BOSS, node=NEWS)).decisions[0].notices
    assert "cob" not in repr(told)


def test_a_change_does_not_make_a_damaged_subscription_right(shell):
    shell.do(joins(ANN, 1))
    shell.connection.execute("UPDATE subscription SET lock_timeout = 9")
    shell.changes.forget()
    for _ in range(2):
        shell.do(SetOptions(who(ANN), JOBS, ANN, None, Options(1, lock_timeout=8)))
        assert shell.batch(publishes("a"), everywhere=True).deliveries == ()
        shell.changes.forget()


def furnish(shell):
    shell.do(AddSchedule(ROOT, WHAT))
    shell.do(r.Register(who(ETL), PUSH))


def test_a_damaged_schedule_is_paused_and_publishes_nothing(shell):
    furnish(shell)
    flips(shell, "schedule", "definition", '"0 3', '"0 2')
    assert shell.do(FireSchedule("nightly")) == Fired("nightly", error=DAMAGED, first=True)
    assert shell.do(FireSchedule("nightly")) == Fired("nightly")
    (shown,) = shell.do(ListSchedules(ROOT)).schedules
    assert (shown.paused, shown.due, shown.error) == (True, None, DAMAGED)
    for request in (FireNow(ROOT, "nightly"), PauseSchedule(ROOT, "nightly", paused=False)):
        assert refusal(shell.do(request)) is Refusal.INTERNAL_FAULT
    shell.changes.forget()
    assert shell.do(ListSchedules(ROOT)).schedules[0].damaged
    assert shell.do(ChangeSchedule(ROOT, WHAT)) == Done()
    assert shell.do(PauseSchedule(ROOT, "nightly", paused=False)) == Done()
    (shown,) = shell.do(ListSchedules(ROOT)).schedules
    assert (shown.definition, shown.runs, shown.damaged) == (WHAT, True, False)


def test_a_damaged_schedule_of_the_file_gets_its_definition_again(shell):
    shell.do(DeclareSchedules(ROOT, (WHAT,), (after(9),)))
    flips(shell, "schedule", "definition", '"0 3', '"0 2')
    assert shell.do(DeclareSchedules(ROOT, (WHAT,), (after(9),))).changed == ("nightly",)
    (shown,) = shell.do(ListSchedules(ROOT)).schedules
    assert (shown.definition, shown.paused, shown.damaged) == (WHAT, True, False)


def test_a_damaged_registration_is_disabled_until_an_administrator_ends_it(shell):
    furnish(shell)
    shell.connection.execute("UPDATE registration SET position = 1")
    shell.changes.forget()
    (row,) = shell.do(r.ListRegistrations(ROOT)).entries
    assert (row.disabled, row.error, row.words) == (True, DAMAGED, b"")
    assert shell.do(r.Claim(ROOT, "push", "one")).entries == (row,)
    assert refusal(shell.do(r.NotePush(ROOT, "push", ""))) is Refusal.LOCK_LOST
    assert shell.do(r.ListRegistrations(who(ETL), JOBS)).entries == ()
    assert refusal(shell.do(r.Enable(ROOT, JOBS, "push", disabled=False))) is Refusal.INTERNAL_FAULT
    assert refusal(shell.do(r.Register(who(ETL), PUSH))) is Refusal.INTERNAL_FAULT
    assert refusal(shell.do(r.Unregister(who(ETL), JOBS, "push"))) is Refusal.ITEM_NOT_FOUND
    shell.do(r.Unregister(ROOT, JOBS, "push"))
    assert shell.do(r.Register(who(ETL), PUSH)).entries == (PUSH,)


def test_rows_of_an_earlier_version_get_a_checksum_in_slices(shell, monkeypatch):
    monkeypatch.setattr("pubqueue.engine.facts.queue.SUMS", 2)
    furnish(shell)
    shell.batch(*(joins(Jid(f"w{n}@x/1"), 1) for n in range(5)))
    for table in TABLES:
        shell.connection.execute(f"UPDATE {table} SET sum = NULL")
    shell.changes.forget()
    assert not isinstance(shell.do(publishes("a")), Refused)
    assert shell.do(ComputeSums()) == Done()
    for table in TABLES:
        left = shell.connection.execute(f"SELECT count(*), count(sum) FROM {table}").fetchone()
        assert left[0] == left[1] > 0
    shell.changes.forget()
    assert not isinstance(shell.do(publishes("b")), Refused)
    assert shell.do(ListSchedules(ROOT)).schedules[0].runs
    opens(shell)
    assert refusal(shell.do(Retrieve(ROOT, NEWS))) is Refusal.INTERNAL_FAULT


def test_each_damaged_row_is_counted_and_logged_once():
    reports = DamageReports(lambda _request, _answer: None)
    with capture_logs() as logs:
        for _ in range(2):
            reports.note(0, DamagedRow("node", "jobs"))
    assert reports.count == 1
    assert [(one["event"], one["kind"], one["key"]) for one in logs] == [
        ("row.damaged", "node", "jobs")
    ]
