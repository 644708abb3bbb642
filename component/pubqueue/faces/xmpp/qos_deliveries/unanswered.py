"""The unanswered deliveries of this instance, by holder.

Only the oldest delivery of a holder is repeated; the others wait for its outcome. Payloads are not kept.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pubqueue.model.entities import Jid, Level, Millis
    from pubqueue.rules.deliveries import Step

MAX: Final = 200_000
"""Maximum number of watched deliveries. Further ones are sent once, and their locks time out if there is no answer."""

FAR: Final = 1e12
"""The time of a delivery during a query to the store: it is not due."""


class Sent(Struct):
    """A delivery with an unanswered step. Times are in seconds of one clock."""

    to: Jid
    seq: int
    token: int
    level: Level
    step: Step
    deadline: Millis | None
    mark: str
    due: float
    sendings: int = 1


class UnansweredDeliveries:
    """Watches up to `MAX` deliveries; a holder without any uses no memory."""

    def __init__(self) -> None:
        self._of: dict[Jid, dict[int, Sent]] = {}
        self._count = 0
        self._line: list[tuple[float, Jid]] = []
        self.stalled: set[Jid] = set()
        """Holders whose oldest delivery was repeated and is still unanswered; they get no new deliveries."""

    def __len__(self) -> int:
        """Return the number of unanswered deliveries."""
        return self._count

    def add(self, sent: Sent) -> None:
        """Watch a delivery, as the newest of its holder; it replaces an earlier one of the item."""
        if (before := self.of_item(sent.to, sent.seq)) is not None:
            self.drop(before)
        if self._count >= MAX:
            return
        mine = self._of.setdefault(sent.to, {})
        mine[sent.seq] = sent
        self._count += 1
        if len(mine) == 1:
            self._put(sent)

    def of_item(self, to: Jid, seq: int) -> Sent | None:
        """Return the delivery of an item."""
        return self._of.get(to, {}).get(seq)

    def find(self, to: Jid, seq: int, token: int) -> Sent | None:
        """Return the delivery to exactly this address with exactly this token."""
        found = self.of_item(to, seq)
        return found if found is not None and found.token == token else None

    def of(self, to: Jid) -> list[Sent]:
        """Return the deliveries of a holder, the oldest first."""
        return list(self._of.get(to, {}).values())

    def drop(self, sent: Sent) -> None:
        """Stop watching a delivery; the next one of its holder becomes the oldest."""
        mine = self._of.get(sent.to, {})
        if mine.get(sent.seq) is not sent:
            return
        was_first = self._first(sent.to) is sent
        del mine[sent.seq]
        self._count -= 1
        if not mine:
            del self._of[sent.to]
        if was_first:
            self._look_at_first(sent.to)

    def put_off(self, sent: Sent, due: float) -> None:
        """Change the due time of a delivery."""
        sent.due = due
        if self._first(sent.to) is sent:
            self._look_at_first(sent.to)

    def _look_at_first(self, to: Jid) -> None:
        first = self._first(to)
        if first is not None:
            self._put(first)
        if first is not None and first.sendings > 1:
            self.stalled.add(to)
        else:
            self.stalled.discard(to)

    def over(self, now: float) -> Iterator[Sent]:
        """Return each holder's oldest delivery that is due; it is not due again until `put_off`."""
        while self._line and self._line[0][0] <= now:
            due, to = heapq.heappop(self._line)
            first = self._first(to)
            if first is not None and first.due == due:
                first.due = FAR
                yield first

    def next(self) -> float | None:
        """Return the time when the next delivery is due."""
        while self._line:
            due, to = self._line[0]
            first = self._first(to)
            if first is not None and first.due == due:
                return due
            heapq.heappop(self._line)
        return None

    def _first(self, to: Jid) -> Sent | None:
        return next(iter(self._of.get(to, {}).values()), None)

    def _put(self, sent: Sent) -> None:
        if sent.due < FAR:
            heapq.heappush(self._line, (sent.due, sent.to))
