"""Writes items: those that go, those that change, those that come, in this order.

So an id is free before another item of its node takes it. Items that change places with each other are parked
in between. Each kind of row is one statement for all items of the kind; the commonest kinds have statements
of their own, because every column costs time, an index column twice.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from pubqueue.app.store.ports import StaleError
from pubqueue.stores.sql.columns import packed

if TYPE_CHECKING:
    from pubqueue.app.store.rows import Writes
    from pubqueue.core.model import Item, ItemId, NodeName
    from pubqueue.stores.sql.session import SqlSession, Values

Place = tuple["NodeName", "ItemId"]

ORDER: Final = (
    *("remove_item", "park_item", "hand_item", "turn_item", "change_item", "name_item"),
    *("add_item", "add_waiting_item", "add_any_item"),
)
"""The statements, each for all items that it is for."""


class ItemWrites:
    """The items of a batch, sorted by what becomes of them."""

    def __init__(self, session: SqlSession, writes: Writes) -> None:
        self._session = session
        self._payloads = writes.payloads
        self._added: set[int] = set()
        rows = [row for write in writes.items for row in (write.before, write.after)]
        nodes = {row.node for row in rows if row is not None}
        self._ids = session.contents(nodes)
        for name in nodes - self._ids.keys():
            raise StaleError("node", name)
        self._rows: defaultdict[str, list[Values]] = defaultdict(list)
        self._moved: list[tuple[Item, Item]] = []
        for write in writes.items:
            if write.before is None:
                if write.after is not None:
                    self._add(write.after)
            elif write.after is None:
                self._rows["remove_item"].append(self._guard(write.before))
            else:
                self._change(write.before, write.after)

    def write(self) -> None:
        """Make the writes."""
        parked = self._parked()
        self._rows["park_item"] = [(item.seq,) for item in parked]
        self._rows["name_item"] = [(item.id, item.seq) for item in parked]
        if len(self._payloads) > len(self._added):  # of items whose rows may stay as they are, too
            others = self._payloads.keys() - self._added
            self._session.many("change_payload", [(self._payloads[seq], seq) for seq in others])
        for query in ORDER:
            if rows := self._rows.get(query):
                self._session.each(query, rows)

    def _guard(self, before: Item) -> Values:
        return before.seq, self._ids[before.node], before.state._value_, before.token

    def _parked(self) -> list[Item]:
        """Return the items that move to where another one is that moves too."""
        if len(self._moved) < 2:  # noqa: PLR2004  # it takes two
            return []
        left: set[Place] = {(before.node, before.id) for before, _ in self._moved}
        return [now for _, now in self._moved if (now.node, now.id) in left]

    def _change(self, before: Item, now: Item) -> None:
        guard = self._guard(before)
        if _stays(before, now):
            if before.turn == now.turn:
                self._rows["hand_item"].append((*_handing(now), *guard))
            else:
                self._rows["turn_item"].append((*_handing(now), now.turn or None, *guard))
            return
        if before.node != now.node:
            self._moved.append((before, now))
        values = *_handing(now), self._ids[now.node], *_rest(now), *guard
        self._rows["change_item"].append(values)

    def _add(self, item: Item) -> None:
        node, payload = self._ids[item.node], self._payloads[item.seq]
        self._added.add(item.seq)
        if not _is_plain(item):
            values = *_handing(item), node, *_rest(item), item.seq, item.id, payload
            self._rows["add_any_item"].append(values)
            return
        facts = item.publisher, item.published, item.priority
        who = item.seq, node, item.id, item.state._value_, *facts
        if item.acquired:
            lock = item.acquired, item.holder, item.deadline, item.token, item.taken
            self._rows["add_item"].append((*who, *lock, item.size, payload))
        else:
            self._rows["add_waiting_item"].append((*who, item.size, payload))


def _handing(item: Item) -> Values:
    """Return what a lock changes, and its end."""
    return (
        *(item.state._value_, item.due, item.acquired, item.failed, item.released),
        *(item.holder, item.deadline, item.token, item.avoid, int(item.aside), item.taken),
    )


def _rest(item: Item) -> Values:
    """Return what else may change, but for the node."""
    dead = item.dead_letter
    dead_letter = (
        (None, None, None, None, None)
        if dead is None
        else (dead.number, dead.at, dead.reason, dead.origin, dead.holder)
    )
    headers, transaction = packed(item.headers), item.transaction or (None, None)
    facts = item.publisher, item.published, item.priority, item.expires
    return (
        *facts,
        headers,
        *dead_letter,
        *transaction,
        item.group or None,
        item.turn or None,
        item.failure,
        item.size,
    )


def _stays(before: Item, now: Item) -> bool:
    """Say whether only that has changed which a lock changes, and whose turn it is."""
    return (
        before.node == now.node
        and before.dead_letter == now.dead_letter
        and before.expires == now.expires
        and before.headers == now.headers
        and before.size == now.size
        and before.publisher == now.publisher
        and before.transaction == now.transaction
        and before.published == now.published
        and before.priority == now.priority
        and before.group == now.group
        and before.failure == now.failure
    )


def _is_plain(item: Item) -> bool:
    """Say whether the item has nothing but what every item has, and a lock."""
    return (
        item.due is None
        and item.expires is None
        and not item.headers
        and item.transaction is None
        and not item.group
        and item.dead_letter is None
        and item.avoid is None
        and not item.failed
        and item.failure is None
        and not item.released
        and not item.aside
        and (item.acquired > 0 or (item.token == 0 and item.taken is None and item.holder is None))
    )
