"""Which subscribers are next: windows of takes, of crowds, those held back, and queues that wait for their rate."""

from __future__ import annotations

import heapq
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct

from pubqueue.model.after import has_room
from pubqueue.model.entities import NO_TIME, account_of, later, seconds
from pubqueue.rules.dispatch import TakeWindow, place
from pubqueue.rules.dispatch import place as _place
from pubqueue.rules.presence import MAX_PAUSE
from pubqueue.rules.take import barred

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from pubqueue.model.changes import OpenWindow
    from pubqueue.model.decision import Refusal
    from pubqueue.model.entities import Affiliation, Jid, Millis, Node, NodeName, Subscription
    from pubqueue.model.notices import Deliver
    from pubqueue.rules.dispatch import Place


# The windows of takes: of accounts that ask for items instead of subscribing. They are kept in memory only.
#
# Each waits at its node like a subscriber that holds what its account holds there. If an account has several takes, the later
# ones count as if the earlier ones were served, so together they are one window.
#
# If a batch is rolled back, the windows that it opened are closed, and those that it used are open again.

if TYPE_CHECKING:
    Rank = tuple[float, int, Jid]
    Key = tuple[NodeName, Jid]
    """A node, and an account that waits for items of it."""
    Group = tuple[NodeName, str]


class Takers(Protocol):
    """The numbers of the takes that still wait. It is also used from other threads."""

    def __contains__(self, number: object) -> bool:
        """Return whether this take still waits for its answer."""

    def __len__(self) -> int:
        """Return how many takes wait."""


class _Open(Struct):
    """A window, with how much more may be delivered to it: items, and bytes (None: any number)."""

    of: OpenWindow
    left: int
    bytes: int | None


class OpenWindows:
    """The windows by node, then by account, in the order in which they were opened."""

    def __init__(self, takers: Takers) -> None:
        self._takers = takers
        self._of: dict[NodeName, dict[Jid, dict[int, _Open]]] = {}
        self._all: dict[int, _Open] = {}
        self._opened: list[int] = []
        self._to_look: dict[NodeName, None] = {}
        self.taken: dict[int, list[Deliver]] = {}
        """This batch's deliveries to each window, which end it when the batch is committed."""
        self.ended: dict[int, Refusal] = {}
        """The windows that this batch has ended because they may no longer wait, each with the reason."""

    def __bool__(self) -> bool:
        """Return whether there are any windows."""
        return bool(self._all)

    # --- batches ---

    def begin(self) -> None:
        """Begin a batch: the changes of the last one are committed."""
        for number in (*self.taken, *self.ended):
            self._close(number)
        self.taken, self.ended, self._opened = {}, {}, []
        if len(self._all) > 2 * len(self._takers) + 64:
            for number in [number for number in self._all if number not in self._takers]:
                self._close(number)

    def undo(self) -> None:
        """Undo the changes of the batch: it was rolled back."""
        for number in self._opened:
            self._close(number)
        for number, deliveries in self.taken.items():
            if number in self._all:
                self._all[number].left += len(deliveries)
                self._all[number].bytes = self._all[number].of.bytes
        self.taken, self.ended, self._opened = {}, {}, []
        self.look_again()

    def open(self, window: OpenWindow) -> None:
        """Open a window."""
        one = self._all[window.number] = _Open(window, window.count, window.bytes)
        of = self._of.setdefault(window.node, {}).setdefault(window.by.account, {})
        of[window.number] = one
        self._opened.append(window.number)

    def served(self, number: int, delivery: Deliver) -> None:
        """Note a delivery to a window."""
        self.taken.setdefault(number, []).append(delivery)
        one = self._all[number]
        one.left -= 1
        if one.bytes is not None:
            one.bytes -= delivery.item.size

    def _close(self, number: int) -> None:
        one = self._all.pop(number, None)
        if one is None:
            return
        node, account = one.of.node, one.of.by.account
        of = self._of[node]
        del of[account][number]
        if not of[account]:
            del of[account]
        if not of:
            del self._of[node]
            self._to_look.pop(node, None)

    # --- looks ---

    def look_again(self) -> None:
        """Have all nodes with a waiting take looked at."""
        self._to_look = dict.fromkeys(self._of)

    def to_look(self, limit: int) -> list[NodeName]:
        """Return up to `limit` of these nodes, and remove them."""
        nodes = list(islice(self._to_look, limit))
        for node in nodes:
            del self._to_look[node]
        return nodes

    # --- the line ---

    def keys(self, nodes: Iterable[NodeName]) -> Iterator[Key]:
        """Return the accounts that wait for items of these nodes."""
        return ((node, account) for node in nodes for account in self._of.get(node, ()))

    def end_all(self, name: NodeName, refusal: Refusal) -> None:
        """End all windows of a node that no longer delivers to takes."""
        for mine in self._of.get(name, {}).values():
            self.ended.update(dict.fromkeys(mine, refusal))

    def room(self, node: Node, held: Mapping[Key, int], most: int) -> int:
        """Return how many items could be delivered to takes, counted only up to `most`. `held` is how many items accounts hold of nodes."""
        total = 0
        for account, mine in self._of.get(node.name, {}).items():
            free = node.config.max_queue_requests - held[node.name, account]
            for one in mine.values() if free > 0 else ():
                total += min(one.left, free)
                free -= one.left
                if free <= 0:
                    break
            if total >= most:
                break
        return total

    def room_of(self, node: Node, jid: Jid, held: Mapping[Key, int]) -> int:
        """Return how many items could be sent ahead to the takes of an address."""
        account = account_of(jid)
        mine = self._of.get(node.name, {}).get(account, {}).values()
        its = (one for one in mine if one.of.by.jid == jid and one.of.ahead and self._waits(one))
        left = sum(one.left for one in its)
        return min(left, node.config.max_queue_requests - held.get((node.name, account), 0))

    def line(
        self,
        node: Node,
        held: Mapping[Key, int],
        count: int,
        is_a: Callable[[NodeName, Jid], Affiliation],
    ) -> list[TakeWindow]:
        """Return the windows of the next `count` accounts, of each no more than `count` items need.

        Windows of accounts that have lost access are ended.
        """
        while True:
            found: list[TakeWindow] = []
            are_all_allowed = True
            for _, _, account in heapq.nsmallest(count, self._places(node, held)):
                mine = self._waiting(node.name, account)
                by, affiliation = mine[0].of.by, is_a(node.name, account)
                if (refusal := barred(by, node, affiliation)) is not None:
                    self.ended.update(dict.fromkeys((one.of.number for one in mine), refusal))
                    are_all_allowed = False
                    continue
                found += _of_account(mine, held[node.name, account], node, count)
            if are_all_allowed:
                return found

    def _places(self, node: Node, held: Mapping[Key, int]) -> Iterator[Rank]:
        """Return the places of the accounts with room, ordered like those of subscribers."""
        window = node.config.max_queue_requests
        for account, mine in self._of.get(node.name, {}).items():
            has = held[node.name, account]
            first = next(filter(self._waits, mine.values()), None) if has < window else None
            if first is not None:
                yield has / window, first.of.last_served, account

    def _waiting(self, node: NodeName, account: Jid) -> list[_Open]:
        return list(filter(self._waits, self._of[node][account].values()))

    def _waits(self, one: _Open) -> bool:
        number = one.of.number
        has_room = one.left > 0 and (one.bytes is None or one.bytes > 0)
        return has_room and number not in self.ended and number in self._takers


