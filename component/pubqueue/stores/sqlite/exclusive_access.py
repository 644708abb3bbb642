"""Exclusive access to a store's file: no process serves from it meanwhile.

A copy first locks a file for that purpose, and then checks whether a process has the lock of its number. A process first
takes its number, and then checks whether that file is locked. So at least one of them detects the other.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pubqueue.engine.ports import StoreError
from pubqueue.stores.sqlite.file_mode import MINE
from pubqueue.stores.sqlite.schema import ServedError, check_current

if TYPE_CHECKING:
    from collections.abc import Iterator


POLL_INTERVAL: Final = 0.02
"""Seconds between two checks whether another process still has exclusive access."""


def numbered(path: Path) -> list[int]:
    """Return the numbers of the processes whose files exist, dead ones included."""
    start = f"{path.name}-instance-"
    names = (name.removeprefix(start) for name in os.listdir(path.parent) if name.startswith(start))
    return sorted(int(name) for name in names if name.isdecimal())


def number_file(path: Path, number: int) -> Path:
    """Return the file of the process that has this number."""
    return Path(f"{path}-instance-{number}")


def see_that_it_is_nobodys(path: Path) -> None:
    """Check that no process has exclusive access to the store, and that it is complete and on the schema of this program.

    Raises:
        StoreError: another process copies or migrates it now.
        ForeignStoreError: the file is an incomplete copy or not a store of ours, or another version has changed its schema.

    """
    if _is_had(path):
        raise StoreError(f"{path} is being copied; serve when that is done")
    uri = f"{path.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            check_current(connection, path)
    except sqlite3.Error as problem:
        raise StoreError(f"{path}: {problem}") from problem


def _is_had(path: Path) -> bool:
    try:
        descriptor = os.open(_gate(path), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


@contextmanager
def alone(path: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Have exclusive access to the store; wait up to `patience` seconds for another process that has it.

    Raises:
        ServedError: a process serves from it.
        StoreError: another process has exclusive access, or the folder cannot be used.

    """
    gate = _gate(path)
    descriptor = _opened_gate(path, gate, patience)
    try:
        if any(_lives(number_file(path, number)) for number in numbered(path)):
            raise ServedError(f"{path}: a process serves from it; stop it first")
        yield
    finally:
        gate.unlink()
        os.close(descriptor)


def _opened_gate(path: Path, gate: Path, patience: float) -> int:
    """Return the descriptor of the gate file, locked for this process."""
    until = time.monotonic() + patience
    while True:
        try:
            descriptor = os.open(gate, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MINE)
        except OSError as problem:
            raise StoreError(f"{path}: {problem.strerror}") from problem
        if _locked(descriptor, fcntl.LOCK_EX) and _is_still(gate, descriptor):
            return descriptor
        os.close(descriptor)
        if time.monotonic() >= until:
            raise StoreError(f"{path}: somebody copies it just now")
        time.sleep(POLL_INTERVAL)


def _gate(path: Path) -> Path:
    return Path(f"{path}-alone")


def _lives(file: Path) -> bool:
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_still(gate: Path, descriptor: int) -> bool:
    """Return whether the locked file still has that name: the last owner may have removed it."""
    try:
        return os.path.samestat(gate.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
