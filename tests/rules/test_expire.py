"""The effects of time and absence on items (XEP-0254 4)."""

import pytest
from harness.batches.facts import (
    ANN,
    BOB,
    ETL,
    JOBS,
    NOW,
    after,
    held,
    plain,
    queue,
    waiting,
    who,
    window,
)
from msgspec.structs import replace

from pubqueue.model.changes import (
    Forget,
    GiveUp,
    NoteActivity,
    NotePresence,
    NoteUnanswered,
    Release,
    RemoveItem,
    Ripen,
    SetAvailable,
)
from pubqueue.model.decision import Decision, Done
from pubqueue.model.entities import Affiliation, AtExpiry, Feed, Jid, NodeName, State
from pubqueue.model.notices import Unlocked
from pubqueue.rules.expire import (
    FORGOTTEN,
    MAX_TIMEOUTS,
    TIMED_OUT,
    TOO_OLD,
    Expire,
    ExpireFacts,
    Heritage,
    Owner,
    admitting,
    expire,
    passes_on,
    refusal,
)
from pubqueue.rules.give_back import Case, DeadLetterPlace
from pubqueue.rules.presence import Arrive, ArriveFacts, Leave, LeaveFacts, arrive, leave

FORGETTING = Forget(NOW, FORGOTTEN)
DLQ = NodeName("jobs-dead")
OTHER = NodeName("other")


def run_out(*, ripe=(), locks=(), lives=()):
    return expire(Expire(), ExpireFacts(NOW, tuple(ripe), tuple(locks), tuple(lives)))


def failing(item, *, place=None, **config):
    """Return the result for an item whose lock has timed out."""
    decision = run_out(locks=[Case(item, queue(**config), place)])
    return decision.changes[0]


def test_without_anything_due_only_old_ids_are_forgotten():
    assert run_out() == Decision(Done(), (FORGETTING,))


def test_while_there_are_more_old_ids_another_step_follows():
    decision = expire(Expire(), ExpireFacts(NOW, (), (), (), more_to_forget=True))
    assert decision == Decision(Done(), (FORGETTING,), then=Expire())


def test_a_lock_that_ends_is_a_failure_and_its_holder_is_notified():
    item = held()
    expected = Decision(
        Done(),
        (Release(item, State.QUEUED, None, 1, 0, TIMED_OUT), FORGETTING),
        (Unlocked(ANN, JOBS, (item.id,)),),
    )
    assert run_out(locks=[Case(item, queue())]) == expected


@pytest.mark.parametrize(("failed", "pause"), [(0, 0), (1, 2), (2, 4), (3, 8), (4, 8), (15, 8)])
def test_the_first_failure_costs_no_pause_and_each_further_one_twice_the_last(failed, pause):
    change = failing(held(failed=failed), backoff_min=2, backoff_max=8)
    expected = (State.DELAYED, after(pause)) if pause else (State.QUEUED, None)
    assert (change.state, change.due, change.failed) == (*expected, failed + 1)


def test_the_last_failure_allowed_is_the_end():
    item = held(failed=2)
    assert failing(item, max_failures=3) == GiveUp(item, NOW, TIMED_OUT, 3, to=None)


def test_a_dead_item_moves_to_the_dead_letter_node():
    item = held()
    change = failing(item, place=DeadLetterPlace(DLQ, exists=True, taken=False), max_failures=1)
    assert change == GiveUp(item, NOW, TIMED_OUT, 1, to=DLQ)


@pytest.mark.parametrize(
    ("place", "obstacle"),
    [
        (DeadLetterPlace(DLQ, exists=False, taken=False), "it does not exist"),
        (DeadLetterPlace(DLQ, exists=True, taken=True), "it has this id"),
        (DeadLetterPlace(DLQ, exists=True, taken=False, room=0), "it is full"),
        (DeadLetterPlace(DLQ, exists=True, taken=False, refuses="paused"), "paused"),
        (DeadLetterPlace(JOBS, exists=True, taken=False), None),
    ],
    ids=["no such node", "its id is taken", "no room", "refused", "the node itself"],
)
def test_a_dead_item_that_cannot_move_stays_with_the_reason(place, obstacle):
    item = held()
    why = f"{TIMED_OUT}; not moved to {DLQ}: {obstacle}" if obstacle else TIMED_OUT
    assert failing(item, place=place, max_failures=1) == GiveUp(item, NOW, why, 1, to=None)


def two_of_one_name(**lock):
    """Return items of two nodes with one id and one dead-letter node."""
    place = DeadLetterPlace(DLQ, exists=True, taken=False)
    first = held(1, **lock)
    second = replace(held(2, **lock), id=first.id, node=OTHER)
    return (
        Case(first, queue(max_failures=1), place),
        Case(second, queue(name=OTHER, max_failures=1), place),
    )


def test_one_of_two_items_with_one_id_that_die_together_gets_the_place():
    moved, stays, _ = run_out(locks=two_of_one_name()).changes
    assert (moved.to, stays.to) == (DLQ, None)


def test_a_place_given_to_a_lost_lock_is_not_given_to_an_ended_life():
    locked, other = two_of_one_name()
    aged = Case(waiting(2, id=locked.item.id, node=OTHER), other.node, other.place)
    changes = run_out(locks=[locked], lives=[aged]).changes
    assert [change.to for change in changes if isinstance(change, GiveUp)] == [DLQ, None]


def test_two_items_with_one_id_whose_worker_leaves_share_no_place():
    decision = leave(Leave(ANN), LeaveFacts(NOW, two_of_one_name(), ()))
    assert [change.to for change in decision.changes] == [DLQ, None]


