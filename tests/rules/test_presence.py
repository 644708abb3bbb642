"""Available presence: which addresses are recorded, and which get deliveries again."""

import pytest
from harness.batches.facts import ANN, BOB, JOBS, NOW, held, plain, queue, window
from msgspec.structs import replace

from pubqueue.model.changes import (
    EndSubscription,
    ForgetResource,
    GiveUp,
    NoteActivity,
    NotePresence,
    NoteResource,
    NoteUnanswered,
    PutRow,
    Recount,
    Release,
    SetAvailable,
)
from pubqueue.model.decision import ConnectionsFreed, Decision, Done, Doubted
from pubqueue.model.entities import (
    Jid,
    Millis,
    NodeName,
    State,
    SubscriptionState,
    later,
    mark_of,
    seconds,
)
from pubqueue.model.notices import SubscriptionChanged
from pubqueue.model.records import PingAnswer
from pubqueue.rules.give_back import Case
from pubqueue.rules.presence import (
    MAX_RESOURCES,
    REMEMBERED,
    USUAL,
    WORKER_LOST,
    AnsweredElsewhere,
    AnsweredFacts,
    Arrive,
    ArriveFacts,
    Bounce,
    BounceFacts,
    Departure,
    FreeConnections,
    FreeConnectionsFacts,
    FreeLeft,
    FreeLeftFacts,
    Leave,
    LeaveFacts,
    ReachChanged,
    ReachFacts,
    Silence,
    Step,
    answered_elsewhere,
    arrive,
    bounce,
    free_connections,
    free_left,
    leave,
    note_here,
    pinged,
    reach_changed,
    step,
)

OTHER = NodeName("other")
ACCOUNT = Jid("ann@x")
PHONE = Jid("ann@x/phone")


def test_a_returning_subscriber_gets_deliveries_again():
    away = window(available=False)
    facts = ArriveFacts((away, replace(window(BOB), node=OTHER)), (ANN,))
    changes = (NotePresence(ANN), NoteActivity(ANN), SetAvailable(JOBS, ANN, available=True))
    assert arrive(Arrive(ANN), facts) == Decision(Done(), changes)


def test_an_arrival_is_recorded_once_and_only_for_resources():
    new = (NoteResource(ANN), NotePresence(ANN), NoteActivity(ANN))
    assert arrive(Arrive(ANN), ArriveFacts((), is_somebody=True)).changes == new
    assert arrive(Arrive(ANN), ArriveFacts((window(),))).changes == new
    again = arrive(Arrive(ANN), ArriveFacts((), (ANN,), is_somebody=True))
    assert again.changes == (NotePresence(ANN), NoteActivity(ANN))
    assert arrive(Arrive(ACCOUNT), ArriveFacts((), is_somebody=True)).changes == ()


def test_nothing_is_stored_for_a_stranger():
    assert arrive(Arrive(ANN), ArriveFacts(())) == Decision(Done())


def test_the_known_resources_of_an_account_are_limited():
    here = tuple(Jid(f"ann@x/{n}") for n in range(MAX_RESOURCES))
    facts = ArriveFacts((), here, is_somebody=True)
    new = Jid("ann@x/new")
    assert arrive(Arrive(new), facts).changes[:2] == (NoteResource(new), ForgetResource(here[0]))
    few = ArriveFacts((), here[1:], is_somebody=True)
    noted = (NoteResource(new), NotePresence(new), NoteActivity(new))
    assert arrive(Arrive(new), few).changes == noted


@pytest.mark.parametrize(
    ("came", "known", "noted", "forgotten"),
    [
        ((), 3, [], 0),
        ((ANN, ANN, ACCOUNT), 0, [ANN], 0),
        ((ANN, BOB), MAX_RESOURCES, [ANN, BOB], 2),
        ((ANN,), MAX_RESOURCES - 1, [ANN], 0),
        (tuple(Jid(f"ann@x/{n}-") for n in range(MAX_RESOURCES + 5)), 7, None, 7),
    ],
)
def test_beyond_the_bound_the_oldest_are_dropped(came, known, noted, forgotten):
    here = tuple(Jid(f"ann@x/old{n}") for n in range(known))
    changes = [*note_here(came, here)]
    found = [one.jid for one in changes if isinstance(one, NoteResource)]
    assert found == (list(came[-MAX_RESOURCES:]) if noted is None else noted)
    gone = [one.jid for one in changes if isinstance(one, ForgetResource)]
    assert gone == list(here[:forgotten])


