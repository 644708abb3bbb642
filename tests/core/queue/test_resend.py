"""Deliveries that may not have been sent are sent again."""

from harness.batches.facts import ANN, BOB, NOW, after, held

from pubqueue.model.decision import Decision, Resent
from pubqueue.model.notices import Deliver
from pubqueue.rules.unlock import Resend, ResendFacts, is_undelivered, resend

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
