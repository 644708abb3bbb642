"""The facts of one transaction, read from SQLite row by row. Nothing is ranked or judged here."""

from __future__ import annotations

from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from pubqueue.app.ports import StoreError
from pubqueue.core.changes import (
    AddItem,
    Extend,
    Lock,
    Postpone,
    Release,
    RemoveItem,
    ReplacePayload,
)
from pubqueue.core.model import (
    Affiliation,
    Death,
    Item,
    ItemId,
    Jid,
    Millis,
    Node,
    NodeConfig,
    NodeName,
    Subscription,
)
from pubqueue.core.transactions import Stage
from pubqueue.stores.sqlite.changes import apply
from pubqueue.stores.sqlite.counts import Counts
from pubqueue.stores.sqlite.events import SqliteHistory
from pubqueue.stores.sqlite.queries import SQL
from pubqueue.stores.sqlite.rows import item_of
from pubqueue.stores.sqlite.txn import SqliteStaging

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pubqueue.core.changes import Change


@lru_cache(maxsize=1024)
def _config(text: str) -> NodeConfig:
    """Read a node's settings; the text is the key, so a changed node is never mistaken."""
    return msgspec.json.decode(text, type=NodeConfig)


def _node(row: Sequence[Any]) -> Node:
    name, config, creator, created, items, subscriptions = row
    return Node(name, _config(config), creator, created, items, subscriptions)


def _subscription(row: Sequence[Any]) -> Subscription:
    node, jid, subid, requests, in_flight, last_served, available, bounces = row
    return Subscription(
        node, jid, subid, requests, in_flight, last_served, bool(available), bounces
    )


def _with_payloads(node: NodeName, rows: Iterable[Sequence[Any]]) -> list[tuple[Item, bytes]]:
    return [(item_of(node, row[:-1]), row[-1]) for row in rows]


_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "node": lambda row: None if row is None else _node(row),
    "affiliation": lambda row: Affiliation.NONE if row is None else Affiliation(row[0]),
    "subscribed": lambda row: row is not None,
}

_PLAIN: Final = frozenset(
    {AddItem, Extend, Lock, Postpone, Release, RemoveItem, ReplacePayload, Stage}
)
"""Changes that leave nodes, affiliations and subscriptions as they are, but for the counts."""


