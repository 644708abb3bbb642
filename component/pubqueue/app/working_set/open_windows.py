"""The windows of takes: of accounts that ask for items instead of subscribing. They are kept in memory only.

Each waits at its node like a subscriber that holds what its account holds there. If an account has several takes, the later
ones count as if the earlier ones were served, so together they are one window.

If a batch is rolled back, the windows that it opened are closed, and those that it used are open again.
"""

from __future__ import annotations

import heapq
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from pubqueue.rules.dispatch import TakeWindow
from pubqueue.rules.take import barred

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pubqueue.model.changes import OpenWindow
    from pubqueue.model.decision import Refusal
    from pubqueue.model.entities import Affiliation, Jid, Node, NodeName
    from pubqueue.model.notices import Deliver

    Place = tuple[float, int, Jid]
    Key = tuple[NodeName, Jid]
    """A node, and an account that waits for items of it."""


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

    def _places(self, node: Node, held: Mapping[Key, int]) -> Iterator[Place]:
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