def _of_account(mine: Iterable[_Open], held: int, node: Node, count: int) -> Iterator[TakeWindow]:
    """Return the windows of one account, each as if the earlier ones were served."""
    window, has = node.config.max_queue_requests, held
    for one in mine:
        end = min(has + one.left, window)
        if end <= has or has - held >= count:
            return
        yield TakeWindow(
            *(one.of.number, one.of.by.jid, has, window, end, one.of.last_served),
            bytes=one.bytes,
            span=one.of.span,
        )
        has = end


# Finds the next subscribers of a queue with very many of them. Only those whose turn may come are loaded.
#
# The store returns them in pages, in the order of their turns. A subscriber that is not loaded comes after the end of
# the last page and stays there, because one that changes is loaded. So the next page is loaded before a subscriber after
# that end gets a delivery. For each page the store looks at all subscribers with room, so each is twice as long as the one
# before: where few items come, few subscribers are loaded, and where all get their turns, all are loaded in a few looks.

CROWD: Final = 1000
"""The number of subscribers from which a node's are loaded in pages."""

PAGE: Final = 1000
"""Subscribers in the first page: no fewer than the items that a batch delivers."""

LONGEST_PAGE: Final = 8 * PAGE
"""Subscribers in a page at most, because a batch waits for it."""


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
        self._next = PAGE
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
            if subscription and place(subscription) == its and self._room_of(subscription):
                found[its[2]] = its
        for its in found.values():
            heapq.heappush(self._heap, its)
        return [row for jid in found if (row := self._known[jid]) is not None]

    def _load(self) -> None:
        """Load the next page; subscriptions that are already known stay as they are."""
        rows = self._page(self._end, self._next)
        self._has_more = len(rows) == self._next
        self._next = min(2 * self._next, LONGEST_PAGE)
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


