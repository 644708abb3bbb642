"""Subscribing with a window (XEP-0254 2.1) and the ways out of it (XEP-0060 6.2, 6.3)."""

import pytest
from harness.batches.facts import ANN, BOSS, FLEETING, JOBS, NOW, after, plain, queue, who, window
from msgspec.structs import replace

from pubqueue.model.after import subscription_after
from pubqueue.model.changes import (
    AddAnother,
    AddSubscription,
    Approve,
    EndSubscription,
    Forget,
    NoteActivity,
    NotePresence,
    NoteResource,
    NoteUnanswered,
    SetAvailable,
    SetLevel,
    SetLockTimeout,
    SetQuiet,
    SetTerms,
    SetWindow,
)
from pubqueue.model.decision import Decision, Done, Refusal, Refused, Retrieved, SubscriptionEntry
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    Item,
    ItemId,
    Jid,
    Level,
    SendLast,
    State,
    SubscriptionState,
    Terms,
    account_of,
    later,
)
from pubqueue.model.notices import (
    NOBODY,
    Announce,
    Purged,
    Retracted,
    Several,
    SubscriptionChanged,
    ToEach,
    to_each,
)
from pubqueue.model.replies import WHOLE, Subscribed, Unsubscribed
from pubqueue.model.several_subscriptions import MAX_OF_JID, apart, terms_of, together
from pubqueue.rules.expire import Expire, ExpireFacts, expire
from pubqueue.rules.presence import Leave, LeaveFacts, leave
from pubqueue.rules.retrieve import Retrieve, RetrieveFacts, retrieve
from pubqueue.rules.subscribe import (
    MAX_LEASE,
    Granted,
    Lease,
    Options,
    SetOptions,
    Subscribe,
    SubscribeFacts,
    Unsubscribe,
    grant,
    set_options,
    subscribe,
    unsubscribe,
)
from pubqueue.rules.subscribers import (
    Named,
    SetSubscriptions,
    SubscribersFacts,
    Wish,
    set_subscriptions,
)

NEEDED = Refused(
    Refusal.INVALID_OPTIONS, "queue_requests is needed, once", setting="queue_requests"
)
ALL_OF_IT = Refused(
    Refusal.INVALID_OPTIONS, "queue_requests: a whole number from 1", setting="queue_requests"
)
QUEUES_ALONE = Refused(
    Refusal.INVALID_OPTIONS,
    "queue_requests: only queues have this option",
    setting="queue_requests",
)
UNREAD = Refused(Refusal.INVALID_OPTIONS, "what the face could not read")


def facts(subscription=None, node=None, affiliation=Affiliation.NONE, held=0, **counts):
    known = {"here": (ANN,)} | counts
    return SubscribeFacts(NOW, node or queue(), affiliation, subscription, held, **known)


def join(options=None, *, jid=ANN, by=ANN, **known):
    return subscribe(Subscribe(who(by), JOBS, Jid(jid), f"subid-of-{jid}", options), facts(**known))


def requests(text):
    return Options(text)


def refused(refusal, reason="", limit=None):
    return Decision(Refused(refusal, reason, limit))


def test_a_subscription_has_the_window_that_was_asked_for():
    new = window(requests=5)
    decision = join(requests("5"))
    assert decision == Decision(
        Subscribed(new, queueing=True), (AddSubscription(new), NoteActivity(ANN))
    )


def test_a_window_may_be_a_number():
    assert join(Options(2)).reply == Subscribed(window(requests=2), queueing=True)


def test_a_queue_asks_for_a_window():
    expected = refused(Refusal.CONFIGURATION_REQUIRED, limit=40)
    assert join(node=queue(max_queue_requests=40)) == expected


@pytest.mark.parametrize(
    ("asked", "given"), [("1", 1), ("39", 39), ("40", 40), ("41", 40), ("9" * 30, 40), (" 3 ", 3)]
)
def test_a_window_is_clamped_and_the_reply_has_the_result(asked, given):
    decision = join(requests(asked), node=queue(max_queue_requests=40))
    assert decision.reply == Subscribed(window(requests=given), queueing=True)


