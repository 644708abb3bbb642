"""Only an owner may end locks of others, and another account's subscription."""

import pytest
from harness.batches.facts import (
    ANN,
    BOB,
    BOSS,
    EVE,
    JOBS,
    NOW,
    after,
    held,
    plain,
    queue,
    waiting,
    who,
)
from msgspec.structs import replace

from pubqueue.model.after import after as item_after
from pubqueue.model.changes import EndSubscription, Extend, Release
from pubqueue.model.decision import Decision, Recovered, Refusal, Refused, Resent, Touched
from pubqueue.model.entities import Affiliation, ItemId, State, seconds
from pubqueue.model.notices import Deliver, Unlocked
from pubqueue.model.replies import Freed
from pubqueue.rules.settle import Settle, SettleFacts, Verb, settle
from pubqueue.rules.unlock import (
    Among,
    Dismiss,
    FreeFacts,
    FreeLocks,
    Recover,
    RecoverFacts,
    Resend,
    ResendFacts,
    Touch,
    dismiss,
    free_locks,
    is_undelivered,
    recover,
    resend,
    touch,
)

OWNER = Affiliation.OWNER


def free(*items, affiliation=OWNER, node=None, by=BOSS, admin=False):
    names = tuple(ItemId(f"i{at}") for at, _ in enumerate(items, 1))
    facts = FreeFacts(NOW, node or queue(), affiliation, items)
    return free_locks(FreeLocks(who(by, admin=admin), JOBS, names), facts)


def let_go(*items, affiliation=OWNER, subscribed=True, freeing=True, node=None):
    facts = FreeFacts(NOW, queue() if node is None else node, affiliation, items, subscribed)
    return dismiss(Dismiss(who(BOSS), JOBS, ANN, freeing), facts)


def refusal(decision):
    assert decision.changes == decision.notices == ()
    return decision.reply.refusal if isinstance(decision.reply, Refused) else None


def released(item):
    """Return the change that ends its lock at once, without a failure."""
    return Release(item, State.QUEUED, None, item.failed, item.released + 1)


def test_locks_end_without_a_failure_and_each_holder_is_notified_once():
    one, two, three = held(1), held(2, BOB), held(3)
    assert free(one, two, three) == Decision(
        Freed(JOBS, 3),
        (released(one), released(two), released(three)),
        (
            Unlocked(ANN, JOBS, (ItemId("i1"), ItemId("i3"))),
            Unlocked(BOB, JOBS, (ItemId("i2"),)),
        ),
    )


def test_all_locks_end_or_none():
    decision = free(held(1), None)
    assert refusal(decision) is Refusal.ITEM_NOT_FOUND
    assert decision.reply.reason == "jobs has no item i2"
    assert refusal(free(held(1), waiting(2))) is Refusal.LOCK_LOST


@pytest.mark.parametrize("affiliation", set(Affiliation) - {OWNER})
def test_only_owners_end_locks_and_subscriptions(affiliation):
    assert refusal(free(held(), affiliation=affiliation)) is Refusal.FORBIDDEN
    assert refusal(let_go(held(), affiliation=affiliation)) is Refusal.FORBIDDEN


def test_an_administrator_counts_as_owner():
    assert free(held(), affiliation=Affiliation.NONE, by=EVE, admin=True).reply == Freed(JOBS, 1)


def test_where_there_is_no_node_nothing_ends():
    facts = FreeFacts(NOW, None, OWNER)
    assert refusal(dismiss(Dismiss(who(BOSS), JOBS, ANN), facts)) is Refusal.NODE_NOT_FOUND


def test_a_subscription_ends_and_with_it_what_is_held():
    item = held(1)
    assert let_go(item) == Decision(
        Freed(JOBS, 1),
        (EndSubscription(JOBS, ANN), released(item)),
        (Unlocked(ANN, JOBS, (item.id,)),),
    )


def test_or_its_locks_stay():
    assert let_go(held(1), freeing=False) == Decision(Freed(JOBS, 0), (EndSubscription(JOBS, ANN),))


def test_a_subscription_to_a_node_that_is_no_queue_ends_likewise():
    assert let_go(node=plain()).changes == (EndSubscription(JOBS, ANN),)


def test_an_account_without_subscription_cannot_be_dismissed():
    assert refusal(let_go(subscribed=False)) is Refusal.NOT_SUBSCRIBED


# After a clock was set back: no lock lasts longer than a new one.


