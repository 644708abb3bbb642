"""Counts of a batch for rows that need not be loaded yet: items of a node, locks of a holder.

Only dispatch reads these counts, so differences are collected while requests are decided and added to the rows once
for the whole batch. A node with a bound on its items is not counted here, because each publish has to see its count.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.app.store.rows import Needs
from pubqueue.app.working_set.row_cache import ABSENT
from pubqueue.model.entities import account_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pubqueue.app.working_set.row_cache import RowCache
    from pubqueue.model.entities import Jid, Node, NodeName, Subscription

    Holder = tuple[NodeName, Jid]


class Inside(Struct, gc=False):
    """The change of a node's number of items, and of the bytes that they count for; likewise of what is done."""

    items: int = 0
    bytes: int = 0
    done: int = 0
    done_bytes: int = 0


class Locks(Struct, gc=False):
    """The change of a holder's number of locks, the highest token among them, and whether one of them was retracted."""

    more: int = 0
    token: int = 0
    reached: bool = False


class Counters:
    """Differences of counts, until they are taken."""

    def __init__(self) -> None:
        self._items: defaultdict[NodeName, Inside] = defaultdict(Inside)
        self._unpaid: defaultdict[NodeName, Inside] = defaultdict(Inside)
        self._locks: dict[Holder, Locks] = {}

    def __bool__(self) -> bool:
        """Return whether anything is counted."""
        return bool(self._items or self._locks)

    def item(self, node: NodeName, by: int, size: int) -> None:
        """Count items of a node, and their bytes."""
        inside = self._items[node]
        inside.items += by
        inside.bytes += size

    def done(self, node: NodeName, by: int, size: int) -> None:
        """Count what is done in a node, and its bytes."""
        inside = self._items[node]
        inside.done += by
        inside.done_bytes += size

    def unpaid(self, node: NodeName, by: int, size: int) -> None:
        """Count the same for the account that created the node, whose row is not loaded yet."""
        inside = self._unpaid[node]
        inside.items += by
        inside.bytes += size

    def lock(
        self, node: NodeName, jid: Jid, by: int, *, token: int = 0, reached: bool = False
    ) -> None:
        """Count locks of a holder; `reached`: an item that it got was retracted."""
        key = node, jid
        if key not in self._locks:
            self._locks[key] = Locks()
        sums = self._locks[key]
        sums.more += by
        sums.token = token or sums.token  # tokens rise
        sums.reached |= reached

    def forget_locks(self, node: NodeName, jid: Jid) -> None:
        """Drop the counts of a holder: from here on it has another subscription."""
        self._locks.pop((node, jid), None)

    def needs(self, cache: RowCache) -> Needs | None:
        """Return the rows to load before counts are taken, None if there are none."""
        needs = Needs()
        needs.nodes.update(node for node in self._items if node not in cache.nodes)
        for node, jid in self._locks:
            if cache.subscription(node, jid) is ABSENT:
                needs.subscriptions.add((node, account_of(jid)))
        return needs if needs.nodes or needs.subscriptions else None

    def take_nodes(self, cache: RowCache) -> Iterator[tuple[Node, Node]]:
        """Return each existing node with counts, before and after, and reset its counts."""
        counts, self._items = self._items, defaultdict(Inside)
        for name, more in counts.items():
            row = cache.nodes.get(name)
            if row is None:
                continue
            if more.done or more.done_bytes:
                sums = {
                    "done": row.done + more.done,
                    "done_bytes": row.done_bytes + more.done_bytes,
                }
                yield (
                    row,
                    replace(
                        row, items=row.items + more.items, bytes=row.bytes + more.bytes, **sums
                    ),
                )
            elif more.items or more.bytes:
                yield row, replace(row, items=row.items + more.items, bytes=row.bytes + more.bytes)

    def take_unpaid(self, cache: RowCache) -> Iterator[tuple[Jid, int, int]]:
        """Return the accounts with counts from `unpaid`, each with items and bytes, and reset these."""
        unpaid, self._unpaid = self._unpaid, defaultdict(Inside)
        for name, more in unpaid.items():
            if (row := cache.nodes.get(name)) is not None:
                yield row.creator, more.items, more.bytes

    def take_subscriptions(self, cache: RowCache) -> Iterator[tuple[Subscription, Subscription]]:
        """Return each existing subscription with counts, before and after. A retract shows that deliveries arrive.

        That does not hold for a silenced one: only its own requests show that it lives.
        """
        locks, self._locks = self._locks, {}
        for (node, jid), sums in locks.items():
            if (row := cache.subscription(node, jid)) is not None:
                yield (
                    row,
                    replace(
                        row,
                        in_flight=row.in_flight + sums.more,
                        last_served=max(row.last_served, sums.token),
                        unanswered=0 if sums.reached and row.available else row.unanswered,
                    ),
                )
