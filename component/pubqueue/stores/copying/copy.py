"""Copies a store into another one, table by table."""

from __future__ import annotations

from contextlib import ExitStack, closing
from graphlib import TopologicalSorter
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from msgspec import Struct, msgpack

from pubqueue.engine.ports import StoreError
from pubqueue.model.sums import sum_of
from pubqueue.stores import STORES, shown_address, store_at
from pubqueue.stores.sql.columns import COVERED, is_whole, unpacked

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pubqueue.engine.ports import Store


# The copy itself: mark the target, read the source once, read the target back, and remove the mark.
#
# The target is marked before the first row is written, and the mark is removed in the transaction that completes the copy.
# Until then no process serves from it. So however a copy ends, it can be started again. It then starts from an empty target:
# the source may have been served from in between, and the rows copied before may be outdated.


class Copied(Struct, frozen=True):
    """A copied table: how many rows it has, and the SHA-256 of all rows, in the order of their key."""

    table: str
    rows: int
    digest: str
    damaged: int = 0
    """Rows whose content does not match the checksum that was made when they were published."""


class CopyProgress(Protocol):
    """Is notified of the progress of a copy: each row is read from the source, and read back from the target."""

    def begin(self, rows: int) -> None:
        """Note how many rows there are to read."""

    def step(self, what: str, rows: int) -> None:
        """Note the current step, and how many rows have been read for it since the last call."""


class _Digest:
    """The number of rows that passed, and their digest."""

    STEP = 256

    def __init__(self, watch: CopyProgress, what: str, table: DatabaseTable) -> None:
        self._sha = sha256()
        self._watch = watch
        self._what = what
        self.rows = self.damaged = 0
        self._table = table

    def through(self, rows: Iterable[Row]) -> Iterator[Row]:
        self._watch.step(self._what, 0)
        pack = msgpack.Encoder().encode
        places = places_of_content(self._table)
        for row in rows:
            self._sha.update(pack(row))
            self.rows += 1
            if places and is_damaged(self._table.name, row, places):
                self.damaged += 1
            if self.rows % self.STEP == 0:
                self._watch.step(self._what, self.STEP)
            yield row
        self._watch.step(self._what, self.rows % self.STEP)

    def of(self, table: DatabaseTable) -> Copied:
        return Copied(table.name, self.rows, self._sha.hexdigest(), self.damaged)


def copy(from_address: str, to_address: str, watch: CopyProgress) -> list[Copied]:
    """Copy the store at one address into that at another, and return what was copied, table by table.

    A target that is already the complete copy is compared again, and nothing is written.

    Raises:
        RefusedError: there is no store, or the target has other contents; nothing was done.
        StoreError: a store is in use or cannot be reached, or the target does not read back as it was written.

    """
    with ExitStack() as ends:
        source = ends.enter_context(source_at(from_address))
        target = ends.enter_context(target_at(to_address, source))
        return bring(source, target, watch)


def bring(source: Source, target: Target, watch: CopyProgress) -> list[Copied]:
    """Copy one store into the other, or compare them if that has been done; raises as `copy`."""
    begun = target.copied_from()
    if begun is not None and begun not in ("", source.name):
        raise RefusedError(
            f"{target.name} holds a part of a copy from {begun}: go on with that one, or remove it"
        )
    if begun is None and not target.is_empty():
        return _compare(source, target, watch)
    return fill(source, target, watch)


def fill(source: Source, target: Target, watch: CopyProgress) -> list[Copied]:
    """Copy one store into the other, replacing its contents, and read it back.

    Raises:
        StoreError: the target does not read back as it was written.

    """
    target.begin(source.name)
    tables = agreed(source.tables(), target.tables())
    watch.begin(2 * sum(source.count(table) for table in tables))
    copied = []
    for table in tables:
        digest = _Digest(watch, f"copying {table.name}", table)
        with closing(source.rows(table)) as rows:  # also if the copy ends in the middle
            target.fill(table, digest.through(rows))
        copied.append(digest.of(table))
    for table, written in zip(tables, copied, strict=True):
        if read(target, table, watch) != written:
            raise StoreError(f"{target.name}: {table.name} does not read back as it was written")
    target.finish(source.last_numbers(), source.died())
    return copied


