"""Notices to many that wait until the server takes them: a lane for each node, one message of each in turn.

A publish of 200 kB to a thousand subscribers is one text and a thousand addresses. It is made into messages only as
the socket takes them, so that nobody else's answer waits behind them, and no other node's news.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pubqueue.app.notify.backlog import Backlog

if TYPE_CHECKING:
    from collections.abc import Container

    from pubqueue.core.model import Jid, NodeName

_ADDRESS: Final = 8
"""Bytes for each addressee: a reference, should the audience be no other's as well."""


Own = Callable[["Jid"], "tuple[bytes, int] | None"]
"""Makes the text, with its white space, for an addressee who is not told the same as the others."""


class _Told:
    """One notice and its audience, of which those before `at` have been told."""

    __slots__ = ("at", "calls", "octets", "own", "text", "to", "white")

    def __init__(self, to: tuple[Jid, ...], text: bytes, white: int, own: Own | None) -> None:
        self.to = to
        self.text = text
        self.white = white
        self.own = own
        self.at = 0
        self.calls: list[Callable[[], None]] = []
        self.octets = len(text) + _ADDRESS * len(to)


class Lanes:
    """What waits, by node, in its order. `on_change` is that of its `Backlog`."""

    def __init__(self, on_change: Callable[[Container[NodeName] | None], None]) -> None:
        self._lanes: dict[NodeName, deque[_Told]] = {}
        self._backlog = Backlog(self._lanes.keys(), on_change)

    def __bool__(self) -> bool:
        """Say whether anything waits."""
        return bool(self._lanes)

    @property
    def octets(self) -> int:
        """How many bytes wait."""
        return self._backlog.octets

    def add(
        self, node: NodeName, to: tuple[Jid, ...], text: bytes, white: int, own: Own | None = None
    ) -> None:
        """Have the text told to each of these who has none of its `own`; so much white space follows it."""
        told = _Told(to, text, white, own)
        self._lanes.setdefault(node, deque()).append(told)
        self._backlog.count(told.octets)

    def has(self, node: NodeName) -> bool:
        """Say whether anything waits for the node."""
        return node in self._lanes

    def when_told(self, node: NodeName, call: Callable[[], None]) -> None:
        """Call when what waits for the node by now, which is something, is told or forgotten."""
        self._lanes[node][-1].calls.append(call)

    def next(self) -> tuple[Jid, bytes, int]:
        """Return the next addressee, with the text and its white space; the node's next turn comes last."""
        node = next(iter(self._lanes))
        lane = self._lanes.pop(node)
        told = lane[0]
        to = told.to[told.at]
        told.at += 1
        if told.at == len(told.to):
            lane.popleft()
            self._backlog.count(-told.octets)
        if lane:
            self._lanes[node] = lane
        if told.at == len(told.to):
            for call in told.calls:
                call()
        text, white = (told.own(to) if told.own else None) or (told.text, told.white)
        return to, text, white

    def clear(self) -> None:
        """Forget what waits: there is nobody to tell it to."""
        lanes = list(self._lanes.values())
        self._lanes.clear()
        self._backlog.count(-self.octets)
        for lane in lanes:
            for told in lane:
                for call in told.calls:
                    call()
