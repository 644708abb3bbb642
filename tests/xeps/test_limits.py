"""What a failure comes to by the limits of a handler."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue_xeps.errors import PubqueueError
from pubqueue_xeps.limits import Limits, TimeLimit
from pubqueue_xeps.wire.refusals import Failed, Outcome, Reject, Release

BOUND = Limits(retries=2, backoff=10)


@pytest.mark.parametrize(
    ("limits", "error", "failures", "outcome"),
    [
        (Limits(), ValueError("text"), 0, Outcome("failed", None, "ValueError")),
        (Limits(), ValueError("text"), 99, Outcome("failed", None, "ValueError")),
        (BOUND, ValueError("text"), 0, Outcome("failed", 10, "ValueError")),
        (BOUND, ValueError("text"), 1, Outcome("failed", 20, "ValueError")),
        (
            BOUND,
            ValueError("text"),
            2,
            Outcome("reject", reason="ValueError (failed 3 times)"),
        ),
        (Limits(retries=0), KeyError("k"), 0, Outcome("reject", reason="KeyError (failed once)")),
        (BOUND, TimeLimit("rebook", 3), 0, Outcome("failed", 10, "TimeLimit")),
        (BOUND, Failed("down"), 0, Outcome("failed", 10, "down")),
        (BOUND, Failed("down", 5), 0, Outcome("failed", 5, "down")),
        (BOUND, Failed("down", 5), 2, Outcome("reject", reason="down (failed 3 times)")),
        (BOUND, Release(60), 9, Outcome("release", 60)),
        (BOUND, Reject("no"), 0, Outcome("reject", reason="no")),
    ],
)
def test_what_a_failure_comes_to(limits, error, failures, outcome):
    assert limits.outcome(error, failures) == outcome


class BusyError(ConnectionError):
    """The service is busy, at which a connection is worth another try."""


class AwayError(PubqueueError):
    """The service is away."""


SOME = Limits(retry_on=ConnectionError)
BUT = Limits(reject_on=OSError)
BOTH = Limits(2, 10, retry_on=(OSError, BusyError), reject_on=[ConnectionError, LookupError])


@pytest.mark.parametrize(
    ("limits", "error", "is_retried"),
    [
        (SOME, ConnectionError(), True),
        (SOME, BusyError(), True),
        (SOME, OSError(), False),
        (SOME, ValueError(), False),
        (SOME, TimeLimit("rebook", 3), True),
        (SOME, AwayError(), True),
        (Limits(retry_on=()), ValueError(), False),
        (Limits(retry_on=()), AwayError(), True),
        (BUT, ValueError(), True),
        (BUT, ConnectionError(), False),
        (Limits(reject_on=(TimeLimit, PubqueueError)), TimeLimit("rebook", 3), False),
        (Limits(reject_on=(TimeLimit, PubqueueError)), AwayError(), False),
        (BOTH, OSError(), True),
        (BOTH, ConnectionError(), False),  # the nearer class decides
        (BOTH, BusyError(), True),
        (BOTH, KeyError(), False),
        (BOTH, ValueError(), False),
    ],
)
def test_which_exceptions_are_retried(limits, error, is_retried):
    assert limits.retries_on(error) == is_retried
    name = type(error).__name__
    rejected = Outcome("reject", reason=f"{name} (not retried)")
    retried = Outcome("failed", limits.pause(1), name)
    assert limits.outcome(error, 0) == (retried if is_retried else rejected)


def test_what_a_handler_decides_itself_holds_whatever_is_retried():
    limits = Limits(retry_on=(), reject_on=Exception)
    assert limits.outcome(Failed("down", 5), 0) == Outcome("failed", 5, "down")
    assert limits.outcome(Release(60), 0) == Outcome("release", 60)


def test_what_is_retried_is_so_as_often_as_it_may_be():
    assert BOTH.outcome(OSError(), 2) == Outcome("reject", reason="OSError (failed 3 times)")


@pytest.mark.parametrize(
    ("backoff", "pauses"),
    [
        (None, [None, None, None]),
        (0, [0, 0, 0]),
        (10, [10, 20, 40]),
        (3000, [3000, 3600, 3600]),
        (7200, [7200, 7200, 7200]),
        ((5, 30), [5, 30, 30]),
    ],
)
def test_how_long_an_item_waits(backoff, pauses):
    assert [Limits(backoff=backoff).pause(failures) for failures in (1, 2, 3)] == pauses


@given(st.floats(0, 1e9), st.integers(1, 10**6))
def test_no_pause_is_shorter_than_the_one_before(first, failures):
    limits = Limits(backoff=first)
    assert first <= limits.pause(failures) <= limits.pause(failures + 1)


@given(st.integers(0, 50), st.integers(0, 50))
def test_an_item_is_tried_as_often_as_it_may_be(retries, failures):
    limits = Limits(retries=retries)
    dead = limits.outcome(ValueError(), failures).type == "reject"
    assert dead == (failures >= retries)
    assert limits.spent(failures) == (failures > retries)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"retries": -1}, "retries is -1; it takes a whole number, 0 or more"),
        ({"retries": True}, "retries is True; it takes a whole number"),
        ({"retries": 1.5}, "retries is 1.5; it takes a whole number"),
        ({"time_limit": 0}, "must be more than 0 seconds"),
        ({"retry_on": "OSError"}, "retry_on is 'OSError'; it takes classes of exceptions"),
        (
            {"reject_on": [OSError()]},
            r"reject_on is \[OSError\(\)\]; it takes classes of exceptions",
        ),
        ({"retry_on": KeyboardInterrupt}, "it takes classes of exceptions"),
        (
            {"reject_on": (Failed,)},
            "reject_on has Failed, which says itself what becomes of the item",
        ),
        ({"retry_on": OSError, "reject_on": OSError}, "OSError is in retry_on and in reject_on"),
        (
            {"time_limit": float("nan")},
            "time_limit is nan; it takes seconds, 0 or more, or a timedelta",
        ),
        ({"time_limit": -1}, "time_limit is -1"),
        ({"time_limit": "30"}, "time_limit is '30'"),
        ({"time_limit": True}, "time_limit is True"),
        ({"time_limit": timedelta(seconds=-1)}, "time_limit is datetime.timedelta"),
        ({"concurrency": 0}, "concurrency is 0; it takes a whole number, 1 or more"),
        ({"backoff": ()}, "needs at least one pause"),
        ({"backoff": -1}, "backoff is -1; it takes seconds"),
        ({"backoff": "10"}, "backoff is '10'; it takes seconds"),
        ({"backoff": (1, float("inf"))}, "backoff is inf"),
    ],
)
def test_limits_that_are_none_are_refused_where_they_are_written(wrong, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        Limits(**wrong)


def test_times_may_be_timedeltas():
    minute = timedelta(minutes=1)
    assert Limits(time_limit=minute, backoff=minute) == Limits(time_limit=60, backoff=60)
    assert Limits(backoff=(1, minute)) == Limits(backoff=[1, 60])