@pytest.mark.parametrize("text", ["0", "-1", "NaN", "", " ", "1.5", "1e3", "five", "٣", "²"])
def test_an_invalid_window_is_refused(text):
    assert join(requests(text)) == Decision(ALL_OF_IT)


def test_options_without_a_window_are_refused():
    assert join(Options()) == Decision(NEEDED)


@pytest.mark.parametrize("asked", [None, "1"])
def test_unreadable_options_are_refused(asked):
    assert join(Options(asked, UNREAD)) == Decision(UNREAD)


def test_where_there_are_no_options_what_could_not_be_read_of_a_window_does_not_matter():
    assert join(Options("", UNREAD), node=plain()) == Decision(QUEUES_ALONE)
    assert join(Options(None, UNREAD), node=plain()) == Decision(UNREAD)


@pytest.mark.covers("S-012")
def test_an_account_has_a_quota_of_subscriptions_to_a_node():
    assert join(requests("5"), of_account=9, most=10).changes
    expected = refused(Refusal.TOO_MANY_SUBSCRIPTIONS, limit=10)
    assert join(requests("5"), of_account=10, most=10) == expected
    assert join(requests("5"), subscription=window(), of_account=10, most=10).changes


def test_an_account_cannot_subscribe_others():
    assert join(requests("1"), by="eve@x/1") == refused(Refusal.FOREIGN_JID)


def test_a_bare_jid_is_subscribed_by_its_resource():
    new = window("ann@x", 1)
    assert join(requests("1"), jid="ann@x").changes == (AddSubscription(new),)


def test_without_the_node_there_is_no_subscription():
    request = Subscribe(who(ANN), JOBS, ANN, "s", requests("1"))
    nothing = SubscribeFacts(NOW, None, Affiliation.NONE, None)
    assert subscribe(request, nothing) == refused(Refusal.NODE_NOT_FOUND)


@pytest.mark.parametrize(
    ("affiliation", "model", "expected"),
    [
        (Affiliation.OUTCAST, AccessModel.OPEN, Refusal.FORBIDDEN),
        (Affiliation.PUBLISH_ONLY, AccessModel.OPEN, Refusal.FORBIDDEN),
        (Affiliation.NONE, AccessModel.WHITELIST, Refusal.CLOSED_NODE),
    ],
)
@pytest.mark.parametrize("options", [None, Options("0"), Options("", UNREAD)])
def test_an_account_that_may_not_subscribe_does_not_learn_that_it_is_a_queue(
    affiliation, model, expected, options
):
    decision = join(options, affiliation=affiliation, node=queue(access_model=model))
    assert decision == refused(expected)


def test_a_returning_subscriber_keeps_its_locks():
    new = window(requests=3, in_flight=2)
    assert join(requests("3"), held=2).changes == (AddSubscription(new), NoteActivity(ANN))


def test_a_repeated_subscribe_returns_the_state():
    known = window(requests=4, in_flight=1)
    assert join(subscription=known) == Decision(
        Subscribed(known, queueing=True), (NoteActivity(ANN),)
    )


def test_a_repeated_subscribe_may_ask_for_another_window():
    known = window(requests=4, in_flight=1)
    after = window(requests=9, in_flight=1)
    changes = SetWindow(JOBS, ANN, 9), NoteActivity(ANN)
    expected = Decision(Subscribed(after, queueing=True), changes)
    assert join(requests("9"), subscription=known) == expected


def test_a_subscriber_that_was_away_is_available_again():
    known = window(requests=4, available=False)
    changes = SetWindow(JOBS, ANN, 4), NoteActivity(ANN)
    expected = Decision(Subscribed(window(requests=4), queueing=True), changes)
    assert join(subscription=known) == expected


class TestPlainNode:
    """A plain node has no window."""

    def test_no_options_are_needed(self):
        new = window()
        expected = Decision(Subscribed(new, queueing=False), (AddSubscription(new),))
        assert join(node=plain()) == expected

    def test_no_window_is_taken(self):
        assert join(requests("1"), node=plain()) == Decision(QUEUES_ALONE)

    def test_asking_again_changes_nothing(self):
        expected = Decision(Subscribed(window(), queueing=False))
        assert join(node=plain(), subscription=window()) == expected


