"""How much work of each node was done of late, and how much failed: what this process has committed itself, kept in memory alone.

Nobody counts the event log for it, which few nodes keep and which may be long. So another process on the same store
does not know of it, and after a start it begins anew.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

from pubqueue.core.changes import GiveUp, Release, RemoveItem
from pubqueue.core.queue.expire import Expire
from pubqueue.core.queue.settle import Outcome, Settle, Verb, holds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Decision
    from pubqueue.core.model import Millis, NodeName

SLOT: Final = 10_000
"""Milliseconds that are counted together."""

SLOTS: Final = 30
"""So many slots are looked back: five minutes."""

MAX_NODES: Final = 10_000
"""Nodes of which anything is kept: those in which work was done last."""

MINUTE: Final = 60_000

Slots = deque[list[int]]
"""Numbers of slots with counts, the oldest first."""


class Rates:
    """Counts items that their holders have retracted, and locks that ended badly."""

    def __init__(self) -> None:
        self._done: OrderedDict[NodeName, Slots] = OrderedDict()
        self._failed: OrderedDict[NodeName, Slots] = OrderedDict()
        self._since: int | None = None

    def note(self, now: Millis, requests: Iterable[Request], decisions: Sequence[Decision]) -> None:
        """Count what these decisions have finished; they are committed."""
        if self._since is None:
            self._since = now
        for request, decision in zip(requests, decisions, strict=True):
            if type(request) is Settle and decision.changes and request.verb is Verb.RETRACT:
                done = [
                    change
                    for change in decision.changes
                    if type(change) is RemoveItem and holds(request.by, change.item)
                ]
                if done:
                    _add(self._done, done[0].item.node, now // SLOT, len(done))
            elif decision.changes and _may_blame(request):
                self._note_failures(now // SLOT, decision)

    def _note_failures(self, slot: int, decision: Decision) -> None:
        failed: dict[NodeName, int] = {}
        for change in decision.changes:
            if isinstance(change, GiveUp | Release) and change.failed > change.item.failed:
                failed[change.item.node] = failed.get(change.item.node, 0) + 1
        for node, count in failed.items():
            _add(self._failed, node, slot, count)

    def per_minute(self, node: NodeName, now: Millis) -> float:
        """Return how many items of the node were done in a minute, over the last five, or since the first batch."""
        return self._of_late(self._done, node, now)

    def failed_per_minute(self, node: NodeName, now: Millis) -> float:
        """Return how many locks of the node ended badly in a minute, over the same time."""
        return self._of_late(self._failed, node, now)

    def _of_late(self, counts: OrderedDict[NodeName, Slots], node: NodeName, now: Millis) -> float:
        if self._since is None:
            return 0.0
        begin = max((now // SLOT - SLOTS) * SLOT, self._since)
        known = list(counts.get(node, ()))  # at once: who reads has another thread
        count = sum(n for slot, n in known if slot >= now // SLOT - SLOTS)
        return count * MINUTE / max(now - begin, MINUTE)


def _may_blame(request: Request) -> bool:
    """Say whether a lock that this ends may have ended badly."""
    if type(request) is Settle:
        return request.verb is Verb.UNLOCK and request.outcome is not Outcome.RELEASE
    return type(request) is Expire


def _add(counts: OrderedDict[NodeName, Slots], node: NodeName, slot: int, count: int) -> None:
    """Count so many more of a node."""
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
