"""Counts the workers' reports, and judges at the end whether anything was lost."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pubqueue_demo import report

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


@dataclass(slots=True)
class WorkerCount:
    """The counts of one worker, which may be several processes, one after another."""

    delivered: int = 0
    done: int = 0
    unlocked: int = 0
    lost_locks: int = 0


@dataclass(frozen=True, slots=True)
class Spread:
    """The median (`p50`) and the 99th percentile (`p99`), in seconds."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class Figures:
    """The result of a run."""

    published: int
    completed: int
    # Completed, but the confirmation did not reach the worker: it or the component was killed.
    unconfirmed: int
    redelivered: int
    duplicates: int
    remaining: int
    lost: int
    rate: float
    publish_to_delivery: Spread
    delivery_to_done: Spread
    minutes: int

    @property
    def good(self) -> bool:
        """Whether nothing was lost and every item was completed."""
        return self.lost == 0 and self.completed == self.published


@dataclass(slots=True)
class Tally:
    """The sum of all reports."""

    workers: dict[str, WorkerCount] = field(default_factory=dict)
    first_published: float = math.inf
    last_done: float = -math.inf
    redelivered: int = 0
    # the number of reports, to see whether anything happens
    lines: int = 0
    _results: Counter[str] = field(default_factory=Counter)
    _minutes: dict[str, int] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)
    _delivered_at: dict[tuple[str, str], float] = field(default_factory=dict)
    _waited: list[float] = field(default_factory=list)
    _took: list[float] = field(default_factory=list)

    @property
    def done(self) -> int:
        """How many items were retracted and confirmed."""
        return len(self._done)

    def add(self, worker: str, line: report.BotLine) -> None:
        """Count one report of this worker."""
        self.lines += 1
        count = self.workers.setdefault(worker, WorkerCount())
        match line:
            case report.Delivered():
                count.delivered += 1
                self._add_delivery(worker, line)
            case report.Result(id=item, minutes=minutes):
                self._results[item] += 1
                self._minutes[item] = minutes
            case report.Done(id=item, at=at):
                count.done += 1
                self._done.add(item)
                self._took.append(at - self._delivered_at[worker, item])
                self.last_done = max(self.last_done, at)
            case report.Unlocked():
                count.unlocked += 1
            case report.Lost():
                count.lost_locks += 1
            case _:
                pass  # reports of processes about themselves count nothing

    def figures(self, published: Collection[str], remaining: Collection[str]) -> Figures:
        """Judge the run: `published` are the confirmed items, `remaining` are in the queue.

        An item is lost if it was published, no worker has done it, and it is not in the queue.
        """
        ids, left = set(published), set(remaining)
        worked = ids & self._results.keys()
        completed = worked - left
        return Figures(
            published=len(ids),
            completed=len(completed),
            unconfirmed=len(completed - self._done),
            redelivered=self.redelivered,
            duplicates=self._results.total() - len(self._results),
            remaining=len(left),
            lost=len(ids - worked - left),
            rate=self._rate(len(completed)),
            publish_to_delivery=spread(self._waited),
            delivery_to_done=spread(self._took),
            minutes=sum(self._minutes[item] for item in completed),
        )

    def _add_delivery(self, worker: str, line: report.Delivered) -> None:
        self._delivered_at[worker, line.id] = line.at
        self.first_published = min(self.first_published, line.published)
        if line.attempt > 1:
            self.redelivered += 1
        else:
            # The age of a redelivered item depends on the lock timeout or the unlocking worker, not on the queue.
            self._waited.append(line.at - line.published)

    def _rate(self, completed: int) -> float:
        seconds = self.last_done - self.first_published
        return completed / seconds if seconds > 0 else 0.0


def spread(values: Sequence[float]) -> Spread:
    """Return the nearest-rank percentiles; not-a-number if there are no values."""
    if not values:
        return Spread(math.nan, math.nan)
    ranked = sorted(values)
    return Spread(*(ranked[math.ceil(len(ranked) * part) - 1] for part in (0.50, 0.99)))
