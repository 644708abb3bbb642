"""Assigns items to subscribers: by priority, in groups, at the rate that the owner allows."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model.after import backoff
from pubqueue.model.changes import Change, Lock, Postpone
from pubqueue.model.entities import Millis, State, later, seconds

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from pubqueue.model.entities import Item, Jid, Node, Subscription


# Assigns items to subscribers: ready items x free windows -> locks (XEP-0254 2.2).
#
# The subscriber with the lowest in-flight/queue_requests is next; among equals, the least recently
# served. Items are delivered in the order given. A subscriber that released an item is skipped for it
# while another has room; if it is the only one, the item is delayed for a growing pause, and the
# items after it do not wait with it.

if TYPE_CHECKING:
    Place = tuple[float, int, Jid]
    Server = tuple[float, int, Jid, int, int, int, int]
    """A place in the order, how much is in flight there and out of how much, how much may be, and the number of the take (0: none)."""


class TakeWindow(Struct, frozen=True, gc=False):
    """A waiting take: its account holds this much `in_flight` out of `window`, and the take has room up to `end`.

    It gets no more items once they have `bytes` or more together, and it holds them for `span`, up to the time for which the node
    lets locks be extended.
    """

    number: int
    jid: Jid
    in_flight: int
    window: int
    end: int
    last_served: int
    bytes: int | None = None
    span: Millis | None = None


NOBODY_LESS: Final[Mapping[int, Container[Jid]]] = {}
"""Every subscriber can have every item."""


def place(subscription: Subscription) -> Place:
    """Return a subscriber's place in the order: the lowest load first, then the least recently served."""
    load = subscription.in_flight / subscription.queue_requests
    return load, subscription.last_served, subscription.jid


def free(subscriptions: Sequence[Subscription]) -> int:
    """Return how many items could be delivered now."""
    return sum(max(0, s.queue_requests - s.in_flight) for s in subscriptions if s.available)


def dispatch(
    node: Node,
    ready: Sequence[Item],
    subscriptions: Sequence[Subscription],
    *,
    now: Millis,
    first_token: int,
    most: int | None = None,
    carriers: Mapping[int, Container[Jid]] = NOBODY_LESS,
    takes: Sequence[TakeWindow] = (),
) -> list[Change]:
    """Deliver the ready items: a Lock each, or a Postpone for one that only its avoided subscriber could take.

    Waiting takes share the order with the subscribers.

    Tokens are assigned from `first_token` upwards; up to `most` locks are given, None for any number. Items
    without a free window stay as they are. `carriers` are the subscribers that can have an item, by its
    number, if some cannot; others are skipped for it, and get the items after it.
    """
    line = _line(subscriptions, takes)
    deadline = later(now, seconds(node.config.lock_timeout))
    other = _other_deadlines(node, subscriptions, takes, now)
    byte_room = {t.number: t.bytes for t in takes if t.bytes is not None}
    changes: list[Change] = []
    token = first_token
    end = None if most is None else first_token + most
    passed: set[str] = set()
    for item in ready:
        if not line or token == end:
            break
        if item.group in passed:
            continue
        unable: list[Server] = []
        if carriers and (able := carriers.get(item.seq)) is not None:
            unable = _step_aside(line, able)
            if not line:
                line = unable
                _pass(passed, node, item)
                continue
        server = _next(line, item)
        for each in unable:
            heapq.heappush(line, each)
        if server is None:
            _pass(passed, node, item)
            if item.aside:
                continue  # it waits already
            times = max(item.released + item.failed, 1)
            changes.append(Postpone(item, later(now, backoff(node.config, item, times))))
            continue
        _, _, jid, in_flight, window, room, take = server
        until = other.get(take or jid, deadline) if other else deadline
        changes.append(Lock(item, jid, token, until, now, take))
        has_bytes = not byte_room or _has_bytes(byte_room, take, item)
        if has_bytes and in_flight + 1 < room:
            again = (in_flight + 1) / window, token, jid, in_flight + 1, window, room, take
            heapq.heappush(line, again)
        token += 1
    return changes


def _pass(passed: set[str], node: Node, item: Item) -> None:
    """Let nothing of its group go ahead of an item that cannot be delivered now, if the group is sent ahead."""
    if item.group and node.config.group_ahead:
        passed.add(item.group)


def _line(subscriptions: Sequence[Subscription], takes: Sequence[TakeWindow]) -> list[Server]:
    """Return the subscribers and takes with room, as a heap in the order in which they are served."""
    line: list[Server] = [
        (*place(s), s.in_flight, s.queue_requests, s.queue_requests, 0)
        for s in subscriptions
        if s.available and s.in_flight < s.queue_requests
    ]
    line += [
        (t.in_flight / t.window, t.last_served, t.jid, t.in_flight, t.window, t.end, t.number)
        for t in takes
    ]
    heapq.heapify(line)
    return line


def _other_deadlines(
    node: Node, subscriptions: Sequence[Subscription], takes: Sequence[TakeWindow], now: Millis
) -> dict[Jid | int, Millis]:
    """Return the deadlines of holders with another lock time than the node's: by address, or by number of a take."""
    usual, longest = node.config.lock_timeout, node.config.longest_lock
    spans: dict[Jid | int, Millis] = {
        s.jid: seconds(min(usual, s.lock_timeout))
        for s in subscriptions
        if s.lock_timeout is not None
    }
    for one in takes:
        if one.span is not None:
            spans[one.number] = min(one.span, seconds(longest))
    return {who: later(now, span) for who, span in spans.items()}


