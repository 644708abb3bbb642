"""Queues of guests: they refuse no publish to the node that feeds them, on both stores, whatever is set in them."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from harness.batches.facts import ANN, BOSS, ETL, EVE, JOBS, NOW, who
from harness.batches.queue_requests import a_queue, joins, publishes, unlocks
from harness.batches.shell import Shell
from harness.batches.transactions import commits, committed, names, stages
from harness.batches.two_shells import PostgresShell
from harness.patience import TIMEOUT
from harness.stores.store_contents import misweighed, recount
from harness.stores.store_reader import StoreReader

from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.listings import Unfed
from pubqueue.model.decision import Done, DoneTogether, Published, Refusal
from pubqueue.model.entities import Affiliation, Jid, NodeName
from pubqueue.model.records import Quota, Quotas
from pubqueue.model.replies import Created
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Create, SetAffiliations
from pubqueue.rules.publish import ResumeFeeding
from pubqueue.rules.settle import Outcome
from pubqueue.rules.together import Together
from pubqueue.stores.sqlite import SqliteStore

NEWS, MINE, HERS = map(NodeName, ("news", "mine", "hers"))

UNWILLING = [
    ({"max_items": 1}, "node full (1)"),
    ({"publish_paused": True}, "publish paused"),
    ({"max_payload_size": 1}, "payload too big (1)"),
    ({"type": "urn:hers"}, "wrong payload: payloads of this node are in the namespace urn:hers"),
]


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    makes = {"sqlite": Shell, "postgres": PostgresShell}
    place = tmp_path / "queue.db"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").address
    made = makes[request.param](place)
    wanted = Settings({"queueing": False, "access_model": "open"})
    made.do(Declare(who(BOSS, admin=True), NEWS, wanted, (Jid("boss@x"),), (Jid("etl@x"),)))
    made.do(makes_queue(MINE, BOSS))
    yield made
    for look in (recount, misweighed):
        assert made.look_within(look) == []
    made.close()


def makes_queue(node, by=EVE, **settings):
    wanted = Settings({"queueing": True, "source": NEWS} | settings)
    return Create(who(by, local=True), node, wanted)


def left_out(shell, node=HERS):
    found = shell.look(lambda tx: tx.node(node)).config.left_out
    return None if found is None else (found.items, found.why)


@pytest.mark.parametrize(("settings", "why"), UNWILLING, ids=lambda it: str(it)[:20])
def test_a_publish_is_done_and_what_the_guest_cannot_take_is_counted_there(shell, settings, why):
    shell.do(makes_queue(HERS, **settings))
    ids = [f"i{at}" for at in range(4)]
    for name in ids:
        assert isinstance(shell.do(publishes(name, node=NEWS)), Published)
    assert names(shell, NEWS) == names(shell, MINE) == ids
    taken = names(shell, HERS)
    assert taken == ids[: len(taken)]
    assert left_out(shell) == (len(ids) - len(taken), why)


@pytest.mark.parametrize(("settings", "why"), UNWILLING, ids=lambda it: str(it)[:20])
def test_a_commit_is_done_too(shell, settings, why):
    shell.do(makes_queue(HERS, **settings))
    shell.do(stages("i1", "i2", "i3", node=NEWS))
    assert shell.do(commits((0, 0, 3))) == committed(3)
    assert names(shell, NEWS) == names(shell, MINE) == ["i1", "i2", "i3"]
    items, said = left_out(shell)
    assert items == 3 - len(names(shell, HERS))
    assert said == why


@pytest.mark.parametrize(("settings", "why"), UNWILLING, ids=lambda it: str(it)[:20])
def test_what_is_done_together_is_done_and_the_guest_gets_its_items_after_it(shell, settings, why):
    shell.do(makes_queue(HERS, **settings))
    parts = [publishes(f"i{at}", node=NEWS) for at in range(3)]
    done = shell.batch(Together(who(ETL), tuple(parts))).decisions[0]
    assert isinstance(done.reply, DoneTogether)
    assert (done.then, names(shell, HERS)) == (None, [])
    assert done.beside == (ResumeFeeding(),) * 3
    assert names(shell, MINE) == ["i0", "i1", "i2"]
    assert shell.do(ResumeFeeding()) == Done()
    items, said = left_out(shell)
    assert (items + len(names(shell, HERS)), said) == (3, why)
    assert shell.look_within(lambda tx: tx.page(Unfed(), None, 9)) == []


def test_the_quota_of_a_guest_refuses_nothing(shell):
    shell.do(makes_queue(HERS))
    shell.quotas = Quotas(Quota(), {Jid("eve@x"): Quota(items=1)})
    for name in ("i1", "i2"):
        assert isinstance(shell.do(publishes(name, node=NEWS)), Published)
    assert (names(shell, MINE), names(shell, HERS)) == (["i1", "i2"], ["i1"])
    assert left_out(shell)[0] == 1


def test_an_account_that_becomes_a_publisher_is_no_guest_any_more(shell):
    shell.do(makes_queue(HERS, publish_paused=True))
    assert isinstance(shell.do(publishes("i1", node=NEWS)), Published)
    shell.do(SetAffiliations(who(BOSS), NEWS, ((Jid("eve@x"), Affiliation.PUBLISHER),)))
    assert shell.do(publishes("i2", node=NEWS)).refusal is Refusal.PUBLISH_PAUSED
    shell.do(SetAffiliations(who(BOSS), NEWS, ((Jid("eve@x"), Affiliation.MEMBER),)))
    assert isinstance(shell.do(publishes("i2", node=NEWS)), Published)


def test_a_hundred_queues_of_a_stranger_leave_places_and_cost_a_publish_nothing(shell):
    done = shell.batch(*(makes_queue(NodeName(f"q{at}")) for at in range(100)))
    made = sum(isinstance(one.reply, Created) for one in done.decisions)
    assert made == 40, "half of the 80 places that are not for owners"
    assert isinstance(shell.do(makes_queue(NodeName("bobs"), "bob@x")), Created)
    assert isinstance(shell.do(makes_queue(NodeName("bosss"), BOSS)), Created)
    ids = [f"i{at}" for at in range(100)]
    first = shell.batch(publishes(*ids, node=NEWS)).decisions[0]
    assert (type(first.reply), first.then) == (Published, None)
    assert names(shell, MINE) == ids
    shell.do(ResumeFeeding())
    assert names(shell, NodeName("q0")) == ids


def test_a_dead_item_goes_to_the_other_queues(shell):
    shell.do(Configure(who(BOSS), NEWS, Settings({"persist_items": False})))
    shell.do(makes_queue(HERS, publish_paused=True))
    shell.batch(a_queue(max_failures=1, dead_letter_node=NEWS))
    shell.batch(joins(ANN, 1), publishes("i1"))
    shell.do(unlocks(ANN, "i1", outcome=Outcome.FAILED))
    assert names(shell, JOBS) == []
    assert (names(shell, MINE), names(shell, HERS)) == (["i1"], [])
    assert left_out(shell) == (1, "publish paused")


def test_another_source_begins_to_count_anew(shell):
    shell.do(makes_queue(HERS, publish_paused=True))
    shell.do(publishes("i1", node=NEWS))
    assert left_out(shell) is not None
    shell.do(Configure(who(EVE), HERS, Settings({"source": ""})))
    assert left_out(shell) is None


@pytest.mark.parametrize("together", [False, True])
async def test_items_that_follow_the_commit_come_without_a_look_of_the_reaper(
    tmp_path, monkeypatch, together
):
    monkeypatch.setattr("pubqueue.rules.feed.AT_ONCE", 2)
    async with asyncio.timeout(TIMEOUT), AsyncExitStack() as ends:
        store = SqliteStore(tmp_path / "queue.db")
        await store.open()
        ends.push_async_callback(store.close)
        broker = Broker(store, Terms(CreationPolicy.ANYONE), clock=lambda: NOW)
        broker.start()
        ends.push_async_callback(broker.stop)
        news = Settings({"queueing": False, "access_model": "open"})
        await broker.handle(Create(who(BOSS, local=True), NEWS, news))
        await broker.handle(makes_queue(HERS, max_items=2))
        drafts = publishes("i1", "i2", "i3", node=NEWS, by=BOSS)
        answer = await broker.handle(Together(who(BOSS), (drafts,)) if together else drafts)
        assert isinstance(answer, DoneTogether if together else Published)
        await broker.settled()
        found = await store.read(lambda tx: StoreReader(tx).node(HERS))
        assert (found.items, found.config.left_out.items) == (2, 1)
