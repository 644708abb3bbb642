"""The changes of a batch that are not written yet: each row as it was before the batch changed it.

The row as it is now is in the row cache. A row that is again as it was needs no write, nor does one that came and went.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pubqueue.app.store.kinds import TablesByKind
from pubqueue.app.store.rows import Write, Writes
from pubqueue.model.after import is_ready
from pubqueue.model.entities import account_of

if TYPE_CHECKING:
    from pubqueue.app.store.rows import StagedRow
    from pubqueue.app.working_set.row_cache import RowCache
    from pubqueue.model.entities import Item, Jid, Millis, Node, NodeName, Subscription
    from pubqueue.model.records import LogEntry


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
