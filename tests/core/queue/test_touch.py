"""Touch: a holder extends its lock."""

import pytest
from harness.batches.facts import ANN, BOB, EVE, JOBS, NOW, after, held, plain, queue, waiting, who

from pubqueue.core.changes import Extend
from pubqueue.core.decision import (
    Decision,
    Refusal,
    Refused,
    Touched,
)
from pubqueue.core.model import Affiliation, ItemId, seconds
from pubqueue.core.queue.settle import SettleFacts
from pubqueue.core.queue.touch import Touch, touch


def ask(item, span=None, *, by=ANN, node=None, receipts=frozenset()):
    known = node or queue(lock_timeout=300)
    facts = SettleFacts(NOW, known, Affiliation.NONE, (item,), receipts, subscribed=True)
    return touch(Touch(who(by), JOBS, (ItemId("i1"),), span), facts)


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
