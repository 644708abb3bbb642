"""Which subscriber gets the next item (XEP-0254 2.2)."""

from collections import Counter, deque
from fractions import Fraction

import pytest
from harness.batches.facts import ANN, BOB, EVE, NOW, after, held, queue, waiting, window
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pubqueue.model.changes import Lock, Postpone
from pubqueue.model.entities import Jid, Millis, State
from pubqueue.rules.dispatch import (
    TOGETHER,
    TakeWindow,
    allowed,
    dispatch,
    free,
    free_again,
    in_line,
    keep_their_places,
    next_turns,
    spend,
)


def hand_out(items, windows, *, first_token=1, **config):
    return dispatch(queue(**config), items, windows, now=NOW, first_token=first_token)


def holders(changes):
    return [change.holder for change in changes if isinstance(change, Lock)]


def ready(count):
    return [waiting(seq) for seq in range(1, count + 1)]


def test_an_item_goes_out_under_a_new_token_until_its_deadline():
    item = waiting(token=3)
    expected = [Lock(item, ANN, 41, after(120), NOW)]
    assert hand_out([item], [window()], first_token=41, lock_timeout=120) == expected


def test_a_subscriber_may_have_a_shorter_lock_timeout_and_no_longer_one():
    windows = [window(ANN, lock_timeout=9), window(BOB), window(EVE, lock_timeout=999)]
    changes = hand_out(ready(3), windows, lock_timeout=120)
    assert {change.holder: change.deadline for change in changes} == {
        ANN: after(9),
        BOB: after(120),
        EVE: after(120),
    }


def test_items_go_out_in_the_order_given_with_rising_tokens():
    items = ready(3)
    changes = hand_out(items, [window(requests=3)], first_token=10)
    assert [(change.item, change.token) for change in changes] == list(
        zip(items, [10, 11, 12], strict=True)
    )


def test_no_subscriber_gets_more_than_its_window():
    windows = [window(ANN, 2), window(BOB, 3, in_flight=1)]
    assert Counter(holders(hand_out(ready(10), windows))) == {ANN: 2, BOB: 2}


@pytest.mark.parametrize(
    "windows",
    [
        [],
        [window(in_flight=1)],
        [window(requests=1, in_flight=5)],  # lowered while items were out
        [window(requests=9, available=False)],
    ],
    ids=["nobody", "full", "lowered", "away"],
)
def test_without_a_free_window_items_wait(windows):
    assert hand_out(ready(2), windows) == []
    assert free(windows) == 0


def test_free_windows_of_available_workers_are_counted():
    windows = [window(ANN, 5, in_flight=2), window(BOB, 4, available=False), window(EVE, 1)]
    assert free(windows) == 4


def test_the_least_loaded_is_next():
    windows = [window(ANN, 10, in_flight=4), window(BOB, 4, in_flight=1)]
    assert holders(hand_out(ready(1), windows)) == [BOB]


def test_the_least_recently_served_of_equal_subscribers_is_next():
    windows = [window(ANN, last_served=8), window(BOB, last_served=5), window(EVE, last_served=9)]
    assert holders(hand_out(ready(3), windows)) == [BOB, ANN, EVE]


def test_a_wide_window_takes_its_share_only():
    windows = [window(ANN, 6), window(BOB, 2)]
    assert Counter(holders(hand_out(ready(4), windows))) == {ANN: 3, BOB: 1}


def test_a_subscriber_that_released_an_item_is_skipped_while_others_have_room():
    item = waiting(avoid=ANN)
    windows = [window(ANN, 9), window(BOB, 9, in_flight=8)]
    assert hand_out([item], windows) == [Lock(item, BOB, 1, after(300), NOW)]


def test_a_skipped_subscriber_is_next_for_the_following_item():
    windows = [window(ANN, 1), window(BOB, 1)]
    items = [waiting(1, avoid=ANN), waiting(2)]
    assert holders(hand_out(items, windows)) == [BOB, ANN]


@pytest.mark.parametrize(
    ("released", "failed", "pause"), [(0, 0, 2), (1, 0, 2), (2, 0, 4), (1, 1, 4), (9, 9, 8)]
)
def test_alone_the_unlocker_waits_a_growing_pause(released, failed, pause):
    item = waiting(avoid=ANN, released=released, failed=failed)
    changes = hand_out([item], [window()], backoff_min=2, backoff_max=8)
    assert changes == [Postpone(item, after(pause))]


