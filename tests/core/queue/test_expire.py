"""What time and absence do to items (XEP-0254 4)."""

import pytest
from harness.batches.facts import ANN, BOB, JOBS, NOW, after, held, plain, queue, waiting, window
from msgspec.structs import replace

from pubqueue.core.changes import (
    EndSubscription,
    Forget,
    ForgetResource,
    GiveUp,
    HearOf,
    NoteResource,
    NoteUnanswered,
    Release,
    RemoveItem,
    Ripen,
    SetAvailable,
)
from pubqueue.core.decision import Decision, Done
from pubqueue.core.model import (
    Jid,
    Millis,
    NodeName,
    State,
    SubscriptionState,
    later,
    mark_of,
    seconds,
)
from pubqueue.core.notices import SubscriptionChanged, Unlocked
from pubqueue.core.queue.expire import (
    FORGOTTEN,
    MAX_RESOURCES,
    MAX_TIMEOUTS,
    TIMED_OUT,
    TOO_OLD,
    WORKER_LOST,
    Arrive,
    ArriveFacts,
    Bounce,
    BounceFacts,
    Departure,
    Expire,
    ExpireFacts,
    FreeLeftFacts,
    Leave,
    LeaveFacts,
    arrive,
    bounce,
    expire,
    free_left,
    leave,
    note_here,
)
from pubqueue.core.queue.give_back import Case, DeadLetterPlace

FORGETTING = Forget(NOW, FORGOTTEN)
DLQ = NodeName("jobs-dead")
OTHER = NodeName("other")
ACCOUNT = Jid("ann@x")


def run_out(*, ripe=(), locks=(), lives=()):
    return expire(Expire(), ExpireFacts(NOW, tuple(ripe), tuple(locks), tuple(lives)))


def failing(item, *, place=None, **config):
    """Return what becomes of an item whose lock has timed out."""
    decision = run_out(locks=[Case(item, queue(**config), place)])
    return decision.changes[0]


def test_without_anything_due_only_old_ids_are_forgotten():
    assert run_out() == Decision(Done(), (FORGETTING,))


def test_while_there_are_more_old_ids_another_step_follows():
    decision = expire(Expire(), ExpireFacts(NOW, (), (), (), more_to_forget=True))
    assert decision == Decision(Done(), (FORGETTING,), then=Expire())


def test_a_lock_that_runs_out_is_a_failure_and_its_holder_hears_of_it():
    item = held()
    expected = Decision(
        Done(),
        (Release(item, State.QUEUED, None, 1, 0, TIMED_OUT), FORGETTING),
        (Unlocked(ANN, JOBS, (item.id,)),),
    )
    assert run_out(locks=[Case(item, queue())]) == expected


@pytest.mark.parametrize(("failed", "pause"), [(0, 0), (1, 2), (2, 4), (3, 8), (4, 8), (15, 8)])
def test_the_first_failure_costs_no_pause_and_each_further_one_twice_the_last(failed, pause):
    change = failing(held(failed=failed), backoff_min=2, backoff_max=8)
    expected = (State.DELAYED, after(pause)) if pause else (State.QUEUED, None)
    assert (change.state, change.due, change.failed) == (*expected, failed + 1)


def test_the_last_failure_allowed_is_the_end():
    item = held(failed=2)
    assert failing(item, max_failures=3) == GiveUp(item, NOW, TIMED_OUT, 3, to=None)


def test_a_dead_item_moves_to_the_dead_letter_node():
    item = held()
    change = failing(item, place=DeadLetterPlace(DLQ, exists=True, taken=False), max_failures=1)
    assert change == GiveUp(item, NOW, TIMED_OUT, 1, to=DLQ)


@pytest.mark.parametrize(
    ("place", "obstacle"),
    [
        (DeadLetterPlace(DLQ, exists=False, taken=False), "it does not exist"),
        (DeadLetterPlace(DLQ, exists=True, taken=True), "it has this id"),
        (DeadLetterPlace(DLQ, exists=True, taken=False, room=0), "it is full"),
        (DeadLetterPlace(DLQ, exists=True, taken=False, refuses="paused"), "paused"),
        (DeadLetterPlace(JOBS, exists=True, taken=False), None),
    ],
    ids=["no such node", "its id is taken", "no room", "refused", "the node itself"],
)
def test_a_dead_item_that_cannot_move_stays_and_says_why(place, obstacle):
    item = held()
    why = f"{TIMED_OUT}; not moved to {DLQ}: {obstacle}" if obstacle else TIMED_OUT
    assert failing(item, place=place, max_failures=1) == GiveUp(item, NOW, why, 1, to=None)


