"""Compares what comes from the store with its checksums: what does not match is left out, and the items of queues die."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import structlog
from msgspec.structs import replace

from pubqueue.engine.listings import (
    ItemEntries,
    Items,
    NodeEntries,
    NodesOfAccount,
    NodesOfAccountNamed,
    Records,
    WinnerRows,
    WinningDrafts,
)
from pubqueue.engine.ports import FAR
from pubqueue.engine.rows import (
    AFFILIATIONS,
    APPS,
    REGISTRATIONS,
    SCHEDULES,
    VERSIONS,
    AffiliationRow,
    RowKind,
)
from pubqueue.model.decision import Damaged
from pubqueue.model.entities import Item, Node, Subscription
from pubqueue.model.records import Registration
from pubqueue.model.schedules import Schedule
from pubqueue.model.sums import has_sound_head, is_sound, sum_of, with_numbers
from pubqueue.model.transactions import App, Record, Version, account_and_name
from pubqueue.rules.damage import EndDamaged, closed, split

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pubqueue.engine.listings import Listing
    from pubqueue.engine.ports import Transaction
    from pubqueue.engine.rows import Due, Needs, Reach, Ready, Rows
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Affiliation, ItemId, Millis, NodeName
    from pubqueue.model.replies import ItemEntry, NodeEntry
    from pubqueue.model.transactions import WinnerRow


R = TypeVar("R")


class DamagedRow(NamedTuple):
    """A row of another table than those of items, which is not what was written."""

    kind: str
    key: str


if TYPE_CHECKING:
    Name = tuple[NodeName, ItemId] | DamagedRow

log = structlog.get_logger(__name__)

AT_ONCE: Final = 100
"""Damaged items that are ended by one request."""

REMEMBERED: Final = 10_000
"""Damaged items that are not counted and logged again."""


class ComparedRows:
    """A transaction whose rows are compared with their checksums; `note` gets the number of each item that is damaged, or the name of a staged one."""

    def __init__(self, tx: Transaction, note: Callable[[int, Name | None], None]) -> None:
        self._tx = tx
        self._note = note
        self.number, self.write, self.next_due = tx.number, tx.write, tx.next_due

    @property
    def foreign(self) -> bool:
        """Whether another process has written since the last transaction."""
        return self._tx.foreign

    def due(self, now: Millis, limit: int) -> Due:
        """Return the rows that have expired; their payloads are not read."""
        due = self._tx.due(now, limit)
        for kind, app, number in (key for key in due.unread if key[0] == "version"):
            self._note(0, DamagedRow(kind, f"{number} of {account_and_name(app)}"))
        return due

    def load(self, needs: Needs) -> Rows:
        """Return the existing rows; a damaged payload is empty."""
        rows = self._tx.load(needs)
        self._look_at_heads(rows.items)
        self._look_at_rows(rows.nodes)
        self._look_at_rows(rows.subscriptions)
        for kind in SEALED if rows.of else ():
            self._look_at_rows(rows.of[kind])
        for at, (seq, payload, known) in enumerate(rows.payloads):
            if not is_sound(known, payload):
                self._note(seq, None)
                rows.payloads[at] = seq, b"", None
        return rows

    def ready(
        self, rooms: Mapping[NodeName, int], now: Millis, byte_count: int, reach: Reach = FAR
    ) -> Ready:
        """Return items that can be delivered; damaged ones are left out."""
        ready = self._tx.ready(rooms, now, byte_count, reach)
        ready.rows, damaged = split(ready.rows)
        for item in damaged:
            self._note(item.seq, None)
            ready.damaged.add(item.node)
        return ready

    def page(self, which: Listing[R], after: object = None, limit: int = 1) -> list[R]:
        """Return rows of a listing."""
        compare: Any = COMPARED.get(type(which))
        if compare is not None:
            found: list[R] = compare(self, which, after, limit)
            return found
        rows = self._tx.page(which, after, limit)
        if rows and type(rows[0]) is Item:
            self._look_at_heads(rows)  # type: ignore[arg-type]  # all are like the first
        elif rows and type(rows[0]) in KEYS:
            self._look_at_rows(rows)
        return rows

    def _look_at_rows(self, rows: list[Any]) -> None:
        """Note the damaged rows, and close the nodes among them; what that means is for the rules."""
        for at, row in enumerate(rows):
            if row.damaged:
                kind = type(row)
                self._note(
                    0, DamagedRow(kind.__name__.lower().removesuffix("row"), KEYS[kind](row))
                )
                if kind is Node:
                    rows[at] = closed_if_damaged(row)

    def _of_account(
        self,
        which: NodesOfAccount | NodesOfAccountNamed,
        after: Any,  # noqa: ANN401  # of the listing
        limit: int,
    ) -> list[tuple[Node, Affiliation]]:
        """Return nodes with affiliations; a damaged node is closed."""
        return [
            (closed_if_damaged(node), role) for node, role in self._tx.page(which, after, limit)
        ]

    def _node_entries(self, which: NodeEntries, after: Any, limit: int) -> list[NodeEntry]:  # noqa: ANN401  # likewise
        """Return nodes with their counts; a damaged node is closed."""
        found = self._tx.page(which, after, limit)
        return [
            replace(one, node=closed_if_damaged(one.node)) if one.node.damaged else one
            for one in found
        ]

    def _look_at_heads(self, items: list[Item]) -> None:
        for at, item in enumerate(items):
            if not has_sound_head(item):
                self._note(item.seq, None)
                items[at] = with_numbers(item)

    def _items(self, which: Items, after: Any, limit: int) -> list[tuple[Item, bytes]]:  # noqa: ANN401  # of the listing
        """Return items to send, without damaged ones; if all of a page are, what comes next."""
        while True:
            found = self._tx.page(which, after, limit)
            sound, damaged = split(found)
            for item in damaged:
                self._note(item.seq, None)
            if sound or not found or which.numbers is not None or which.holders is not None:
                return sound
            after = (found[0] if which.newest else found[-1])[0].seq

    def _entries(self, which: ItemEntries, after: Any, limit: int) -> list[ItemEntry]:  # noqa: ANN401  # of the listing
        """Return entries for an operator: of damaged items without the payload."""
        found = self._tx.page(which, after, limit)
        for at, entry in enumerate(found):
            item, payload = entry.item, entry.payload
            if payload is None or split([(item, payload)])[0]:
                continue
            self._note(item.seq, None)
            found[at] = replace(entry, payload=b"")
        return found

    def _winners(self, which: WinnerRows, after: Any, limit: int) -> list[WinnerRow]:  # noqa: ANN401  # of the listing
        """Return winners; damaged ones are marked."""
        found = self._tx.page(which, after, limit)
        for at, row in enumerate(found):
            draft, known = row.item.draft, row.item.sum
            if known not in {None, sum_of(draft.id, draft.payload, draft.group, draft.headers)}:
                found[at] = replace(row, damaged=True)
                self._note(0, (row.node, draft.id))
        return found

    def _records(self, which: Records, after: Any, limit: int) -> list[Record]:  # noqa: ANN401  # of the listing
        """Return records, without damaged ones: whose they are is not known. A page is short only if no others follow."""
        sound: list[Record] = []
        while count := limit - len(sound):
            found = self._tx.page(which, after, count)
            self._look_at_rows(found)
            sound += [one for one in found if not one.damaged]
            if len(found) < count:
                break
            after = found[-1].id
        return sound

    def _drafts(self, which: WinningDrafts, after: Any, limit: int) -> list[Any]:  # noqa: ANN401  # of the listing
        """Return winners of a node that feeds queues; damaged ones are left out, and die in the node."""
        return [
            (draft, known)
            for draft, known in self._tx.page(which, after, limit)
            if known in {None, sum_of(draft.id, draft.payload, draft.group, draft.headers)}
        ]


def closed_if_damaged(node: Node) -> Node:
    """Return the node as rules may see it: closed, if its settings are not those that were written."""
    return replace(node, config=closed(node.config)) if node.damaged else node


KEYS: Final[dict[type, Callable[[Any], str]]] = {
    Node: lambda row: row.name,
    Subscription: lambda row: f"{row.jid} to {row.node}",
    AffiliationRow: lambda row: f"{row.account} with {row.node}",
    Schedule: lambda row: row.name,
    Registration: lambda row: row.name,
    App: lambda row: account_and_name(row.name),
    Version: lambda row: f"{row.number} of {account_and_name(row.app)}",
    Record: lambda row: f"{row.version} of {account_and_name(row.app)}",
}
"""What names a row of each of these kinds."""

SEALED: Final[tuple[RowKind[Any, Any], ...]] = (
    AFFILIATIONS,
    SCHEDULES,
    REGISTRATIONS,
    APPS,
    VERSIONS,
)
"""Those of them that are loaded by their keys."""

COMPARED: Final[dict[type, Callable[..., list[Any]]]] = {
    Items: ComparedRows._items,  # noqa: SLF001  # its own
    ItemEntries: ComparedRows._entries,  # noqa: SLF001
    NodesOfAccount: ComparedRows._of_account,  # noqa: SLF001
    NodesOfAccountNamed: ComparedRows._of_account,  # noqa: SLF001
    NodeEntries: ComparedRows._node_entries,  # noqa: SLF001
    Records: ComparedRows._records,  # noqa: SLF001
    WinnerRows: ComparedRows._winners,  # noqa: SLF001
    WinningDrafts: ComparedRows._drafts,  # noqa: SLF001
}
"""Listings that have payloads."""


class DamageReports:
    """Collects what was found damaged, by the batches and by the reader, and has it ended. `count` is of this process."""

    def __init__(self, submit: Callable[[EndDamaged, Callable[[Reply], None]], None]) -> None:
        self._submit = submit
        self._found: dict[int, None] = {}
        self._under_way: set[int] = set()
        self._known: OrderedDict[Name, None] = OrderedDict()
        self.count = 0

    def note(self, seq: int, staged: Name | None = None) -> None:
        """Note an item by its number, or a staged one by its name; this may be called in another thread."""
        if staged is not None:
            self._report(staged)
        elif seq not in self._under_way:
            self._found[seq] = None

    def end(self) -> None:
        """Have everything ended that was found."""
        if self._found:
            found, self._found = tuple(self._found), {}
            self._under_way.update(found)
            for at in range(0, len(found), AT_ONCE):
                seqs = found[at : at + AT_ONCE]
                self._submit(EndDamaged(seqs), partial(self._ended, seqs))

    def _ended(self, seqs: tuple[int, ...], reply: Reply) -> None:
        """Count and log the items, each once; what could not be ended is noted again when it is met again."""
        self._under_way.difference_update(seqs)
        for name in reply.items if isinstance(reply, Damaged) else ():
            self._report(name)

    def _report(self, name: Name) -> None:
        if name not in self._known:
            self._known[name] = None
            self.count += 1
            if isinstance(name, DamagedRow):
                log.error("row.damaged", kind=name.kind, key=name.key)
            else:
                log.error("item.damaged", node=name[0], item=name[1])
            if len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