class TestOptions:
    """XEP-0060 6.3."""

    def ask(self, options=None, *, by=ANN, subid=None, **known):
        request = SetOptions(who(by), JOBS, ANN, subid, options)
        return set_options(request, facts(**known))

    def test_asking_changes_nothing(self):
        known = window(requests=4)
        expected = Decision(Subscribed(known, queueing=True))
        assert self.ask(subscription=known) == expected

    def test_a_window_may_be_lowered_below_what_is_out(self):
        known, after = window(requests=4, in_flight=3), window(requests=1, in_flight=3)
        expected = Decision(Subscribed(after, queueing=True), (SetWindow(JOBS, ANN, 1),))
        assert self.ask(requests("1"), subscription=known) == expected

    def test_a_bad_window_changes_nothing(self):
        decision = self.ask(requests("0"), subscription=window())
        assert decision == Decision(ALL_OF_IT)


def ask_options(by, subid, known):
    return set_options(SetOptions(who(by), JOBS, ANN, subid), known)


def ask_to_end(by, subid, known):
    return unsubscribe(Unsubscribe(who(by), JOBS, ANN, subid), known)


@pytest.mark.parametrize("ask", [ask_options, ask_to_end])
@pytest.mark.parametrize(
    ("by", "subid", "known", "expected"),
    [
        (ANN, None, SubscribeFacts(NOW, None, Affiliation.NONE, None), Refusal.NODE_NOT_FOUND),
        ("eve@x/1", None, facts(window()), Refusal.FORBIDDEN),
        (ANN, None, facts(), Refusal.NOT_SUBSCRIBED),
        (ANN, "another", facts(window()), Refusal.INVALID_SUBID),
    ],
)
def test_only_the_subscriber_may_touch_a_subscription(ask, by, subid, known, expected):
    assert ask(by, subid, known) == refused(expected)


@pytest.mark.parametrize("subid", [None, "subid-of-ann@x/1"])
def test_unsubscribing_ends_the_subscription_and_nothing_else(subid):
    held = window(in_flight=2)
    decision = ask_to_end("ann@x/other", subid, facts(held))
    assert decision == Decision(Unsubscribed(held), (EndSubscription(JOBS, ANN),))


class TestPresence:
    """A subscriber has shown itself; it is present only if its presence was received, of which nothing is stored for a stranger."""

    @pytest.mark.parametrize(
        ("jid", "node", "came", "here", "noted"),
        [
            (ANN, queue(), (), (), [ANN]),
            (ANN, queue(), (ANN,), (), [ANN]),
            (ANN, queue(), (), (ANN,), []),
            ("ann@x", queue(), (), (), []),
            ("ann@x", queue(), (ANN, Jid("ann@x/2")), (ANN,), [Jid("ann@x/2")]),
            (ANN, plain(), (), (), []),
            (ANN, plain(), (ANN,), (), [ANN]),
        ],
    )
    def test_a_subscription_is_recorded(self, jid, node, came, here, noted):
        options = requests("1") if node.config.queueing else None
        decision = join(options, jid=jid, node=node, came=came, here=here)
        found = [one.jid for one in decision.changes if isinstance(one, NoteResource)]
        assert found == noted
        present = [one.jid for one in decision.changes if isinstance(one, NotePresence)]
        assert present == list(came)

    def test_a_client_that_is_connected_to_the_service_itself_is_not_noted(self):
        known = join(requests("1"), jid=ANN, node=queue(), by_server=False).changes
        assert [type(one) for one in known] == [AddSubscription]

    def test_not_of_one_that_is_refused(self):
        closed = queue(access_model=AccessModel.WHITELIST)
        assert join(requests("1"), node=closed, came=(ANN,), here=()).changes == ()


# Options of a subscription, and leases (XEP-0060 6.3, 12.5, 12.19).

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
QUIET = {"quiet": True, "available": False}


@pytest.mark.parametrize("known", [DEAF, WAITING, QUIET])
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


