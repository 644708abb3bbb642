"""Options of a subscription, and what becomes of a lease (XEP-0060 6.3, 12.5, 12.19)."""

import pytest
from harness.batches.facts import ANN, JOBS, NOW, after, plain, queue, who, window
from msgspec.structs import replace

from pubqueue.core.after import subscription_after
from pubqueue.core.changes import (
    Approve,
    EndSubscription,
    Forget,
    NoteUnanswered,
    SetAvailable,
    SetTerms,
    SetWindow,
)
from pubqueue.core.decision import Refusal, Refused
from pubqueue.core.model import Affiliation, SubscriptionState, later
from pubqueue.core.nodes.subscriptions.options import MAX_LEASE, Granted, Lease, Options, grant
from pubqueue.core.nodes.subscriptions.subscribe import SetOptions, SubscribeFacts, set_options
from pubqueue.core.notices import SubscriptionChanged
from pubqueue.core.queue.expire import Expire, ExpireFacts, Leave, LeaveFacts, expire, leave

DAY = 86_400
PENDING = SubscriptionState.PENDING


def granted(options, before=None, node=None):
    return grant(options, node or plain(), before, NOW)


def test_a_lease_ends_when_it_was_asked_to_and_is_announced_a_day_before():
    end = after(30 * DAY)
    given = granted(Options(lease=Lease(end)))
    assert given == Granted(None, True, end, after(29 * DAY), False, configured=True)  # noqa: FBT003


def test_the_end_of_a_short_one_is_announced_when_a_tenth_is_left():
    assert granted(Options(lease=Lease(after(100)))).remind == after(90)


def test_the_longest_lease_is_not_exceeded():
    given = granted(Options(lease=Lease(after(10_000 * DAY))))
    assert given.expire == later(NOW, MAX_LEASE)


@pytest.mark.parametrize("ago", [0, 1])
def test_a_lease_that_is_over_is_none(ago):
    no = Refused(Refusal.INVALID_OPTIONS, "expire: a future date and time", setting="expire")
    assert granted(Options(lease=Lease(after(-ago)))) == no


def test_what_is_not_asked_for_stays():
    before = window(deliver=False, expire=after(9), remind=after(8), temporary=True)
    assert granted(None, before) == Granted(None, False, after(9), after(8), True)  # noqa: FBT003
    given = granted(Options(deliver=True), before)
    assert (given.deliver, given.expire, given.temporary) == (True, after(9), True)
    given = granted(Options(lease=Lease()), before)
    assert (given.deliver, given.expire, given.remind, given.temporary) == (
        False,
        None,
        None,
        False,
    )


def test_a_node_may_make_every_subscription_temporary():
    node = plain(tempsub=True)
    assert granted(None, node=node).temporary
    assert granted(Options(lease=Lease()), node=node).temporary


def test_the_window_may_be_left_out_where_there_is_one():
    assert granted(Options(deliver=False), window(), queue()).queue_requests is None
    needed = Refused(
        Refusal.INVALID_OPTIONS, "queue_requests is needed, once", setting="queue_requests"
    )
    assert granted(Options(deliver=False), None, queue()) == needed


def test_whoever_wants_nothing_told_is_handed_nothing_until_it_does():
    request = SetOptions(who(ANN), JOBS, ANN, None, Options(deliver=False))
    facts = SubscribeFacts(NOW, queue(), Affiliation.NONE, window())
    decision = set_options(request, facts)
    terms = SetTerms(JOBS, ANN, deliver=False, expire=None, remind=None, temporary=False)
    assert decision.changes == (terms,)
    off = subscription_after(terms, window())
    assert off == decision.reply.subscription == window(deliver=False, available=False)
    assert subscription_after(replace(terms, deliver=True), off) == window()


DEAF = {"deliver": False, "available": False}
WAITING = {"state": PENDING, "available": False}


@pytest.mark.parametrize("known", [DEAF, WAITING])
@pytest.mark.parametrize(
    "change",
    [
        SetAvailable(JOBS, ANN, available=True),
        SetWindow(JOBS, ANN, 7),
        NoteUnanswered(JOBS, ANN, 1),
        SetTerms(JOBS, ANN, deliver=False, expire=after(1), remind=None, temporary=True),
    ],
)
def test_nothing_else_makes_it_available(known, change):
    assert not subscription_after(change, window(**known)).available


def test_who_is_approved_is_there_unless_it_wants_nothing():
    assert subscription_after(Approve(JOBS, ANN), window(**WAITING)) == window()
    both = window(**WAITING, deliver=False)
    assert not subscription_after(Approve(JOBS, ANN), both).available


def test_the_end_of_a_lease_is_announced_once_and_then_it_ends():
    soon = window(expire=after(5), remind=NOW)
    over = window("bob@x/1", expire=NOW)
    decision = expire(Expire(), ExpireFacts(NOW, (), (), (), leases=(soon, over)))
    changes = [change for change in decision.changes if not isinstance(change, Forget)]
    reminded = SetTerms(JOBS, ANN, deliver=True, expire=after(5), remind=None, temporary=False)
    assert changes == [reminded, EndSubscription(JOBS, over.jid)]
    assert decision.notices == (
        SubscriptionChanged(ANN, JOBS, soon.state, soon.subid, after(5)),
        SubscriptionChanged(over.jid, JOBS, SubscriptionState.NONE, over.subid),
    )


@pytest.mark.parametrize(
    ("node", "one", "ends"),
    [
        (plain(), window(), False),
        (plain(), window(temporary=True), True),
        (plain(tempsub=True), window(), True),
        (queue(unsubscribe_on_unavailable=False), window(temporary=True), True),
    ],
)
def test_a_temporary_subscription_ends_with_its_subscriber(node, one, ends):
    decision = leave(Leave(ANN), LeaveFacts(NOW, (), ((one, node),)))
    assert (EndSubscription(JOBS, ANN) in decision.changes) is ends
