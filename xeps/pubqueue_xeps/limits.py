"""Limits of a handler: retries, backoff, time and concurrency, and the outcome of a failure.

The service counts failures across all workers and restarts: `item.failures`. So a limit on retries also holds for an
item that kills its worker each time. Releases do not count as failures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pubqueue_xeps.wire.refusals import Outcome, outcome_of
from pubqueue_xeps.wire.times import MAX_DELAY, Span, span

__all__ = ["Backoff", "Limits", "TimeLimit"]

MAX_PAUSE: Final = 3600.0
"""The longest doubled pause, in seconds."""

Backoff = Span | Sequence[Span]
"""The pause before the first retry, doubled before each further one up to an hour; or a list of pauses, the last of
which repeats. Seconds or timedeltas."""


class TimeLimit(Exception):  # noqa: N818 - the name is stored as the reason with a dead item
    """A handler did not finish within its time limit."""

    def __init__(self, handler: str, seconds: float) -> None:
        super().__init__(f"{handler} did not finish within {seconds:g} s")


@dataclass(frozen=True, slots=True, init=False)
class Limits:
    """The limits of one handler; None sets no limit.

    retries: how often an item is retried after a failure before it is dead; the node's `max_failures` is the upper
    limit. backoff: the minimum pause before the next try; the node's own backoff is the lower limit. time_limit:
    seconds, or a timedelta. concurrency: how many items at a time.
    """

    retries: int | None
    backoff: float | tuple[float, ...] | None
    time_limit: float | None
    concurrency: int | None

    def __init__(
        self,
        retries: int | None = None,
        backoff: Backoff | None = None,
        time_limit: Span | None = None,
        concurrency: int | None = None,
    ) -> None:
        put = object.__setattr__  # it is frozen
        put(self, "retries", whole("retries", retries, 0))
        put(self, "backoff", _pauses(backoff))
        put(self, "time_limit", None if time_limit is None else span("time_limit", time_limit))
        put(self, "concurrency", whole("concurrency", concurrency, 1))
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

    def outcome(self, error: BaseException, failures: int) -> Outcome:
        """Return the outcome for an item that has failed `failures` times before and whose handler has now raised `error`.

        A delay given by the error outranks the backoff.
        """
        outcome = outcome_of(error)
        if outcome.type != "failed":
            return outcome
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


def _pauses(backoff: Backoff | None) -> float | tuple[float, ...] | None:
    if backoff is None:
        return None
    if not isinstance(backoff, list | tuple):
        return span("backoff", backoff, MAX_DELAY)
    if not backoff:
        raise ValueError("A backoff that is a list needs at least one pause.")
    return tuple(span("backoff", pause, MAX_DELAY) for pause in backoff)