def test_a_quiet_worker_stays_quiet_until_it_is_resumed():
    quiet = subscription_after(SetQuiet(JOBS, ANN, quiet=True), window(in_flight=1, unanswered=3))
    assert quiet == window(in_flight=1, **QUIET)
    request = Subscribe(who(ANN), JOBS, ANN, "new", Options(queue_requests=7))
    again = subscribe(request, SubscribeFacts(NOW, queue(), Affiliation.MEMBER, quiet))
    assert again.reply.subscription == replace(quiet, queue_requests=7)
    assert SetWindow(JOBS, ANN, 7) in again.changes
    assert subscription_after(SetWindow(JOBS, ANN, 7), quiet) == again.reply.subscription
    off = SetTerms(JOBS, ANN, deliver=False, expire=None, remind=None, temporary=False)
    deaf = subscription_after(off, quiet)
    assert not subscription_after(SetQuiet(JOBS, ANN, quiet=False), deaf).available
    assert subscription_after(SetQuiet(JOBS, ANN, quiet=False), quiet) == window(in_flight=1)


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


# Several subscriptions of a JID: creation, ids, and notices (XEP-0060 6.1.6, 6.2, 6.3, 8.8, 12.5).

OPEN = plain(multi_subscribe=True)
ONE = replace(window(ANN), subid="one")
TWO = together(ONE, (*terms_of(ONE), Terms("two", deliver=False)))
NONE = SubscriptionState.NONE


def facts_of_several(subscription=ONE, node=OPEN, **known):
    return SubscribeFacts(NOW, node, Affiliation.NONE, subscription, **known)


def join_again(subscription=ONE, options=None, *, node=OPEN, **known):
    asked = Subscribe(who(ANN), JOBS, ANN, "new", options)
    return subscribe(asked, facts_of_several(subscription, node, **known))


def refusal(decision):
    assert decision.changes == decision.notices == ()
    return decision.reply.refusal


class TestOneMore:
    def test_the_first_is_a_subscription_like_any_other(self):
        (added,) = join_again(None).changes
        assert added == AddSubscription(replace(ONE, subid="new", queue_requests=1))

    @pytest.mark.parametrize("row", [ONE, TWO], ids=["of one", "of two"])
    def test_each_subscribe_makes_one_more_with_options_of_its_own(self, row):
        options = Options(deliver=False, lease=Lease(after(50)))
        decision = join_again(row, options)
        (added,) = decision.changes
        assert added == AddAnother(
            JOBS, ANN, Terms("new", deliver=False, expire=after(50), remind=after(45))
        )
        assert decision.reply.subscription.subid == "new"
        assert decision.reply.configured

    @pytest.mark.parametrize("row", [ONE, TWO], ids=["of one", "of two"])
    def test_where_the_node_does_not_allow_it_the_oldest_is_returned(self, row):
        decision = join_again(row, node=plain())
        assert (decision.changes, decision.reply.subscription.subid) == ((), "one")
        changed = join_again(row, Options(deliver=False), node=plain())
        terms = {"deliver": False, "expire": None, "remind": None, "temporary": False}
        subid = "one" if row.several else None
        assert changed.changes == (SetTerms(JOBS, ANN, **terms, subid=subid),)

    def test_one_that_waits_for_an_owner_waits_alone(self):
        waits = replace(ONE, state=SubscriptionState.PENDING, available=False)
        node = plain(multi_subscribe=True, access_model=AccessModel.AUTHORIZE)
        assert refusal(join_again(waits, node=node)) is Refusal.PENDING_SUBSCRIPTION
        (added,) = join_again(ONE, node=node).changes  # an owner has approved the JID
        assert added == AddAnother(JOBS, ANN, Terms("new"))

    def test_subscriptions_of_a_jid_are_counted_and_limited(self):
        full = join_again(of_account=5, most=5)
        assert (refusal(full), full.reply.limit) == (Refusal.TOO_MANY_SUBSCRIPTIONS, 5)
        many = together(ONE, tuple(Terms(str(number)) for number in range(MAX_OF_JID)))
        over = join_again(many, of_account=MAX_OF_JID)
        assert refusal(over) is Refusal.TOO_MANY_SUBSCRIPTIONS
        assert over.reply.reason == "a JID has at most 50 subscriptions to a node"

    def test_owners_are_notified_and_the_last_item_is_sent_once(self):
        node = plain(
            multi_subscribe=True, notify_sub=True, send_last_published_item=SendLast.ON_SUB
        )
        item = Item(7, JOBS, ItemId("i7"), State.QUEUED, Jid("etl@x"), NOW)
        owner = Jid("boss@x")
        reported, news = join_again(node=node, owners=(owner,), last=(item, b"<a/>")).notices
        stands = SubscriptionState.SUBSCRIBED
        assert reported == SubscriptionChanged(owner, JOBS, stands, "new", about=ANN)
        assert (news.to, news.subids) == ((ANN,), {ANN: ("new",)})