def test_the_items_behind_do_not_wait_with_it():
    avoided, behind = waiting(1, avoid=ANN), waiting(2)
    changes = hand_out([avoided, behind], [window()])
    assert changes == [Postpone(avoided, after(1)), Lock(behind, ANN, 1, after(300), NOW)]


def test_a_full_window_of_another_is_no_room():
    item = waiting(avoid=ANN)
    windows = [window(ANN), window(BOB, in_flight=1)]
    assert hand_out([item], windows) == [Postpone(item, after(1))]


def test_after_the_pause_even_the_avoided_one_will_do():
    item = waiting(avoid=ANN, due=after(-1))
    assert hand_out([item], [window()]) == [Lock(item, ANN, 1, after(300), NOW)]


def test_after_the_pause_another_worker_is_still_preferred():
    item = waiting(avoid=ANN, due=after(-1))
    assert holders(hand_out([item], [window(ANN, 9), window(BOB, 1)])) == [BOB]


def work(workers, count):
    """Deliver `count` items to workers that finish in the order in which they began."""
    windows = {worker.jid: worker for worker in workers}
    out, given, token = deque(), Counter(), 1
    for seq in range(count):
        if not free(list(windows.values())):
            done = out.popleft()
            windows[done] = replace(windows[done], in_flight=windows[done].in_flight - 1)
        (lock,) = hand_out([waiting(seq)], list(windows.values()), first_token=token)
        assert isinstance(lock, Lock)
        served = windows[lock.holder]
        windows[lock.holder] = replace(
            served, in_flight=served.in_flight + 1, last_served=lock.token
        )
        out.append(lock.holder)
        given[lock.holder] += 1
        token += 1
    return given


def jain(shares):
    """Return Jain's fairness index: 1 is perfect, 1/n means that one worker gets all."""
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))


@pytest.mark.parametrize("requests", [1, 7])
def test_equal_workers_have_equal_shares_of_ten_thousand_items(requests):
    workers = [window(Jid(f"w{number}@x/1"), requests) for number in range(8)]
    given = work(workers, 10_000)
    assert len(given) == 8
    assert jain(list(given.values())) >= 0.99


def test_a_narrow_window_beside_wide_ones_never_starves():
    workers = [window(ANN, 100), window(BOB, 100), window(EVE, 1)]
    given = work(workers, 4_000)
    assert given[EVE] >= 4_000 / 201 * 0.9


def test_no_more_goes_out_than_the_limit_even_with_room():
    ready = [waiting(seq) for seq in range(1, 6)]
    for most, expected in ((0, []), (2, [1, 2]), (9, [1, 2, 3, 4, 5]), (None, [1, 2, 3, 4, 5])):
        made = dispatch(queue(), ready, [window(ANN, 9)], now=NOW, first_token=7, most=most)
        assert [change.item.seq for change in made] == expected


class TestLargeItems:
    """A subscriber that cannot have an item is skipped for it, and gets the following one."""

    def go(self, items, windows, carriers, **more):
        given = dispatch(queue(), items, windows, now=NOW, first_token=1, carriers=carriers, **more)
        return [(change.item.seq, change.holder) for change in given if type(change) is Lock]

    def test_an_item_goes_to_the_next_possible_subscriber(self):
        windows = [window(ANN, 9), window(BOB, 9), window(EVE, 9)]
        found = self.go(ready(3), windows, {1: {BOB, EVE}, 2: {ANN}})
        assert found == [(1, BOB), (2, ANN), (3, EVE)]

    def test_later_items_do_not_wait_for_an_item_without_possible_subscriber(self):
        windows = [window(ANN, 1)]
        assert self.go(ready(3), windows, {1: set(), 2: {BOB}}) == [(3, ANN)]

    def test_an_item_waits_for_room_while_others_have_some(self):
        windows = [window(ANN, 3), window(BOB, 1)]
        assert self.go(ready(4), windows, {1: {BOB}, 2: {BOB}}) == [(1, BOB), (3, ANN), (4, ANN)]

    def test_the_line_is_the_same_for_what_everybody_can_have(self):
        windows = [window(ANN, 4), window(BOB, 4)]
        with_large = self.go(ready(6), windows, {3: {ANN, BOB}})
        assert with_large == self.go(ready(6), windows, {})

    def test_an_item_that_avoids_its_only_worker_is_put_aside(self):
        item = waiting(avoid=ANN)
        changes = dispatch(
            *(queue(), [item], [window(ANN, 1), window(BOB, 1)]),
            now=NOW,
            first_token=1,
            carriers={1: {ANN}},
        )
        assert [type(change) for change in changes] == [Postpone]


