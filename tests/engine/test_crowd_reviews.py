"""When a node is closed to some of a crowd, the crowd is reviewed page by page, whatever happens meanwhile."""

import pytest
from harness.batches.facts import ANN, BOSS, JOBS, who
from harness.batches.queue_requests import joins, publishes
from harness.batches.shell import Shell
from msgspec.structs import replace

from pubqueue.engine.facts import managing as pages
from pubqueue.engine.facts import publishing
from pubqueue.engine.listings import Reviews, Subscribers
from pubqueue.engine.rows import AFFILIATIONS
from pubqueue.model.decision import Done
from pubqueue.model.entities import Jid
from pubqueue.model.replies import Declared, Unsubscribed
from pubqueue.rules import audience
from pubqueue.rules.audience import ResumeReviews
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Delete
from pubqueue.rules.subscribe import Unsubscribe
from pubqueue.stores.sql.transaction import SqlTransaction

CROWD = [Jid(f"bot{number}@x/1") for number in range(8)]
MEMBERS = tuple(Jid(f"bot{number}@x") for number in (0, 3, 7))
STAY = [Jid(f"{account}/1") for account in MEMBERS]
CLOSED = Settings({"access_model": "whitelist"})


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Let five subscribers be a crowd, and three a page."""
    monkeypatch.setattr(publishing, "CROWD", 4)
    for place in (pages, audience, audience):
        monkeypatch.setattr(place, "PAGE", 3)


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    shell.do(declares({"access_model": "open"}))
    shell.batch(*map(joins, CROWD))
    yield shell
    shell.close()


def declares(settings):
    people = {"owners": (Jid("boss@x"),), "publishers": (Jid("etl@x"),), "members": MEMBERS}
    wanted = Settings({"queueing": True} | settings)
    return Declare(who(BOSS, admin=True), JOBS, wanted, **people)


def listed(shell, listing):
    return shell.look_within(lambda tx: tx.page(listing, None, 99))


def here(shell):
    return listed(shell, Subscribers(JOBS))


CLOSE = {"configured": Configure(who(BOSS), JOBS, CLOSED), "declared": declares(CLOSED.values)}


@pytest.mark.parametrize("way", CLOSE)
def test_subscribers_that_lost_access_are_removed_and_others_stay(shell, way):
    reply = shell.do(CLOSE[way])
    assert isinstance(reply, Declared if way == "declared" else Done)
    assert here(shell) == STAY
    (node,) = shell.look(lambda tx: tx.nodes())
    assert node.subscriptions == len(STAY)
    assert listed(shell, Reviews()) == []


@pytest.mark.parametrize("way", CLOSE)
@pytest.mark.parametrize("slices", range(4))
def test_after_a_kill_between_any_two_pages_all_are_looked_through(tmp_path, shell, way, slices):
    request = CLOSE[way]
    for _ in range(slices):
        request = shell.batch(request).decisions[0].then
    again = Shell(tmp_path / "queue.db")
    if slices:
        assert again.do(ResumeReviews()) == Done()
    else:
        again.do(request)
    assert here(again) == STAY
    assert listed(again, Reviews()) == []
    again.close()


def test_a_page_of_the_crowd_is_all_that_a_batch_reads(tmp_path, monkeypatch):
    shell = Shell(tmp_path / "plain.db")
    shell.do(declares({"access_model": "open", "queueing": False}))
    shell.batch(*(replace(joins(jid), options=None) for jid in CROWD))
    read, load, page = [], SqlTransaction.load, SqlTransaction.page

    def loading(self, needs):
        rows = load(self, needs)
        read.append(len(rows.subscriptions) + len(rows.of[AFFILIATIONS]))
        return rows

    def paging(self, which, after=None, limit=1):
        rows = page(self, which, after, limit)
        read.append(len(rows))
        return rows

    monkeypatch.setattr(SqlTransaction, "load", loading)
    monkeypatch.setattr(SqlTransaction, "page", paging)
    shell.changes.forget()
    shell.do(CLOSE["configured"])
    assert max(read) == 3
    assert here(shell) == STAY
    shell.close()


def test_between_two_pages_others_work_and_excluded_subscribers_do_not_return(shell):
    request = shell.batch(CLOSE["configured"]).decisions[0].then
    leaves = Unsubscribe(who(CROWD[1]), JOBS, CROWD[1])
    new = joins(ANN)
    done = shell.batch(leaves, new, publishes("a"), request)
    assert isinstance(done.decisions[0].reply, Unsubscribed)
    assert done.decisions[1].changes == ()
    shell.do(done.decisions[3].then)
    assert here(shell) == STAY


def test_a_subscriber_that_regains_access_meanwhile_stays(shell):
    request = shell.batch(CLOSE["configured"]).decisions[0].then
    request = shell.batch(request).decisions[0].then
    shell.do(Configure(who(BOSS), JOBS, Settings({"access_model": "open"})))
    shell.do(request)
    assert here(shell) == [CROWD[0], *CROWD[3:]]


def test_a_node_that_is_deleted_meanwhile_needs_no_more(shell):
    request = shell.batch(CLOSE["configured"]).decisions[0].then
    shell.do(Delete(who(BOSS), JOBS))
    assert shell.do(request) == Done()
    assert listed(shell, Reviews()) == []


def test_a_removed_subscriber_gets_no_deliveries(shell):
    shell.do(CLOSE["configured"])
    done = shell.batch(*(publishes(name) for name in "abcdef"))
    assert {notice.to for notice in done.deliveries} == set(STAY)
