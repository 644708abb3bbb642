"""Held items in both stores: what wakes them, in which commit, and what becomes of them otherwise."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, ETL, JOBS, who
from harness.batches.queue_requests import (
    a_queue,
    holds,
    joins,
    publishes,
    retracts,
    signals,
    unlocks,
)
from harness.batches.shell import Shell
from harness.batches.two_shells import PostgresShell
from harness.stores.replay import reported, there
from harness.stores.store_contents import misweighed, recount

from pubqueue.engine.listings import NodeEntries
from pubqueue.model.decision import Done, Published, Redriven, Refusal, Refused, SecretKept
from pubqueue.model.entities import ItemId, NodeName, State
from pubqueue.model.records import ServiceSecret
from pubqueue.model.waits import AtDeadline, Woken
from pubqueue.rules.dead_letters import Redrive
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Purge
from pubqueue.rules.publish_keys import KeepSecret
from pubqueue.rules.read import ReadItems
from pubqueue.rules.seek import Seek
from pubqueue.rules.settle import Outcome
from pubqueue.rules.signal_links import SECRET, MakeSignalLink, read

DEAD = NodeName("dead")


@pytest.fixture(params=["sqlite", "postgres"])
def shell(request, tmp_path):
    place = tmp_path / "queue.db"
    if request.param == "postgres":
        place = request.getfixturevalue("postgres").address
    made = {"sqlite": Shell, "postgres": PostgresShell}[request.param](place)
    made.do(a_queue(DEAD, event_log=1))
    made.do(a_queue(event_log=1, dead_letter_node=DEAD, max_failures=2, backoff_min=0))
    made.do(joins(ANN))
    yield made
    for look in (recount, misweighed):
        assert made.look_within(look) == []
    assert made.look_within(reported) == made.look_within(there)
    made.close()


def stored(shell, name="a", node=JOBS):
    return shell.look(lambda tx: tx.item(node, ItemId(name)))


def held_by_ann(shell, *words, name="a", **said):
    """Publish an item, and let Ann hold it."""
    shell.do(publishes(name))
    assert shell.do(holds(ANN, name, *words, **said)) == Done()
    return stored(shell, name)


def pauses(*, on):
    return Configure(who(BOSS), JOBS, Settings({"paused": on}))


def counts(shell):
    (entry,) = shell.look(lambda tx: tx.page(NodeEntries((JOBS,), None), None, 9))
    return entry.queued, entry.locked, entry.delayed, entry.held, entry.dead


def test_a_held_item_is_counted_and_not_delivered(shell):
    item = held_by_ann(shell, "yes", within=60, carry="1")
    assert (item.state, item.holder, item.due) == (State.HELD, None, shell.now + 60_000)
    assert counts(shell) == (0, 0, 0, 1, 0)
    assert shell.batch(joins(BOB)).deliveries == ()
    assert shell.look(lambda tx: tx.next_due()) == shell.now + 60_000
    page = shell.do(ReadItems(who(BOSS), JOBS, 0, state=State.HELD))
    assert [entry.item for entry in page.entries] == [item]


def test_a_signal_wakes_it_in_its_commit_and_once(shell):
    held_by_ann(shell, "yes", carry="1")
    (delivery,) = shell.batch(signals("a", "yes", "5")).deliveries
    item = delivery.item
    assert (item.wait.woken, item.wait.carry, item.acquired) == (Woken.SIGNAL, "1", 2)
    assert [(one.name, one.data, one.by) for one in item.wait.came] == [("yes", "5", "boss@x")]
    assert stored(shell) == item
    assert shell.do(signals("a", "yes")).again
    assert counts(shell) == (0, 1, 0, 0, 0)


def test_signals_of_one_batch_wake_it_once_and_are_all_there(shell):
    held_by_ann(shell, "yes", "no")
    (delivery,) = shell.batch(
        signals("a", "yes"), signals("a", "no"), signals("a", "yes")
    ).deliveries
    assert [one.id for one in delivery.item.wait.came] == ["yes", "no"]


def test_an_answer_that_is_quicker_than_the_worker_is_not_lost(shell):
    shell.do(publishes("a"))
    shell.do(signals("a", "yes", by=ETL))
    (delivery,) = shell.batch(holds(ANN, "a", "yes", within=60)).deliveries
    assert [one.id for one in delivery.item.wait.came] == ["yes"]
    assert delivery.item.wait.woken is Woken.SIGNAL
    assert shell.batch(holds(ANN, "a", "yes")).deliveries == ()  # that one is over
    assert stored(shell).wait.came == ()


def test_an_answer_before_the_first_delivery_is_shown_with_it(shell):
    shell.do(pauses(on=True))
    shell.batch(publishes("a"), signals("a", "yes"))
    (delivery,) = shell.batch(pauses(on=False)).deliveries
    assert [one.id for one in delivery.item.wait.came] == ["yes"]


def test_who_dies_at_work_leaves_what_came_to_the_next(shell):
    held_by_ann(shell, "yes")
    shell.do(signals("a", "yes"))
    shell.do(unlocks(ANN, "a", outcome=Outcome.FAILED))
    shell.wait(60)
    shell.do(Expire())
    again = stored(shell)
    assert [one.id for one in again.wait.came] == ["yes"]
    assert (again.wait.woken, again.failed, again.holder) == (Woken.SIGNAL, 1, ANN)
    shell.do(holds(ANN, "a", "no"))
    assert stored(shell).failed == 0


def test_its_time_delivers_it(shell):
    held_by_ann(shell, "yes", within=60)
    shell.wait(59)
    assert shell.batch(Expire()).deliveries == ()
    shell.wait(1)
    (delivery,) = shell.batch(Expire()).deliveries
    assert (delivery.item.wait.woken, delivery.item.due) == (Woken.TIME, None)


def test_its_time_kills_it_and_a_redrive_goes_on_with_what_it_carried(shell):
    held_by_ann(shell, "yes", within=60, then=AtDeadline.DEAD, carry="1")
    shell.do(signals("a", "no"))
    shell.wait(60)
    shell.do(Expire())
    dead = stored(shell, node=DEAD)
    assert (dead.state, dead.dead_letter.reason) == (State.QUEUED, "no signal came in time")
    assert isinstance(shell.do(Redrive(who(BOSS), DEAD)), Redriven)
    item = stored(shell)
    assert (item.holder, item.wait.woken, item.wait.carry) == (ANN, Woken.TIME, "1")
    assert [one.id for one in item.wait.came] == ["no"]


def test_its_time_discards_it(shell):
    held_by_ann(shell, "yes", within=60, then=AtDeadline.DISCARD)
    shell.wait(60)
    shell.do(Expire())
    assert stored(shell) is None
    assert counts(shell) == (0, 0, 0, 0, 0)


def test_its_lifetime_goes_on(shell):
    shell.do(publishes("a", ttl=30))
    shell.do(holds(ANN, "a", "yes", within=60))
    shell.wait(30)
    shell.do(Expire())
    assert stored(shell) is None
    assert stored(shell, node=DEAD).dead_letter.reason == "the time to live ended"


def test_an_owner_withdraws_purges_and_seeks_it(shell):
    held_by_ann(shell, "yes")
    assert shell.do(retracts(BOSS, "a")) == Done()
    held_by_ann(shell, "yes", name="b")
    assert isinstance(shell.do(retracts(ANN, "b")), Refused)
    shell.do(Purge(who(BOSS), JOBS))
    assert stored(shell, "b") is None
    held_by_ann(shell, "yes", name="c")
    shell.wait(1)
    shell.do(Seek(who(BOSS), JOBS, shell.now))
    assert stored(shell, "c") is None


def test_the_same_work_is_absorbed_and_other_work_is_refused(shell):
    before = held_by_ann(shell, "yes")
    assert isinstance(shell.do(publishes("a")), Published)
    refused = shell.do(publishes("a", payload=b"<other/>"))
    assert refused.refusal is Refusal.ITEM_LOCKED
    assert stored(shell) == before


def test_other_work_under_the_id_of_a_waiting_item_begins_anew(shell):
    shell.do(pauses(on=True))
    shell.batch(publishes("a"), signals("a", "yes"))
    shell.do(publishes("a", payload=b"<other/>"))
    assert stored(shell).wait is None


def test_in_its_group_it_keeps_its_turn(shell):
    shell.batch(joins(BOB), publishes("a", "b", group="g"))
    first = stored(shell, "a")
    assert shell.do(holds(first.holder, "a", "yes")) == Done()
    assert stored(shell, "b").state is State.QUEUED
    shell.do(signals("a", "yes"))
    holder = stored(shell, "a").holder
    assert holder is not None
    shell.do(retracts(holder, "a"))
    assert stored(shell, "b").state is State.LOCKED


def test_what_it_carries_counts_for_the_limit_of_its_queue(shell):
    shell.do(a_queue(event_log=1, max_bytes=20))
    shell.do(publishes("a"))
    assert shell.do(holds(ANN, "a", "yes", carry="x" * 20)).refusal is Refusal.NODE_FULL
    assert shell.do(holds(ANN, "a", "yes", carry="x" * 9)) == Done()
    assert shell.do(signals("a", "yes")).refusal is Refusal.NODE_FULL


def test_a_done_item_that_comes_back_begins_anew(shell):
    shell.do(a_queue(event_log=1, keep_done=1, item_expire=1000))
    held_by_ann(shell, "yes", carry="1")
    shell.do(signals("a", "yes"))
    begun = shell.now
    shell.do(retracts(ANN, "a"))
    shell.do(Seek(who(BOSS), JOBS, begun))
    item = stored(shell)
    assert (item.holder, item.wait) == (ANN, None)


def test_links_are_made_under_one_secret_that_the_store_keeps(shell):
    held_by_ann(shell, "yes")
    first, second = (
        shell.do(
            MakeSignalLink(who(BOSS), JOBS, ItemId("a"), "yes", once, ServiceSecret(SECRET, own))
        )
        for once, own in (("1", b"first"), ("2", b"second"))
    )
    kept = shell.do(KeepSecret(who(BOSS, admin=True), ServiceSecret(SECRET, b"third")))
    assert kept == SecretKept(b"first")
    links = [read(one.path.removeprefix("/answer/"), kept.value) for one in (first, second)]
    assert [(one.id, one.step) for one in links] == [("1", 1), ("2", 1)]
    assert shell.do(links[0].signal("5")).wakes
    assert shell.do(links[1].signal("5")).refusal is Refusal.ITEM_NOT_FOUND
    assert stored(shell).wait.holds == 1