def _compare(source: Source, target: Target, watch: CopyProgress) -> list[Copied]:
    """Return the contents of both, if they are the same: a copy may have ended between its last two steps."""
    tables = agreed(source.tables(), target.tables())
    counts = [source.count(table) for table in tables]
    refused = RefusedError(f"{target.name} is not empty")
    if counts != [target.count(table) for table in tables]:
        raise refused
    watch.begin(2 * sum(counts))
    found = []
    for table in tables:
        found.append(read(source, table, watch))
        if read(target, table, watch) != found[-1]:
            raise refused
    return found


def read(place: StoreReader, table: DatabaseTable, watch: CopyProgress) -> Copied:
    """Read a whole table, and return its number of rows and digest."""
    digest = _Digest(watch, f"comparing {table.name}", table)
    with closing(place.rows(table)) as rows:
        for _ in digest.through(rows):
            pass
    return digest.of(table)


# A damaged row is copied as it is, with its checksum: so it is known to be damaged in the copy too.

CONTENT: Final = ("sum", "id", "payload", "group_name", "headers")


def places_of_content(table: DatabaseTable) -> tuple[int, ...]:
    """Return where a row has the checksum and what that is about, empty if its table has none."""
    columns = table.columns
    key, rest = COVERED.get(table.name, (CONTENT[1:], ()))
    needed = "sum", *key, *rest
    return tuple(map(columns.index, needed)) if set(needed) <= set(columns) else ()


def is_damaged(table: str, row: Row, places: tuple[int, ...]) -> bool:
    """Return whether the content of a row is not what was written."""
    known, *rest = (row[place] for place in places)
    if known is None or table in COVERED:
        return not is_whole(table, known, rest)
    name, payload, group, headers = rest
    return bool(known != sum_of(name, bytes(payload), group or "", unpacked(headers)))


# The interfaces of the two ends of a copy.

Row = tuple[Any, ...]

WAITING: Final = 5.0
"""Seconds to wait for a lock that another process holds."""

AT_ONCE: Final = 500
"""The maximum number of rows that are written together."""

BYTES_AT_ONCE: Final = 4 << 20
"""Bytes after which no further row is written together with others."""


class RefusedError(StoreError):
    """Nothing was done: these two stores cannot be copied in this way."""


class StoreReader(Protocol):
    """A store whose rows are read. `name` is its address for display, without credentials."""

    name: str

    def tables(self) -> dict[str, DatabaseTable]:
        """Return its tables, by name."""

    def count(self, table: DatabaseTable) -> int:
        """Return how many rows a table has."""

    def rows(self, table: DatabaseTable) -> Generator[Row, None, None]:
        """Yield all rows in the order of their key, one by one; numbers, texts, bytes and None."""

    def last_numbers(self) -> dict[str, int]:
        """Return the last number that was used, for each table whose numbers are never reused."""

    def died(self) -> list[int]:
        """Return the numbers of processes that have ended without leaving."""


class Source(StoreReader, Protocol):
    """A store that does not change while it is read."""


class Target(StoreReader, Protocol):
    """A store that is empty, or has been filled by a copy."""

    def copied_from(self) -> str | None:
        """Return the source of the unfinished copy in it, None if there is none."""

    def is_empty(self) -> bool:
        """Return whether it has no contents."""

    def begin(self, source: str) -> None:
        """Mark it as the unfinished copy of that store, and remove the rows of an earlier attempt.

        From here on no process serves from it, however this process ends.
        """

    def fill(self, table: DatabaseTable, rows: Iterable[Row]) -> None:
        """Write these rows."""

    def finish(self, last: Mapping[str, int], died: Sequence[int]) -> None:
        """Let numbers continue after these, note the processes that died, and remove the mark."""


# Opens the two ends of a copy by their addresses.


class _Kind(Protocol):
    """The interface of a module of this package, for its kind of store."""

    def source(self, store: Store) -> AbstractContextManager[Source]: ...

    def running(self, store: Store) -> AbstractContextManager[Source]: ...

    def target(self, store: Store, source: Source) -> AbstractContextManager[Target]: ...