# row, subid -> what is said against it, None if nothing is
NAMING = [
    (ONE, None, None),
    (ONE, "one", None),
    (ONE, "two", Refusal.INVALID_SUBID),
    (TWO, None, Refusal.SUBID_REQUIRED),
    (TWO, "one", None),
    (TWO, "two", None),
    (TWO, "no such", Refusal.INVALID_SUBID),
]


@pytest.mark.parametrize(("row", "subid", "no"), NAMING)
class TestNaming:
    """XEP-0060 6.2.3.1, 6.2.3.5, 6.3.4.4, 6.3.4.5, 6.5.9.1, 6.5.9.2."""

    def test_unsubscribe(self, row, subid, no):
        decision = unsubscribe(Unsubscribe(who(ANN), JOBS, ANN, subid), facts_of_several(row))
        if no is not None:
            assert refusal(decision) is no
        else:
            named = subid if row.several else None
            assert decision.changes == (EndSubscription(JOBS, ANN, named),)
            assert decision.reply.subscription.subid == (subid or row.subid)

    def test_options(self, row, subid, no):
        asked = SetOptions(who(ANN), JOBS, ANN, subid, None)
        decision = set_options(asked, facts_of_several(row))
        if no is not None:
            assert refusal(decision) is no
        else:
            assert decision.reply.subscription.subid == (subid or "one")
            assert decision.reply.subscription.deliver == (subid != "two")

    def test_items(self, row, subid, no):
        known = RetrieveFacts(OPEN, Affiliation.NONE, True, (), WHOLE, mine=(row,))  # noqa: FBT003
        decision = retrieve(Retrieve(who(ANN), JOBS, subid=subid), known)
        if no is not None:
            assert refusal(decision) is no
        else:
            assert decision.reply == Retrieved(OPEN, ())


def test_items_are_asked_for_by_a_subscription_of_either_address():
    other = replace(window("ann@x"), subid="bare")
    known = RetrieveFacts(OPEN, Affiliation.NONE, True, (), WHOLE, mine=(TWO, other))  # noqa: FBT003
    reply = retrieve(Retrieve(who(ANN), JOBS, subid="bare"), known).reply
    assert isinstance(reply, Retrieved)
    strangers = replace(known, mine=())
    assert isinstance(retrieve(Retrieve(who(ANN), JOBS, subid="x"), strangers).reply, Retrieved)


def test_options_are_set_of_the_one_that_is_named():
    asked = SetOptions(who(ANN), JOBS, ANN, "two", Options(deliver=True))
    decision = set_options(asked, facts_of_several(TWO))
    terms = {"deliver": True, "expire": None, "remind": None, "temporary": False}
    assert decision.changes == (SetTerms(JOBS, ANN, **terms, subid="two"),)


