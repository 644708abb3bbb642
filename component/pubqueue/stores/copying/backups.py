"""A backup is one file: a SQLite store with a table that describes what the backup is and what it must contain.

It is written under another name and renamed when it is complete, compared and synced to disk. So under its name there is a
complete backup or nothing. The store is read in one transaction, from one snapshot; no process has to wait for the reader.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import DecodeError, Struct, json

from pubqueue.engine.ports import ForeignStoreError, StoreError
from pubqueue.stores.copying.copy import (
    BACKUP,
    Copied,
    RefusedError,
    bring,
    fill,
    read,
    running_at,
    target_at,
)
from pubqueue.stores.copying.sqlite import SqlitePlace, connected
from pubqueue.stores.reading_errors import why
from pubqueue.stores.sqlite import schema
from pubqueue.stores.sqlite.connection import MINE
from pubqueue.version import __version__

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping, Sequence

    from pubqueue.stores.copying.copy import CopyProgress

HEADER: Final = b"SQLite format 3\0"
APPLICATION: Final = slice(68, 72)
"""The position of the application id in a SQLite file."""

BESIDE: Final = ("", "-journal", "-wal", "-shm")
"""The suffixes of the files that are written before the backup gets its name."""


class Facts(Struct, frozen=True):
    """The description in a backup: its store, and for each table the number of rows and their SHA-256.

    `taken` is in milliseconds since 1970. `died` are the processes that were at work, or had died, at that time.
    """

    source: str
    taken: int
    version: str
    died: list[int]
    tables: list[Copied]


_FACTS: Final = json.Decoder(Facts)


class _Written(SqlitePlace):
    """A backup that is being written."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        super().__init__(path, connection)
        self._run = connection.execute
        self.of_processes: list[int] = []

    def finish(self, last: Mapping[str, int], died: Sequence[int]) -> None:
        """Let numbers continue after these, and keep the processes for the facts."""
        super().finish(last, ())
        self.of_processes = list(died)

    def seal(self, facts: Facts) -> None:
        """Write the description, check that the file is sound, and put everything into the one file."""
        self._run("BEGIN IMMEDIATE")
        self._run(f"CREATE TABLE {BACKUP} (facts TEXT NOT NULL) STRICT")
        self._run(f"INSERT INTO {BACKUP} VALUES (?)", (json.encode(facts).decode(),))  # noqa: S608  # ours
        self._run(f"PRAGMA application_id = {schema.BACKUP}")
        self._run("COMMIT")
        self._run("PRAGMA journal_mode = DELETE")
        _see_that_it_is_sound(self.name, self._run("PRAGMA integrity_check"))
        _see_that_it_is_sound(self.name, self._run("PRAGMA foreign_key_check"))


class _Backup(SqlitePlace):
    """A backup that is being read."""

    def __init__(self, file: Path, connection: sqlite3.Connection) -> None:
        super().__init__(file, connection)
        self.name = f"backup:{file.resolve()}"
        self._run = connection.execute
        (facts,) = self._run(f"SELECT facts FROM {BACKUP}").fetchone()  # noqa: S608  # ours
        self.facts = _FACTS.decode(facts)

    def died(self) -> list[int]:
        """Return the numbers of all processes that existed."""
        return self.facts.died

    def check(self, watch: CopyProgress) -> None:
        """Check that it contains what was written into it.

        Raises:
            StoreError: it does not.

        """
        _see_that_it_is_sound(self.name, self._run("PRAGMA integrity_check"))
        tables = self.tables()
        if tables.keys() != {one.table for one in self.facts.tables}:
            raise StoreError(f"{self.name} is damaged: it has other tables than were written")
        for written in self.facts.tables:
            if read(self, tables[written.table], watch) != written:
                raise StoreError(f"{self.name} is damaged: {written.table} is not what was written")


def backup(address: str, file: Path, watch: CopyProgress) -> list[Copied]:
    """Write a backup of the store at an address to a file, and return what is in it, table by table.

    The store may be served from. However this ends, the file is complete or does not exist.

    Raises:
        RefusedError: there is no store, or the file exists already; nothing was done.
        StoreError: the store or the file cannot be used, or the file does not read back as it was written.

    """
    if file.exists():
        raise RefusedError(f"{file} is there already")
    with running_at(address) as source, part_of(file) as (part, descriptor):
        with connected(part) as connection:
            target = _Written(part, connection)
            taken = time.time_ns() // 1_000_000
            copied = fill(source, target, watch)
            target.seal(Facts(source.name, taken, __version__, target.of_processes, copied))
        _publish(part, descriptor, file)
    return copied


