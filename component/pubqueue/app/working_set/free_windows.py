"""Who is next in a queue: the subscribers with room, the least loaded first, found without looking at all.

A heap with entries that may be out of date: each is compared with the subscription when it comes out.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from pubqueue.core.after import has_room
from pubqueue.core.queue.dispatch import place as _place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.core.model import Jid, Subscription
    from pubqueue.core.queue.dispatch import Place


class FreeWindows:
    """The subscribers of one node that can be reached; `room` is how many items could go out to them."""

    def __init__(
        self, subscriptions: Mapping[Jid, Subscription], reaches: Callable[[Jid], bool]
    ) -> None:
        self._subscriptions = subscriptions
        self._reaches = reaches
        self.room = 0
        self._heap: list[Place] = []
        self._renew()

    def _renew(self) -> None:
        subscriptions = self._subscriptions.values()
        self.room = sum(map(self._room_of, subscriptions))
        self._heap = [_place(each) for each in subscriptions if self._room_of(each)]
        heapq.heapify(self._heap)

    def _room_of(self, subscription: Subscription | None) -> int:
        """Return how many items the subscriber can be handed."""
        if subscription is None or not has_room(subscription):
            return 0
        if not self._reaches(subscription.jid):
            return 0
        return subscription.queue_requests - subscription.in_flight

    def move(self, before: Subscription | None, after: Subscription | None) -> None:
        """Take note of what became of a subscription; the mapping shows it already."""
        room = self._room_of(after)
        self.room += room - self._room_of(before)
        if after is not None and room:
            heapq.heappush(self._heap, _place(after))
            if len(self._heap) > 4 * len(self._subscriptions) + 64:
                self._renew()

    def first(self, count: int) -> list[Subscription]:
        """Return so many of those with room, the next first."""
        found: dict[Jid, Place] = {}
        while self._heap and len(found) < count:
            place = heapq.heappop(self._heap)
            subscription = self._subscriptions.get(place[2])
            if subscription is None or not self._room_of(subscription):
                continue
            if _place(subscription) == place:
                found[place[2]] = place
        for place in found.values():
            heapq.heappush(self._heap, place)
        return [self._subscriptions[jid] for jid in found]
