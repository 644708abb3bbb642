"""What a batch counts of rows that need not be known yet: items of a node, locks of a holder.

Differences gather while requests are decided, for nobody but dispatch looks at them; they are put into their rows
at once for the whole batch. A node with a bound on its items is not counted here: its publishers see each count.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.app.store.rows import Needs
from pubqueue.app.working_set.row_cache import ABSENT
from pubqueue.core.addresses import account_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pubqueue.app.working_set.row_cache import RowCache
    from pubqueue.core.model import Jid, Node, NodeName, Subscription

    Holder = tuple[NodeName, Jid]


class Inside(Struct, gc=False):
    """So many items more in a node, and bytes that they count for."""

    items: int = 0
    bytes: int = 0


class Locks(Struct, gc=False):
    """So many locks more of one holder, the highest token among them, and whether one of them was retracted."""

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
        """Say whether anything is counted."""
        return bool(self._items or self._locks)

    def item(self, node: NodeName, by: int, size: int) -> None:
        """Count items of a node, and their bytes."""
        inside = self._items[node]
        inside.items += by
        inside.bytes += size

    def unpaid(self, node: NodeName, by: int, size: int) -> None:
        """Count the same for the account that has made the node, which is not known yet."""
        inside = self._unpaid[node]
        inside.items += by
        inside.bytes += size

    def lock(
        self, node: NodeName, jid: Jid, by: int, *, token: int = 0, reached: bool = False
    ) -> None:
        """Count locks of a holder; `reached` is that what it was handed was retracted."""
        key = node, jid
        if key not in self._locks:
            self._locks[key] = Locks()
        sums = self._locks[key]
        sums.more += by
        sums.token = max(sums.token, token)
        sums.reached |= reached

    def forget_locks(self, node: NodeName, jid: Jid) -> None:
        """Drop what is counted of a holder: its subscription is another one from here on."""
        self._locks.pop((node, jid), None)

    def needs(self, cache: RowCache) -> Needs | None:
        """Return what has to be loaded before anything is taken, None if that is nothing."""
        needs = Needs()
        needs.nodes.update(node for node in self._items if node not in cache.nodes)
        for node, jid in self._locks:
            if cache.subscription(node, jid) is ABSENT:
                needs.subscriptions.add((node, account_of(jid)))
        return needs if needs.nodes or needs.subscriptions else None

    def take_nodes(self, cache: RowCache) -> Iterator[tuple[Node, Node]]:
        """Return each node that is there, before and after; nothing of it is counted here any more."""
        counts, self._items = self._items, defaultdict(Inside)
        for name, more in counts.items():
            if (row := cache.nodes.get(name)) is not None and (more.items or more.bytes):
                yield row, replace(row, items=row.items + more.items, bytes=row.bytes + more.bytes)

    def take_unpaid(self, cache: RowCache) -> Iterator[tuple[Jid, int, int]]:
        """Return who pays for what was not known to be theirs: items and bytes; nothing of it is counted here any more."""
        unpaid, self._unpaid = self._unpaid, defaultdict(Inside)
        for name, more in unpaid.items():
            if (row := cache.nodes.get(name)) is not None:
                yield row.creator, more.items, more.bytes

    def take_subscriptions(self, cache: RowCache) -> Iterator[tuple[Subscription, Subscription]]:
        """Return each subscription that is there, before and after; a retract shows that deliveries arrive.

        Not to one that was silenced: whether it lives its own requests tell.
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