def test_an_item_whose_life_ended_is_dead_and_has_not_failed_for_it():
    item = waiting(failed=1, expires=after(-1))
    assert run_out(lives=[Case(item, queue())]).changes[0] == GiveUp(item, NOW, TOO_OLD, 1)


def test_an_item_of_a_plain_node_whose_life_ended_is_gone():
    # XEP-0060 16.4.4, item_expire: purged
    item = waiting(expires=after(-1))
    assert run_out(lives=[Case(item, plain())]).changes[0] == RemoveItem(item)


def test_an_item_that_is_too_old_is_dropped_if_its_queue_drops_such_items():  # grpc G25
    item = waiting(expires=NOW, failed=1)
    assert run_out(lives=[Case(item, queue(expired=AtExpiry.DROP))]).changes[0] == RemoveItem(item)


def test_an_item_that_ripens_and_is_too_old_dies():
    # A delayed item may be due for both; what it is believed to be must still be true.
    item = waiting(state=State.DELAYED, due=NOW, expires=NOW)
    other = waiting(2, state=State.DELAYED, due=NOW)
    changes = run_out(ripe=[item, other], lives=[Case(item, queue())]).changes
    assert changes == (GiveUp(item, NOW, TOO_OLD, 0), Ripen(other), FORGETTING)


class TestSilence:
    """Locks that time out in a row under one subscription."""

    def run_out(self, *items, holders):
        locks = tuple(Case(item, queue()) for item in items)
        decision = expire(Expire(), ExpireFacts(NOW, (), locks, (), holders))
        return [change for change in decision.changes if isinstance(change, NoteUnanswered)]

    def test_timeouts_are_counted_by_subscription(self):
        holders = window(ANN, 5), window(BOB, 5, unanswered=4)
        found = self.run_out(held(1), held(2), held(3, holder=BOB), holders=holders)
        assert found == [NoteUnanswered(JOBS, ANN, 2), NoteUnanswered(JOBS, BOB, 5)]

    def test_a_subscriber_whose_full_window_times_out_gets_nothing_more(self):
        (last,) = self.run_out(held(), holders=[window(requests=5, unanswered=4 + MAX_TIMEOUTS)])
        assert last == NoteUnanswered(JOBS, ANN, 5 + MAX_TIMEOUTS)
        (one_more,) = self.run_out(
            held(), holders=[window(requests=5, unanswered=5 + MAX_TIMEOUTS)]
        )
        assert one_more == NoteUnanswered(JOBS, ANN, 6 + MAX_TIMEOUTS, silenced=True)

    def test_a_subscription_that_has_ended_is_not_counted(self):
        assert self.run_out(held(), holders=[]) == []

    def test_presence_sets_it_right(self):
        facts = ArriveFacts((window(unanswered=3),), (ANN,))
        changes = (NotePresence(ANN), NoteActivity(ANN), SetAvailable(JOBS, ANN, available=True))
        assert arrive(Arrive(ANN), facts) == Decision(Done(), changes)


# A dead item that a transient node passes on to all queues that it feeds.

BOSS = Jid("boss@x")


def topic(*fed, **config):
    feeds = tuple(Feed(NodeName(name), BOSS) for name in fed)
    return plain(feeds=feeds, **{"persist_items": False} | config)


def test_a_node_that_keeps_no_items_passes_it_on():  # grpc G35
    assert passes_on(topic("dead"))
    assert passes_on(topic())
    assert not passes_on(topic("dead", persist_items=True))
    assert not passes_on(queue(name="dead", persist_items=False))


def test_an_item_goes_to_queues_whose_filters_match():  # grpc G35
    all_, some = queue(name="all"), queue(name="some", filter="headers:k")
    assert admitting((all_, some), held()) == (all_,)
    assert admitting((all_, some), held(headers=(("k", "v"),))) == (all_, some)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, ""),
        ({"filter": "headers:k"}, "filter"),
        ({"publish_paused": True}, "paused"),
        ({"max_payload_size": 1}, "payload too big"),
    ],
)
def test_the_queue_takes_what_it_takes_of_any_publisher(config, why):  # grpc G35
    to = queue(name="dead", source="topic", **config)
    origin = queue(dead_letter_node=JOBS, dead_letter_meant="")
    owner = Owner(who(ETL), Affiliation.OWNER)
    found = refusal(
        Heritage(origin, topic("dead"), (owner,), {BOSS, *map(Jid, (ETL, "boss@x"))}, (to,)),
        held(group="customer-17"),
        10,
        "",
    )
    assert (why in found) if why else found == ""


def test_without_such_a_queue_it_stays():  # grpc G35
    owner = Owner(who(ETL), Affiliation.OWNER)
    origin = queue(dead_letter_node=JOBS)
    place = topic()
    found = refusal(Heritage(origin, place, (owner,), {place.creator}), held(), 10, "")
    assert found == "it does not keep items"


def test_items_beyond_one_commit_stay():  # grpc G35
    owner, origin = Owner(who(ETL), Affiliation.OWNER), queue(dead_letter_node=JOBS)
    place, size = topic(*"abcd", max_payload_size=10 << 20), 10 << 20
    to = tuple(queue(name=name, max_payload_size=size) for name in "abcd")
    for count, fits in ((4, True), (5, False)):
        heritage = Heritage(origin, place, (owner,), {place.creator}, (*to, to[0])[:count])
        assert (refusal(heritage, held(), size, "") == "") is fits
