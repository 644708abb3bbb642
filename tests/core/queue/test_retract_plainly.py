"""Retract from a plain node (XEP-0060 7.2)."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, ETL, EVE, FLEETING, JOBS, NOW, plain, waiting, who

from pubqueue.model.changes import RemoveItem
from pubqueue.model.decision import Decision, Done, Refusal, Refused
from pubqueue.model.entities import Affiliation, ItemId
from pubqueue.model.notices import NOBODY, Retracted, ToEach
from pubqueue.rules.settle import Settle, SettleFacts, Verb, settle


def refused(refusal):
    return Decision(Refused(refusal))


def retract(by, *items, notify=False, verb=Verb.RETRACT, audience=(ANN, BOB), node=None, **facts):
    known = {
        "now": NOW,
        "node": node or plain(),
        "affiliation": Affiliation.NONE,
        "items": items,
        "receipts": frozenset(),
        "subscribed": False,
        "audience": audience,
    }
    ids = tuple(ItemId(f"i{number}") for number, _ in enumerate(items, 1))
    request = Settle(who(by), JOBS, ids, verb, notify=notify)
    return settle(request, SettleFacts(**(known | facts)))


def test_the_publisher_retracts_and_subscribers_are_notified():
    item = waiting()
    reported = (ToEach((ANN, BOB), Retracted(NOBODY, JOBS, (item.id,)), FLEETING),)
    assert retract(ETL, item) == Decision(Done(), (RemoveItem(item),), reported)


def test_the_owner_retracts_what_others_published():
    item = waiting()
    decision = retract(BOSS, item, affiliation=Affiliation.OWNER)
    assert decision.changes == (RemoveItem(item),)


def test_another_publisher_is_refused():
    decision = retract(EVE, waiting(), affiliation=Affiliation.PUBLISHER)
    assert decision == refused(Refusal.FORBIDDEN)


def test_one_missing_item_refuses_them_all():
    assert retract(ETL, waiting(), None) == refused(Refusal.ITEM_NOT_FOUND)


@pytest.mark.parametrize(
    ("configured", "asked", "reported"),
    [(True, False, True), (False, True, True), (False, False, False)],
)
def test_subscribers_are_notified_by_the_node_or_by_request(configured, asked, reported):
    node = plain(notify_retract=configured)
    decision = retract(ETL, waiting(), notify=asked, node=node)
    assert bool(decision.notices) is reported


def test_there_is_nothing_to_unlock():
    assert retract(ETL, waiting(), verb=Verb.UNLOCK) == refused(Refusal.NOT_A_QUEUE)


def test_a_form_that_only_queues_know_is_a_bad_request():
    facts = SettleFacts(
        NOW, plain(), Affiliation.OWNER, (waiting(),), frozenset(), subscribed=False
    )
    request = Settle(who(BOSS), JOBS, (ItemId("i1"),), Verb.RETRACT, queue_only=True)
    reply = settle(request, facts).reply
    assert isinstance(reply, Refused)
    assert reply.refusal is Refusal.BAD_REQUEST
