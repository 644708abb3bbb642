"""Subscriptions that an owner manages (XEP-0060 8.8)."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, EVE, JOBS, NOW, plain, queue, who, window
from msgspec.structs import replace

from pubqueue.model.changes import (
    AddSubscription,
    Approve,
    EndReview,
    EndSubscription,
    EndSubscriptions,
    SetAffiliation,
    SetQuiet,
)
from pubqueue.model.decision import Decision, Done, Refusal, Refused, SubscriptionEntry
from pubqueue.model.entities import AccessModel, Affiliation, Jid, SubscriptionState
from pubqueue.model.notices import NOBODY, ApprovalWanted, SubscriptionChanged, ToEach
from pubqueue.model.replies import NodeSubscriptions, Quieted, Subscribed
from pubqueue.rules.audience import ReviewFacts, ReviewSubscribers, review
from pubqueue.rules.nodes import NodeFacts, SetAffiliations, set_affiliations
from pubqueue.rules.subscribe import Options, Subscribe, SubscribeFacts, subscribe
from pubqueue.rules.subscribers import (
    Answer,
    AnswerFacts,
    GetSubscriptions,
    Named,
    PendingFacts,
    QuietFacts,
    QuietWorker,
    ReadPending,
    SendPending,
    SetSubscriptions,
    SubscribersFacts,
    Wish,
    answer,
    changed,
    get_subscriptions,
    quiet_worker,
    read_pending,
    send_pending,
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


# Subscriptions that wait for an owner's approval (XEP-0060 6.1.4, 8.6).

ASKING = plain(access_model=AccessModel.AUTHORIZE)
OWNERS = (Jid("boss@x"), Jid("ceo@x"))
NOTHING = Decision(Done())


def waits(jid=ANN, **changes):
    return window(jid, state=PENDING, available=False, **changes)


def join(node=ASKING, *, affiliation=NONE, options=None, subscription=None, owners=OWNERS):
    request = Subscribe(who(ANN), JOBS, ANN, f"subid-of-{ANN}", options)
    facts = SubscribeFacts(NOW, node, affiliation, subscription, owners=owners)
    return subscribe(request, facts)


def word(*, allow=True, by=OWNER, subscription=None, subid=None, node=ASKING, owners=()):
    request = Answer(who(BOSS), JOBS, ANN, allow, subid)
    return answer(request, AnswerFacts(node, by, subscription or waits(), owners))


def test_a_stranger_waits_and_every_owner_is_asked():
    asked = tuple(ApprovalWanted(owner, JOBS, ANN, f"subid-of-{ANN}") for owner in OWNERS)
    reply = Subscribed(waits(), queueing=False)
    assert join() == Decision(reply, (AddSubscription(waits()),), asked)


@pytest.mark.parametrize("is_a", [Affiliation.MEMBER, Affiliation.PUBLISHER, OWNER])
def test_affiliates_need_not_wait_for_approval(is_a):
    assert join(affiliation=is_a).reply == Subscribed(window(), queueing=False)


def test_a_second_request_is_an_error_while_approval_is_needed():
    again = Decision(Refused(Refusal.PENDING_SUBSCRIPTION))
    assert join(subscription=waits()) == again
    opened = join(plain(), subscription=waits())
    assert opened.reply == Subscribed(window(), queueing=False)
    assert opened.changes == (Approve(JOBS, ANN),)


def test_a_waiting_worker_has_its_window_and_no_room_in_it():
    node = queue(access_model=AccessModel.AUTHORIZE)
    decision = join(node, options=Options("5"))
    assert decision.reply == Subscribed(waits(requests=5), queueing=True)


def test_an_owner_approves_or_denies_and_the_subscriber_is_notified():
    reported = (changed(waits(), SUBSCRIBED),)
    assert word() == Decision(Done(), (Approve(JOBS, ANN),), reported)
    reported = (changed(waits(), GONE),)
    assert word(allow=False) == Decision(Done(), (EndSubscription(JOBS, ANN),), reported)
    watched = replace(ASKING, config=replace(ASKING.config, notify_sub=True))
    *_, last = word(node=watched, owners=OWNERS).notices
    assert last == SubscriptionChanged(OWNERS[1], JOBS, SUBSCRIBED, f"subid-of-{ANN}", about=ANN)


@pytest.mark.parametrize(
    "odd",
    [
        *({"by": is_a} for is_a in Affiliation if is_a is not OWNER),
        {"subscription": window()},
        {"subid": "another"},
    ],
)
@pytest.mark.parametrize("allow", [True, False])
def test_an_unexpected_answer_does_nothing(odd, allow):
    assert word(allow=allow, **odd) == NOTHING
    nobody = Answer(who(BOSS), JOBS, ANN, allow)
    assert answer(nobody, AnswerFacts(ASKING, OWNER, None)) == NOTHING
    assert answer(nobody, AnswerFacts(None, OWNER, waits())) == NOTHING


def test_a_new_affiliate_is_subscribed_and_a_new_owner_gets_the_other_requests():
    entries = ((ANN, OWNER), (BOB, Affiliation.OUTCAST))
    decision = set_affiliations(
        SetAffiliations(who(BOSS), JOBS, entries),
        NodeFacts(
            NOW,
            ASKING,
            OWNER,
            affiliations=((Jid("boss@x"), OWNER),),
            subscriptions=(waits(), waits(BOB)),
            waiting=(waits(), waits(BOB), waits(EVE)),
        ),
    )
    assert decision.changes == (
        SetAffiliation(JOBS, Jid("ann@x"), OWNER),
        SetAffiliation(JOBS, Jid("bob@x"), Affiliation.OUTCAST),
        Approve(JOBS, ANN),
        EndSubscription(JOBS, BOB),
    )
    assert decision.notices == (
        changed(waits(), SUBSCRIBED),
        changed(waits(BOB), GONE),
        ApprovalWanted(Jid("ann@x"), JOBS, EVE, f"subid-of-{EVE}"),
    )


def test_pending_subscriptions_that_need_no_approval_are_granted_page_by_page():
    page = ((ANN, NONE, PENDING), (BOB, Affiliation.OUTCAST, PENDING), (EVE, NONE, SUBSCRIBED))
    decision = review(ReviewSubscribers(JOBS), ReviewFacts(plain(), page))
    assert decision.changes == (
        Approve(JOBS, ANN),
        EndSubscriptions(JOBS, (BOB,)),
        EndReview(JOBS),
    )
    assert decision.notices == (
        ToEach((BOB,), SubscriptionChanged(NOBODY, JOBS, GONE)),
        ToEach((ANN,), SubscriptionChanged(NOBODY, JOBS, SUBSCRIBED)),
    )


def test_owners_see_pending_subscriptions_and_can_request_them():
    facts = PendingFacts(ASKING, OWNER, (waits(),))
    shown = read_pending(ReadPending(who(BOSS), JOBS), facts)
    assert shown == Decision(NodeSubscriptions(JOBS, (waits(),)))
    sent = send_pending(SendPending(who(BOSS), JOBS), facts)
    assert sent.notices == (ApprovalWanted(BOSS, JOBS, ANN, f"subid-of-{ANN}"),)


@pytest.mark.parametrize("ask", [ReadPending, SendPending])
def test_other_accounts_are_refused(ask):
    rule = read_pending if ask is ReadPending else send_pending
    request = ask(who(EVE), JOBS)
    assert rule(request, PendingFacts(ASKING, NONE)) == Decision(Refused(Refusal.FORBIDDEN))
    assert rule(request, PendingFacts(None, NONE)) == Decision(Refused(Refusal.NODE_NOT_FOUND))


# --- quiet workers ------------------------------------------------------------------------------

BUSY = window(in_flight=2)
QUIETING = {
    "quiet":          (True, queue(), OWNER, BUSY, (SetQuiet(JOBS, ANN, quiet=True),)),
    "resumed":        (False, queue(), OWNER, replace(BUSY, quiet=True), (SetQuiet(JOBS, ANN, quiet=False),)),
    "quiet already":  (True, queue(), OWNER, replace(BUSY, quiet=True), ()),
    "at work anyway": (False, queue(), OWNER, BUSY, ()),
    "no node":        (True, None, OWNER, None, Refusal.NODE_NOT_FOUND),
    "no owner":       (True, queue(), Affiliation.MEMBER, BUSY, Refusal.FORBIDDEN),
    "no queue":       (True, plain(), OWNER, BUSY, Refusal.NOT_A_QUEUE),
    "nobody":         (True, queue(), OWNER, None, Refusal.NOT_SUBSCRIBED),
    "one that waits": (True, queue(), OWNER, window(state=PENDING, available=False), Refusal.NOT_SUBSCRIBED),
}  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "node", "is_a", "there", "expected"), QUIETING.values(), ids=QUIETING
)
def test_an_owner_has_a_worker_quiet(wanted, node, is_a, there, expected):
    request = QuietWorker(who(BOSS), JOBS, ANN, wanted)
    decision = quiet_worker(request, QuietFacts(node, is_a, there))
    if isinstance(expected, Refusal):
        assert (decision.reply.refusal, decision.changes) == (expected, ())
    else:
        assert decision == Decision(Quieted(JOBS, 2), expected)


def test_the_operator_of_all_queues_may_too():
    request = QuietWorker(who(EVE, admin=True), JOBS, ANN, quiet=True)
    decision = quiet_worker(request, QuietFacts(queue(), NONE, BUSY))
    assert decision.reply == Quieted(JOBS, 2)
