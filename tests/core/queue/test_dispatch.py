"""Who gets the next item (XEP-0254 2.2)."""

from collections import Counter, deque

import pytest
from harness.batches.facts import ANN, BOB, EVE, NOW, after, queue, waiting, window
from msgspec.structs import replace

from pubqueue.core.changes import (
    Lock,
    Postpone,
)
from pubqueue.core.model import Jid
from pubqueue.core.queue.dispatch import dispatch, free


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


def test_items_go_out_in_the_order_given_with_rising_tokens():
    items = ready(3)
    changes = hand_out(items, [window(requests=3)], first_token=10)
    assert [(change.item, change.token) for change in changes] == list(
        zip(items, [10, 11, 12], strict=True)
    )


def test_nobody_gets_more_than_their_window():
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


def test_free_windows_are_counted_of_those_who_are_here():
    windows = [window(ANN, 5, in_flight=2), window(BOB, 4, available=False), window(EVE, 1)]
    assert free(windows) == 4


def test_the_least_loaded_is_next():
    windows = [window(ANN, 10, in_flight=4), window(BOB, 4, in_flight=1)]
    assert holders(hand_out(ready(1), windows)) == [BOB]


def test_of_equals_the_least_recently_served_is_next():
    windows = [window(ANN, last_served=8), window(BOB, last_served=5), window(EVE, last_served=9)]
    assert holders(hand_out(ready(3), windows)) == [BOB, ANN, EVE]


def test_a_wide_window_takes_its_share_and_starves_nobody():
    windows = [window(ANN, 6), window(BOB, 2)]
    assert Counter(holders(hand_out(ready(4), windows))) == {ANN: 3, BOB: 1}


def test_who_let_an_item_go_is_passed_over_while_anybody_else_has_room():
    item = waiting(avoid=ANN)
    windows = [window(ANN, 9), window(BOB, 9, in_flight=8)]
    assert hand_out([item], windows) == [Lock(item, BOB, 1, after(300), NOW)]


def test_who_was_passed_over_is_next_for_the_item_behind():
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


def test_after_the_pause_somebody_else_is_still_better():
    item = waiting(avoid=ANN, due=after(-1))
    assert holders(hand_out([item], [window(ANN, 9), window(BOB, 1)])) == [BOB]


def work(workers, count):
    """Hand out `count` items to workers who finish in the order in which they began."""
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
    """Return Jain's fairness index: 1 is perfect, 1/n is one who takes all."""
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


def test_no_more_goes_out_than_may_whoever_has_room():
    ready = [waiting(seq) for seq in range(1, 6)]
    for most, expected in ((0, []), (2, [1, 2]), (9, [1, 2, 3, 4, 5]), (None, [1, 2, 3, 4, 5])):
        made = dispatch(queue(), ready, [window(ANN, 9)], now=NOW, first_token=7, most=most)
        assert [change.item.seq for change in made] == expected