KINDS: Final = {"sqlite": "sqlite", "postgresql": "postgres"}
"""The module for each durable kind of store; PostgreSQL's library may not be installed."""


def source_at(address: str) -> AbstractContextManager[Source]:
    """Open the store to copy from; no process writes to it until it is closed.

    Raises:
        RefusedError: it is not the address of a store that can be copied, or there is no store.
        StoreError: it is in use, or cannot be reached.

    """
    store, kind = _opened(address)
    return kind.source(store)


def running_at(address: str) -> AbstractContextManager[Source]:
    """Open a snapshot of the store for reading, while processes continue to serve from it.

    Raises:
        RefusedError: it is not the address of a store that can be copied, or there is no store.
        StoreError: it is not of this version of the program, or cannot be reached.

    """
    store, kind = _opened(address)
    return kind.running(store)


def target_at(address: str, source: Source) -> AbstractContextManager[Target]:
    """Open the store to copy into; no process serves from it until it is closed.

    Raises:
        RefusedError: it is not the address of a store that can be copied, or it is the source.
        StoreError: it is in use, or cannot be reached.

    """
    store, kind = _opened(address)
    return kind.target(store, source)


def _opened(address: str) -> tuple[Store, _Kind]:
    scheme = urlsplit(address).scheme
    if scheme in STORES and scheme not in KINDS:
        raise RefusedError(f"{shown_address(address)} keeps nothing that could be copied")
    try:
        store = store_at(address)
    except ValueError as problem:
        raise RefusedError(str(problem)) from None
    return store, _module(scheme)


def _module(scheme: str) -> _Kind:
    module: _Kind = import_module(f"{__package__}.{KINDS[scheme]}")
    return module


# The tables to copy, read from a store's own schema, in terms that all stores share.
#
# A table or a column that is added to both schemas is copied without a change here. What only one of them has is listed in this
# file, with the reason; any other difference is an error, and fails a test.

COPYING: Final = "copying"
"""The table with the source of an unfinished copy; it exists only until the copy is complete."""

BACKUP: Final = "backup"
"""The table of a backup that describes it."""

OF_PROCESSES: Final = frozenset({"pubqueue", "writing", "writer", "instance", "winner", "met"})
"""Tables for processes in PostgreSQL, which SQLite keeps elsewhere. Of `instance` the processes that died are copied."""

RENAMED: Final = {("staged", "row"): "place"}
"""Columns with another name in SQLite: `row` is a keyword of PostgreSQL."""

KEYS: Final = {"receipt": ("seq", "jid"), "ping_answer": ("jid",)}
"""The order of the rows of tables that do not have a primary key in every store."""


class DatabaseTable(Struct, frozen=True):
    """A table: the kind of each column (integer, text, bytes, real), the order of its rows, and the tables they refer to."""

    name: str
    kinds: Mapping[str, str]
    key: tuple[str, ...]
    refers: frozenset[str] = frozenset()

    @property
    def columns(self) -> tuple[str, ...]:
        """Its columns, in an order that does not depend on the store."""
        return tuple(sorted(self.kinds))


def agreed(
    source: Mapping[str, DatabaseTable], target: Mapping[str, DatabaseTable]
) -> list[DatabaseTable]:
    """Return the tables of both stores, in an order in which their rows can be written.

    Raises:
        StoreError: they are not the same, so a migration is missing.

    """
    if unlike := differences(source, target):
        raise StoreError(f"the schemas differ: {'; '.join(unlike)}")
    rows_of = {name: sorted(target[name].refers - {name}) for name in sorted(target)}
    return [source[name] for name in TopologicalSorter(rows_of).static_order()]


def differences(one: Mapping[str, DatabaseTable], other: Mapping[str, DatabaseTable]) -> list[str]:
    """Return the tables and columns in which they differ, each as a text."""
    only = [f"only one has {name}" for name in sorted(one.keys() ^ other.keys())]
    for name in sorted(one.keys() & other.keys()):
        unlike = set(one[name].kinds.items()) ^ set(other[name].kinds.items())
        only += [f"{name}.{column} is {kind} in one only" for column, kind in sorted(unlike)]
    return only
