"""A delivery that came back (XEP-0060 12.4)."""

import pytest
from harness.batches.facts import ANN, BOB, JOBS, NOW, held, queue, window

from pubqueue.model.changes import EndSubscription, NoteUnanswered, Release
from pubqueue.model.decision import Decision, Done
from pubqueue.model.entities import Jid, State, SubscriptionState, later, mark_of, seconds
from pubqueue.model.notices import SubscriptionChanged
from pubqueue.rules.give_back import Case
from pubqueue.rules.presence import Bounce, BounceFacts, bounce

ACCOUNT = Jid("ann@x")


class TestReturn:
    """A delivery that came back (XEP-0060 12.4)."""

    def back(self, item=None, *, to=ANN, subscription=None, gone=False, active_since=0, **said):
        case = None if item is None else Case(item, queue())
        mark = said.pop("mark", mark_of(f"subid-of-{to}"))
        said = {"bounced": True, "mark": mark} | said
        facts = BounceFacts(NOW, case, subscription, active_since)
        return bounce(Bounce(Jid(to), 1, 7, gone, **said), facts)

    def test_the_item_is_free_and_no_failure_counts(self):
        item = held(failed=2)
        changes = (Release(item, State.QUEUED, None, failed=2, released=1),)
        assert self.back(item) == Decision(Done(), changes)

    def test_no_number_of_returns_kills_an_item(self):
        decision = self.back(held(released=99))
        assert isinstance(decision.changes[0], Release)

    def test_an_item_held_by_the_bare_jid_comes_back_from_a_resource(self):
        assert len(self.back(held(holder="ann@x")).changes) == 1

    def test_only_the_holder_gives_it_back(self):
        assert self.back(held(holder=BOB)) == Decision(Done())

    def test_a_lock_that_has_ended_is_not_ended_again(self):
        assert self.back(None) == Decision(Done())

    def test_an_address_that_is_gone_ends_the_subscription_and_its_account_is_notified(self):
        decision = self.back(held(), gone=True, subscription=window(), active_since=7)
        assert decision.changes[1:] == (EndSubscription(JOBS, ANN),)
        none = SubscriptionState.NONE
        reported = SubscriptionChanged(Jid("ann@x"), JOBS, none, f"subid-of-{ANN}", about=Jid(ANN))
        assert decision.notices == (reported,)

    @pytest.mark.parametrize(
        ("item", "active_since"), [(None, 0), (held(), 8), (held(holder=BOB), 0)]
    )
    def test_that_an_earlier_session_is_no_more_ends_nothing(self, item, active_since):
        decision = self.back(item, gone=True, subscription=window(), active_since=active_since)
        assert [type(change) for change in decision.changes] in ([], [Release])
        assert decision.notices == ()

    @pytest.mark.parametrize("mark", ["", mark_of("subid-before")])
    @pytest.mark.parametrize("gone", [False, True])
    def test_a_bounce_under_another_subscription_is_ignored(self, mark, gone):
        item = held()
        decision = self.back(item, gone=gone, mark=mark, subscription=window())
        assert decision == Decision(Done(), (Release(item, State.QUEUED, None, 0, 1),))

    def test_an_unsent_delivery_is_not_a_bounce(self):
        known = window(unanswered=99)
        assert self.back(None, bounced=False, subscription=known) == Decision(Done())

    def test_a_bounce_of_a_lock_that_has_ended_is_not_counted(self):
        assert self.back(None, subscription=window()) == Decision(Done())

    @pytest.mark.parametrize(
        ("requests", "unanswered", "pause"),
        [
            *((1, 0, 1), (1, 1, 2), (1, 2, 4), (1, 5, 32), (1, 6, 60), (1, 1_000_000, 60)),
            *((5, 0, 1), (5, 4, 1), (5, 5, 2), (5, 9, 2), (5, 10, 4), (5, 99, 60)),
        ],
    )
    def test_a_temporary_bounce_keeps_the_subscription_and_holds_it_back(
        self, requests, unanswered, pause
    ):
        # XEP-0060 12.4: count, and try again after some time
        known = window(requests=requests, unanswered=unanswered)
        decision = self.back(held(), subscription=known)
        until = later(NOW, seconds(pause))
        noted = NoteUnanswered(JOBS, ANN, unanswered + 1, silenced=False, until=until)
        assert decision.changes[1:] == (noted,)
        assert decision.notices == ()
