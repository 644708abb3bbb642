"""An open transaction for the code that reads and writes rows, its statements and ids of nodes."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from importlib.resources import files
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec

from pubqueue.engine.ports import StaleError
from pubqueue.model.entities import NodeName

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence


# An open transaction, for the code that reads and writes rows: statements by name, and the ids of nodes.

Values = tuple[object, ...]


class SqlSession(ABC):
    """Runs statements by name. `met` are the nodes whose winners conflict with finished work."""

    most_in_row: float = inf
    """The bytes of the largest payload in the row of an item."""

    def __init__(self, names: NodeIds) -> None:
        self.nodes = names
        self.met: set[NodeName] = set()

    def check(self) -> None:  # noqa: B027  # most databases refuse a statement then
        """Check before a write that the transaction is still open; raise StoreError if the database has ended it by itself."""

    @abstractmethod
    def rows(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a statement."""

    def rows_as_found(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a statement; a damaged text, which is not UTF-8, is returned as bytes."""
        return self.rows(query, *values)

    @abstractmethod
    def ask(self, query: str, *values: object) -> Iterable[Any]:
        """Ask for the rows of a statement. They may be read later, when they are iterated, which can be done once."""

    @abstractmethod
    def row(self, query: str, *values: object) -> Any:  # noqa: ANN401  # a row of that query
        """Return the first row, None if there is none."""

    @abstractmethod
    def stream(self, query: str, room: int, *values: object) -> Iterator[Any]:
        """Yield rows whose last column is a payload, at least until the payloads are more than `room` bytes."""

    @abstractmethod
    def run(self, query: str, *values: object) -> None:
        """Run a statement, however many rows it changes."""

    @abstractmethod
    def must(self, query: str, count: int, *values: object) -> None:
        """Run a statement that has to change `count` rows; otherwise the write is stale."""

    @abstractmethod
    def many(self, query: str, values: Sequence[Values]) -> None:
        """Run a statement for each of these values, however many rows that changes."""

    @abstractmethod
    def each(self, query: str, values: Sequence[Values]) -> None:
        """Run a statement for each of these values; each time it has to change one row, otherwise the write is stale."""

    def ask_keys(self, query: str, keys: object) -> Iterable[Any]:
        """Ask for the rows of these keys."""
        return self.ask(query, packed_keys(keys))

    def ask_by_node(self, query: str, pairs: Iterable[tuple[NodeName, str]]) -> Iterable[Any]:
        """Ask for the rows of these pairs of a node and a key; a node that does not exist has no rows."""
        lists: defaultdict[NodeName, list[str]] = defaultdict(list)
        for node, key in pairs:
            lists[node].append(key)
        ids = self.contents(lists) if query == "items" else self.ids(lists)
        keys = {str(ids[node]): some for node, some in lists.items() if node in ids}
        return self.ask_keys(query, keys) if keys else ()

    def number(self, sequence: str, count: int) -> int:
        """Reserve `count` numbers of a sequence and return the first."""
        return int(self.row("number", count, sequence)[0])

    def forget_nodes(self) -> None:  # noqa: B027  # most stores have no others to notify
        """Note that a node is purged or deleted whose ids other processes may have cached."""

    def knows(self, names: Iterable[NodeName]) -> bool:
        """Return whether the ids of all these nodes are cached."""
        return self.nodes.knows(names)

    def ids(self, names: Iterable[NodeName]) -> dict[NodeName, int]:
        """Return the ids of nodes by name, without nodes that do not exist."""
        return self.nodes.ids(self, names)

    def id(self, name: NodeName) -> int:
        """Return the id of a node, 0 if it does not exist."""
        return self.ids((name,)).get(name, 0)

    def known_id(self, name: NodeName) -> int:
        """Return the id of a node.

        Raises:
            StaleError: the node does not exist.

        """
        found = self.id(name)
        if not found:
            raise StaleError("node", name)
        return found

    def names(self, ids: set[int]) -> dict[int, NodeName]:
        """Return the names of nodes by id."""
        return self.nodes.names(self, ids)

    def contents(self, names: Iterable[NodeName]) -> dict[NodeName, int]:
        """Return the ids of the contents of nodes by name."""
        return self.nodes.contents(self, names)

    def contents_of(self, name: NodeName) -> int:
        """Return the id of the contents of a node, 0 if it does not exist."""
        return self.contents((name,)).get(name, 0)

    def holding(self, ids: set[int]) -> dict[int, NodeName]:
        """Return the names of nodes by the ids of contents, without contents that belong to no node."""
        return self.nodes.holding(self, ids)


# Maps names of nodes to their ids and those of their contents, and back: statements use the ids.
#
# Items belong to contents, all other rows to the node itself. A node never changes its name, and it keeps its contents until
# it is purged. So cached ids are valid until a node is purged or deleted. The cache is dropped when a transaction is rolled
# back and when another process has written.


class Rows(Protocol):
    """The part of an open transaction that is needed here."""

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return all rows of a statement."""


class NodeIds:
    """The cached ids of the nodes of one store."""

    def __init__(self) -> None:
        self._ids: dict[NodeName, int] = {}
        self._names: dict[int, NodeName] = {}
        self._contents: dict[NodeName, int] = {}
        self._holding: dict[int, NodeName] = {}

    def clear(self) -> None:
        """Clear the cache."""
        self._ids.clear()
        self._names.clear()
        self._contents.clear()
        self._holding.clear()

    def note(self, name: NodeName, number: int) -> None:
        """Remember a node."""
        self._ids[name] = number
        self._names[number] = name

    def note_contents(self, name: NodeName, number: int) -> None:
        """Remember the contents of a node."""
        self._contents[name] = number
        self._holding[number] = name

    def forget(self, name: NodeName) -> None:
        """Forget a node that is purged or deleted."""
        self._names.pop(self._ids.pop(name, 0), None)
        self._holding.pop(self._contents.pop(name, 0), None)

    def knows(self, names: Iterable[NodeName]) -> bool:
        """Return whether the ids of all these nodes, and of their contents, are cached."""
        return all(name in self._ids and name in self._contents for name in names)

    def ids(self, session: Rows, names: Iterable[NodeName]) -> dict[NodeName, int]:
        """Return the ids by name: of all cached nodes, and of those of `names` that exist."""
        if missing := _missing(names, self._ids):
            for name, number in session.rows("node_ids", packed_keys(missing)):
                self.note(NodeName(name), number)
        return self._ids

    def contents(self, session: Rows, names: Iterable[NodeName]) -> dict[NodeName, int]:
        """Return the ids of contents by the nodes' names, in the same way as `ids`."""
        if missing := _missing(names, self._contents):
            self._look_for_contents(session, "contents_of", missing)
        return self._contents

    def names(self, session: Rows, ids: set[int]) -> dict[int, NodeName]:
        """Return the names by id: of all cached nodes, and of those of `ids` that exist."""
        if not ids <= self._names.keys():
            for name, number in session.rows("node_names", packed_keys(list(ids))):
                self.note(NodeName(name), number)
        return self._names

    def holding(self, session: Rows, ids: set[int]) -> dict[int, NodeName]:
        """Return the names of nodes by the ids of contents, without contents that belong to no node."""
        if not ids <= self._holding.keys():
            self._look_for_contents(session, "nodes_holding", list(ids))
        return self._holding

    def _look_for_contents(
        self, session: Rows, query: str, keys: list[NodeName] | list[int]
    ) -> None:
        for name, number in session.rows(query, packed_keys(keys)):
            self.note_contents(NodeName(name), number)


def _missing(names: Iterable[NodeName], known: Container[NodeName]) -> list[NodeName]:
    """Return the names that are not known, in order. A difference from a view of keys would walk through all that are."""
    return sorted({name for name in names if name not in known})


def packed_keys(keys: object) -> str:
    """Return keys in the form that statements take."""
    return msgspec.json.encode(keys).decode()


# Reads statements by name from the .sql files, where all SQL can be reviewed.
#
# Statements that are the same in both dialects are in `common`, written for PostgreSQL with a few macros. A store's own file has
# the others; a statement with a common name there overrides the common one.

_ITEM: Final = """
    node_id seq id state publisher published priority due expires acquired failed released holder deadline token
    avoid aside taken headers death dead_at dead_reason dead_from last_holder txn_app txn_version group_name turn
    failure size sum joins wait
"""

ITEM: Final = ", ".join(f"i.{column}" for column in _ITEM.split())
"""The columns of an item, in the order in which `columns.item_of` takes them; the table's alias is i."""

DONE: Final = """
    d.node_id, d.seq, d.id, 'done', d.publisher, d.published, d.priority, d.delivered, d.expires, d.acquired, d.failed, 0, NULL, NULL, d.token,
    d.worker, 0, d.done_at, d.headers, NULL, NULL, NULL, NULL, NULL, d.txn_app, d.txn_version, d.group_name, NULL,
    NULL, d.size, d.sum, NULL, NULL
"""
"""The same of an item that is done, which has no other state; the table's alias is d."""

NODE: Final = "n.id, n.name, n.config, n.creator, n.created, n.items, n.subscriptions, n.spent, n.bytes, n.done, n.done_bytes, n.sum"
"""The columns of a node, in the order of its fields."""

SUBSCRIPTION: Final = (
    "s.id, s.node_id, s.jid, s.subid, s.queue_requests, s.in_flight, s.last_served, s.available, s.unanswered, "
    "s.quiet, s.state, s.deliver, s.expire, s.remind, s.temporary, s.several, s.lock_timeout, s.qos, s.sum"
)
"""Those of a subscription."""

RECORD: Final = (
    "t.id, p.name, t.owner, t.version, t.began, t.committed, t.items, t.bytes, t.skipped, t.dead_lettered, t.seconds, "
    "t.on_taken, t.dead_letter_node, t.app_id, t.immediate, t.until, t.sum, p.sum"
)
"""Those of a version of an app, open or committed, and the checksum that is about its name; the alias of the app is p."""

READY: Final = "state = 'queued' AND (group_name IS NULL OR turn IS NOT NULL)"
"""The condition for ready items, word for word as in the partial index."""

PLACE: Final = "coalesce(turn, seq)"
"""The position of an item among the ready items of its priority."""

MOST_IN_ROW: Final = 16_384
"""The bytes of the largest payload in a row of SQLite, which writes a row as a whole; a larger one is in `large_payload`."""

PAYLOAD: Final = (
    "CASE WHEN length(i.payload) THEN i.payload"
    " ELSE coalesce((SELECT payload FROM large_payload WHERE seq = i.seq), x'') END"
)
"""The payload of an item of SQLite; the table's alias is i. One that is lost is empty, so that its checksum shows it.

It is a CASE, because an iif copies large values once more.
"""

BYTES: Final = (
    "coalesce(nullif(length(i.payload), 0),"
    " (SELECT length(payload) FROM large_payload WHERE seq = i.seq), 0)"
)
"""How many bytes it has."""

JOINED: Final = "replace(replace(node, '%', '%25'), '/', '%2F') || '/' || id"
"""A node and an id as one name, as `pubqueue_xeps.wire.names.joined` makes it."""

MACROS: Final = {
    "%(item)s": ITEM,
    "%(node)s": NODE,
    "%(subscription)s": SUBSCRIPTION,
    "%(record)s": RECORD,
    "%(done)s": DONE.strip(),
    "%(ready)s": READY,
    "%(place)s": PLACE,
    "%(joined)s": JOINED,
    "%(payload)s": PAYLOAD,
    "%(bytes)s": BYTES,
    "%(most)s": str(MOST_IN_ROW),
}

FILES: Final = ("load", "page", "write", "staging", "commit", "event", "schedule", "sample")

_HEADER: Final = re.compile(r"^-- (\w+): .+$", re.MULTILINE)

_LIST: Final = re.compile(r"%\(list (\d+)\)s")


class Dialect(NamedTuple):
    """How a common statement is written in one dialect."""

    join: str
    """For `%(join)s`: joins two tables in the order in which they are written."""
    values: str
    """For `%(list 3)s`: selects the values of a list in JSON; `\\1` is the number of the list's placeholder."""
    spelled: Callable[[str], str] = str
    """Converts the rest: the placeholders and casts of PostgreSQL."""

    def write(self, text: str) -> str:
        """Return a common statement in this dialect."""
        return self.spelled(_LIST.sub(self.values, text.replace("%(join)s", self.join)))


def statements(package: str, dialect: Dialect) -> dict[str, str]:
    """Return all statements of a store: the common ones in its dialect, and its own."""
    alike = {name: dialect.write(text) for name, text in common().items()}
    return alike | own(package)


def common() -> dict[str, str]:
    """Return the common statements, as they are written."""
    return _load(__package__, "common/")


def own(package: str) -> dict[str, str]:
    """Return the statements of one store alone."""
    return _load(package, "")


def _load(package: str, folder: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in FILES:
        entry = files(package).joinpath(f"{folder}{file}.sql")
        if entry.is_file():
            found |= _cut(entry.read_text(encoding="utf-8"))
    return found


def _cut(text: str) -> dict[str, str]:
    parts = _HEADER.split(text)[1:]
    return {
        name: _expanded(body.strip().removesuffix(";"))
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def _expanded(body: str) -> str:
    for macro, text in MACROS.items():
        body = body.replace(macro, text)
    return body


def scripts(package: str) -> list[str]:
    """Return the scripts of all migrations of a store, in order."""
    entries = files(package).joinpath("migrations").iterdir()
    found = sorted((entry.name, entry) for entry in entries if entry.name.endswith(".sql"))
    return [entry.read_text(encoding="utf-8") for _, entry in found]


def unfinished_copy(source: str) -> str:
    """Return the reason why a store with an unfinished copy of another one cannot be used."""
    kind, _, _ = source.partition(":")
    command = "restore" if kind == "backup" else "migrate"
    return f"the copy from {source} is not complete; `pubqueue {command}` can be begun again"


def served_from(done: int, known: int) -> str:
    """Return the reason why a store is not migrated now: a process that serves from it would fail, or write wrongly."""
    return (
        f"its schema is number {done}, that of this program {known}, and a process of another version serves from it;"
        " stop that first"
    )


def unlike(done: int, known: int) -> str:
    """Return the reason why a store cannot be read as it is: another version of the program has made its schema."""
    return f"its schema is number {done}, that of this program {known}; use the version that serves from it"


# Pages of rows behind a place.


def paged(
    query: str,
    begin: object,
    make: Callable[[SqlSession, list[Any]], list[Any]],
    *,
    of: Callable[[SqlSession, NodeName], object] | None = None,
) -> Callable[[SqlSession, Any, Any, int], list[Any]]:
    """Return a function that reads a listing by a statement, whose values are a place and a limit.

    `begin` is the place before all rows, and `make` makes the entries. If the listing is of a node, `of` is the first value.
    """

    def read(session: SqlSession, which: Any, after: Any, limit: int) -> list[Any]:  # noqa: ANN401  # any listing
        place = after or begin
        within = () if of is None else (of(session, which.node),)
        behind = place if isinstance(place, tuple) else (place,)
        return make(session, session.rows(query, *within, *behind, limit))

    return read


def firsts(_session: SqlSession, rows: list[Any]) -> list[Any]:
    """Return the first column of each row."""
    return [row[0] for row in rows]
