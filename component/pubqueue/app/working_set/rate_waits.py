"""When queues are to be looked at again of which nothing more may be handed out at present, for their rate is used up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.core.model import NO_TIME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.core.model import Millis, NodeName


class RateWaits:
    """Moments by node. Each process keeps its own: whoever can hand out a queue's items looks at it when its time comes."""

    def __init__(self) -> None:
        self._moments: dict[NodeName, Millis] = {}
        self._before: dict[NodeName, Millis] = {}

    def begin(self) -> None:
        """Begin a batch, which may come to nothing."""
        self._before = dict(self._moments)

    def undo(self) -> None:
        """Have every node looked at that was noted before the batch, or in it: what was done came to nothing."""
        self._moments = dict.fromkeys((*self._before, *self._moments), NO_TIME)

    def set(self, node: NodeName, moment: Millis) -> None:
        """Have the node looked at then."""
        self._moments[node] = moment

    def end(self, nodes: Iterable[NodeName]) -> None:
        """Have these looked at only when something happens there."""
        if self._moments:
            for node in nodes:
                self._moments.pop(node, None)

    def over(self, now: Millis) -> list[NodeName]:
        """Return the nodes whose time has come."""
        return [node for node, moment in self._moments.items() if moment <= now]

    def next(self) -> Millis | None:
        """Return when the next one is to be looked at."""
        return min(self._moments.values(), default=None)
