"""Subscriptions that an owner manages (XEP-0060 8.8)."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, EVE, JOBS, plain, queue, who, window

from pubqueue.model.changes import AddSubscription, Approve, EndSubscription
from pubqueue.model.decision import Decision, Done, Refusal, Refused, SubscriptionEntry
from pubqueue.model.entities import AccessModel, Affiliation, SubscriptionState
from pubqueue.model.replies import NodeSubscriptions
from pubqueue.rules.subscribers import (
    GetSubscriptions,
    Named,
    SetSubscriptions,
    SubscribersFacts,
    Wish,
    changed,
    get_subscriptions,
    set_subscriptions,
)

OWNER, NONE = Affiliation.OWNER, Affiliation.NONE
PENDING, SUBSCRIBED = SubscriptionState.PENDING, SubscriptionState.SUBSCRIBED
GONE = SubscriptionState.NONE
NOBODY_YET = Named(None, NONE)
WAITS = Named(window(state=PENDING, available=False), NONE)
SITS = Named(window(), NONE)


def wish(state, jid=ANN, subid=None):
    return Wish(jid, state, subid, f"subid-of-{jid}")


def set_(*pairs, node=None, by=OWNER, most=9):
    request = SetSubscriptions(who(BOSS), JOBS, tuple(one for one, _ in pairs))
    named = tuple(known for _, known in pairs)
    return set_subscriptions(request, SubscribersFacts(node or plain(), by, named=named, most=most))


def kept(*entries):
    return Refused(Refusal.NOT_ALL_CHANGED, standing=entries)


def as_it_is(state, subid=f"subid-of-{ANN}"):
    return SubscriptionEntry(ANN, state, subid)


def test_an_owner_sees_the_page():
    facts = SubscribersFacts(plain(), OWNER, (window(),))
    seen = get_subscriptions(GetSubscriptions(who(BOSS), JOBS), facts)
    assert seen == Decision(NodeSubscriptions(JOBS, (window(),)))


CHANGES = {
    "ended":    ("none", SITS, (EndSubscription(JOBS, ANN),), GONE),
    "denied":   ("none", WAITS, (EndSubscription(JOBS, ANN),), GONE),
    "approved": ("subscribed", WAITS, (Approve(JOBS, ANN),), SUBSCRIBED),
    "added":    ("subscribed", NOBODY_YET, (AddSubscription(window()),), SUBSCRIBED),
}  # fmt: skip


@pytest.mark.parametrize(("state", "there", "changes", "reported"), CHANGES.values(), ids=CHANGES)
def test_requested_changes_are_made_and_notified(state, there, changes, reported):
    assert set_((wish(state), there)) == Decision(Done(), changes, (changed(window(), reported),))


@pytest.mark.parametrize(
    ("state", "there"),
    [
        ("none", NOBODY_YET),
        ("subscribed", SITS),
        ("pending", WAITS),
        (None, SITS),
        (None, NOBODY_YET),
    ],
)
def test_a_change_to_the_current_state_changes_nothing(state, there):
    assert set_((wish(state), there)) == Decision(Done())


CANNOT = {
    "nobody is made to wait":     (wish("pending"), SITS, {}, as_it_is(SUBSCRIBED)),
    "nor to configure":           (wish("unconfigured"), NOBODY_YET, {}, as_it_is(GONE, "")),
    "another subscription":       (wish("none", subid="other"), SITS, {}, as_it_is(SUBSCRIBED)),
    "no subscription of that id": (wish("none", subid="other"), NOBODY_YET, {}, as_it_is(GONE, "")),
    "an outcast":                 (wish("subscribed"), Named(None, Affiliation.OUTCAST), {}, as_it_is(GONE, "")),
    "too many":                   (wish("subscribed"), Named(None, NONE, 9), {}, as_it_is(GONE, "")),
    "a stranger, closed":         (wish("subscribed"), NOBODY_YET, {"node": plain(access_model=AccessModel.WHITELIST)}, as_it_is(GONE, "")),
    "nobody may":                 (wish("subscribed"), NOBODY_YET, {"node": plain(subscribe=False)}, as_it_is(GONE, "")),
    "a worker has to say":        (wish("subscribed"), NOBODY_YET, {"node": queue()}, as_it_is(GONE, "")),
}  # fmt: skip


@pytest.mark.parametrize(("one", "there", "known", "entry"), CANNOT.values(), ids=CANNOT)
def test_impossible_changes_are_named_and_the_others_are_made(one, there, known, entry):
    decision = set_((one, there), (wish("none", BOB), Named(window(BOB), NONE)), **known)
    assert decision.reply == kept(entry)
    assert decision.changes == (EndSubscription(JOBS, BOB),)


def test_a_repeated_jid_is_refused():
    decision = set_((wish("none"), SITS), (wish("subscribed"), SITS))
    assert decision.reply.refusal is Refusal.BAD_REQUEST
    assert decision.changes == ()


@pytest.mark.parametrize("is_a", [one for one in Affiliation if one is not OWNER])
def test_only_owners_do(is_a):
    no = Decision(Refused(Refusal.FORBIDDEN))
    assert set_((wish("none"), SITS), by=is_a) == no
    facts = SubscribersFacts(plain(), is_a)
    assert get_subscriptions(GetSubscriptions(who(EVE), JOBS), facts) == no
    nowhere = SubscribersFacts(None, NONE)
    expected = Decision(Refused(Refusal.NODE_NOT_FOUND))
    assert get_subscriptions(GetSubscriptions(who(EVE), JOBS), nowhere) == expected
