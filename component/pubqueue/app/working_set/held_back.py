"""To whom nothing is handed for a while, because deliveries have come back from there.

Each process keeps its own, in memory: after a restart one more delivery may come back.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from pubqueue.core.model import NO_TIME, later, seconds
from pubqueue.core.queue.expire import MAX_PAUSE

if TYPE_CHECKING:
    from collections.abc import Collection

    from pubqueue.core.model import Jid, Millis, NodeName


class HeldBack:
    """Subscribers by node, each with the moment until which it waits; no more of them than there are subscriptions."""

    def __init__(self) -> None:
        self._of: dict[NodeName, dict[Jid, Millis]] = {}
        self._line: list[tuple[Millis, NodeName, Jid]] = []
        """The moments, the first at the front; one that does not hold any more is passed over when it comes."""

    def set(self, node: NodeName, jid: Jid, until: Millis) -> None:
        """Hold the subscriber back until then."""
        self._of.setdefault(node, {})[jid] = until
        heapq.heappush(self._line, (until, node, jid))

    def end(self, node: NodeName, jid: Jid) -> bool:
        """Hold it back no more; say whether it was."""
        of = self._of.get(node)
        if of is None or of.pop(jid, None) is None:
            return False
        if not of:
            del self._of[node]
        return True

    def undo(self) -> None:
        """Let everybody be tried at the next look: what was done came to nothing."""
        everybody = [(node, jid) for node, of in self._of.items() for jid in of]
        self._of, self._line = {}, []
        for node, jid in everybody:
            self.set(node, jid, NO_TIME)

    def anybody_of(self, node: NodeName) -> bool:
        """Say whether a subscriber of the node is held back."""
        return node in self._of

    def holds(self, node: NodeName, jid: Jid) -> bool:
        """Say whether this subscriber of the node is held back."""
        return jid in self._of.get(node, ())

    def over(self, now: Millis) -> Collection[NodeName]:
        """Let go whose time is over, and return the nodes. A moment too far ahead is of a clock that was set back."""
        nodes: set[NodeName] = set()
        farthest = later(now, seconds(MAX_PAUSE))
        while self._line and not now < self._line[0][0] <= farthest:
            until, node, jid = heapq.heappop(self._line)
            if self._of.get(node, {}).get(jid) == until and self.end(node, jid):
                nodes.add(node)
        return nodes

    def next(self) -> Millis | None:
        """Return when the next one is let go."""
        return self._line[0][0] if self._line else None
