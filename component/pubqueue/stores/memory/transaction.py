"""One transaction: rows by their keys, what is ready and what is due, and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from pubqueue.app.listings import NotedWinners, Winners
from pubqueue.app.ports import StoreError
from pubqueue.app.rows import Due, Rows
from pubqueue.core.model import NO_TIME
from pubqueue.stores.memory import bulk, pages, writing
from pubqueue.stores.memory.winners import Choice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pubqueue.app.listings import Listing
    from pubqueue.app.rows import Needs, Writes
    from pubqueue.core.model import Item, Millis, NodeName, Subscription
    from pubqueue.stores.memory.books import Books
    from pubqueue.stores.memory.table import K, Table, V

R = TypeVar("R")


class MemoryTransaction:
    """Implements `pubqueue.app.ports.Transaction` on the books."""

    foreign = False
    """Nobody else has these books."""

    def __init__(self, books: Books, *, writing: bool) -> None:
        self._books = books
        self._writing = writing
        self._choice: Choice | None = None

    def load(self, needs: Needs) -> Rows:
        """Return the rows that are there."""
        books = self._books
        nodes, items, staging = books.nodes, books.items, books.staging
        return Rows(
            nodes=[kept.node for kept in _found(nodes.nodes, needs.nodes)],
            affiliations=_found(nodes.affiliations, needs.affiliations),
            subscriptions=self._subscriptions(needs),
            resources=[jid for account in needs.resources for jid in nodes.here(account)],
            items=self._items(needs),
            payloads=[(s, items.payloads.rows[s]) for s in needs.payloads if s in items.items.rows],
            receipts=[(s, jid) for s in needs.receipts for jid in items.receipts.rows.get(s, ())],
            finished=_found(items.finished, needs.finished),
            apps=_found(staging.apps, needs.apps),
            versions=[opened.version for opened in _found(staging.versions, needs.versions)],
            attempts=[one.attempt for one in _found(staging.attempts, needs.attempts)],
            waiting=_found(staging.waiting, needs.waiting),
            staged=[
                (key, row.size)
                for key in needs.staged
                if (one := staging.attempts.rows.get((key.app, key.version, key.part, key.attempt)))
                and (row := staging.rows(one.number).get((key.node, key.id)))
            ],
            noted=[
                (key, row.draft.payload, row.known)
                for key in needs.noted
                if (row := staging.noted((key.app, key.version), key.node, key.id)) is not None
            ],
        )

    def _subscriptions(self, needs: Needs) -> list[Subscription]:
        nodes = self._books.nodes
        found: tuple[Iterable[Subscription], ...] = (
            *(nodes.of_account(account, node) for node, account in needs.subscriptions),
            *map(nodes.subscribers, needs.subscribers),
            *map(nodes.of_account, needs.accounts),
        )
        return list({(one.node, one.jid): one for some in found for one in some}.values())

    def _items(self, needs: Needs) -> list[Item]:
        items = self._books.items
        named = (items.find(*key) for key in needs.items)
        found = {item.seq: item for item in named if item is not None}
        found.update((item.seq, item) for item in _found(items.items, needs.numbers))
        found.update((item.seq, item) for holder in needs.held for item in items.held(holder))
        return list(found.values())

    def ready(
        self, rooms: Mapping[NodeName, int], now: Millis, octets: int
    ) -> list[tuple[Item, bytes]]:
        """Return what can be handed out, of each node the first by priority and then by age."""
        items = self._books.items
        rows: list[tuple[Item, bytes]] = []
        for node, room in rooms.items():
            folder = items.folder(node)
            for order in (folder.ready, folder.aside):
                for item, _ in zip(items.living(order, now), range(room), strict=False):
                    rows.append(items.with_payload(item.seq))
                    octets -= len(rows[-1][1])
                    if octets <= 0:
                        return rows
        return rows

    def due(self, now: Millis, limit: int) -> Due:
        """Return what has run out by now, of each kind so many at most."""
        items = self._books.items
        versions: list[tuple[str, int]] = []
        for until, key in self._books.staging.untils:
            if until > now or len(versions) >= limit:
                break
            versions.append(key)
        return Due(
            locks=items.over(items.locks, now, limit),
            lives=items.over(items.lives, now, limit),
            delayed=items.over(items.dues, now, limit),
            versions=versions,
        )

    def next_due(self) -> Millis | None:
        """Return when the next lock, pause, life or wait for a commit ends; the past if there is litter."""
        items, staging = self._books.items, self._books.staging
        if staging.dropped.rows:
            return NO_TIME
        orders = items.locks, items.lives, items.dues, staging.untils
        return min((first[0] for order in orders if (first := order.first())), default=None)

    def page(self, which: Listing[R], after: object = None, limit: int = 1) -> list[R]:
        """Return rows of a listing behind `after`, so many at most."""
        if isinstance(which, Winners | NotedWinners):
            self._choice = Choice(self._books, which.app, which.version, which.parts)
        return pages.page(self._books, self._choice, which, after, limit)

    def number(self, sequence: str, count: int) -> int:
        """Reserve so many numbers of a sequence, and return the first."""
        self._must_write()
        return self._books.number(sequence, count)

    def write(self, writes: Writes) -> None:
        """Make these writes, or none of them.

        Raises:
            StaleError: a row was not what was believed.

        """
        self._must_write()
        books = self._books
        mark = books.journal.mark()
        try:
            writing.write_nodes(books, writes)
            bulk.record(books, writes.events, writes.at, self._choice)
            writing.write_rows(books, writes)
            for change in writes.bulk:
                bulk.make(books, change, self._choice)
        except BaseException:
            books.journal.undo(mark)
            raise

    def _must_write(self) -> None:
        if not self._writing:
            raise StoreError("whoever reads changes nothing")


def _found(table: Table[K, V], keys: Iterable[K]) -> list[V]:
    rows = table.rows
    return [rows[key] for key in keys if key in rows]