class SqliteTransaction:
    """Implements `pubqueue.app.ports.Transaction` on an open SQLite transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._depth = 0
        self._counts = Counts(connection)
        self._known: dict[object, Any] = {}
        self._staging = SqliteStaging(connection, self._counts.ledger)
        self._history = SqliteHistory(connection)

    def finish(self) -> None:
        """Write what is still held back; called once, before the commit."""
        self._counts.write()

    @property
    def staging(self) -> SqliteStaging:
        """What waits for a commit of its publisher's."""
        return self._staging

    @property
    def history(self) -> SqliteHistory:
        """The event log, and pages of items and nodes."""
        return self._history

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """Undo what happens inside, and only that, when it raises.

        Raises:
            StoreError: SQLite has undone the whole transaction by itself, as for a full disk.

        """
        self._depth += 1
        name = f"s{self._depth}"
        marks = self._counts.mark()
        self._execute(f"SAVEPOINT {name}")
        try:
            yield
        except BaseException as problem:
            self._known.clear()
            self._counts.back_to(marks)
            if not self._connection.in_transaction:  # what came next would be committed piecemeal
                raise StoreError(f"the transaction is lost: {problem}") from problem
            self._execute(f"ROLLBACK TO {name}")
            raise
        finally:
            self._depth -= 1
            if self._connection.in_transaction:
                self._execute(f"RELEASE {name}")

    def _one(self, query: str, *values: object) -> Any:  # noqa: ANN401  # a row of that query
        return self._execute(SQL[query], values).fetchone()

    def _all(self, query: str, *values: object) -> list[Any]:
        return self._execute(SQL[query], values).fetchall()

    def _some(self, octets: int, query: str, *values: object) -> list[Any]:
        """Return rows until their payloads, in the last column, are so many bytes; one at least."""
        cursor = self._execute(SQL[query], values)
        rows = []
        for row in cursor:
            rows.append(row)
            octets -= len(row[-1])
            if octets <= 0:
                break
        cursor.close()
        return rows

    def _write_counts(self) -> None:
        """Write the counts, and forget the nodes that were read before."""
        self._counts.write()
        self._known.clear()

    def _remember(self, query: str, *key: str) -> Any:  # noqa: ANN401  # what _READ makes of the row
        """Read once in a transaction what hardly changes; a change to such facts clears the memory."""
        try:
            return self._known[query, key]
        except KeyError:
            found = self._known[query, key] = _READ[query](self._one(query, *key))
            return found

    # --- nodes ---

    def node(self, name: NodeName) -> Node | None:
        """Return the node."""
        node: Node | None = self._remember("node", name)
        more = self._counts.items_of(name)
        return replace(node, items=node.items + more) if node is not None and more else node

    def nodes(self) -> list[Node]:
        """Return every node, by name."""
        self._write_counts()
        return [_node(row) for row in self._all("nodes")]

    def ready_nodes(self) -> list[NodeName]:
        """Return the nodes that have both something to hand out and a window for it."""
        self._write_counts()
        return [NodeName(row[0]) for row in self._all("ready_nodes")]

    def affiliation(self, node: NodeName, account: Jid) -> Affiliation:
        """Return what the bare JID is to the node."""
        found: Affiliation = self._remember("affiliation", node, account)
        return found

    def affiliations(self, node: NodeName) -> list[tuple[Jid, Affiliation]]:
        """Return everybody who is something to the node, by JID."""
        return [(Jid(jid), Affiliation(word)) for jid, word in self._all("affiliations", node)]

    # --- subscriptions ---

    def subscription(self, node: NodeName, jid: Jid) -> Subscription | None:
        """Return the subscription of exactly this JID."""
        self._write_counts()
        row = self._one("subscription", node, jid)
        return None if row is None else _subscription(row)

    def subscribed(self, node: NodeName, account: Jid) -> bool:
        """Say whether any JID of the account subscribes to the node."""
        return bool(self._remember("subscribed", node, account))

    def subscribers(self, node: NodeName) -> list[Subscription]:
        """Return every subscription to the node."""
        self._write_counts()
        return [_subscription(row) for row in self._all("subscribers", node)]

    def open_windows(self, node: NodeName) -> list[Subscription]:
        """Return the subscriptions that could be handed something."""
        self._write_counts()
        return [_subscription(row) for row in self._all("open_windows", node)]

    def subscriptions_of(self, jids: Iterable[Jid]) -> list[Subscription]:
        """Return the subscriptions of exactly these JIDs, to any node."""
        self._write_counts()
        return [_subscription(row) for jid in jids for row in self._all("subscriptions_of", jid)]

    def subscriptions_of_account(self, account: Jid) -> list[Subscription]:
        """Return the subscriptions of all JIDs of the account, to any node, by node and JID."""
        self._write_counts()
        return [_subscription(row) for row in self._all("subscriptions_of_account", account)]

    def resources(self, account: Jid) -> list[Jid]:
        """Return the full JIDs of the account that are known to be here."""
        return [Jid(row[0]) for row in self._all("resources", account)]

    # --- items ---

    def item(self, node: NodeName, item: ItemId) -> Item | None:
        """Return the item, without its payload."""
        row = self._one("item", node, item)
        return None if row is None else item_of(node, row)

    def item_at(self, seq: int) -> Item | None:
        """Return the item with this sequence number."""
        row = self._one("item_at", seq)
        return None if row is None else item_of(row[-1], row[:-1])

    def item_ids(self, node: NodeName, limit: int) -> list[ItemId]:
        """Return the ids of the node's oldest items."""
        return [ItemId(row[0]) for row in self._all("item_ids", node, limit)]

    def payload(self, item: Item) -> bytes:
        """Return the payload as it was published."""
        return bytes(self._one("payload", item.seq)[0])

    def held(self, item: Item, jids: Sequence[Jid]) -> list[Jid]:
        """Return those of the JIDs that once held the item and lost it."""
        first, last = jids[0], jids[-1]
        return [Jid(row[0]) for row in self._all("held", item.seq, first, last)]

    def finished(self, node: NodeName, item: ItemId, now: Millis) -> bytes | None:
        """Return the digest of finished work whose id still absorbs a re-publish."""
        row = self._one("finished", node, item, now)
        return None if row is None else bytes(row[0])

    def held_by(self, jids: Sequence[Jid]) -> list[Item]:
        """Return the items locked to exactly these JIDs, in any node."""
        return [item_of(row[-1], row[:-1]) for jid in jids for row in self._all("held_by", jid)]

    def held_count(self, node: NodeName, jid: Jid) -> int:
        """Return how many items of the node are locked to this JID."""
        return int(self._one("held_count", node, jid)[0])

    def ready(
        self, node: NodeName, now: Millis, limit: int, octets: int
    ) -> list[tuple[Item, bytes]]:
        """Return the next items to hand out, with their payloads: no more when these are so many bytes."""
        return _with_payloads(node, self._some(octets, "ready", node, now, limit))

    def aside(
        self, node: NodeName, now: Millis, limit: int, octets: int
    ) -> list[tuple[Item, bytes]]:
        """Return items that are delayed only for the one they avoid, within the same bounds."""
        return _with_payloads(node, self._some(octets, "aside", node, now, limit))

    def dead(self, node: NodeName, limit: int) -> list[tuple[Item, NodeName | None]]:
        """Return items that died here, or came here dead, each with the node it came from."""
        return [(item_of(node, row[:-1]), row[-1]) for row in self._all("dead", node, limit)]

    def origin(self, item: Item) -> NodeName | None:
        """Return the node that a dead item came from, if it came from another."""
        row = self._one("origin", item.seq)
        return None if row is None or row[0] is None else NodeName(row[0])

    def oldest(
        self, node: NodeName, holders: Sequence[Jid] | None, after: int, limit: int
    ) -> list[tuple[Item, bytes]]:
        """Return items with payloads, oldest first: behind a sequence number, of these holders."""
        if holders is None:
            return _with_payloads(node, self._all("oldest", node, after, limit))
        ends = holders[0], holders[-1]
        return _with_payloads(node, self._all("oldest_held", node, after, limit, *ends))

    def newest(
        self, node: NodeName, holders: Sequence[Jid] | None, limit: int
    ) -> list[tuple[Item, bytes]]:
        """Return the last items with payloads, oldest first, of these holders."""
        rows = (
            self._all("newest", node, limit)
            if holders is None
            else self._all("newest_held", node, limit, holders[0], holders[-1])
        )
        return _with_payloads(node, reversed(rows))

    def deaths(self, node: NodeName, first: Item, last: Item) -> list[Death]:
        """Return what is kept of the dead among the node's items from `first` to `last`."""
        return [Death(*row) for row in self._all("deaths", node, first.seq, last.seq)]

    # --- time ---

    def ripe(self, now: Millis) -> list[NodeName]:
        """Return the nodes with delayed items whose time has come."""
        return [NodeName(row[0]) for row in self._all("ripe", now)]

    def expired_locks(self, now: Millis, limit: int) -> list[Item]:
        """Return locked items whose deadline has come, the oldest deadline first."""
        return [item_of(row[-1], row[:-1]) for row in self._all("expired_locks", now, limit)]

    def locks_beyond(self, node: NodeName, moment: Millis) -> list[Item]:
        """Return the node's locked items whose deadline is later than that, the nearest first."""
        return [item_of(node, row) for row in self._all("locks_beyond", node, moment)]

    def expired_lives(self, now: Millis, limit: int) -> list[Item]:
        """Return items that nobody holds and whose time to live has ended."""
        return [item_of(row[-1], row[:-1]) for row in self._all("expired_lives", now, limit)]

    def next_moment(self) -> Millis | None:
        """Return when the next lock, pause or life ends."""
        moment = self._one("next_moment")[0]
        return None if moment is None else Millis(moment)

    def tokens(self, count: int) -> int:
        """Reserve so many lock tokens, all higher than any before, and return the first."""
        return int(self._one("tokens", count)[0]) - count

    # --- changes ---

    def apply(self, changes: Sequence[Change]) -> None:
        """Make the changes in order, or raise StaleError."""
        if not _PLAIN.issuperset(map(type, changes)):
            self._known.clear()
        apply(self._connection, self._counts, changes)
