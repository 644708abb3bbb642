"""How much work of each node was done of late: what this process has committed itself, kept in memory alone.

Nobody counts the event log for it, which few nodes keep and which may be long. So another process on the same store
does not know of it, and after a start it begins anew.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Final

from pubqueue.core.changes import RemoveItem
from pubqueue.core.queue.settle import Settle, Verb, holds

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Decision
    from pubqueue.core.model import Millis, NodeName

SLOT: Final = 10_000
"""Milliseconds that are counted together."""

SLOTS: Final = 30
"""So many slots are looked back: five minutes."""

MOST_NODES: Final = 10_000
"""Nodes of which anything is kept: those in which work was done last."""

MINUTE: Final = 60_000

Slots = deque[list[int]]
"""Numbers of slots with counts, the oldest first."""


class Rates:
    """Counts items that their holders have retracted."""

    def __init__(self) -> None:
        self._done: OrderedDict[NodeName, Slots] = OrderedDict()
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
                    self._add(done[0].item.node, now // SLOT, len(done))

    def _add(self, node: NodeName, slot: int, count: int) -> None:
        slots = self._done.get(node)
        if slots is None:
            slots = self._done[node] = deque(maxlen=SLOTS + 1)
            if len(self._done) > MOST_NODES:
                self._done.popitem(last=False)
        self._done.move_to_end(node)
        if slots and slots[-1][0] >= slot:
            slots[-1][1] += count
        else:
            slots.append([slot, count])

    def per_minute(self, node: NodeName, now: Millis) -> float:
        """Return how many items of the node were done in a minute, over the last five, or since the first batch."""
        if self._since is None:
            return 0.0
        begin = max((now // SLOT - SLOTS) * SLOT, self._since)
        known = list(self._done.get(node, ()))  # at once: who reads has another thread
        count = sum(n for slot, n in known if slot >= now // SLOT - SLOTS)
        return count * MINUTE / max(now - begin, MINUTE)