# Unavailable presence, and connections that end: the locks and subscriptions of the leaver.


class TestLeave:
    """Unavailable presence."""

    def go(self, *cases, subscriptions=(), **known):
        return leave(Leave(ANN), LeaveFacts(NOW, cases, tuple(subscriptions), **known))

    def test_an_account_is_gone_with_the_last_resource_whose_presence_was_received(self):
        item, subscription = held(holder=ACCOUNT), (window(ACCOUNT), queue())
        seen = {"is_known": True, "present": (ANN,)}
        decision = self.go(Case(item, queue()), subscriptions=[subscription], **seen)
        release = Release(item, State.QUEUED, None, 1, 0, WORKER_LOST)
        ended = EndSubscription(JOBS, ACCOUNT)
        assert decision.changes == (release, ForgetResource(ANN), ended)

    @pytest.mark.parametrize(("is_known", "changes"), [(True, (ForgetResource(ANN),)), (False, ())])
    @pytest.mark.parametrize("present", [(), (PHONE,)])
    def test_an_account_stays_when_one_leaves_whose_presence_was_not_received(
        self, is_known, changes, present
    ):
        case, subscription = Case(held(holder=ACCOUNT), queue()), (window(ACCOUNT), queue())
        known = {"is_known": is_known, "present": present}
        decision = self.go(case, subscriptions=[subscription], **known)
        assert decision == Decision(Done(), changes)

    @pytest.mark.parametrize(
        "work",
        [
            {"held": (Case(held(holder=ACCOUNT), queue()),)},
            {"subscriptions": ((window(ACCOUNT), queue()),)},
            {"more": (ACCOUNT,)},
        ],
    )
    def test_those_for_which_an_account_keeps_its_work_are_doubted(self, work):
        known = {"held": (), "subscriptions": ()} | work
        facts = LeaveFacts(NOW, is_known=True, present=(PHONE, ANN), **known)
        decision = Decision(Doubted((PHONE,)), (ForgetResource(ANN),))
        assert leave(Leave(ANN), facts) == decision
        assert leave(Leave(ANN, how=Departure.LOST), facts).reply == Done(), "it does not come back"

    @pytest.mark.parametrize(
        "work",
        [
            {"held": (Case(held(), queue()),)},
            {"subscriptions": ((window(), queue()), (window(ACCOUNT), plain()))},
            {"more": (ANN,)},
        ],
    )
    def test_nobody_is_doubted_where_the_account_keeps_no_work(self, work):
        known = {"held": (), "subscriptions": ()} | work
        facts = LeaveFacts(NOW, is_known=True, present=(PHONE, ANN), **known)
        assert leave(Leave(ANN), facts).reply == Done()

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

    @pytest.mark.parametrize(("how", "fails"), [(Departure.LOST, 1), (Departure.CLOSED, 0)])
    def test_addresses_that_have_gone_together_are_freed_in_slices_of_the_same_way(
        self, how, fails
    ):
        known = FreeConnectionsFacts(NOW, (Case(held(), queue()),), (window(),), left=(BOB,))
        decision = free_connections(FreeConnections((ANN, BOB), how, freed=6), known)
        freed, ended = decision.changes
        assert (freed.failed, freed.released) == (fails, 1 - fails)
        assert ended == EndSubscription(JOBS, ANN)
        assert decision.then == FreeConnections((BOB,), how, freed=7)
        assert free_connections(decision.then, FreeConnectionsFacts(NOW, (), ())) == Decision(
            ConnectionsFreed(7)
        )

    def test_a_connection_that_never_comes_back_leaves_what_is_its_accounts(self):
        cases = (Case(held(holder=ACCOUNT), queue()),)
        facts = LeaveFacts(NOW, cases, ((window(ACCOUNT), queue()),), is_known=True, present=(ANN,))
        assert leave(Leave(ANN, how=Departure.CLOSED), facts).changes == (ForgetResource(ANN),)

    def test_a_late_report_ends_no_later_session(self):
        before, after = held(taken=Millis(NOW - 9)), held(seq=8, taken=Millis(NOW - 7))
        account = held(seq=9, holder=ACCOUNT, taken=Millis(NOW - 9))
        cases = tuple(Case(item, queue()) for item in (before, after, account))
        facts = LeaveFacts(
            *(NOW, cases, ((window(), queue()),)), is_known=True, present=(ANN,), seen=NOW
        )
        freed = Release(before, State.QUEUED, None, 1, 0, WORKER_LOST)
        report = Leave(ANN, at=Millis(NOW - 8))
        assert leave(report, facts) == Decision(Done(), (freed,))
        then = leave(report, replace(facts, more=(ANN, ACCOUNT), unused=70)).then
        assert then == FreeLeft(ANN, (ANN,), 70, 0, 1, at=report.at)
        assert free_left(then, FreeLeftFacts(NOW, cases[:2])).changes == (freed,)

    @pytest.mark.parametrize(
        ("seen", "ended"),
        [(NOW - 9, 3), (NOW - 8, 3), (NOW - 7, 1), (NOW + 1000, 1), (NOW + 1001, 3)],
    )
    def test_a_report_ends_all_unless_the_leaver_has_shown_itself_since(self, seen, ended):
        """Also a lock that was given while the report waited for its turn, and after a clock was set back."""
        cases = Case(held(taken=Millis(NOW - 9)), queue()), Case(held(seq=8, taken=NOW), queue())
        facts = LeaveFacts(NOW, cases, ((window(), queue()),), seen=Millis(seen))
        assert len(leave(Leave(ANN, at=Millis(NOW - 8)), facts).changes) == ended

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


