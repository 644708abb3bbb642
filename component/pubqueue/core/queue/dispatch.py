"""Assigns items to subscribers: ready items x free windows -> locks (XEP-0254 2.2).

The subscriber with the lowest in-flight/queue_requests is next; among equals, the least recently
served. Items are delivered in the order given. A subscriber that released an item is skipped for it
while another has room; if it is the only one, the item is delayed for a growing pause, and the
items after it do not wait with it.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from pubqueue.core.changes import (
    Change,
    Lock,
    Postpone,
)
from pubqueue.core.lifecycle import backoff
from pubqueue.core.model import later, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.core.model import Item, Jid, Millis, Node, Subscription

    Place = tuple[float, int, Jid]
    Server = tuple[float, int, Jid, int, int]
    """A subscriber's place in the line, how much it has, and its window."""


def place(subscription: Subscription) -> Place:
    """Return a subscriber's place in the line: the lowest load first, then the least recently served."""
    load = subscription.in_flight / subscription.queue_requests
    return load, subscription.last_served, subscription.jid


def free(subscriptions: Sequence[Subscription]) -> int:
    """Return how many items could go out now."""
    return sum(max(0, s.queue_requests - s.in_flight) for s in subscriptions if s.available)


def dispatch(
    node: Node,
    ready: Sequence[Item],
    subscriptions: Sequence[Subscription],
    *,
    now: Millis,
    first_token: int,
    most: int | None = None,
) -> list[Change]:
    """Deliver the ready items: a Lock each, or a Postpone for one that only its avoided subscriber could take.

    Tokens are assigned from `first_token` upwards; up to `most` locks are given, None for any
    number. Items without a free window stay as they are.
    """
    line: list[Server] = [
        (*place(s), s.in_flight, s.queue_requests)
        for s in subscriptions
        if s.available and s.in_flight < s.queue_requests
    ]
    heapq.heapify(line)
    deadline = later(now, seconds(node.config.lock_timeout))
    changes: list[Change] = []
    token = first_token
    end = None if most is None else first_token + most
    for item in ready:
        if not line or token == end:
            break
        server = _next(line, item)
        if server is None and item.aside:
            continue  # it waits already
        if server is None:
            times = max(item.released + item.failed, 1)
            changes.append(Postpone(item, later(now, backoff(node.config, times))))
            continue
        _, _, jid, in_flight, window = server
        changes.append(Lock(item, jid, token, deadline, now))
        if in_flight + 1 < window:
            heapq.heappush(line, ((in_flight + 1) / window, token, jid, in_flight + 1, window))
        token += 1
    return changes


def _next(line: list[Server], item: Item) -> Server | None:
    """Take the item's next subscriber out of the line, or None if it has to wait for one."""
    first = heapq.heappop(line)
    if first[2] != item.avoid:
        return first
    if line:
        second = heapq.heappop(line)
        heapq.heappush(line, first)
        return second
    if (
        item.due is not None and not item.aside
    ):  # it has waited its pause: now even the avoided one will do
        return first
    heapq.heappush(line, first)
    return None
