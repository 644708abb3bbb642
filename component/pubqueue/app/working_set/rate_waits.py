"""Queues that may not deliver now because their rate is used up, each with the time to look at it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.model.entities import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.model.entities import Millis, NodeName


class RateWaits:
    """Times by node. Each process keeps its own: any process that can deliver a queue's items looks at it at that time."""

    def __init__(self) -> None:
        self._moments: dict[NodeName, Millis] = {}
        self._before: dict[NodeName, Millis] = {}

    def begin(self) -> None:
        """Begin a batch, which may be rolled back."""
        self._before = dict(self._moments)

    def undo(self) -> None:
        """Have every node looked at that was noted before or in the batch, which was rolled back."""
        self._moments = dict.fromkeys((*self._before, *self._moments), NO_TIME)

    def set(self, node: NodeName, moment: Millis) -> None:
        """Have the node looked at at that time."""
        self._moments[node] = moment

    def end(self, nodes: Iterable[NodeName]) -> None:
        """Forget these nodes: they are looked at when something happens there."""
        if self._moments:
            for node in nodes:
                self._moments.pop(node, None)

    def over(self, now: Millis) -> list[NodeName]:
        """Return the nodes whose time has come."""
        return [node for node, moment in self._moments.items() if moment <= now]

    def next(self) -> Millis | None:
        """Return when the next node is to be looked at."""
        return min(self._moments.values(), default=None)
