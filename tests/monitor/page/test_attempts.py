"""Who is wrong waits, for longer each time; who is elsewhere does not; and no number of addresses takes more room."""

import pytest

from pubqueue.monitor.page.attempts import FORGOTTEN, FREE, MANY, MAX_ADDRESSES, MAX_WAIT, Attempts

THERE, ELSEWHERE = "192.0.2.1", "192.0.2.2"


class Clock:
    now = 1_000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def attempts(clock):
    return Attempts(clock)


def wrong(attempts, address, times=1):
    for _ in range(times):
        attempts.was_wrong(address)
    return attempts.wait(address)


def test_some_are_free_then_each_costs_twice_as_much(attempts):
    assert wrong(attempts, THERE, FREE) == 0
    waits = [wrong(attempts, THERE) for _ in range(9)]
    assert waits == [1, 2, 4, 8, 16, 32, MAX_WAIT, MAX_WAIT, MAX_WAIT]
    assert attempts.wait(ELSEWHERE) == 0


def test_who_has_waited_may_try_again_and_after_a_quarter_of_an_hour_all_is_forgotten(
    attempts, clock
):
    assert wrong(attempts, THERE, FREE + 3) == 4
    clock.now += 4
    assert attempts.wait(THERE) == 0
    clock.now += FORGOTTEN + 1
    assert wrong(attempts, THERE, FREE) == 0


def test_where_many_are_wrong_in_all_the_first_costs_the_longest_and_who_was_not_wrong_is_let_in(
    attempts, clock
):
    for number in range(MANY):
        assert wrong(attempts, f"198.51.100.{number}") == 0
    assert wrong(attempts, THERE) == MAX_WAIT
    assert attempts.wait(ELSEWHERE) == 0
    clock.now += 60
    assert wrong(attempts, ELSEWHERE) == 0


def test_a_network_of_ipv6_counts_as_one(attempts):
    for number in range(FREE):
        attempts.was_wrong(f"2001:db8::{number:x}")
    assert wrong(attempts, "2001:db8::ffff") == 1
    assert attempts.wait("2001:db8::1:2") == 1
    assert attempts.wait("2001:db8:0:1::1") == 0
    assert wrong(attempts, f"::ffff:{THERE}", FREE + 1) == attempts.wait(THERE) == 1


def test_addresses_without_number_take_bounded_room(attempts):
    for number in range(MAX_ADDRESSES + 50):
        attempts.was_wrong(f"host {number}")
    assert len(attempts._known) == MAX_ADDRESSES
    assert attempts.wait("host 0") == 0
    assert attempts.wait(f"host {MAX_ADDRESSES + 49}") == MAX_WAIT