def two_of_one_name(**lock):
    """Return items of two nodes with one id and one dead-letter node."""
    place = DeadLetterPlace(DLQ, exists=True, taken=False)
    first = held(1, **lock)
    second = replace(held(2, **lock), id=first.id, node=OTHER)
    return (
        Case(first, queue(max_failures=1), place),
        Case(second, queue(name=OTHER, max_failures=1), place),
    )


def test_of_two_items_with_one_id_that_die_together_one_has_the_place():
    moved, stays, _ = run_out(locks=two_of_one_name()).changes
    assert (moved.to, stays.to) == (DLQ, None)


def test_a_place_given_to_a_lost_lock_is_not_given_to_an_ended_life():
    locked, other = two_of_one_name()
    aged = Case(waiting(2, id=locked.item.id, node=OTHER), other.node, other.place)
    changes = run_out(locks=[locked], lives=[aged]).changes
    assert [change.to for change in changes if isinstance(change, GiveUp)] == [DLQ, None]


def test_two_items_with_one_id_whose_worker_leaves_share_no_place():
    decision = leave(Leave(ANN), LeaveFacts(NOW, two_of_one_name(), ()))
    assert [change.to for change in decision.changes] == [DLQ, None]


def test_an_item_whose_life_ended_is_dead_and_has_not_failed_for_it():
    item = waiting(failed=1, expires=after(-1))
    assert run_out(lives=[Case(item, queue())]).changes[0] == GiveUp(item, NOW, TOO_OLD, 1)


def test_an_item_of_a_plain_node_whose_life_ended_is_gone():
    # XEP-0060 16.4.4, item_expire: purged
    item = waiting(expires=after(-1))
    assert run_out(lives=[Case(item, plain())]).changes[0] == RemoveItem(item)


def test_an_item_that_ripens_and_is_too_old_dies():
    # A delayed item may be due for both; what it is believed to be must still be true.
    item = waiting(state=State.DELAYED, due=NOW, expires=NOW)
    other = waiting(2, state=State.DELAYED, due=NOW)
    changes = run_out(ripe=[item, other], lives=[Case(item, queue())]).changes
    assert changes == (GiveUp(item, NOW, TOO_OLD, 0), Ripen(other), FORGETTING)


def test_who_comes_back_is_handed_out_to_again():
    away = window(available=False)
    facts = ArriveFacts((away, replace(window(BOB), node=OTHER)), (ANN,))
    changes = (HearOf(ANN), SetAvailable(JOBS, ANN, available=True))
    assert arrive(Arrive(ANN), facts) == Decision(Done(), changes)


def test_who_comes_is_noted_once_and_an_account_is_no_resource():
    new = (NoteResource(ANN), HearOf(ANN))
    assert arrive(Arrive(ANN), ArriveFacts((), is_somebody=True)).changes == new
    assert arrive(Arrive(ANN), ArriveFacts((window(),))).changes == new
    again = arrive(Arrive(ANN), ArriveFacts((), (ANN,), is_somebody=True))
    assert again.changes == (HearOf(ANN),)
    assert arrive(Arrive(ACCOUNT), ArriveFacts((), is_somebody=True)).changes == ()


def test_of_a_stranger_nothing_is_kept():
    assert arrive(Arrive(ANN), ArriveFacts(())) == Decision(Done())


def test_of_one_account_only_so_many_resources_are_known():
    here = tuple(Jid(f"ann@x/{n}") for n in range(MAX_RESOURCES))
    facts = ArriveFacts((), here, is_somebody=True)
    new = Jid("ann@x/new")
    assert arrive(Arrive(new), facts).changes[:2] == (NoteResource(new), ForgetResource(here[0]))
    few = ArriveFacts((), here[1:], is_somebody=True)
    assert arrive(Arrive(new), few).changes == (NoteResource(new), HearOf(new))


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
def test_beyond_the_bound_those_who_came_first_go(came, known, noted, forgotten):
    here = tuple(Jid(f"ann@x/old{n}") for n in range(known))
    changes = [*note_here(came, here)]
    found = [one.jid for one in changes if isinstance(one, NoteResource)]
    assert found == (list(came[-MAX_RESOURCES:]) if noted is None else noted)
    gone = [one.jid for one in changes if isinstance(one, ForgetResource)]
    assert gone == list(here[:forgotten])


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

    def test_what_the_leaver_holds_is_free_and_nobody_is_told(self):
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


