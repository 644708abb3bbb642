"""Limits of a handler: retries, backoff, time, concurrency and which exceptions are retried, and the outcome of a failure.

The service counts failures across all workers and restarts: `item.failures`. So a limit on retries also holds for an
item that kills its worker each time. Releases do not count as failures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pubqueue_xeps.errors import PubqueueError
from pubqueue_xeps.wire.refusals import Outcome, Verdict, outcome_of
from pubqueue_xeps.wire.times import MAX_DELAY, Span, span

__all__ = ["Backoff", "Errors", "Limits", "TimeLimit"]

MAX_PAUSE: Final = 3600.0
"""The longest doubled pause, in seconds."""

Backoff = Span | Sequence[Span]
"""The pause before the first retry, doubled before each further one up to an hour; or a list of pauses, the last of
which repeats. Seconds or timedeltas."""

Errors = type[Exception] | Sequence[type[Exception]]
"""One class of exceptions, or several; subclasses belong to them."""


class TimeLimit(Exception):  # noqa: N818 - the name is stored as the reason with a dead item
    """A handler did not finish within its time limit."""

    def __init__(self, handler: str, seconds: float) -> None:
        super().__init__(f"{handler} did not finish within {seconds:g} s")


@dataclass(frozen=True, slots=True, init=False)
class Limits:
    """The limits of one handler; None sets no limit.

    retries: how often an item is retried after a failure before it is dead; the node's `max_failures` is the upper
    limit. backoff: the minimum pause before the next try; the node's own backoff is the lower limit. time_limit:
    seconds, or a timedelta. concurrency: how many items at a time. retry_on: the exceptions after which an item is
    retried; after any other it is dead at once. reject_on: those after which it is dead at once. Of two classes that an
    exception belongs to, the nearer one decides. Release, Failed and Reject do what they say, and a time limit that
    has passed or an error of this library, such as a service that is away, is retried unless reject_on has its class.
    """

    retries: int | None
    backoff: float | tuple[float, ...] | None
    time_limit: float | None
    concurrency: int | None
    retry_on: tuple[type[Exception], ...] | None
    reject_on: tuple[type[Exception], ...]

    def __init__(
        self,
        retries: int | None = None,
        backoff: Backoff | None = None,
        time_limit: Span | None = None,
        concurrency: int | None = None,
        *,
        retry_on: Errors | None = None,
        reject_on: Errors = (),
    ) -> None:
        put = object.__setattr__  # it is frozen
        put(self, "retries", whole("retries", retries, 0))
        put(self, "backoff", _pauses(backoff))
        put(self, "time_limit", None if time_limit is None else span("time_limit", time_limit))
        put(self, "concurrency", whole("concurrency", concurrency, 1))
        put(self, "retry_on", None if retry_on is None else _classes("retry_on", retry_on))
        put(self, "reject_on", _classes("reject_on", reject_on))
        if both := set(self.retry_on or ()) & set(self.reject_on):
            raise ValueError(f"{both.pop().__name__} is in retry_on and in reject_on.")
        if self.time_limit == 0:
            raise ValueError("A time limit must be more than 0 seconds.")

    def spent(self, failures: int) -> bool:
        """Return whether an item with this number of failures is retried no more."""
        return self.retries is not None and failures > self.retries

    def pause(self, failures: int) -> float | None:
        """Return how long an item waits after this number of failures, the latest one included; None: as the node decides."""
        if self.backoff is None:
            return None
        if isinstance(self.backoff, tuple):
            return self.backoff[min(failures, len(self.backoff)) - 1]
        doubled = self.backoff * 2.0 ** min(failures - 1, 40)
        return max(self.backoff, min(doubled, MAX_PAUSE))

    def retries_on(self, error: BaseException) -> bool:
        """Return whether an item is retried after this exception, however often it has failed."""
        for one in type(error).__mro__:
            if one in self.reject_on:
                return False
            if one in (self.retry_on or ()):
                return True
        return self.retry_on is None or isinstance(error, (TimeLimit, PubqueueError))

    def outcome(self, error: BaseException, failures: int) -> Outcome:
        """Return the outcome for an item that has failed `failures` times before and whose handler has now raised `error`.

        A delay given by the error outranks the backoff.
        """
        outcome = outcome_of(error)
        if outcome.type != "failed":
            return outcome
        if not (isinstance(error, Verdict) or self.retries_on(error)):
            return Outcome("reject", reason=f"{outcome.reason} (not retried)")
        if self.spent(failures + 1):
            return Outcome("reject", reason=f"{outcome.reason} ({tries(failures + 1)})")
        return replace(
            outcome, delay=self.pause(failures + 1) if outcome.delay is None else outcome.delay
        )


def tries(failures: int) -> str:
    """Return a phrase for a number of failures."""
    return "failed once" if failures == 1 else f"failed {failures} times"


def whole(name: str, value: object, least: int) -> int | None:
    """Return the number, or None for None; raise ValueError unless it is a whole number of `least` or more."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {value!r}; it takes a whole number, {least} or more")
    return value


def _classes(name: str, given: Errors) -> tuple[type[Exception], ...]:
    """Return the classes; raise TypeError for what is no exception of a failure."""
    found = given if isinstance(given, list | tuple) else (given,)
    for one in found:
        if not (isinstance(one, type) and issubclass(one, Exception)):
            raise TypeError(f"{name} is {given!r}; it takes classes of exceptions")
        if issubclass(one, Verdict):
            raise TypeError(
                f"{name} has {one.__name__}, which says itself what becomes of the item."
            )
    return tuple(found)


def _pauses(backoff: Backoff | None) -> float | tuple[float, ...] | None:
    if backoff is None:
        return None
    if not isinstance(backoff, list | tuple):
        return span("backoff", backoff, MAX_DELAY)
    if not backoff:
        raise ValueError("A backoff that is a list needs at least one pause.")
    return tuple(span("backoff", pause, MAX_DELAY) for pause in backoff)
