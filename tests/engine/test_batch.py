"""One batch: requests in one transaction, then deliveries to free workers."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, ETL, EVE, JOBS, after, who
from harness.batches.queue_requests import (
    a_queue,
    joins,
    publishes,
    publishes_all,
    retracts,
    touches,
    unlocks,
)
from harness.batches.shell import Shell
from harness.stores.store_contents import everything, recount
from msgspec.structs import replace

from pubqueue.engine.dispatch import MAX_BYTES, MAX_DELIVERIES
from pubqueue.model.decision import Done, Published, Redriven, Refusal, Refused, Withdrawn
from pubqueue.model.entities import ItemId, Jid, NodeName, State, mark_of
from pubqueue.model.notices import Deliver
from pubqueue.rules.dead_letters import Redrive
from pubqueue.rules.expire import MAX_TIMEOUTS, Expire
from pubqueue.rules.presence import Arrive, Bounce, Leave
from pubqueue.rules.settle import Outcome

DEAD = NodeName("jobs-dead")
OTHER = NodeName("other")


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path / "queue.db")
    yield shell
    assert shell.look_within(recount) == []
    shell.close()


def deliveries(result):
    assert all(isinstance(notice, Deliver) for notice in result.deliveries)
    return [(notice.to, notice.item.id) for notice in result.deliveries]


def item(shell, name="i1", node=JOBS):
    return shell.look(lambda tx: tx.item(node, ItemId(name)))


def test_deliveries_match_the_stored_items(shell):
    shell.batch(a_queue(), joins(ANN))
    (notice,) = shell.batch(publishes("i1", payload=b"<job/>", priority=3)).deliveries
    assert notice == Deliver(ANN, item(shell), b"<job/>", subid=f"{JOBS}-{ANN}")


def test_a_batch_hands_out_what_it_has_taken_in(shell):
    result = shell.batch(a_queue(), publishes("a", "b", "c"), joins(ANN, 2), joins(BOB, 1))
    assert sorted(deliveries(result)) == [(ANN, "a"), (ANN, "c"), (BOB, "b")]


def test_a_free_window_gets_the_next_item_in_the_same_batch(shell):
    shell.batch(a_queue(), joins(ANN), publishes("a", "b"))
    assert deliveries(shell.batch(retracts(ANN, "a"))) == [(ANN, "b")]


def rounds(shell, result):
    """Return the deliveries of this batch and of those after it, until none is left."""
    parts = [deliveries(result)]
    while result.rest:
        result = shell.batch(rest=result.rest)
        parts.append(deliveries(result))
    return parts


def test_more_items_than_a_batch_hands_out_follow_in_the_next(shell):
    names = [f"i{number}" for number in range(2100)]
    result = shell.batch(a_queue(), joins(ANN, 1000), joins(BOB, 1000), *publishes_all(names))
    parts = rounds(shell, result)
    assert [len(part) for part in parts] == [MAX_DELIVERIES, MAX_DELIVERIES, 0]
    assert [name for part in parts for _, name in part] == names[:2000]


def test_more_payload_than_a_batch_hands_out_follows_in_the_next(shell):
    names = [f"i{number}" for number in range(40)]
    large = b"x" * (MAX_BYTES // 16)
    result = shell.batch(a_queue(), joins(ANN, 40), publishes(*names, payload=large))
    assert [len(part) for part in rounds(shell, result)] == [16, 16, 8]


def test_no_queue_waits_for_another_to_be_empty(shell):
    names = [f"i{number}" for number in range(2100)]
    for node in (JOBS, OTHER):
        shell.batch(a_queue(node, max_queue_requests=2000), *publishes_all(names, node=node))
    first = shell.batch(joins(ANN, 2000), joins(BOB, 2000, node=OTHER))
    assert first.rest == (OTHER, JOBS)
    assert [part[0][0] for part in rounds(shell, first) if part] == [ANN, BOB, ANN, BOB]


def test_a_request_that_breaks_is_answered_with_a_failure_and_its_neighbours_are_not(shell):
    def breaks(_there, _offered):
        raise RuntimeError("a fault of ours")

    shell.batch(a_queue(), publishes("b"))
    shell.same = breaks
    before = shell.look_within(everything)
    result = shell.batch(publishes("a"), publishes("d", "b"), publishes("c"))
    assert [decision.reply for decision in result.decisions] == [
        Published(JOBS, (ItemId("a"),)),
        Refused(Refusal.INTERNAL_FAULT),
        Published(JOBS, (ItemId("c"),)),
    ]
    assert shell.look(lambda tx: tx.item_ids(JOBS, 9)) == ["b", "a", "c"]
    assert shell.look_within(everything) != before


def test_the_next_moment_is_the_end_of_the_first_lock(shell):
    result = shell.batch(a_queue(lock_timeout=60), joins(ANN), publishes("a"))
    assert result.soonest == after(60)


def test_a_lock_that_runs_out_goes_to_the_next(shell):
    shell.batch(a_queue(lock_timeout=60), joins(ANN), publishes("i1"))
    shell.batch(joins(BOB))
    shell.wait(60)
    assert deliveries(shell.batch(Expire())) == [(BOB, "i1")]
    assert shell.do(retracts(ANN, "i1")) == Refused(Refusal.LOCKED_BY_ANOTHER)


def test_a_poisonous_item_dies_into_its_node_and_is_handed_out_there(shell):
    shell.batch(a_queue(DEAD), a_queue(max_failures=1, dead_letter_node=DEAD, lock_timeout=60))
    shell.batch(joins(ANN), joins(EVE, node=DEAD), publishes("i1"))
    shell.wait(60)
    result = shell.batch(Expire())
    assert deliveries(result) == [(EVE, "i1")]
    assert (result.deliveries[0].item.node, item(shell)) == (DEAD, None)


def test_a_dead_letter_node_takes_no_more_than_its_max_items(shell):
    shell.batch(a_queue(DEAD, max_items=3), joins(ANN, 9))
    shell.batch(a_queue(max_failures=1, dead_letter_node=DEAD, lock_timeout=60), joins(ANN, 9))
    shell.batch(publishes("full", node=DEAD), publishes("a", "b", "c", "d"))
    shell.do(unlocks(ANN, "a", "b", "c", outcome=Outcome.REJECT))
    assert [item(shell, name).state for name in "cd"] == [State.DEAD, State.LOCKED]
    shell.wait(60)
    shell.do(Expire())
    assert item(shell, "d").state is State.DEAD
    assert shell.look(lambda tx: tx.item_ids(DEAD)) == ["full", "a", "b"]
    shell.do(retracts(BOSS, "full", node=DEAD))
    shell.batch(publishes("e"))
    shell.do(unlocks(ANN, "e", outcome=Outcome.REJECT))
    assert shell.look(lambda tx: tx.item_ids(DEAD)) == ["a", "b", "e"]


def test_a_redrive_fills_no_node_beyond_its_max_items(shell):
    shell.batch(a_queue(DEAD), a_queue(max_failures=1, dead_letter_node=DEAD, max_items=2))
    shell.batch(joins(ANN, 9), publishes("a", "b"))
    shell.do(unlocks(ANN, "a", "b", outcome=Outcome.REJECT))
    shell.batch(publishes("c"))
    named = Redrive(who(BOSS), DEAD, (ItemId("a"), ItemId("b")))
    assert shell.do(named).refusal is Refusal.NODE_FULL
    assert shell.do(Redrive(who(BOSS), DEAD)) == Redriven(DEAD, 1)
    assert shell.look(lambda tx: tx.item_ids(JOBS)) == ["a", "c"]
    assert shell.look(lambda tx: tx.item_ids(DEAD)) == ["b"]


def test_the_number_of_an_item_is_never_given_again(tmp_path):
    """Not when the newest has gone, nor after a restart, nor by another process on the same store."""
    path, given = tmp_path / "queue.db", []

    def publish_and_withdraw(shell):
        shell.batch(publishes("a"))
        given.append(item(shell, "a").seq)
        shell.do(retracts(ETL, "a"))

    one = Shell(path)
    one.batch(a_queue())
    other = Shell(path)
    for shell in (one, one, other, one, other, other):
        publish_and_withdraw(shell)
    one.changes.forget()
    publish_and_withdraw(one)
    one.close()
    other.close()
    for _ in range(2):
        again = Shell(path)
        publish_and_withdraw(again)
        again.close()
    assert given == sorted(set(given))


def test_two_items_with_one_id_that_die_together_do_not_stop_the_clock(shell):
    dying = {"max_failures": 1, "dead_letter_node": DEAD, "lock_timeout": 60}
    shell.batch(a_queue(DEAD), a_queue(**dying), a_queue(OTHER, **dying))
    shell.batch(joins(ANN), joins(ANN, node=OTHER))
    shell.batch(publishes("i1"), publishes("i1", node=OTHER))
    shell.wait(60)
    assert shell.do(Expire()) == Done()
    found = [item(shell, node=node) for node in (DEAD, JOBS, OTHER)]
    assert sorted(row.state for row in found if row) == [State.DEAD, State.QUEUED]


def test_an_item_that_ripens_and_dies_at_once_does_not_stop_the_clock(shell):
    shell.batch(a_queue(), publishes("i1", delay=5, ttl=5), publishes("i2", delay=5))
    shell.wait(5)
    assert shell.do(Expire()) == Done()
    assert (item(shell, "i1").state, item(shell, "i2").state) == (State.DEAD, State.QUEUED)


def test_a_worker_that_leaves_loses_its_items_and_its_subscription(shell):
    shell.batch(a_queue(), joins(ANN, 2), publishes("a", "b"))
    shell.batch(joins(BOB))
    assert deliveries(shell.batch(Leave(ANN))) == [(BOB, "a")]
    assert shell.look(lambda tx: tx.subscribers(JOBS)[0].jid) == BOB


def test_the_worker_that_unlocked_waits_and_another_does_not(shell):
    shell.batch(a_queue(), joins(ANN), publishes("a"))
    assert deliveries(shell.batch(unlocks(ANN, "a"))) == []
    assert item(shell, "a").aside
    assert deliveries(shell.batch(joins(BOB))) == [(BOB, "a")]


def test_a_lone_unlocker_gets_it_again_after_the_pause(shell):
    shell.batch(a_queue(backoff_min=5, backoff_jitter=0), joins(ANN), publishes("a"))
    shell.batch(unlocks(ANN, "a"))
    shell.wait(5)
    assert deliveries(shell.batch(Expire())) == [(ANN, "a")]


def test_a_paused_queue_takes_in_and_hands_nothing_out(shell):
    shell.batch(a_queue(paused=1), joins(ANN))
    assert shell.batch(publishes("a")).deliveries == ()


def test_several_rejected_items_go_in_one_step(shell):
    shell.batch(a_queue(), joins(ANN, 3), publishes("a", "b"))
    assert shell.do(unlocks(ANN, "a", "b", outcome=Outcome.REJECT)) == Done()
    assert [item(shell, name).state for name in "ab"] == [State.DEAD, State.DEAD]


def test_a_delivery_that_comes_back_late_does_not_end_a_newer_lock(shell):
    shell.batch(a_queue(lock_timeout=60, backoff_min=0, backoff_max=0), joins(ANN))
    (first,) = shell.batch(publishes("i1")).deliveries
    shell.wait(60)
    shell.batch(Expire())
    shell.batch(Expire())
    before = item(shell)
    assert (before.holder, before.token > first.item.token) == (ANN, True)
    shell.batch(Bounce(ANN, before.seq, first.item.token, gone=False))
    assert item(shell) == before


def came_back(delivery, *, gone=False):
    """Return the bounce of a delivery."""
    item, mark = delivery.item, mark_of(delivery.subid)
    return Bounce(delivery.to, item.seq, item.token, gone, bounced=True, mark=mark)


def one_second_after_another(shell, seconds):
    """Let this many seconds pass while each delivery bounces at once; return the deliveries per second."""
    counts = []
    open_ = ()
    for _ in range(seconds):
        open_ = shell.batch(*map(came_back, open_)).deliveries
        counts.append(len(open_))
        while open_:
            open_ = shell.batch(*map(came_back, open_)).deliveries
            counts[-1] += len(open_)
        shell.wait(1)
    return counts


@pytest.mark.covers("N-005")
def test_an_address_whose_deliveries_bounce_is_tried_ever_less_often(shell):
    many = [f"i{n}" for n in range(100)]
    shell.batch(a_queue(), joins(ANN, 2))
    open_ = shell.batch(publishes(*many)).deliveries
    assert shell.batch(*map(came_back, open_)).deliveries == ()
    tries = one_second_after_another(shell, 200)
    assert [at for at, count in enumerate(tries) if count] == [1, 3, 7, 15, 31, 63, 123, 183]
    assert set(tries) == {0, 2}
    (kept,) = shell.look(lambda tx: tx.subscribers(JOBS))
    assert (kept.available, kept.in_flight) == (True, 0)
    assert all(item(shell, name).failed == 0 for name in many)
    assert deliveries(shell.batch(Arrive(ANN))) != []  # who is heard of waits no longer


def test_others_have_at_once_what_has_come_back_from_one(shell):
    shell.batch(a_queue(), joins(ANN), joins(BOB))
    open_ = shell.batch(publishes("a", "b")).deliveries
    (back,) = [one for one in open_ if one.to == ANN]
    shell.batch(came_back(back))
    shell.batch(*(retracts(BOB, one.item.id) for one in open_ if one.to == BOB))
    assert item(shell, back.item.id).holder == BOB
    assert deliveries(shell.batch(publishes("c"))) == []
    shell.wait(1)
    assert deliveries(shell.batch()) == [(ANN, "c")]


def test_a_failed_batch_delays_no_request(shell):
    shell.batch(a_queue(), joins(ANN))
    (open_,) = shell.batch(publishes("a")).deliveries
    shell.batch(came_back(open_))
    assert deliveries(shell.batch(publishes("b"))) == []
    shell.changes.forget()
    assert deliveries(shell.batch()) == [(ANN, "b")]


def test_a_clock_that_is_set_back_delays_no_item_longer(shell):
    shell.batch(a_queue(), joins(ANN))
    (open_,) = shell.batch(publishes("a")).deliveries
    shell.batch(came_back(open_))
    assert deliveries(shell.batch(publishes("b"))) == []
    shell.wait(-3600)
    assert deliveries(shell.batch()) == [(ANN, "b")]


def test_a_late_bounce_does_not_end_a_newer_subscription(shell):
    shell.batch(a_queue(), joins(ANN))
    (first,) = shell.batch(publishes("a")).deliveries
    shell.batch(Leave(ANN))
    anew = replace(joins(ANN), subid="anew")
    shell.batch(anew)
    shell.batch(came_back(first, gone=True))
    assert [one.subid for one in shell.look(lambda tx: tx.subscribers(JOBS))] == ["anew"]


@pytest.mark.parametrize("sign", [Arrive(ANN), joins(ANN)], ids=["presence", "subscribe"])
def test_that_an_earlier_session_is_gone_ends_no_subscription_that_a_later_one_keeps(shell, sign):
    """The server bounces everything that the session had not read, when the worker is already back under its address."""
    shell.batch(a_queue(), joins(ANN, 3))
    earlier = shell.batch(publishes("a", "b")).deliveries
    shell.batch(sign)
    shell.changes.forget()  # another process may have seen it come
    shell.batch(*(came_back(one, gone=True) for one in earlier))
    assert [item(shell, name).holder for name in "ab"] == [None, None]
    assert len(shell.look(lambda tx: tx.subscribers(JOBS))) == 1
    (later,) = shell.batch(publishes("c")).deliveries
    shell.batch(came_back(later, gone=True))
    assert shell.look(lambda tx: tx.subscribers(JOBS)) == []


def test_that_a_session_is_gone_ends_nothing_when_its_lock_is_over(shell):
    shell.batch(a_queue(unsubscribe_on_unavailable=False), joins(ANN))
    (first,) = shell.batch(publishes("a")).deliveries
    shell.batch(Leave(ANN))
    shell.batch(came_back(first, gone=True))
    assert len(shell.look(lambda tx: tx.subscribers(JOBS))) == 1


def test_a_retract_shows_that_deliveries_arrive(shell):
    def unanswered():
        return shell.look(lambda tx: tx.subscription(JOBS, ANN).unanswered)

    shell.batch(a_queue(), joins(ANN, 1))
    (first,) = shell.batch(publishes("a", "b")).deliveries
    shell.batch(came_back(first))
    assert unanswered() == 1
    shell.batch(retracts(ANN, "b"))
    assert unanswered() == 0


def silence(shell, jid=ANN):
    """Let every lock of the subscriber time out until it gets nothing more; return the number of locks."""
    for count in range(20):
        shell.wait(60)
        ends = shell.batch(Expire()), shell.batch(Expire())  # the item is put aside between the two
        if jid not in [to for end in ends for to, _ in deliveries(end)]:
            return count + 1
    return None


SIGNS = [
    Arrive(ANN),
    joins(ANN, 1),
    touches(ANN, "i1"),
    unlocks(ANN, "i1"),
    retracts(ANN, "none"),
    publishes("more", by=ANN),
]


@pytest.mark.parametrize("sign", SIGNS)
def test_a_worker_whose_locks_all_time_out_gets_nothing_until_it_shows_itself(shell, sign):
    shell.batch(a_queue(lock_timeout=60, backoff_min=0, max_failures=99), joins(ANN))
    shell.batch(publishes("i1"))
    assert silence(shell) == 1 + MAX_TIMEOUTS + 1
    assert item(shell).state is State.QUEUED
    shell.rows.cache.forget()  # nor does it after a restart
    assert deliveries(shell.batch(publishes("i2"), everywhere=True)) == []
    assert deliveries(shell.batch(sign)) == [(ANN, "i2")]
    assert silence(shell) == 1 + MAX_TIMEOUTS + 1


@pytest.mark.parametrize("sign", [retracts(ANN, "i1"), unlocks(ANN, "i1"), touches(ANN, "i1")])
def test_a_sign_of_life_begins_the_count_again(shell, sign):
    shell.batch(a_queue(lock_timeout=60, backoff_min=0, max_failures=99), joins(ANN))
    shell.batch(publishes("i1", "i2"))
    for _ in range(1 + MAX_TIMEOUTS):
        shell.wait(60)
        shell.batch(Expire())
    assert shell.look(lambda tx: tx.subscription(JOBS, ANN).unanswered) == 1 + MAX_TIMEOUTS
    shell.batch(sign)
    assert shell.look(lambda tx: tx.subscription(JOBS, ANN).unanswered) == 0


def test_earlier_requests_do_not_bring_back_a_worker_that_has_left(shell):
    shell.batch(a_queue(lock_timeout=60, unsubscribe_on_unavailable=False), joins(ANN))
    shell.batch(publishes("i1"))
    shell.wait(60)
    shell.batch(Expire())
    shell.batch(Leave(ANN))
    assert deliveries(shell.batch(retracts(ANN, "none"))) == []


def test_a_leave_under_a_bare_jid_counts_once(shell):
    bare = Jid("ann@x")
    shell.batch(a_queue(), joins(bare))
    assert shell.do(Leave(bare)) == Done()
    assert shell.look(lambda tx: tx.subscribers(JOBS)) == []


def test_work_is_finished_again_in_the_batch_in_which_its_earlier_end_is_forgotten(shell):
    shell.batch(a_queue(dedup_window=10), joins(ANN), publishes("a"))
    shell.batch(retracts(ANN, "a"))
    shell.wait(11)
    shell.batch(publishes("a"))
    again = shell.batch(retracts(ANN, "none"), Expire(), retracts(ANN, "a"))
    assert [decision.reply for decision in again.decisions[1:]] == [Done(), Done()]
    assert shell.do(publishes("a")) == Published(JOBS, (ItemId("a"),), known=(ItemId("a"),))
    assert shell.look(lambda tx: tx.item_ids(JOBS)) == []


def test_work_that_was_finished_while_the_clock_was_ahead_absorbs_nothing_for_longer(shell):
    shell.batch(a_queue(dedup_window=10), joins(ANN), publishes("a"))
    shell.wait(86_400)
    shell.batch(retracts(ANN, "a"))
    assert shell.do(publishes("a")).known == (ItemId("a"),)
    shell.wait(-86_400)
    assert shell.do(publishes("a")).known == ()


@pytest.mark.parametrize("by", [BOSS, ETL])
def test_work_that_was_withdrawn_is_published_again_as_new(shell, by):
    shell.batch(a_queue(dedup_window=10), joins(ANN), publishes("a", "b"))
    assert shell.do(retracts(by, "a", "b")) == Withdrawn(locked=("a",))
    shell.batch(publishes("a", "b"))
    assert shell.look(lambda tx: tx.item_ids(JOBS)) == ["a", "b"]


def test_after_a_batch_that_came_to_nothing_the_store_is_asked_when_something_ends(shell):
    shell.batch(a_queue(lock_timeout=60), joins(ANN), publishes("a"))
    shell.changes.forget()
    assert shell.batch().soonest == after(60)


def test_the_next_request_of_a_batch_knows_the_former_holder_of_a_lock(
    tmp_path,
):
    shell = Shell(tmp_path / "queue.db")
    shell.do(a_queue())
    shell.do(joins(BOSS))
    shell.do(publishes("a"))
    release = unlocks(BOSS, "a", delay=5000)
    replies = [one.reply for one in shell.batch(release, retracts(BOSS, "a")).decisions]
    assert replies == [Done(), Refused(Refusal.LOCK_LOST)]  # not as the owner that it is as well
    shell.close()
