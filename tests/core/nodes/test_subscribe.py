"""Subscribing with a window (XEP-0254 2.1) and the ways out of it (XEP-0060 6.2, 6.3)."""

import pytest
from harness.batches.facts import ANN, JOBS, NOW, plain, queue, who, window

from pubqueue.model.changes import (
    AddSubscription,
    EndSubscription,
    NoteActivity,
    NoteResource,
    SetWindow,
)
from pubqueue.model.decision import Decision, Refusal, Refused
from pubqueue.model.entities import AccessModel, Affiliation, Jid
from pubqueue.model.replies import Subscribed, Unsubscribed
from pubqueue.rules.subscribe import (
    Options,
    SetOptions,
    Subscribe,
    SubscribeFacts,
    Unsubscribe,
    set_options,
    subscribe,
    unsubscribe,
)

NEEDED = Refused(
    Refusal.INVALID_OPTIONS, "queue_requests is needed, once", setting="queue_requests"
)
WHOLE = Refused(
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
    assert join(requests(text)) == Decision(WHOLE)


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
        assert decision == Decision(WHOLE)


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
    """A subscriber counts as available, although the presence of a stranger is not stored."""

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

    def test_not_of_one_that_is_refused(self):
        closed = queue(access_model=AccessModel.WHITELIST)
        assert join(requests("1"), node=closed, came=(ANN,), here=()).changes == ()
