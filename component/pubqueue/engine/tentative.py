"""Changes that are not made yet, and the rows as they would leave them, on which the next part of a request is decided.

Parts that are done together are each decided with the changes of the parts before. Until the last one is decided it is open
whether any change is made. So these changes are made in separate tables over those of the working set: rows that they do not
have are read from there. If all parts may be done, the same changes are made in the working set. If not, there is nothing to
undo.

Nothing is written from here. New items have provisional numbers, below 0, because a later part may name an item that an
earlier one adds. They get numbers of the store when it is certain that all parts are done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace

from pubqueue.engine.changes import ChangeApplier
from pubqueue.engine.rows import HOLDINGS, TablesByKind
from pubqueue.engine.working_set import FirstItems
from pubqueue.engine.writes import PendingWrites, RowCache
from pubqueue.model import changes as c
from pubqueue.model.decision import Published

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from pubqueue.engine.ports import Transaction
    from pubqueue.engine.rows import Bulk, K, Needs, Row, RowKind, Rows
    from pubqueue.engine.working_set import WorkingSet
    from pubqueue.model.changes import Change, ItemChange
    from pubqueue.model.decision import Decision
    from pubqueue.model.entities import Item, Jid, Millis, NodeName


Key = TypeVar("Key")
Value = TypeVar("Value")

KNOWN: Final = frozenset(
    {
        c.CreateNode,
        c.ConfigureNode,
        c.NoteLeftOut,
        c.SetAffiliation,
        c.BeginTrim,
        c.PutRow,
        *ChangeApplier.OF_ITEMS,
    }
)
"""Changes that can be tried: those of publishing and settling. None of them changes many rows at once."""


class LayeredTable(dict[Key, Value]):
    """A table over another: rows are put here, and rows that are not here are read from the other."""

    def __init__(self, below: dict[Key, Value]) -> None:
        super().__init__()
        self._below = below

    def __missing__(self, key: Key) -> Value:
        """Return the row of the other table."""
        return self._below[key]

    def __contains__(self, key: object) -> bool:
        """Return whether the key is in this or the other table."""
        return super().__contains__(key) or key in self._below

    def get(self, key: Key, default: Any = None) -> Any:  # noqa: ANN401  # as that of a dictionary
        """Return the row of this or the other table, or `default`."""
        return super().get(key, self._below.get(key, default))


class _LayeredTables(TablesByKind):
    def __init__(self, below: TablesByKind) -> None:
        super().__init__()
        self._below = below

    def __missing__(self, kind: RowKind[K, Row]) -> dict[K, Row | None]:
        table: dict[K, Row | None] = LayeredTable(self._below[kind])
        self[kind] = table
        return table


class TentativeRows(RowCache):
    """The rows as the changes would leave them. Rows that are loaded meanwhile go into the tables below."""

    _LAYERED: Final = "nodes", "items", "numbered", "payloads", "receipts", "lost"
    _SHARED: Final = (
        "in_node",
        "of_account",
        "everywhere",
        "of_jid",
        "audiences",
        "silent",
        "resources",
        "present",
        "able",
    )
    """Tables that these changes do not affect. The others are for dispatch, and are never read from here."""

    def __init__(self, below: RowCache) -> None:
        super().__init__()
        self._below = below
        for name in self._SHARED:
            setattr(self, name, getattr(below, name))
        for name in self._LAYERED:
            setattr(self, name, LayeredTable(getattr(below, name)))
        self.of = _LayeredTables(below.of)

    def fill(self, asked: Needs, found: Rows) -> None:
        """Add the rows that were found for these needs, for all requests."""
        self._below.fill(asked, found)
        self.rights.clear()


class TentativeWrites(PendingWrites):
    """The changes, which are never written. Sums are loaded before they are changed: a later load would miss these changes."""

    def __init__(self, rows: WorkingSet) -> None:
        super().__init__(TentativeRows(rows.cache))
        self._rows = rows

    def hold(self, account: Jid, nodes: int, items: int, size: int) -> None:
        """Update the account's total."""
        if account not in self.cache.of[HOLDINGS]:
            self._rows.needs.of[HOLDINGS].add(account)
            self._rows.load()
        super().hold(account, nodes, items, size)

    def write(self, tx: Transaction, *bulk: Bulk) -> None:
        """Refuse to write."""
        raise NotImplementedError("what is only tried is not written")


