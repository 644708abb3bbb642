"""Subscribers that get no deliveries for a while, because deliveries to them bounced.

Each process keeps its own, in memory: after a restart one more delivery may come back.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from pubqueue.model.entities import NO_TIME, later, seconds
from pubqueue.rules.presence import MAX_PAUSE

if TYPE_CHECKING:
    from collections.abc import Collection

    from pubqueue.model.entities import Jid, Millis, NodeName


class HeldBack:
    """Subscribers by node, each with the time until which it waits; no more of them than there are subscriptions."""

    def __init__(self) -> None:
        self._of: dict[NodeName, dict[Jid, Millis]] = {}
        self._line: list[tuple[Millis, NodeName, Jid]] = []
        """The times, the next first; an outdated entry is skipped when its time comes."""

    def set(self, node: NodeName, jid: Jid, until: Millis) -> None:
        """Hold the subscriber back until then."""
        self._of.setdefault(node, {})[jid] = until
        heapq.heappush(self._line, (until, node, jid))

    def end(self, node: NodeName, jid: Jid) -> bool:
        """Stop holding the subscriber back; return whether it was held back."""
        of = self._of.get(node)
        if of is None or of.pop(jid, None) is None:
            return False
        if not of:
            del self._of[node]
        return True

    def undo(self) -> None:
        """Let all subscribers be tried at the next look: the batch was rolled back."""
        everybody = [(node, jid) for node, of in self._of.items() for jid in of]
        self._of, self._line = {}, []
        for node, jid in everybody:
            self.set(node, jid, NO_TIME)

    def anybody_of(self, node: NodeName) -> bool:
        """Return whether a subscriber of the node is held back."""
        return node in self._of

    def holds(self, node: NodeName, jid: Jid) -> bool:
        """Return whether this subscriber of the node is held back."""
        return jid in self._of.get(node, ())

    def over(self, now: Millis) -> Collection[NodeName]:
        """Remove subscribers whose time is over and return their nodes. A time too far ahead is from a clock that was set back."""
        nodes: set[NodeName] = set()
        farthest = later(now, seconds(MAX_PAUSE))
        while self._line and not now < self._line[0][0] <= farthest:
            until, node, jid = heapq.heappop(self._line)
            if self._of.get(node, {}).get(jid) == until and self.end(node, jid):
                nodes.add(node)
        return nodes

    def next(self) -> Millis | None:
        """Return when the time of the next one is over."""
        return self._line[0][0] if self._line else None
