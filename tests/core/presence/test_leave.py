"""Unavailable presence, and connections that end: the locks and subscriptions of the leaver."""

import pytest
from harness.batches.facts import ANN, JOBS, NOW, held, plain, queue, window

from pubqueue.model.changes import EndSubscription, ForgetResource, GiveUp, Release, SetAvailable
from pubqueue.model.decision import Decision, Done
from pubqueue.model.entities import Jid, Millis, State
from pubqueue.rules.give_back import Case
from pubqueue.rules.presence import (
    WORKER_LOST,
    Departure,
    FreeLeftFacts,
    Leave,
    LeaveFacts,
    free_left,
    leave,
)

ACCOUNT = Jid("ann@x")


class TestLeave:
    """Unavailable presence."""

    def go(self, *cases, subscriptions=(), **known):
        return leave(Leave(ANN), LeaveFacts(NOW, cases, tuple(subscriptions), **known))

    def test_an_account_is_gone_with_the_last_resource_that_was_seen(self):
        item, subscription = held(holder=ACCOUNT), (window(ACCOUNT), queue())
        seen = {"is_here": True, "is_last": True}
        decision = self.go(Case(item, queue()), subscriptions=[subscription], **seen)
        release = Release(item, State.QUEUED, None, 1, 0, WORKER_LOST)
        ended = EndSubscription(JOBS, ACCOUNT)
        assert decision.changes == (release, ForgetResource(ANN), ended)

    @pytest.mark.parametrize(("is_here", "changes"), [(True, (ForgetResource(ANN),)), (False, ())])
    def test_an_account_stays_for_another_resource_and_for_one_that_was_never_seen(
        self, is_here, changes
    ):
        case, subscription = Case(held(holder=ACCOUNT), queue()), (window(ACCOUNT), queue())
        decision = self.go(case, subscriptions=[subscription], is_here=is_here)
        assert decision == Decision(Done(), changes)

    def test_items_of_a_leaving_subscriber_are_freed_without_a_notice(self):
        item = held()
        changes = (Release(item, State.QUEUED, None, 1, 0, WORKER_LOST),)
        assert self.go(Case(item, queue())) == Decision(Done(), changes)

    def test_leaving_with_an_item_is_a_failure(self):
        item = held()
        decision = self.go(Case(item, queue(max_failures=1)))
        assert decision.changes == (GiveUp(item, NOW, WORKER_LOST, 1),)

    @pytest.mark.parametrize(
        ("how", "ends", "fails"),
        [
            (Departure.AWAY, False, 1),
            (Departure.LOST, True, 1),
            (Departure.CLOSED, True, 0),
            (Departure.INSTANCE_DIED, True, 0),
        ],
    )
    def test_how_it_went_decides_whether_it_may_come_back_and_has_failed(self, how, ends, fails):
        item, node = held(), queue(unsubscribe_on_unavailable=False)
        facts = LeaveFacts(NOW, (Case(item, node),), ((window(), node),))
        freed, subscription = leave(Leave(ANN, how=how), facts).changes
        assert (freed.failed, freed.released) == (fails, 1 - fails)
        away = SetAvailable(JOBS, ANN, available=False)
        assert subscription == (EndSubscription(JOBS, ANN) if ends else away)

    def test_the_rest_of_what_it_held_is_freed_in_the_same_way(self):
        facts = LeaveFacts(NOW, (), (), more=(ANN,), unused=1 << 30)
        then = leave(Leave(ANN, how=Departure.CLOSED), facts).then
        (freed,) = free_left(then, FreeLeftFacts(NOW, (Case(held(), queue()),))).changes
        assert (freed.failed, freed.released) == (0, 1)

    def test_a_connection_that_never_comes_back_leaves_what_is_its_accounts(self):
        cases = (Case(held(holder=ACCOUNT), queue()),)
        facts = LeaveFacts(NOW, cases, ((window(ACCOUNT), queue()),), is_here=True, is_last=True)
        assert leave(Leave(ANN, how=Departure.CLOSED), facts).changes == (ForgetResource(ANN),)

    def test_a_late_report_ends_no_later_session(self):
        before, after = held(taken=Millis(NOW - 9)), held(seq=8, taken=Millis(NOW - 7))
        cases = Case(before, queue()), Case(after, queue())
        facts = LeaveFacts(NOW, cases, ((window(), queue()),), is_here=True)
        freed = Release(before, State.QUEUED, None, 1, 0, WORKER_LOST)
        assert leave(Leave(ANN, at=Millis(NOW - 8)), facts) == Decision(Done(), (freed,))

    @pytest.mark.parametrize("at", [None, NOW])
    def test_a_report_ends_every_lock_that_was_given_before_it(self, at):
        facts = LeaveFacts(NOW, (Case(held(taken=NOW), queue()),), ((window(), queue()),))
        changes = leave(Leave(ANN, at=at), facts).changes
        assert [type(change) for change in changes] == [Release, EndSubscription]

    def test_the_subscription_ends(self):
        decision = self.go(subscriptions=[(window(), queue())])
        assert decision.changes == (EndSubscription(JOBS, ANN),)

    def test_the_node_may_keep_it_for_the_return(self):
        node = queue(unsubscribe_on_unavailable=False)
        decision = self.go(subscriptions=[(window(), node)])
        assert decision.changes == (SetAvailable(JOBS, ANN, available=False),)

    def test_a_subscription_to_a_plain_node_stays(self):
        assert self.go(subscriptions=[(window(), plain())]) == Decision(Done())