def test_a_lock_lasts_no_longer_than_a_new_one():
    short, long = queue(lock_timeout=30), queue(lock_timeout=300)
    first, second, third = (held(n, deadline=after(4000)) for n in (1, 2, 3))
    facts = RecoverFacts(NOW, ((first, short), (second, short), (third, long)))
    changes = Extend(first, after(30)), Extend(second, after(30)), Extend(third, after(300))
    decision = recover(Recover(), facts)
    assert (decision.reply, decision.changes) == (Recovered((ANN,)), changes)


def test_otherwise_nothing_changes():
    facts = RecoverFacts(NOW, ((held(1, deadline=after(30)), queue(lock_timeout=30)),))
    decision = recover(Recover(), facts)
    assert (decision.reply, decision.changes) == (Recovered((ANN,)), ())


def test_items_after_a_slice_come_in_the_next():
    last = after(40), 7
    for among in Among:
        decision = recover(Recover(among), RecoverFacts(NOW, (), last))
        assert decision == Decision(Recovered(()), then=Recover(among, last))


def test_after_the_locks_delayed_items_are_looked_at_and_then_the_newest():
    nothing = RecoverFacts(NOW)
    assert recover(Recover(), nothing).then == Recover(Among.DELAYED)
    assert recover(Recover(Among.DELAYED), nothing).then == Recover(Among.NEWEST)
    assert recover(Recover(Among.NEWEST), nothing).then is None


def delayed(**times):
    return waiting(1, state=State.DELAYED, **times)


AHEAD, LIFE = 86_400, 3600
MORTAL = queue(item_expire=LIFE)


@pytest.mark.parametrize(
    ("item", "times"),
    [
        (
            delayed(published=after(AHEAD), due=after(AHEAD + 5)),
            {"published": NOW, "due": after(5)},
        ),
        (  # it was given back after it was delivered, both by the wrong clock
            delayed(taken=after(AHEAD), due=after(AHEAD + 60)),
            {"taken": NOW, "due": after(60)},
        ),
        (  # it lives no longer than a new one
            waiting(1, published=after(AHEAD), expires=after(AHEAD + LIFE)),
            {"published": NOW, "expires": after(LIFE)},
        ),
        (  # the publisher's own, perhaps as a moment, does not end early
            waiting(1, published=after(AHEAD), expires=after(LIFE - 1)),
            {"published": NOW},
        ),
        (  # nor does one by the right clock
            waiting(1, taken=after(AHEAD), expires=after(2 * AHEAD)),
            {"taken": NOW},
        ),
        (  # its delay too: it was given when the clock was right again
            delayed(taken=after(AHEAD), due=after(30)),
            {"taken": NOW},
        ),
    ],
)
def test_delays_from_a_clock_that_was_ahead_begin_anew_and_no_lifetime_is_longer_than_a_new_one(
    item, times
):
    decision = recover(Recover(Among.DELAYED), RecoverFacts(NOW, ((item, MORTAL),)))
    (change,) = decision.changes
    right = item_after(change)
    assert right == replace(item, **times)
    again = recover(Recover(Among.DELAYED), RecoverFacts(after(3), ((right, MORTAL),)))
    assert again.changes == ()


def test_a_lock_from_such_a_clock_forgets_its_times_too():
    ahead = {"taken": after(AHEAD), "deadline": after(AHEAD + 30), "published": after(AHEAD)}
    item = held(1, **ahead)
    (change,) = recover(Recover(), RecoverFacts(NOW, ((item, queue(lock_timeout=30)),))).changes
    right = {"taken": NOW, "published": NOW, "deadline": after(30)}
    assert item_after(change) == replace(item, **right)


def test_delays_that_the_right_clock_gave_stay():
    item = delayed(published=after(-9), taken=after(-5), due=after(AHEAD), expires=after(AHEAD))
    assert recover(Recover(Among.DELAYED), RecoverFacts(NOW, ((item, MORTAL),))).changes == ()


# Deliveries that may not have been sent are sent again.

SPAN = (5, 9)


def test_the_holder_gets_the_same_delivery_under_the_same_token():
    item, reported = held(1, token=7), held(2, holder=BOB, token=3)
    decision = resend(Resend(), ResendFacts(NOW, SPAN, (item, reported), {1: b"<job/>"}))
    sent = Deliver(ANN, item, b"<job/>", again=True)
    assert decision == Decision(Resent(SPAN, (reported.deadline, 2)), (), (sent,))


def test_behind_the_last_lock_there_are_no_more():
    assert resend(Resend(), ResendFacts(NOW, SPAN, (), {})) == Decision(Resent(SPAN, None))


