"""What a request costs does not depend on how many others subscribe, or are here."""

import pytest
from harness.asks import joins, publishes
from harness.facts import BOSS, ETL, JOBS, who
from harness.shell import Shell
from msgspec.structs import replace

from pubqueue.core.decision import ToEach
from pubqueue.core.model import Jid
from pubqueue.core.nodes.declare import Declare
from pubqueue.core.nodes.nodeconfig import Settings
from pubqueue.core.queue.expire import Arrive, Leave
from pubqueue.stores.sqlite.transaction import SqliteTransaction

SWARM = [Jid(f"swarm@x/{number:03}") for number in range(300)]
CROWD = [Jid(f"bot{number:03}@x/1") for number in range(300)]


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    yield shell
    shell.close()


@pytest.fixture
def loaded(monkeypatch):
    """Return the rows that the store was asked for, in the order in which they came."""
    found = []
    load = SqliteTransaction.load

    def watched(self, needs):
        rows = load(self, needs)
        found.extend(rows.subscriptions)
        return rows

    monkeypatch.setattr(SqliteTransaction, "load", watched)
    return found


def plain(shell):
    people = (Jid("boss@x"),), (Jid("etl@x"),)
    shell.do(Declare(who(BOSS, admin=True), JOBS, Settings({"access_model": "open"}), *people))


def reads(jid):
    return replace(joins(jid), options=None)


def test_who_comes_and_goes_does_not_look_at_the_others_of_its_account(shell, loaded):
    plain(shell)
    shell.batch(*map(Arrive, SWARM))
    shell.batch(*map(reads, SWARM))
    shell.changes.forget()
    loaded.clear()
    shell.batch(Arrive(SWARM[5]), Leave(SWARM[7]))
    assert [row.jid for row in loaded] == [SWARM[5], SWARM[7]]


def test_who_subscribes_to_a_plain_node_does_not_look_at_who_else_does(shell, loaded):
    plain(shell)
    shell.batch(*map(reads, CROWD))
    shell.changes.forget()
    loaded.clear()
    shell.do(reads(ETL))
    assert loaded == []


def test_what_is_told_to_many_is_one_value_and_the_same_audience_as_long_as_it_is_the_same(shell):
    plain(shell)
    shell.batch(*map(reads, CROWD))
    told = [shell.batch(publishes(name)).decisions[0].notices for name in "ab"]
    (one,), (other,) = told
    assert isinstance(one, ToEach)
    assert one.to is other.to
    assert one.to == tuple(CROWD)
    assert [notice.to for notice in one.notices()] == CROWD
    assert [notice.to for notice in one.notices(298)] == CROWD[298:]
    shell.do(reads(ETL))
    ((now,),) = [shell.batch(publishes("c")).decisions[0].notices]
    assert now.to == (*CROWD, ETL)