def restore(file: Path, address: str, watch: CopyProgress) -> list[Copied]:
    """Fill the empty store at an address from a backup, and return what was written, table by table.

    A store that was already filled from it is compared again. A backup of an earlier version is migrated to the schema of this
    version; the file stays unchanged.

    Raises:
        RefusedError: the file is not a backup, or the store is not empty; nothing was done.
        StoreError: the backup is damaged, the store is served from or cannot be reached, or does not read back as it was written.

    """
    with opened(file, watch) as source, target_at(address, source) as target:
        return bring(source, target, watch)


@contextmanager
def part_of(file: Path) -> Iterator[tuple[Path, int]]:
    """Open the file in which the backup is written; at the end remove it if it still exists."""
    part = file.with_name(f"{file.name}.part")
    try:
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, MINE)
    except OSError as problem:
        raise StoreError(f"{part}: {why(part.parent, problem, os.W_OK | os.X_OK)}") from problem
    try:
        _take(part, descriptor)
        try:
            if file.exists():
                raise RefusedError(f"{file} is there already")
            _empty(part, descriptor)
            yield part, descriptor
        finally:
            _remove(part)
    finally:
        os.close(descriptor)


def _take(part: Path, descriptor: int) -> None:
    """Lock the file: another backup to the same name may be under way, or has just finished."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_still = os.path.samestat(part.stat(), os.fstat(descriptor))
    except (BlockingIOError, FileNotFoundError):
        is_still = False
    if not is_still:
        raise RefusedError(f"{part}: another backup is being written there")


def _empty(part: Path, descriptor: int) -> None:
    """Remove the leftovers of a killed backup."""
    for end in BESIDE[1:]:
        Path(f"{part}{end}").unlink(missing_ok=True)
    os.ftruncate(descriptor, 0)
    os.fchmod(descriptor, MINE)


def _remove(part: Path) -> None:
    for end in BESIDE:
        with suppress(OSError):
            Path(f"{part}{end}").unlink()


def _publish(part: Path, descriptor: int, file: Path) -> None:
    """Sync the file to disk, and give it its name."""
    try:
        os.fsync(descriptor)
        part.rename(file)
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as problem:
        raise StoreError(f"{file}: {problem.strerror}") from problem


@contextmanager
def opened(file: Path, watch: CopyProgress) -> Iterator[_Backup]:
    """Open a backup for reading, and check that it is complete."""
    _see_that_it_is_one(file)
    try:
        with connected(file, read_only=True) as connection:
            found = _Backup(file, connection)
            found.check(watch)
            number = schema.schema_number(connection)
            if number == len(schema.migrations()):
                yield found
                return
        with tempfile.TemporaryDirectory(prefix="pubqueue-restore-") as folder:
            migrated = Path(shutil.copyfile(file, Path(folder, "backup")))
            with connected(migrated) as connection:
                _bring_up_to_date(connection, migrated, file)
                newer = _Backup(migrated, connection)
                newer.name = found.name
                yield newer
    except DecodeError as problem:
        raise StoreError(f"{file} is damaged: {problem}") from problem


def _bring_up_to_date(connection: sqlite3.Connection, migrated: Path, file: Path) -> None:
    try:
        schema.prepare(connection, migrated, application=schema.BACKUP)
    except ForeignStoreError as problem:
        raise RefusedError(str(problem).replace(str(migrated), str(file))) from problem


def _see_that_it_is_one(file: Path) -> None:
    try:
        with file.open("rb") as opened:
            header = opened.read(100)
    except OSError as problem:
        raise RefusedError(f"{file}: {why(file, problem)}") from problem
    is_one = int.from_bytes(header[APPLICATION], "big") == schema.BACKUP
    if not header.startswith(HEADER) or not is_one:
        raise RefusedError(f"{file} is no backup of pubqueue")


def _see_that_it_is_sound(name: str, answer: sqlite3.Cursor) -> None:
    """Raise an error with what SQLite has found; without faults it returns one row, `ok`, or none."""
    wrong = [row for row in answer.fetchall() if row != ("ok",)]
    if wrong:
        raise StoreError(f"{name} is damaged: {wrong[0]}")