def test_valid_locks_with_unrecorded_tokens_are_sent_again():
    assert [token for token in range(12) if is_undelivered(held(token=token), SPAN, NOW)] == [
        5,
        6,
        7,
        8,
    ]
    assert not is_undelivered(held(token=7, deadline=after(0)), SPAN, NOW)


# Touch: a holder extends its lock.


def ask(item, span=None, *, by=ANN, node=None, receipts=frozenset(), exact=False):
    known = node or queue(lock_timeout=300)
    facts = SettleFacts(NOW, known, Affiliation.NONE, (item,), receipts, subscribed=True)
    return touch(Touch(who(by), JOBS, (ItemId("i1"),), span, exact=exact), facts)


def test_a_token_means_that_very_lock():
    item = held(token=9)
    facts = SettleFacts(NOW, queue(), Affiliation.NONE, (item,), frozenset(), subscribed=True)
    replies = [
        touch(Touch(who(ANN), JOBS, (item.id,), token=token), facts).reply for token in (9, 8)
    ]
    assert isinstance(replies[0], Touched)
    assert replies[1].refusal is Refusal.LOCK_LOST


def refused(refusal):
    return Decision(Refused(refusal))


@pytest.mark.parametrize(
    ("span", "deadline"), [(None, 300), (60, 60), (300, 300), (301, 300), (10**6, 300)]
)
def test_a_lock_lasts_as_long_as_asked_for_and_at_most_the_lock_timeout(span, deadline):
    item = held(deadline=after(1))
    decision = ask(item, None if span is None else seconds(span))
    expected = Touched(JOBS, ((item.id, after(deadline)),)), (Extend(item, after(deadline)),)
    assert decision == Decision(*expected)


def test_a_deadline_never_comes_nearer():
    item = held(deadline=after(200))
    assert ask(item, seconds(60)).changes == (Extend(item, after(200)),)


@pytest.mark.parametrize(
    ("span", "deadline"), [(None, 300), (1, 1), (60, 60), (300, 300), (301, 300), (10**6, 300)]
)
def test_an_exact_touch_sets_the_deadline_within_the_lock_timeout(span, deadline):
    item = held(deadline=after(200))
    decision = ask(item, None if span is None else seconds(span), exact=True)
    expected = Touched(JOBS, ((item.id, after(deadline)),)), (Extend(item, after(deadline)),)
    assert decision == Decision(*expected)


def test_an_exact_touch_of_no_time_is_a_release_and_no_failure():
    item = held(failed=2, deadline=after(200))
    decision = ask(item, seconds(0), exact=True)
    unlocked = settle(
        Settle(who(ANN), JOBS, (item.id,), Verb.UNLOCK),
        SettleFacts(NOW, queue(), Affiliation.NONE, (item,), frozenset(), subscribed=True),
    )
    assert decision.reply == Touched(JOBS, ((item.id, NOW),))
    assert (decision.changes, decision.notices) == (unlocked.changes, unlocked.notices)
    assert [(change.failed, change.released) for change in decision.changes] == [(2, 1)]


def test_a_touch_of_no_time_that_is_not_exact_leaves_the_deadline():
    item = held(deadline=after(200))
    assert ask(item, seconds(0)).changes == (Extend(item, after(200)),)


@pytest.mark.parametrize(
    ("item", "by", "receipts", "expected"),
    [
        (None, ANN, frozenset(), Refusal.ITEM_NOT_FOUND),
        (waiting(), ANN, frozenset({(1, ANN)}), Refusal.LOCK_LOST),
        (held(holder=BOB), ANN, frozenset({(1, ANN)}), Refusal.LOCKED_BY_ANOTHER),
        (held(holder=BOB), EVE, frozenset(), Refusal.LOCKED_BY_ANOTHER),
        (waiting(), EVE, frozenset(), Refusal.NOT_YOURS),
    ],
)
def test_only_the_holder_touches(item, by, receipts, expected):
    assert ask(item, by=by, receipts=receipts) == refused(expected)


def test_a_plain_node_has_no_locks():
    assert ask(waiting(), node=plain()) == refused(Refusal.NOT_A_QUEUE)


@pytest.mark.parametrize(("span", "deadline"), [(None, 300), (400, 400), (601, 600)])
def test_the_node_may_let_a_lock_be_extended_for_longer(span, deadline):
    item, node = held(deadline=after(1)), queue(lock_timeout=300, lock_longest=600)
    wanted = None if span is None else seconds(span)
    assert ask(item, wanted, node=node).changes == (Extend(item, after(deadline)),)
    assert ask(item, wanted, node=queue(lock_timeout=300, lock_longest=1)).changes[
        0
    ].deadline == after(min(span or 300, 300))