def asks(number, jid=EVE, *, held=0, window=10, room=1, last_served=0):
    """A take of an account that holds this many items, with this much room."""
    return TakeWindow(number, Jid(jid), held, window, held + room, last_served)


def given_to(items, windows, takes):
    """Return the receiver of each item, with the number of the take."""
    made = dispatch(queue(), items, windows, now=NOW, first_token=1, takes=takes)
    return [(change.holder, change.take) for change in made if isinstance(change, Lock)]


def test_a_take_stands_in_the_line_with_what_its_account_holds():
    windows = [window(ANN, 10, in_flight=4), window(BOB, 10, in_flight=6)]
    assert given_to(ready(1), windows, [asks(7, held=5)]) == [(ANN, 0)]
    assert given_to(ready(1), windows, [asks(7, held=3)]) == [(EVE, 7)]
    assert given_to(ready(3), windows, [asks(7, held=5)]) == [(ANN, 0), (EVE, 7), (ANN, 0)]


def test_among_equals_a_take_comes_after_those_that_were_served_before_it_asked():
    windows = [window(ANN, 10, last_served=5), window(BOB, 10, last_served=9)]
    assert given_to(ready(2), windows, [asks(7, last_served=8)]) == [(ANN, 0), (EVE, 7)]


def test_a_take_gets_as_many_as_it_has_room_for():
    assert given_to(ready(5), [], [asks(7, room=3)]) == [(EVE, 7)] * 3


def test_takes_of_one_address_are_distinguished():
    assert given_to(ready(9), [], [asks(7, room=2), asks(8, held=2)]) == [
        (EVE, 7),
        (EVE, 7),
        (EVE, 8),
    ]


def test_an_item_that_avoids_an_address_passes_all_its_takes():
    takes = [asks(7), asks(8, held=1), asks(9, BOB, held=5)]
    avoiding = waiting(avoid=EVE, released=1)
    assert given_to([avoiding], [], takes) == [(BOB, 9)]
    assert given_to([avoiding], [], takes[:2]) == []
    ripe = replace(avoiding, due=NOW)
    assert given_to([ripe, waiting(2)], [], takes[:2]) == [(EVE, 7), (EVE, 8)]


def test_a_take_gets_no_more_items_once_they_have_so_many_bytes():
    sized = [replace(item, size=60) for item in ready(4)]
    one = replace(asks(7, room=9), bytes=100)
    assert given_to(sized, [], [one]) == [(EVE, 7)] * 2, "the last one may exceed it"
    assert given_to(sized, [], [one, asks(8, BOB, held=5)]) == [(EVE, 7), (EVE, 7), (BOB, 8)]


def test_the_locks_of_a_take_have_its_lock_time_up_to_the_longest_of_the_node():
    until = []
    for span in (None, 5_000, 400_000, 10**9):
        one = replace(asks(7), span=span)
        node = queue(lock_timeout=300, lock_longest=500)
        (lock,) = dispatch(node, ready(1), [], now=NOW, first_token=1, takes=[one])
        until.append(lock.deadline - NOW)
    assert until == [300_000, 5_000, 400_000, 500_000]


# Turns in a group.


def of(seq, **facts):
    return waiting(seq, group="g", **facts)


def test_in_line_is_what_waits_for_a_turn():
    delayed = {"state": State.DELAYED, "due": NOW}
    lines = {
        "it waits": of(1),
        "it is of no group": waiting(1),
        "it has its turn": of(1, turn=9),
        "its publisher has delayed it": of(1, **delayed),
        "it is in work": held(1, group="g", turn=9),
        "it is dead": of(1, state=State.DEAD),
    }
    assert [why for why, item in lines.items() if in_line(item)] == ["it waits"]


def test_the_first_published_are_next_whatever_their_priority():
    line = [of(5, priority=9), of(3), of(4, priority=-1)]
    assert [item.seq for item in next_turns(2, 0, line)] == [3, 4]
    assert [item.seq for item in next_turns(4, 2, line)] == [3, 4]


def test_a_limit_that_was_lowered_takes_no_turn_away():
    assert next_turns(1, 3, [of(1)]) == []