class TestOwners:
    """XEP-0060 8.8.2."""

    def wish(self, *wishes, row=TWO):
        asked = tuple(Wish(ANN, state, subid, "new") for state, subid in wishes)
        known = tuple(Named(row, Affiliation.NONE) for _ in asked)
        request = SetSubscriptions(who(BOSS), JOBS, asked)
        return set_subscriptions(request, SubscribersFacts(OPEN, Affiliation.OWNER, named=known))

    def test_one_is_ended_by_its_id(self):
        decision = self.wish(("none", "two"))
        assert decision.reply == Done()
        assert decision.changes == (EndSubscription(JOBS, ANN, "two"),)
        assert decision.notices == (SubscriptionChanged(ANN, JOBS, NONE, "two"),)

    def test_all_are_ended_where_none_is_named_each_with_a_word_to_its_jid(self):
        decision = self.wish(("none", None))
        assert decision.changes == (EndSubscription(JOBS, ANN),)
        assert [reported.subid for reported in decision.notices] == ["one", "two"]

    def test_a_jid_may_be_named_once_for_each(self):
        decision = self.wish(("none", "one"), ("none", "two"))
        assert [change.subid for change in decision.changes] == ["one", "two"]
        assert self.wish(("none", "one"), ("subscribed", "two")).reply == Done()

    @pytest.mark.parametrize(
        ("wishes", "words"),
        [
            ([("none", "one"), ("none", None)], "a JID is named twice, without the subid of each"),
            ([("none", "one"), ("none", "one")], "a subscription is named twice"),
        ],
    )
    def test_a_repeated_subid_is_refused(self, wishes, words):
        decision = self.wish(*wishes)
        assert (refusal(decision), decision.reply.reason) == (Refusal.BAD_REQUEST, words)

    def test_a_refused_change_shows_the_current_subscription(self):
        stands = SubscriptionState.SUBSCRIBED
        (entry,) = self.wish(("none", "no such")).reply.standing
        assert entry == SubscriptionEntry(ANN, stands, "one")
        pending = self.wish(("pending", None)).reply.standing
        assert [one.subid for one in pending] == ["one", "two"]


class TestEnds:
    def test_each_lease_is_announced_and_ends_by_itself(self):
        over = Terms("over", expire=NOW)
        soon = Terms("soon", expire=after(9), remind=NOW)
        row = together(ONE, (*terms_of(ONE), over, soon))
        decision = expire(Expire(), ExpireFacts(NOW, (), (), (), leases=(row,)))
        terms = {"deliver": True, "expire": after(9), "remind": None, "temporary": False}
        assert EndSubscription(JOBS, ANN, "over") in decision.changes
        assert SetTerms(JOBS, ANN, **terms, subid="soon") in decision.changes
        gone, announced = decision.notices
        assert (gone.state, gone.subid) == (NONE, "over")
        assert (announced.subid, announced.expiry) == ("soon", after(9))

    def away(self, row, node=OPEN):
        known = LeaveFacts(NOW, (), ((row, node),), is_known=False, present=())
        return leave(Leave(ANN), known).changes

    def test_a_leaving_subscriber_loses_temporary_subscriptions(self):
        row = together(ONE, (*terms_of(ONE), Terms("two", temporary=True)))
        assert self.away(row) == (EndSubscription(JOBS, ANN, "two"),)
        assert self.away(row, plain(tempsub=True)) == (EndSubscription(JOBS, ANN),)
        both = together(row, tuple(replace(terms, temporary=True) for terms in row.several))
        assert self.away(both) == (EndSubscription(JOBS, ANN),)


class TestNotifying:
    """XEP-0060 7.1.2.4, 7.2.2.2, 12.16."""

    HEARD = Several((ANN, BOSS), {ANN: ("one", "two")})

    @pytest.mark.parametrize(
        "what",
        [Announce(NOBODY, JOBS, None, None), Retracted(NOBODY, JOBS, (ItemId("i1"),))],
        ids=["item", "retract"],
    )
    def test_a_jid_gets_one_notice_with_the_ids_of_its_subscriptions(self, what):
        (news,) = to_each(self.HEARD, what, fleeting=FLEETING)
        assert news == ToEach((ANN, BOSS), what, FLEETING, self.HEARD.subids)
        ann, boss = news.notices()
        assert (ann.to, ann.subids) == (ANN, ("one", "two"))
        assert boss == replace(what, to=BOSS)

    def test_notices_about_the_node_have_no_subscription_ids(self):
        (news,) = to_each(self.HEARD, Purged(NOBODY, JOBS))
        assert news == ToEach((ANN, BOSS), Purged(NOBODY, JOBS))

    def test_no_notice_goes_to_no_subscriber(self):
        assert to_each(Several((), {}), Purged(NOBODY, JOBS)) == ()


def test_apart_they_are_what_their_owner_sees():
    assert [(one.subid, one.deliver) for one in apart(TWO)] == [("one", True), ("two", False)]
