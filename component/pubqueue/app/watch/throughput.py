"""How many items of each node were done recently, and how many failed: only the commits of this process, kept in memory.

The event log is not counted for it, because few nodes keep one and it may be long. So another process on the same store does
not know these figures, and after a start they begin at 0.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Final

from pubqueue.app.watch.observers import Observer
from pubqueue.model.changes import GiveUp, Release, RemoveItem
from pubqueue.rules.expire import Expire
from pubqueue.rules.settle import Outcome, Settle, Verb, finishes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pubqueue.app.rules import Request
    from pubqueue.app.watch.watching import Took
    from pubqueue.model.decision import Decision
    from pubqueue.model.entities import Millis, NodeName
    from pubqueue.model.notices import Notice

SLOT: Final = 10_000
"""Milliseconds that are counted together."""

SLOTS: Final = 30
"""The number of slots that are added up: five minutes."""

MAX_NODES: Final = 10_000
"""Up to how many nodes are counted: those in which work was done last."""

MINUTE: Final = 60_000

Slots = deque[list[int]]
"""Numbers of slots with counts, the oldest first."""


class RatesObserver(Observer):
    """Counts commits, by this clock."""

    fault = "rates.failed"

    def __init__(self, rates: Rates, clock: Callable[[], Millis]) -> None:
        self._rates, self._clock = rates, clock

    def committed(
        self,
        requests: Sequence[Request],
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],  # noqa: ARG002  # only what was done counts
        took: Took,  # noqa: ARG002
    ) -> None:
        """Count finished work."""
        self._rates.note(self._clock(), requests, decisions)


class Rates:
    """Counts items that their holders have retracted, and locks that ended in a failure."""

    def __init__(self) -> None:
        self._done: OrderedDict[NodeName, Slots] = OrderedDict()
        self._failed: OrderedDict[NodeName, Slots] = OrderedDict()
        self._since: int | None = None

    def note(self, now: Millis, requests: Iterable[Request], decisions: Sequence[Decision]) -> None:
        """Count what these decisions have finished; they are committed."""
        if self._since is None:
            self._since = now
        done: defaultdict[NodeName, int] = defaultdict(int)
        failed: defaultdict[NodeName, int] = defaultdict(int)
        for request, decision in zip(requests, decisions, strict=True):
            if type(request) is Settle and request.verb is Verb.RETRACT:
                for change in decision.changes:
                    if type(change) is RemoveItem and finishes(request, change.item):
                        done[change.item.node] += 1
            elif type(request) is Expire or (
                type(request) is Settle and request.outcome is not Outcome.RELEASE
            ):
                for node in _of_failures(decision):
                    failed[node] += 1
        for kept, counts in ((self._done, done), (self._failed, failed)):
            for node, count in counts.items():
                _add(kept, node, now // SLOT, count)

    def per_minute(self, node: NodeName, now: Millis) -> float:
        """Return how many items of the node were done in a minute, over the last five, or since the first batch."""
        return self._of_late(self._done, node, now)

    def failed_per_minute(self, node: NodeName, now: Millis) -> float:
        """Return how many locks of the node ended in a failure in a minute, over the same time."""
        return self._of_late(self._failed, node, now)

    def _of_late(self, counts: OrderedDict[NodeName, Slots], node: NodeName, now: Millis) -> float:
        if self._since is None:
            return 0.0
        begin = max((now // SLOT - SLOTS) * SLOT, self._since)
        known = list(counts.get(node, ()))  # at once: the reader is in another thread
        count = sum(n for slot, n in known if slot >= now // SLOT - SLOTS)
        return count * MINUTE / max(now - begin, MINUTE)


def _of_failures(decision: Decision) -> Iterator[NodeName]:
    """Return the node of each lock that has ended in a failure."""
    for change in decision.changes:
        if isinstance(change, GiveUp | Release) and change.failed > change.item.failed:
            yield change.item.node


def _add(counts: OrderedDict[NodeName, Slots], node: NodeName, slot: int, count: int) -> None:
    """Add this many to the count of a node."""
    slots = counts.get(node)
    if slots is None:
        slots = counts[node] = deque(maxlen=SLOTS + 1)
        if len(counts) > MAX_NODES:
            counts.popitem(last=False)
    counts.move_to_end(node)
    if slots and slots[-1][0] >= slot:
        slots[-1][1] += count
    else:
        slots.append([slot, count])
