"""Options of a subscription, and leases (XEP-0060 6.3, 12.5, 12.19)."""

import pytest
from harness.batches.facts import ANN, JOBS, NOW, after, plain, queue, who, window
from msgspec.structs import replace

from pubqueue.model.after import subscription_after
from pubqueue.model.changes import (
    Approve,
    EndSubscription,
    Forget,
    NoteUnanswered,
    SetAvailable,
    SetLevel,
    SetLockTimeout,
    SetTerms,
    SetWindow,
)
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Affiliation, Level, SubscriptionState, account_of, later
from pubqueue.model.notices import SubscriptionChanged
from pubqueue.rules.expire import Expire, ExpireFacts, expire
from pubqueue.rules.presence import Leave, LeaveFacts, leave
from pubqueue.rules.subscribe import (
    MAX_LEASE,
    Granted,
    Lease,
    Options,
    SetOptions,
    SubscribeFacts,
    grant,
    set_options,
)

DAY = 86_400
PENDING = SubscriptionState.PENDING


def granted(options, before=None, node=None):
    return grant(ANN, options, node or plain(), before, NOW)


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


def test_options_that_are_not_named_stay():
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


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [("30", 30), (" 30 ", 30), (30, 30), ("301", 300), ("9" * 30, 300), ("", None), (None, 7)],
)
def test_a_lock_timeout_is_at_most_the_queues(asked, seconds):
    options = Options(1, lock_timeout=asked)
    before = window(lock_timeout=7)
    assert granted(options, before, queue(lock_timeout=300)).lock_timeout == seconds
    assert granted(options, before, queue(lock_timeout=300)).configured == (asked is not None)


@pytest.mark.parametrize("asked", ["0", "-1", "1.5", "soon", 0])
def test_a_lock_timeout_is_a_number_of_seconds(asked):
    no = granted(Options(1, lock_timeout=asked), None, queue())
    assert (no.refusal, no.setting) == (Refusal.INVALID_OPTIONS, "lock_timeout")


def test_only_queues_have_locks():
    no = granted(Options(lock_timeout="9"), None, plain())
    assert no == Refused(
        Refusal.INVALID_OPTIONS,
        "lock_timeout: only queues have this option",
        setting="lock_timeout",
    )


def test_a_lock_timeout_is_changed_alone():
    request = SetOptions(who(ANN), JOBS, ANN, None, Options(lock_timeout="9"))
    facts = SubscribeFacts(NOW, queue(), Affiliation.NONE, window())
    decision = set_options(request, facts)
    change = SetLockTimeout(JOBS, ANN, 9)
    assert decision.changes == (change,)
    assert subscription_after(change, window()) == decision.reply.subscription
    assert decision.reply.subscription == window(lock_timeout=9)


@pytest.mark.parametrize(
    ("asked", "level"),
    [*((one.value, one) for one in Level), (" assured ", Level.ASSURED), ("", None)],
)
def test_a_subscriber_may_have_a_level_of_its_own(asked, level):
    given = granted(Options(1, qos=asked), window(qos=Level.ACKNOWLEDGED), queue())
    assert (given.qos, given.configured) == (level, True)
    assert granted(Options(1), window(qos=Level.ASSURED), queue()).qos is Level.ASSURED


def test_a_level_is_one_of_three():
    no = granted(Options(1, qos="twice"), None, queue())
    reason = "qos: one of unacknowledged, acknowledged, assured, or empty for that of the queue"
    assert no == Refused(Refusal.INVALID_OPTIONS, reason, setting="qos")
    no = granted(Options(qos="assured"), None, plain())
    assert no == Refused(
        Refusal.INVALID_OPTIONS, "qos: only queues have this option", setting="qos"
    )


@pytest.mark.parametrize("level", Level)
def test_a_bare_jid_is_sent_messages(level):
    bare = grant(account_of(ANN), Options(1, qos=level.value), queue(), None, NOW)
    if level is Level.UNACKNOWLEDGED:
        assert bare.qos is level
    else:
        reason = "qos is always unacknowledged for a bare JID"
        assert bare == Refused(Refusal.INVALID_OPTIONS, reason, setting="qos")


def test_a_level_is_changed_alone():
    request = SetOptions(who(ANN), JOBS, ANN, None, Options(qos="acknowledged"))
    facts = SubscribeFacts(NOW, queue(), Affiliation.NONE, window())
    decision = set_options(request, facts)
    change = SetLevel(JOBS, ANN, Level.ACKNOWLEDGED)
    assert decision.changes == (change,)
    assert subscription_after(change, window()) == decision.reply.subscription
    assert decision.reply.subscription == window(qos=Level.ACKNOWLEDGED)


def test_a_subscriber_with_deliver_off_gets_nothing():
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
def test_other_changes_do_not_make_a_subscriber_available(known, change):
    assert not subscription_after(change, window(**known)).available


def test_an_approved_subscriber_is_available_unless_deliver_is_off():
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
