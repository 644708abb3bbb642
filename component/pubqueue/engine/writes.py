"""The changes of a batch that are not written yet: rows, counters, and numbers of sequences."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.engine.rows import Needs, TablesByKind, Write, Writes
from pubqueue.engine.working_set import ABSENT
from pubqueue.model.after import is_ready
from pubqueue.model.entities import account_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pubqueue.engine.ports import Transaction
    from pubqueue.engine.rows import StagedRow
    from pubqueue.engine.working_set import RowCache
    from pubqueue.model.entities import Item, Jid, Millis, Node, NodeName, Subscription
    from pubqueue.model.records import LogEntry

    Holder = tuple[NodeName, Jid]


# Counts of a batch for rows that need not be loaded yet: items of a node, locks of a holder.
#
# Only dispatch reads these counts, so differences are collected while requests are decided and added to the rows once
# for the whole batch. A node with a bound on its items is not counted here, because each publish has to see its count.


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


# The changes of a batch that are not written yet: each row as it was before the batch changed it.
#
# The row as it is now is in the row cache. A row that is again as it was needs no write, nor does one that came and went.


class PendingWrites:
    """Tables of the rows before, by kind of row."""

    def __init__(self) -> None:
        self.of = TablesByKind()
        """Tables of the kinds in `rows.KINDS`."""
        self.nodes: dict[NodeName, Node | None] = {}
        self.announce: list[NodeName] = []
        self.moved: dict[NodeName, str] = {}
        self.subscriptions: dict[tuple[NodeName, Jid], Subscription | None] = {}
        self.resources: dict[Jid, bool] = {}
        self.active: dict[Jid, int] = {}
        self.able: dict[Jid, bool] = {}
        self.items: dict[int, Item | None] = {}
        self.replaced: dict[int, None] = {}
        """Items whose payload has changed."""
        self.overwritten: dict[int, tuple[NodeName, int]] = {}
        """By the number of an item that overwrites another: its node, and the number of the first item of the chain."""
        self.placeless: list[int] = []
        self.anew: dict[int, None] = {}
        self.receipts: dict[tuple[int, Jid], None] = {}
        self.staged: list[StagedRow] = []
        self.events: list[LogEntry] = []

    def is_empty(self) -> bool:
        """Return whether there is nothing to write."""
        return not (
            self.items
            or self.nodes
            or self.subscriptions
            or self.of
            or self.resources
            or self.active
            or self.able
            or self.events
        )

    def writes(self, cache: RowCache, at: Millis) -> Writes:
        """Return the writes, and forget them here: the caller makes them."""
        writes = Writes(at)
        writes.nodes = _changed(self.nodes, cache.nodes)
        writes.announce = self.announce
        writes.moved = self.moved
        writes.subscriptions = [
            Write(before, now)
            for (node, jid), before in self.subscriptions.items()
            if (now := cache.subscription(node, jid)) != before
        ]
        self._add_items(writes, cache)
        if self.placeless:
            writes.placeless = self.placeless
            known = self.overwritten.items()
            writes.overwritten = [(node, old, new) for new, (node, old) in known]
        if self.resources:
            writes.resources = self._resource_writes(cache)
        writes.active = list(self.active.items())
        writes.able = list(self.able.items())
        for kind, befores in self.of.items():
            writes.of[kind] = _changed(befores, cache.of[kind], always=kind.always_written)
        writes.staged = self.staged
        writes.events = self.events
        return writes

    def _add_items(self, writes: Writes, cache: RowCache) -> None:
        numbered, items, payloads = cache.numbered, writes.items, cache.payloads
        for seq, before in self.items.items():
            now = numbered.get(seq)
            if now is before:
                continue
            items.append(Write(before, now))
            if now is not None:
                if is_ready(now):
                    cache.note_ready(now)
                if before is None or seq in self.replaced:
                    writes.payloads[seq] = payloads[seq]
        cache.ready.clear()
        if self.anew:
            writes.anew = [seq for seq in self.anew if numbered.get(seq) is not None]
        if self.receipts:
            writes.receipts = [key for key in self.receipts if numbered.get(key[0]) is not None]

    def _resource_writes(self, cache: RowCache) -> list[Write[Jid]]:
        return [
            Write(jid if was else None, jid if now else None)
            for jid, was in self.resources.items()
            if (now := jid in cache.resources.get(account_of(jid), ())) is not was
        ]


def _changed(
    befores: dict[Any, Any], rows: dict[Any, Any], *, always: bool = False
) -> list[Write[Any]]:
    return [
        Write(before, now)
        for key, before in befores.items()
        if (now := rows.get(key)) != before or always
    ]


# Numbers of a sequence, reserved in blocks, so that most batches need no statement for them.

BLOCK: Final = 1000
"""Numbers that are reserved at a time. Those that a process does not use are never used."""


def delivered_mark(instance: int) -> str:
    """Return the sequence whose next number is the first lock token whose delivery the process does not know to be sent."""
    return f"told-{instance}" if instance else "told"


class Numbers:
    """A block of one sequence. It is valid only while no other process takes numbers, so numbers rise with commits."""

    def __init__(self, sequence: str) -> None:
        self._sequence = sequence
        self._next = self._end = 0

    def forget(self) -> None:
        """Drop the block: another process has taken numbers, or its reservation was rolled back."""
        self._next = self._end = 0

    def first(self, tx: Transaction, count: int) -> int:
        """Return the first of `count` consecutive unused numbers."""
        if self._end - self._next < count:
            size = max(BLOCK, count)
            self._next = tx.number(self._sequence, size)
            self._end = self._next + size
        return self._next

    @property
    def next(self) -> int:
        """The next number of the block, 0 if there is none. Lower numbers are used, or never will be."""
        return self._next

    def used(self, number: int) -> None:
        """Note that a number was used."""
        if number >= self._next:
            self._next = number + 1

    def take(self, tx: Transaction) -> int:
        """Return an unused number."""
        number = self._next if self._next < self._end else self.first(tx, 1)
        self._next = number + 1
        return number
