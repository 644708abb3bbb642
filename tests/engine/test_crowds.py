"""The cost of a request does not depend on how many others subscribe or are available."""

import random

import pytest
from harness.batches.facts import BOSS, ETL, JOBS, who
from harness.batches.queue_requests import a_queue, joins, publishes, retracts, unlocks
from harness.batches.shell import Shell
from msgspec.structs import replace

from pubqueue.engine import changes, dispatch, windows
from pubqueue.engine.listings import FreeSubscriptions
from pubqueue.model.entities import Jid
from pubqueue.model.notices import ToEach
from pubqueue.rules.declare import Declare
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.presence import Arrive, Leave
from pubqueue.stores.sql.transaction import SqlTransaction

SWARM = [Jid(f"swarm@x/{number:03}") for number in range(300)]
CROWD = [Jid(f"bot{number:03}@x/1") for number in range(300)]


@pytest.fixture
def loaded(monkeypatch):
    """Return the rows that were read from the store, in order."""
    found = []
    load = SqlTransaction.load

    def watched(self, needs):
        rows = load(self, needs)
        found.extend(rows.subscriptions)
        return rows

    monkeypatch.setattr(SqlTransaction, "load", watched)
    return found


def plain(shell):
    people = (Jid("boss@x"),), (Jid("etl@x"),)
    shell.do(Declare(who(BOSS, admin=True), JOBS, Settings({"access_model": "open"}), *people))


def reads(jid):
    return replace(joins(jid), options=None)


def test_presence_of_one_resource_does_not_load_the_others_of_its_account(shell, loaded):
    plain(shell)
    shell.batch(*map(Arrive, SWARM))
    shell.batch(*map(reads, SWARM))
    shell.changes.forget()
    loaded.clear()
    shell.batch(Arrive(SWARM[5]), Leave(SWARM[7]))
    assert [row.jid for row in loaded] == [SWARM[5], SWARM[7]]


def test_subscribing_to_a_plain_node_does_not_load_other_subscribers(shell, loaded):
    plain(shell)
    shell.batch(*map(reads, CROWD))
    shell.changes.forget()
    loaded.clear()
    shell.do(reads(ETL))
    assert loaded == []


def test_a_notice_to_many_is_one_value_with_a_shared_audience(shell):
    plain(shell)
    shell.batch(*map(reads, CROWD))
    reported = [shell.batch(publishes(name)).decisions[0].notices for name in "ab"]
    (one,), (other,) = reported
    assert isinstance(one, ToEach)
    assert one.to is other.to
    assert one.to == tuple(CROWD)
    assert [notice.to for notice in one.notices()] == CROWD
    assert [notice.to for notice in one.notices(298)] == CROWD[298:]
    shell.do(reads(ETL))
    ((now,),) = [shell.batch(publishes("c")).decisions[0].notices]
    assert now.to == (*CROWD, ETL)


def a_crowd(shell):
    shell.batch(a_queue(), *map(joins, CROWD))
    shell.changes.forget()


@pytest.fixture
def small(monkeypatch):
    """Let more than ten be a crowd, of which three are loaded at once, and let a batch deliver three items."""
    monkeypatch.setattr(changes, "CROWD", 10)
    monkeypatch.setattr(windows, "PAGE", 3)
    monkeypatch.setattr(dispatch, "MAX_DELIVERIES", 3)


@pytest.fixture
def paged(monkeypatch):
    """Return the subscriptions that came in pages."""
    found = []
    page = SqlTransaction.page

    def watched(self, which, after=None, limit=1):
        rows = page(self, which, after, limit)
        if isinstance(which, FreeSubscriptions):
            found.extend(rows)
        return rows

    monkeypatch.setattr(SqlTransaction, "page", watched)
    return found


def test_only_idle_workers_whose_turn_may_come_are_loaded(shell, loaded, paged, small):
    a_crowd(shell)
    loaded.clear()
    paged.clear()
    (first,) = shell.batch(publishes("a")).deliveries
    assert first.to == CROWD[0]
    assert [row.jid for row in paged] == CROWD[:3]
    (again,) = shell.batch(retracts(CROWD[0], "a"), publishes("b")).deliveries
    assert again.to == CROWD[1]  # who was served last is the last of all
    assert len(loaded) < 4
    assert len(paged) < 10
    shell.batch(publishes("c", "d", "e", "f"))
    assert len(paged) < 20 < len(CROWD)


def test_a_page_is_as_large_as_what_a_batch_hands_out():
    assert windows.PAGE >= dispatch.MAX_DELIVERIES


class Twin:
    """A queue with random events, whose behaviour does not depend on how it is stored."""

    def __init__(self, shell):
        self.shell = shell
        self.given = []
        self._count = 0

    def batch(self, *requests):
        done = self.shell.batch(*requests)
        self._note(done)
        while done.rest:
            done = self.shell.batch(rest=done.rest)
            self._note(done)

    def _note(self, done):
        self.given += [(each.to, each.item.id, each.item.token) for each in done.deliveries]

    def step(self, chance):
        what = chance.random()
        jid = chance.choice(CROWD[:40])
        held = self.given[-30:]
        worker, item, _ = chance.choice(held) if held else (jid, "none", 0)
        self._count += 1
        names = [f"i{self._count}.{n}" for n in range(chance.randrange(1, 8))]
        window = chance.randrange(1, 4)
        if what < 0.25:
            self.batch(joins(jid, window))
        elif what < 0.5:
            self.batch(publishes(*names))
        elif what < 0.75:
            self.batch(retracts(worker, item), retracts(jid, item))
        elif what < 0.85:
            self.batch(unlocks(worker, item))
        elif what < 0.9:
            self.batch(Leave(jid), publishes(*names))
        elif what < 0.95:
            self.shell.wait(20)
            self.batch(Expire())
        else:
            self.shell.changes.forget()


@pytest.mark.parametrize("seed", range(8))
def test_a_crowd_is_served_in_the_order_in_which_it_would_be_if_all_were_loaded(
    tmp_path, monkeypatch, seed
):
    lives = []
    for crowd in (10, 1 << 30):
        monkeypatch.setattr(changes, "CROWD", crowd)
        monkeypatch.setattr(windows, "PAGE", 3)
        monkeypatch.setattr(dispatch, "MAX_DELIVERIES", 3)
        shell = Shell(tmp_path / f"{crowd}.db")
        twin, chance = Twin(shell), random.Random(seed)
        twin.batch(a_queue(lock_timeout=30), *map(joins, CROWD[:20]))
        for _ in range(150):
            twin.step(chance)
        lives.append(twin.given)
        shell.close()
    assert len(lives[0]) > 100
    assert lives[0] == lives[1]