# A delivery that came back (XEP-0060 12.4).


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


# Holders that send nothing: when they are pinged, and when they count as gone.

LOOK = 5.0
"""The longest time between two looks, in seconds."""


@pytest.mark.parametrize(
    ("known", "now", "then"),
    [
        (Silence(0), 29.9, Step.NOTHING),
        (Silence(0), 30, Step.PING),
        (Silence(0, 30, 1), 44.9, Step.NOTHING),
        (Silence(0, 30, 1), 45, Step.PING),
        (Silence(0, 45, 2), 59.9, Step.NOTHING),
        (Silence(0, 45, 2), 60, Step.GONE),
    ],
)
def test_a_holder_is_pinged_twice_and_then_given_up(known, now, then):
    assert step(known, now, 30) is then


def test_an_answer_may_take_half_of_the_silence_before_a_ping():
    assert step(Silence(0, 2, 1), 2.9, 2) is Step.NOTHING
    assert step(Silence(0, 2, 1), 3, 2) is Step.PING


def test_an_item_of_a_dead_server_is_free_within_ninety_seconds():
    """A holder is first recorded at a check, and every step happens at one."""
    now = LOOK
    known = Silence(now)
    while (then := step(known, now, USUAL)) is not Step.GONE:
        if then is Step.PING:
            known = pinged(known, now)
        now += LOOK
    assert now <= 90


def test_an_answer_at_another_instance_is_noted_of_holders():
    change = PutRow(PingAnswer(ANN, NOW, NOW + REMEMBERED))
    asked = AnsweredElsewhere(ANN)
    assert answered_elsewhere(asked, AnsweredFacts(NOW, holds=True)).changes == (change,)
    assert answered_elsewhere(asked, AnsweredFacts(NOW, holds=False)) == Decision(Done())


AHEAD = NOW + REMEMBERED


@pytest.mark.parametrize(
    ("answered", "stays"),
    [(None, False), (99, False), (100, True), (AHEAD, True), (AHEAD + 1, False)],
)
def test_a_holder_that_answered_elsewhere_has_not_left(answered, stays):
    known = {"is_known": True, "answered": answered}
    decision = leave(Leave(ANN, unanswered=100), LeaveFacts(NOW, (), (), **known))
    assert (decision.changes == ()) is stays


# Changes of whether an address can be reached.


def test_its_window_is_counted_again_in_each_of_its_queues():
    facts = ReachFacts((window(ANN),))
    assert reach_changed(ReachChanged(ANN), facts) == Decision(Done(), (Recount(JOBS, ANN),))


def test_an_address_without_subscriptions_changes_nothing():
    assert reach_changed(ReachChanged(ANN), ReachFacts(())) == Decision(Done())