class TestReturn:
    """A delivery that came back (XEP-0060 12.4)."""

    def back(self, item=None, *, to=ANN, subscription=None, gone=False, heard_of=0, **said):
        case = None if item is None else Case(item, queue())
        mark = said.pop("mark", mark_of(f"subid-of-{to}"))
        said = {"bounced": True, "mark": mark} | said
        facts = BounceFacts(NOW, case, subscription, heard_of)
        return bounce(Bounce(Jid(to), 1, 7, gone, **said), facts)

    def test_the_item_is_free_and_nobody_is_to_blame(self):
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

    def test_an_address_that_is_no_more_ends_the_subscription_and_its_account_is_told(self):
        decision = self.back(held(), gone=True, subscription=window(), heard_of=7)
        assert decision.changes[1:] == (EndSubscription(JOBS, ANN),)
        none = SubscriptionState.NONE
        reported = SubscriptionChanged(Jid("ann@x"), JOBS, none, f"subid-of-{ANN}", about=Jid(ANN))
        assert decision.notices == (reported,)

    @pytest.mark.parametrize(("item", "heard_of"), [(None, 0), (held(), 8), (held(holder=BOB), 0)])
    def test_that_an_earlier_session_is_no_more_ends_nothing(self, item, heard_of):
        decision = self.back(item, gone=True, subscription=window(), heard_of=heard_of)
        assert [type(change) for change in decision.changes] in ([], [Release])
        assert decision.notices == ()

    @pytest.mark.parametrize("mark", ["", mark_of("subid-before")])
    @pytest.mark.parametrize("gone", [False, True])
    def test_what_went_out_under_another_subscription_is_nothing_to_this_one(self, mark, gone):
        item = held()
        decision = self.back(item, gone=gone, mark=mark, subscription=window())
        assert decision == Decision(Done(), (Release(item, State.QUEUED, None, 0, 1),))

    def test_what_could_not_be_sent_is_no_bounce(self):
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
    def test_what_passes_keeps_the_subscription_and_holds_it_back(
        self, requests, unanswered, pause
    ):
        # XEP-0060 12.4: count, and try again after some time
        known = window(requests=requests, unanswered=unanswered)
        decision = self.back(held(), subscription=known)
        until = later(NOW, seconds(pause))
        noted = NoteUnanswered(JOBS, ANN, unanswered + 1, silenced=False, until=until)
        assert decision.changes[1:] == (noted,)
        assert decision.notices == ()


class TestSilence:
    """Locks that time out in a row under one subscription."""

    def run_out(self, *items, holders):
        locks = tuple(Case(item, queue()) for item in items)
        decision = expire(Expire(), ExpireFacts(NOW, (), locks, (), holders))
        return [change for change in decision.changes if isinstance(change, NoteUnanswered)]

    def test_timeouts_are_counted_by_subscription(self):
        holders = window(ANN, 5), window(BOB, 5, unanswered=4)
        found = self.run_out(held(1), held(2), held(3, holder=BOB), holders=holders)
        assert found == [NoteUnanswered(JOBS, ANN, 2), NoteUnanswered(JOBS, BOB, 5)]

    def test_who_lets_a_window_full_and_more_time_out_gets_nothing_more(self):
        (last,) = self.run_out(held(), holders=[window(requests=5, unanswered=4 + MAX_TIMEOUTS)])
        assert last == NoteUnanswered(JOBS, ANN, 5 + MAX_TIMEOUTS)
        (one_more,) = self.run_out(
            held(), holders=[window(requests=5, unanswered=5 + MAX_TIMEOUTS)]
        )
        assert one_more == NoteUnanswered(JOBS, ANN, 6 + MAX_TIMEOUTS, silenced=True)

    def test_a_subscription_that_has_ended_is_not_counted(self):
        assert self.run_out(held(), holders=[]) == []

    def test_presence_sets_it_right(self):
        facts = ArriveFacts((window(unanswered=3),), (ANN,))
        changes = (HearOf(ANN), SetAvailable(JOBS, ANN, available=True))
        assert arrive(Arrive(ANN), facts) == Decision(Done(), changes)
