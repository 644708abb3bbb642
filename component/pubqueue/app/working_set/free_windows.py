"""Finds the next subscribers of a queue: those with room, the least loaded first, without looking at all of them.

It is a heap whose entries may be out of date. Each is compared with the subscription when it is taken out.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from pubqueue.model.after import has_room
from pubqueue.rules.dispatch import place as _place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.model.entities import Jid, Subscription
    from pubqueue.rules.dispatch import Place


class FreeWindows:
    """The subscribers of one node that can be reached; `room` is how many items could be delivered to them."""

    def __init__(
        self, subscriptions: Mapping[Jid, Subscription], reaches: Callable[[Jid], bool]
    ) -> None:
        self._subscriptions = subscriptions
        self._reaches = reaches
        self.room = 0
        self._rooms: dict[Jid, int] = {}
        """The summands of `room`: an address may have become unreachable since it was counted."""
        self._heap: list[Place] = []
        self._renew()

    def _renew(self) -> None:
        subscriptions = self._subscriptions
        rooms = {jid: self._room_of(each) for jid, each in subscriptions.items()}
        self._rooms = {jid: room for jid, room in rooms.items() if room}
        self.room = sum(self._rooms.values())
        self._heap = [_place(subscriptions[jid]) for jid in self._rooms]
        heapq.heapify(self._heap)

    def _room_of(self, subscription: Subscription | None) -> int:
        """Return how many items the subscriber can get."""
        if subscription is None or not has_room(subscription):
            return 0
        if not self._reaches(subscription.jid):
            return 0
        return subscription.queue_requests - subscription.in_flight

    def move(self, before: Subscription | None, after: Subscription | None) -> None:
        """Note a changed subscription; the mapping already has it."""
        if after is None:
            if before is not None:
                self.room -= self._rooms.pop(before.jid, 0)
            return
        jid = after.jid
        room = self._room_of(after)
        self.room += room - self._rooms[jid] if jid in self._rooms else room
        self._rooms[jid] = room
        if room:
            heapq.heappush(self._heap, _place(after))
            if len(self._heap) > 4 * len(self._subscriptions) + 64:
                self._renew()

    def recount(self, jid: Jid) -> None:
        """Note that the reachability of the address may have changed."""
        known = self._subscriptions.get(jid)
        self.move(known, known)

    def first(self, count: int) -> list[Subscription]:
        """Return up to `count` subscriptions with room, the next first."""
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
