"""Who is next in a queue with very many subscribers, of whom only those are loaded whose turn may come.

They come from the store in pages, in the order of their turns. Who is not loaded stands behind the end of the last
page, and stays there: whoever changes is known from then on. So before anybody behind that end is handed anything,
the next page is loaded. An idle crowd of 10,000 costs a page for each thousand items that go out.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from pubqueue.core.after import has_room
from pubqueue.core.queue.dispatch import place

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.core.model import Jid, Subscription
    from pubqueue.core.queue.dispatch import Place

CROWD: Final = 1000
"""Subscribers from which on a node's are not loaded all at once."""

PAGE: Final = 1000
"""Subscribers that are loaded together: no fewer than the items that a batch hands out."""


class CrowdWindows:
    """As `FreeWindows`, of what is loaded by now. `page` returns so many with room behind a place, in their order."""

    def __init__(
        self,
        page: Callable[[Place | None, int], list[Subscription]],
        reaches: Callable[[Jid], bool],
    ) -> None:
        self._page = page
        self._reaches = reaches
        self._known: dict[Jid, Subscription | None] = {}
        self._rooms: dict[Jid, int] = {}
        self._heap: list[Place] = []
        self._end: Place | None = None
        self._has_more = True
        self._room = 0

    @property
    def room(self) -> int:
        """How many items could go out to them: exactly if it is less than a page, else at least so many."""
        while self._has_more and self._room < PAGE:
            self._load()
        return self._room

    def move(self, before: Subscription | None, after: Subscription | None) -> None:
        """Take note of what became of a subscription."""
        row = after if after is not None else before
        assert row is not None
        self._put(row.jid, after)

    def recount(self, jid: Jid) -> None:
        """Take note that it may have changed whether the address can be reached."""
        if jid in self._known:
            self._put(jid, self._known[jid])

    def first(self, count: int) -> list[Subscription]:
        """Return so many of those with room, the next first."""
        found: dict[Jid, Place] = {}
        while len(found) < count and (self._heap or self._has_more):
            if self._has_more and (not self._heap or self._heap[0] > (self._end or ())):
                self._load()
                continue
            its = heapq.heappop(self._heap)
            subscription = self._known.get(its[2])
            if self._room_of(subscription) and subscription and place(subscription) == its:
                found[its[2]] = its
        for its in found.values():
            heapq.heappush(self._heap, its)
        return [row for jid in found if (row := self._known[jid]) is not None]

    def _load(self) -> None:
        """Load the next page; what is known of a subscription stays."""
        rows = self._page(self._end, PAGE)
        self._has_more = len(rows) == PAGE
        if rows:
            self._end = place(rows[-1])
        for row in rows:
            if row.jid not in self._known:
                self._put(row.jid, row)

    def _put(self, jid: Jid, row: Subscription | None) -> None:
        room = self._room_of(row)
        self._room += room - self._rooms.get(jid, 0)
        self._rooms[jid] = room
        self._known[jid] = row
        if row is not None and room:
            heapq.heappush(self._heap, place(row))
            if len(self._heap) > 4 * len(self._known) + 64:
                self._heap = [place(one) for one in self._known.values() if one is not None]
                heapq.heapify(self._heap)

    def _room_of(self, row: Subscription | None) -> int:
        if row is None or not has_room(row) or not self._reaches(row.jid):
            return 0
        return row.queue_requests - row.in_flight