class TentativeChanges(ChangeApplier):
    """Makes changes in separate tables, over those of the working set.

    `named` has for each node how many of its items the parts are about.
    """

    def __init__(self, rows: WorkingSet, now: Millis, named: Mapping[NodeName, int]) -> None:
        super().__init__(rows, lambda _jid: False, pending=TentativeWrites(rows))
        self._first_items = FirstItems(named)
        self._provisional = 0
        self.now = now

    def shown(self) -> AbstractContextManager[None]:
        """Let facts that are read within the context include the changes."""
        return self._rows.showing(self._cache, self._first_items)

    def tried(self, asked: object, decision: Decision) -> Decision:
        """Make the changes of a decision here, and return it with their provisional numbers."""
        numbered = tuple([self._numbered(change) for change in decision.changes])
        if not KNOWN.issuperset(map(type, numbered)):
            raise NotImplementedError("a change of many rows is not done together with others")
        self.make(
            asked, (one for one in numbered if type(one) is not c.BeginTrim)
        )  # no rule asks for it
        return replace(decision, changes=numbered)

    def _numbered(self, change: Change) -> Change:
        """Give a new item, and a dead letter, a provisional number: a refused request uses up none of the store's."""
        if isinstance(change, c.AddItem):
            self._provisional -= 1
            return replace(change, seq=self._provisional)
        if isinstance(change, c.GiveUp):
            self._provisional -= 1
            change = replace(change, number=self._provisional)
            if (onward := change.onward) is not None:
                copies = tuple([self._numbered(copy) for copy in onward.copies])
                change = replace(change, onward=replace(onward, copies=copies))
        return change

    def _put_item(self, asked: object, change: ItemChange, before: Item | None) -> None:
        super()._put_item(asked, change, before)
        now = self._cache.numbered[change.seq if type(change) is c.AddItem else before.seq]  # type: ignore[union-attr]  # else there is one
        row = now or before
        node = None if row is None else self._cache.nodes.get(row.node)
        if node is not None and not node.config.queueing:
            self._first_items.note(before, now)

    def _logs(self, name: NodeName) -> bool:  # noqa: ARG002  # events are noted when the changes are made
        return False

    def _note_event(self, asked: object, change: Change) -> None:
        """Note nothing: events are noted when the changes are made."""


# Replaces provisional numbers by numbers of the store, in decisions that were tried (`TentativeChanges`).


class FinalNumbers:
    """Takes the numbers from the sequences of the working set, in the order of the changes."""

    def __init__(self, rows: WorkingSet) -> None:
        self._tx = rows.tx
        self._tokens, self._numbers = rows.pending.tokens, rows.pending.numbers
        self._given: dict[int, int] = {}

    def of(self, decision: Decision) -> Decision:
        """Return the decision with numbers of the store."""
        if not decision.changes and not self._given:
            return decision
        changes = tuple([self._of_change(change) for change in decision.changes])
        reply = decision.reply
        if isinstance(reply, Published) and reply.dead:
            reply = replace(reply, dead=tuple(map(self._of_item, reply.dead)))
        return replace(decision, changes=changes, reply=reply)

    def _of_change(self, change: Change) -> Change:
        if isinstance(change, c.AddItem):
            seq = self._given[change.seq] = self._numbers.take(self._tx)
            instead = self._given.get(change.instead, change.instead)
            joins = self._given.get(change.joins, change.joins)
            return replace(change, seq=seq, instead=instead, joins=joins)
        item = getattr(change, "item", None)
        if item is not None and self._given and (known := self._of_item(item)) is not item:
            change = replace(change, item=known)
        if isinstance(change, c.GiveUp):
            number = self._given[change.number] = self._tokens.take(self._tx)
            change = replace(change, number=number)
            if (onward := change.onward) is not None:
                copies = tuple([self._of_change(copy) for copy in onward.copies])
                change = replace(change, onward=replace(onward, copies=copies))
        return change

    def _of_item(self, item: Item) -> Item:
        dead = item.dead_letter
        if dead is not None and dead.number in self._given:
            item = replace(item, dead_letter=replace(dead, number=self._given[dead.number]))
        return replace(item, seq=self._given[item.seq]) if item.seq in self._given else item
