"""Wrong attempts make a peer wait longer each time, and do not affect others; memory is limited for any number of peers."""

import pytest

from pubqueue.accounts.accounts import (
    FORGOTTEN,
    FREE,
    FREE_NAMES,
    MANY,
    MAX_KNOWN,
    MAX_WAIT,
    Attempts,
    Count,
)

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


def test_attempts_are_allowed_after_a_wait_and_forgotten_after_a_quarter_of_an_hour(
    attempts, clock
):
    assert wrong(attempts, THERE, FREE + 3) == 4
    clock.now += 4
    assert attempts.wait(THERE) == 0
    clock.now += FORGOTTEN + 1
    assert wrong(attempts, THERE, FREE) == 0


def test_under_many_wrong_logins_the_first_address_waits_longest_and_others_log_in(attempts, clock):
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


def test_a_name_that_is_wrong_keeps_no_other_name_of_its_peer_waiting(attempts):
    for _ in range(20):
        attempts.was_wrong(THERE, "etl")
    assert attempts.wait(THERE, "etl") == MAX_WAIT
    assert attempts.wait(THERE, "anna") == attempts.wait(THERE) == 0


def test_a_peer_that_is_wrong_under_many_names_waits_under_all(attempts):
    for number in range(FREE_NAMES):
        attempts.was_wrong(THERE, f"name{number}")
    assert attempts.wait(THERE, "etl") == 0
    attempts.was_wrong(THERE, "one more")
    assert attempts.wait(THERE, "etl") == attempts.wait(THERE) == 1
    assert attempts.wait(ELSEWHERE, "etl") == 0


def test_peers_without_number_take_bounded_room(clock):
    count = Count(clock, FREE)
    for number in range(MAX_KNOWN + 50):
        count.was_wrong(f"host {number}")
    assert len(count._known) == MAX_KNOWN
    assert count.wait("host 0") == 0
    assert count.wait(f"host {MAX_KNOWN + 49}") == MAX_WAIT


def test_a_name_takes_as_much_room_as_the_longest_there_is(attempts):
    attempts.was_wrong(THERE, "x" * 100_000)
    for _ in range(FREE):
        attempts.was_wrong(THERE, "x" * 65)
    assert attempts.wait(THERE, "x" * 70) == 1
