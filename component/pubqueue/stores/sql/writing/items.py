"""Writes items: first removes, then changes, then adds.

So an id is free before another item of its node takes it. Items that swap their places are parked in between. Each kind of
change is one statement for all its items. The most common kinds have their own statements, because every column costs
time, an indexed column twice.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from pubqueue.engine.ports import StaleError
from pubqueue.model.entities import State
from pubqueue.stores.sql.columns import packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.engine.rows import Write, Writes
    from pubqueue.model.entities import Item, ItemId, NodeName
    from pubqueue.stores.sql.session import SqlSession, Values

Place = tuple["NodeName", "ItemId"]

ORDER: Final = (
    *(
        "keep_item",
        "add_done_item",
        "remove_item",
        "park_item",
        "change_lock",
        "change_lock_and_turn",
        "change_item",
        "name_item",
    ),
    *("add_item", "add_waiting_item", "add_any_item", "revive_item", "drop_done_item"),
)
"""The statements, in order, each run once for all its items."""


class ItemWrites:
    """The items of a batch, sorted by the statement that writes them."""

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
        self._sort(writes.items)

    def write(self) -> None:
        """Make the writes."""
        parked = self._parked()
        self._rows["park_item"] = [(item.seq,) for item in parked]
        self._rows["name_item"] = [(item.id, item.seq) for item in parked]
        if len(self._payloads) > len(self._added):  # also of items whose rows do not change
            others = self._payloads.keys() - self._added
            self._session.many("change_payload", [(self._payloads[seq], seq) for seq in others])
        for query in ORDER:
            if rows := self._rows.get(query):
                self._session.each(query, rows)

    def _sort(self, writes: Sequence[Write[Item]]) -> None:
        for write in writes:
            before, now = write.before, write.after
            if before is not None and before.state is State.DONE:
                self._bring_back(before, now)
            elif now is not None and now.state is State.DONE:
                self._keep(before, now)
            elif before is None:
                if now is not None:
                    self._add(now)
            elif now is None:
                self._rows["remove_item"].append(self._guard(before))
            else:
                self._change(before, now)

    def _keep(self, before: Item | None, now: Item) -> None:
        """Put an item that is done beside its queue."""
        done = (
            *(now.seq, self._ids[now.node], now.id, now.publisher, now.published, now.priority),
            *(
                now.token,
                now.taken,
                now.expires,
                packed(now.headers),
                *(now.transaction or (None, None)),
            ),
            *(now.group or None, now.size),
        )
        if before is None:
            self._rows["add_done_item"].append((*done, self._payloads[now.seq]))
            self._added.add(now.seq)
        else:
            self._rows["keep_item"].append(done)
            self._rows["remove_item"].append(self._guard(before))

    def _bring_back(self, before: Item, now: Item | None) -> None:
        """Put an item that was done into its queue, or drop it."""
        node = self._ids[before.node]
        self._rows["drop_done_item"].append((before.seq, node, before.taken))
        if now is None:
            return
        if now.seq in self._payloads:  # it has another one
            self._add(now)
        else:
            values = *_lock_values(now), self._ids[now.node], *_rest(now), now.seq, now.id
            self._rows["revive_item"].append(values)

    def _guard(self, before: Item) -> Values:
        return before.seq, self._ids[before.node], before.state._value_, before.token

    def _parked(self) -> list[Item]:
        """Return the items that move to a place from which another item moves away."""
        if len(self._moved) < 2:  # noqa: PLR2004  # it takes two
            return []
        left: set[Place] = {(before.node, before.id) for before, _ in self._moved}
        return [now for _, now in self._moved if (now.node, now.id) in left]

    def _change(self, before: Item, now: Item) -> None:
        guard = self._guard(before)
        if _stays(before, now):
            if before.turn == now.turn:
                self._rows["change_lock"].append((*_lock_values(now), *guard))
            else:
                self._rows["change_lock_and_turn"].append(
                    (*_lock_values(now), now.turn or None, *guard)
                )
            return
        if before.node != now.node:
            self._moved.append((before, now))
        values = *_lock_values(now), self._ids[now.node], *_rest(now), *guard
        self._rows["change_item"].append(values)

    def _add(self, item: Item) -> None:
        node, payload = self._ids[item.node], self._payloads[item.seq]
        self._added.add(item.seq)
        if not _is_plain(item):
            values = *_lock_values(item), node, *_rest(item), item.seq, item.id, payload
            self._rows["add_any_item"].append(values)
            return
        facts = item.publisher, item.published, item.priority
        who = item.seq, node, item.id, item.state._value_, *facts
        if item.acquired:
            lock = item.acquired, item.holder, item.deadline, item.token, item.taken
            self._rows["add_item"].append((*who, *lock, item.size, payload))
        else:
            self._rows["add_waiting_item"].append((*who, item.size, payload))


def _lock_values(item: Item) -> Values:
    """Return the columns that a lock or its end changes."""
    return (
        *(item.state._value_, item.due, item.acquired, item.failed, item.released),
        *(item.holder, item.deadline, item.token, item.avoid, int(item.aside), item.taken),
    )


def _rest(item: Item) -> Values:
    """Return the other columns that may change, without the node."""
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
    """Return whether only the columns of the lock, and the turn, have changed."""
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
    """Return whether the item has only the values that every item has, and a lock."""
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