def _has_bytes(byte_room: dict[int, int], take: int, item: Item) -> bool:
    """Count an item that is delivered to a take, and return whether it has room for more bytes."""
    if take not in byte_room:
        return True
    byte_room[take] -= item.size
    return byte_room[take] > 0


def _step_aside(line: list[Server], able: Container[Jid]) -> list[Server]:
    """Take all those out of the order that cannot have an item; both stay heaps."""
    unable = [server for server in line if server[2] not in able]
    line[:] = [server for server in line if server[2] in able]
    heapq.heapify(line)
    heapq.heapify(unable)
    return unable


def _return(line: list[Server], servers: Iterable[Server]) -> None:
    """Put servers back at their places in the order."""
    for server in servers:
        heapq.heappush(line, server)


def _next(line: list[Server], item: Item) -> Server | None:
    """Take the item's next subscriber out of the order, or None if it has to wait for one."""
    first = heapq.heappop(line)
    if first[2] != item.avoid:
        return first
    passed = [first]  # several takes of one address may wait
    while line and line[0][2] == item.avoid:
        passed.append(heapq.heappop(line))
    second = heapq.heappop(line) if line else None
    if second is not None:
        _return(line, passed)
        return second
    _return(line, passed[1:])
    if (
        item.due is not None and not item.aside
    ):  # it has waited its pause: now even the avoided subscriber is accepted
        return first
    heapq.heappush(line, first)
    return None


# Groups: items of a queue that belong together, of which only a limited number is in flight at a time, in their order.
#
# The order in which the queue delivers never holds more items of a group than may be in flight. An item of a group is in
# one of two places. It waits in its group, by the time of its publish, or it has the group's turn: then it is in the
# queue's order, by its priority and the number `turn`, which is assigned when its turn begins. Numbers only rise, so when
# an item of a group is done, the group's next item is placed after all items that were ready before. Groups alternate,
# and one with a million items does not block others. Dispatch never looks at the waiting items.
#
# A turn lasts until the item leaves: it is done, dead, or moved to another node. An item that was released, has failed,
# or waits for another try keeps its turn, and the group waits for it, as the order requires. An item that its publisher
# has delayed joins its group only when its time has come, at its old place. A priority moves a turn ahead of other
# groups; it has no effect within the group, which has an order of its own.


def in_line(item: Item) -> bool:
    """Return whether the item waits for a turn of its group."""
    return item.state is State.QUEUED and item.group != "" and not item.turn


def next_turns(limit: int, turns: int, line: Sequence[Item]) -> list[Item]:
    """Return the items whose turn begins, if `turns` of `limit` are in progress: the first that wait.

    A lower limit ends no turn: no new one begins until fewer are in progress.
    """
    return sorted(line, key=lambda item: item.seq)[: max(0, limit - turns)]


def keep_their_places(begin: Iterable[Item], first_new: int) -> int:
    """Return how many of the items of a group whose turns begin keep the places in which they were published.

    Their turns are their own numbers. These are items of this batch, whose numbers begin with `first_new` (0: it has
    none). An item that has waited gets a new number, and so do those after it, because turns rise within a group.
    """
    kept = 0
    for item in begin:
        if not 0 < first_new <= item.seq:
            break
        kept += 1
    return kept


# How many items of a node may be delivered now, if its owner has limited the rate.
#
# The only state is one moment: until when the deliveries so far have used the rate up (GCRA, the
# generic cell rate algorithm). Every item moves it on by the time that one item takes at the rate. It
# may be ahead of the clock by up to a second, or by one item if an item takes longer. So unused rate
# is saved for one second, and no more: in any `w` seconds up to `rate * (w + 1)` items are delivered,
# or `rate * w + 1` at a rate below one a second.

SECOND: Final = 1_000_000
"""Microseconds, the unit of these calculations: at a thousand a second, milliseconds would be too coarse."""

TOGETHER: Final = Millis(20)
"""Deliveries that become free within this time are made together, so that dispatch does not wake a thousand times a second."""


def _step(rate: float) -> int:
    """Return the time that one item uses, rounded up: the rate is never exceeded."""
    return -int(-SECOND // rate)


def _ahead(rate: float) -> int:
    return max(SECOND, _step(rate))


def _begin(rate: float, spent: int, now: Millis) -> int:
    """Return from when on the rate is free; a clock that was set back, or a lower rate before, costs no more than full use."""
    at = now * 1000
    return min(max(spent, at), at + _ahead(rate))


def allowed(node: Node, now: Millis) -> int | None:
    """Return how many items of the node may be delivered now, None for any number."""
    rate = node.config.rate
    if rate is None:
        return None
    return (now * 1000 + _ahead(rate) - _begin(rate, node.spent, now)) // _step(rate)


def spend(node: Node, now: Millis, count: int) -> int:
    """Return until when the rate is used up once this many items are delivered now."""
    rate = node.config.rate
    if rate is None:
        return node.spent
    return _begin(rate, node.spent, now) + count * _step(rate)


def free_again(node: Node, now: Millis) -> Millis:
    """Return when the next deliveries may be possible, if none is now."""
    rate = node.config.rate
    if rate is None:
        return now
    free = _begin(rate, node.spent, now) + _step(rate) - _ahead(rate)
    return Millis(max(-(-free // 1000), now + TOGETHER))
