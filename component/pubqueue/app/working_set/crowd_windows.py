"""Finds the next subscribers of a queue with very many of them. Only those whose turn may come are loaded.

The store returns them in pages, in the order of their turns. A subscriber that is not loaded comes after the end of
the last page and stays there, because one that changes is loaded. So the next page is loaded before a subscriber after
that end gets a delivery. An idle crowd of 10,000 costs a page for each thousand delivered items.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from pubqueue.model.after import has_room
from pubqueue.rules.dispatch import place

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.model.entities import Jid, Subscription
    from pubqueue.rules.dispatch import Place

CROWD: Final = 1000
"""The number of subscribers from which a node's are loaded in pages."""

PAGE: Final = 1000
"""Subscribers in a page: no fewer than the items that a batch delivers."""


class CrowdWindows:
    """As `FreeWindows`, for loaded subscribers. `page` returns up to that many with room after a place, in their order."""

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
        """How many items could be delivered: exact if less than a page, else a lower bound."""
        while self._has_more and self._room < PAGE:
            self._load()
        return self._room

    def move(self, before: Subscription | None, after: Subscription | None) -> None:
        """Note a changed subscription."""
        row = after if after is not None else before
        assert row is not None
        self._put(row.jid, after)

    def recount(self, jid: Jid) -> None:
        """Note that the reachability of the address may have changed."""
        if jid in self._known:
            self._put(jid, self._known[jid])

    def first(self, count: int) -> list[Subscription]:
        """Return up to `count` subscriptions with room, the next first."""
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
        """Load the next page; subscriptions that are already known stay as they are."""
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
