"""The copy itself: mark the target, read the source once, read the target back, and remove the mark.

The target is marked before the first row is written, and the mark is removed in the transaction that completes the copy.
Until then no process serves from it. So however a copy ends, it can be started again. It then starts from an empty target:
the source may have been served from in between, and the rows copied before may be outdated.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, msgpack

from pubqueue.engine.ports import StoreError
from pubqueue.stores.copying.endpoints import RefusedError
from pubqueue.stores.copying.opening import source_at, target_at
from pubqueue.stores.copying.tables import agreed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pubqueue.stores.copying.endpoints import Row, Source, StoreReader, Target
    from pubqueue.stores.copying.tables import DatabaseTable


class Copied(Struct, frozen=True):
    """A copied table: how many rows it has, and the SHA-256 of all rows, in the order of their key."""

    table: str
    rows: int
    digest: str


class CopyProgress(Protocol):
    """Is notified of the progress of a copy: each row is read from the source, and read back from the target."""

    def begin(self, rows: int) -> None:
        """Note how many rows there are to read."""

    def step(self, what: str, rows: int) -> None:
        """Note the current step, and how many rows have been read for it since the last call."""


class _Digest:
    """The number of rows that passed, and their digest."""

    STEP = 256

    def __init__(self, watch: CopyProgress, what: str) -> None:
        self._sha = sha256()
        self._watch = watch
        self._what = what
        self.rows = 0

    def through(self, rows: Iterable[Row]) -> Iterator[Row]:
        self._watch.step(self._what, 0)
        pack = msgpack.Encoder().encode
        for row in rows:
            self._sha.update(pack(row))
            self.rows += 1
            if self.rows % self.STEP == 0:
                self._watch.step(self._what, self.STEP)
            yield row
        self._watch.step(self._what, self.rows % self.STEP)

    def of(self, table: DatabaseTable) -> Copied:
        return Copied(table.name, self.rows, self._sha.hexdigest())


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
        digest = _Digest(watch, f"copying {table.name}")
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
    digest = _Digest(watch, f"comparing {table.name}")
    with closing(place.rows(table)) as rows:
        for _ in digest.through(rows):
            pass
    return digest.of(table)