@pytest.mark.parametrize(
    ("begin", "first_new", "kept"),
    [
        ((5, 6), 5, 2),
        ((6, 9), 5, 2),
        ((4, 5, 6), 5, 0),  # a new number for 4, and so for those after it
        ((4,), 5, 0),
        ((4, 5), 0, 0),  # the batch has published nothing
        ((), 5, 0),
    ],
)
def test_items_that_are_new_keep_their_places_unless_an_older_one_goes_before(
    begin, first_new, kept
):
    assert keep_their_places([of(seq) for seq in begin], first_new) == kept


@given(st.integers(1, 9), st.integers(0, 12), st.lists(st.integers(1, 99), unique=True))
def test_never_more_than_the_limit_and_no_wait_in_vain(limit, turns, seqs):
    found = [item.seq for item in next_turns(limit, turns, [of(seq) for seq in seqs])]
    assert found == sorted(seqs)[: len(found)]
    assert turns + len(found) <= max(limit, turns)
    assert len(found) == len(seqs) or turns + len(found) >= limit


# How many items may be delivered in which time.


def node(rate, spent=0):
    return replace(queue(rate=rate), spent=spent)


def take(one, now, count):
    return replace(one, spent=spend(one, now, count))


def test_without_a_rate_any_number_goes():
    assert allowed(node(None), NOW) is None
    assert spend(node(None), NOW, 7) == 0


@pytest.mark.parametrize(
    ("rate", "at_once"), [(5, 5), (1, 1), (2.5, 2), (0.1, 1), (100_000, 100_000)]
)
def test_after_a_long_time_it_is_worth_one_second_or_one_item(rate, at_once):
    assert allowed(node(rate), NOW) == at_once


def test_then_one_goes_each_time_that_one_is_free():
    one = take(node(4), NOW, 4)
    assert allowed(one, NOW) == 0
    assert free_again(one, NOW) == after(0.25)
    assert [allowed(one, after(moment)) for moment in (0.24, 0.25, 0.5, 0.99, 1, 60)] == [
        0,
        1,
        2,
        3,
        4,
        4,
    ]


def test_rates_below_one_per_second_deliver_one_by_one():
    one = take(node(0.1), NOW, 1)
    assert free_again(one, NOW) == after(10)
    assert [allowed(one, after(moment)) for moment in (9.999, 10, 60)] == [0, 1, 1]


def test_deliveries_that_become_free_within_a_moment_go_together():
    one = take(node(1000), NOW, 1000)
    assert free_again(one, NOW) == NOW + TOGETHER
    assert allowed(one, Millis(NOW + TOGETHER)) == 20


def test_a_clock_that_was_set_back_and_a_slower_rate_before_cost_one_second_at_most():
    for spent in (NOW * 1000 + 10**12, spend(node(0.001), NOW, 1)):
        assert free_again(node(10, spent), NOW) == after(0.1)


RATES = st.one_of(st.integers(1, 2000).map(float), st.sampled_from([0.001, 0.5, 1.5, 33.3]))
STEPS = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 50)), max_size=60)


@given(RATES, STEPS)
def test_in_no_span_of_time_more_goes_than_the_rate_and_one_second(rate, steps):
    one, now, gone = node(rate), NOW, []
    for pause, wanted in steps:
        now = Millis(now + pause)
        count = min(wanted, allowed(one, now))
        one = take(one, now, count)
        gone.append((now, count))
    for first, (begin, _) in enumerate(gone):
        for last in range(first, len(gone)):
            span = Fraction(gone[last][0] - begin, 1000)
            most = Fraction(rate) * span + max(Fraction(rate), 1)
            assert sum(count for _, count in gone[first : last + 1]) <= most


@given(RATES, st.integers(1, 400))
def test_taking_all_free_deliveries_at_once_loses_no_time(rate, rounds):
    """In the long run exactly the rate is delivered, except for the pauses in which items are delivered together."""
    one, now, total = node(rate), NOW, 0
    for _ in range(rounds):
        count = allowed(one, now)
        total += count
        one = take(one, now, count)
        assert allowed(one, now) == 0
        now = free_again(one, now)
        assert allowed(one, now) >= 1
    spent = Fraction(now - NOW, 1000)
    assert total + rate * TOGETHER / 1000 + 1 >= Fraction(rate) * spent * Fraction(999, 1000)
