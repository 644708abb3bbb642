"""How often, how long and how many at a time: what bounds a handler, and what a failure comes to by that.

Failures are counted by the service, over all workers and restarts: `item.failures`. So a bound on retries holds
also for an item that kills its worker each time. Releases do not count; they are nobody's fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pubqueue_xeps.outcome import LONGEST_DELAY, Outcome, outcome_of

LONGEST_PAUSE: Final = 3600.0
"""Seconds; no doubling pause grows beyond it."""

Backoff = float | Sequence[float]
"""Seconds before the first retry, doubled before each further one up to an hour; or the pause before each, the
last of which stays."""


class TimeLimit(Exception):  # noqa: N818 - the name is the reason that a dead item is kept with
    """A handler has not ended within its time limit."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"The handler has not ended within {seconds:g} seconds.")


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one handler; None is no bound of its own.

    retries: how often an item is tried again after a failure; then it is dead. The `max_failures` of the node stays
    the upper bound. backoff: how long the next try waits at least; the node's own backoff is the lower bound.
    time_limit: seconds. concurrency: how many items at a time.
    """

    retries: int | None = None
    backoff: Backoff | None = None
    time_limit: float | None = None
    concurrency: int | None = None

    def __post_init__(self) -> None:
        if self.retries is not None and self.retries < 0:
            raise ValueError(f"An item is tried again 0 times or more, not {self.retries}.")
        if self.time_limit is not None and not self.time_limit > 0:
            raise ValueError(f"A time limit is more than 0 seconds, not {self.time_limit}.")
        if self.concurrency is not None and self.concurrency < 1:
            raise ValueError(
                f"A handler takes one item at a time at least, not {self.concurrency}."
            )
        if isinstance(self.backoff, Sequence) and not self.backoff:
            raise ValueError("A backoff that lists its pauses lists one at least.")
        for pause in self.backoff if isinstance(self.backoff, Sequence) else [self.backoff or 0]:
            if not 0 <= pause <= LONGEST_DELAY:
                raise ValueError(f"A pause is a number of seconds from 0 up, not {pause}.")

    def spent(self, failures: int) -> bool:
        """Say whether an item that has failed so often is not to be tried again."""
        return self.retries is not None and failures > self.retries

    def pause(self, failures: int) -> float | None:
        """Return how long an item waits that has failed so often, this time included; None: as the node says."""
        if self.backoff is None:
            return None
        if isinstance(self.backoff, Sequence):
            return self.backoff[min(failures, len(self.backoff)) - 1]
        doubled = self.backoff * 2.0 ** min(failures - 1, 40)
        return max(self.backoff, min(doubled, LONGEST_PAUSE))

    def outcome(self, error: BaseException, failures: int) -> Outcome:
        """Return what becomes of an item that has failed so often before, and whose handler raised `error` now.

        A delay that the error asks for outranks the backoff.
        """
        said = outcome_of(error)
        if said.type != "failed":
            return said
        if self.spent(failures + 1):
            return Outcome("reject", reason=f"{said.reason} ({tries(failures + 1)})")
        return replace(said, delay=self.pause(failures + 1) if said.delay is None else said.delay)


def tries(failures: int) -> str:
    """Say how often something has failed."""
    return "failed once" if failures == 1 else f"failed {failures} times"
