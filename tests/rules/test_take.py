"""Takes: who may take items, and how a take is refused."""

from itertools import product

import pytest
from harness.batches.facts import ANN, JOBS, NOW, plain, queue, who, window

from pubqueue.model.changes import AddSubscription, OpenWindow
from pubqueue.model.decision import Decision, Refusal, Refused, Taken
from pubqueue.model.entities import AccessModel, Affiliation, Contact, Principal, SubscriptionState
from pubqueue.rules.subscribe import Options, Subscribe, SubscribeFacts, subscribe
from pubqueue.rules.take import (
    MAX_OF_ACCOUNT,
    MAX_WAIT,
    MAX_WAITING,
    TAKE,
    Candidate,
    Take,
    TakeFacts,
    barred,
    take,
)
from pubqueue.rules.validity import NO_NODE_ID, of_take

NOT_APPROVED = Refused(Refusal.NOT_APPROVED)
PENDING = window(state=SubscriptionState.PENDING)
ASKS = {"access_model": AccessModel.AUTHORIZE}
GRANTED = (True, False)


def asked(node, affiliation=Affiliation.NONE, by=ANN, **facts):
    by = by if isinstance(by, Principal) else who(by)
    return take(Take(by, JOBS, 3, number=7), TakeFacts(NOW, node, affiliation, **facts))


def refusal(decision):
    return decision.reply.refusal if isinstance(decision.reply, Refused) else None


def test_an_account_that_may_subscribe_may_take():
    opened = OpenWindow(JOBS, 7, who(ANN), 3, 41)
    assert asked(queue(), unused=42) == Decision(Taken(JOBS), (opened,))


def test_the_table_is_this():
    assert {
        Candidate.UNAPPROVED: Refusal.NOT_APPROVED,
        Candidate.FULL: Refusal.WINDOW_FULL,
        Candidate.EAGER: Refusal.TOO_MANY_WAITING,
        Candidate.LATE: Refusal.TOO_MANY_WAITING,
        Candidate.WELCOME: None,
    } == TAKE


@pytest.mark.parametrize("contact", [None, (), (Contact(sees_presence=True, groups=("work",)),)])
def test_a_take_is_checked_like_a_subscription(contact):
    taken, expected = {}, {}
    for cell in product(Affiliation, AccessModel, GRANTED, GRANTED):
        affiliation, model, subscribes, admin = cell
        node = queue(access_model=model, subscribe=subscribes, roster_groups_allowed="work")
        by = Principal(ANN, admin=admin, contact=contact)
        facts = SubscribeFacts(NOW, node, affiliation, None)
        as_subscriber = subscribe(Subscribe(by, JOBS, ANN, "s", Options("1")), facts)
        made = [one for one in as_subscriber.changes if isinstance(one, AddSubscription)]
        waits = any(one.subscription.state is SubscriptionState.PENDING for one in made)
        decision = asked(node, affiliation, by)
        taken[cell] = decision.reply if made else decision
        expected[cell] = NOT_APPROVED if waits else Taken(JOBS) if made else as_subscriber
    assert taken == expected


def test_an_anonymous_user_may_not_take():
    assert refusal(asked(queue(), by=Principal(ANN, anonymous=True))) is Refusal.FORBIDDEN


def test_there_has_to_be_a_queue():
    assert refusal(asked(None)) is Refusal.NODE_NOT_FOUND
    assert refusal(asked(plain())) is Refusal.NOT_A_QUEUE


@pytest.mark.parametrize(
    ("subscriptions", "expected"),
    [
        ((), Refusal.NOT_APPROVED),
        ((PENDING,), Refusal.PENDING_SUBSCRIPTION),
        ((window(),), None),
        ((PENDING, window()), None),
    ],
)
def test_where_owners_approve_one_of_the_account_s_subscriptions_has_to_be_approved(
    subscriptions, expected
):
    assert refusal(asked(queue(**ASKS), subscriptions=subscriptions)) is expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"held": 4}, None),
        ({"held": 5}, Refused(Refusal.WINDOW_FULL, limit=5)),
        ({"of_account": MAX_OF_ACCOUNT}, None),
        (
            {"of_account": MAX_OF_ACCOUNT + 1},
            Refused(Refusal.TOO_MANY_WAITING, limit=MAX_OF_ACCOUNT),
        ),
        ({"waiting": MAX_WAITING}, None),
        ({"waiting": MAX_WAITING - 1, "of_account": 2}, None),
        (
            {"waiting": MAX_WAITING, "of_account": 2},
            Refused(Refusal.TOO_MANY_WAITING, limit=10_000),
        ),
        ({"waiting": MAX_WAITING + 1}, Refused(Refusal.TOO_MANY_WAITING, limit=10_000)),
    ],
)
def test_takes_of_an_account_and_waiting_ones_are_limited(facts, expected):
    reply = asked(queue(max_queue_requests=5), **facts).reply
    assert reply == (expected or Taken(JOBS))


def test_a_waiting_take_ends_when_the_right_to_subscribe_is_lost():
    by = Principal(ANN, contact=(Contact(sees_presence=True, groups=("work",)),))
    ended, refused = {}, {}
    for cell in product(Affiliation, AccessModel):
        affiliation, model = cell
        node = queue(access_model=model, roster_groups_allowed="work")
        ended[cell] = barred(by, node, affiliation)
        refused[cell] = refusal(asked(node, affiliation, by, subscriptions=(window(),)))
    assert ended == refused


def test_a_take_ends_when_its_node_is_no_longer_a_queue():
    assert barred(who(ANN), None, Affiliation.OWNER) is Refusal.NODE_NOT_FOUND
    assert barred(who(ANN), plain(), Affiliation.OWNER) is Refusal.NOT_A_QUEUE


def test_a_take_needs_a_count_and_a_limited_wait():
    assert of_take(Take(who(ANN), JOBS, 1, MAX_WAIT)) is None
    assert of_take(Take(who(ANN), "")) == NO_NODE_ID
    assert of_take(Take(who(ANN), JOBS, 0)).setting == "count"
    assert of_take(Take(who(ANN), JOBS, 1, MAX_WAIT + 1)).setting == "wait"
    assert of_take(Take(who(ANN), JOBS, 1, -1)).setting == "wait"