# Finds the next subscribers of a queue: those with room, the least loaded first, without looking at all of them.
#
# It is a heap whose entries may be out of date. Each is compared with the subscription when it is taken out.


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
            one = self._subscriptions.get(place[2])
            if one is not None and _place(one) == place and self._room_of(one):
                found[place[2]] = place
        for place in found.values():
            heapq.heappush(self._heap, place)
        return [self._subscriptions[jid] for jid in found]


# Groups that are sent ahead, and whose holders have no room for more (`rules.ahead`).
#
# They wait in memory, to be looked at when their holder has room again. Nothing is lost with them: a group is looked at in any case
# when one of its items ends.


class WaitsForRoom:
    """The groups by queue and holder. `passed` are those whose items could not be delivered in this batch."""

    def __init__(self) -> None:
        self.passed: set[Group] = set()
        self._of: dict[NodeName, dict[Jid, dict[str, None]]] = {}
        self._holders: dict[Group, Jid] = {}
        self._ended: dict[Group, Jid] = {}

    def __bool__(self) -> bool:
        """Return whether any groups wait."""
        return bool(self._of)

    def __contains__(self, node: object) -> bool:
        """Return whether groups of the queue wait."""
        return node in self._of

    def begin(self) -> None:
        """Begin a batch: the changes of the last one are committed."""
        self.passed, self._ended = set(), {}

    def undo(self) -> None:
        """Let all that waited before the batch wait again: it was rolled back."""
        for group, holder in self._ended.items():
            self.set(group, holder)
        self.begin()

    def set(self, group: Group, holder: Jid) -> None:
        """Have the group looked at when its holder has room."""
        self.end(group)
        self._holders[group] = holder
        node, name = group
        self._of.setdefault(node, {}).setdefault(holder, {})[name] = None

    def end(self, group: Group) -> None:
        """Forget the group."""
        holder = self._holders.pop(group, None)
        if holder is None:
            return
        self._ended.setdefault(group, holder)
        node, name = group
        of = self._of[node]
        del of[holder][name]
        if not of[holder]:
            del of[holder]
        if not of:
            del self._of[node]

    def holders(self, node: NodeName) -> tuple[Jid, ...]:
        """Return the holders of waiting groups of a queue."""
        return tuple(self._of.get(node, ()))

    def first(self, node: NodeName, holder: Jid, count: int) -> tuple[Group, ...]:
        """Return the first of the groups that wait for this holder."""
        return tuple((node, name) for name in islice(self._of[node][holder], count))


# Subscribers that get no deliveries for a while, because deliveries to them bounced.
#
# Each process keeps its own, in memory: after a restart one more delivery may come back.


class HeldBack:
    """Subscribers by node, each with the time until which it waits; no more of them than there are subscriptions."""

    def __init__(self) -> None:
        self._of: dict[NodeName, dict[Jid, Millis]] = {}
        self._line: list[tuple[Millis, NodeName, Jid]] = []
        """The times, the next first; an outdated entry is skipped when its time comes."""

    def set(self, node: NodeName, jid: Jid, until: Millis) -> None:
        """Hold the subscriber back until then."""
        self._of.setdefault(node, {})[jid] = until
        heapq.heappush(self._line, (until, node, jid))

    def end(self, node: NodeName, jid: Jid) -> bool:
        """Stop holding the subscriber back; return whether it was held back."""
        of = self._of.get(node)
        if of is None or of.pop(jid, None) is None:
            return False
        if not of:
            del self._of[node]
        return True

    def undo(self) -> None:
        """Let all subscribers be tried at the next look: the batch was rolled back."""
        everybody = [(node, jid) for node, of in self._of.items() for jid in of]
        self._of, self._line = {}, []
        for node, jid in everybody:
            self.set(node, jid, NO_TIME)

    def anybody_of(self, node: NodeName) -> bool:
        """Return whether a subscriber of the node is held back."""
        return node in self._of

    def holds(self, node: NodeName, jid: Jid) -> bool:
        """Return whether this subscriber of the node is held back."""
        return jid in self._of.get(node, ())

    def over(self, now: Millis) -> Collection[NodeName]:
        """Remove subscribers whose time is over and return their nodes. A time too far ahead is from a clock that was set back."""
        nodes: set[NodeName] = set()
        farthest = later(now, seconds(MAX_PAUSE))
        while self._line and not now < self._line[0][0] <= farthest:
            until, node, jid = heapq.heappop(self._line)
            if self._of.get(node, {}).get(jid) == until and self.end(node, jid):
                nodes.add(node)
        return nodes

    def next(self) -> Millis | None:
        """Return when the time of the next one is over."""
        return self._line[0][0] if self._line else None


# Queues that may not deliver now because their rate is used up, each with the time to look at it again.


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
