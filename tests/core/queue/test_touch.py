"""Touch: a holder extends its lock."""

import pytest
from harness.batches.facts import ANN, BOB, EVE, JOBS, NOW, after, held, plain, queue, waiting, who

from pubqueue.model.changes import Extend
from pubqueue.model.decision import Decision, Refusal, Refused, Touched
from pubqueue.model.entities import Affiliation, ItemId, seconds
from pubqueue.rules.settle import Settle, SettleFacts, Verb, settle
from pubqueue.rules.unlock import Touch, touch


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
