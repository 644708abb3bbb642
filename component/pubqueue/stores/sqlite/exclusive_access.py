"""Having a file for oneself: nobody serves from it meanwhile.

Whoever copies a store locks a file of that purpose first, and then looks whether a process has the lock of its number;
a process takes its number first, and then looks whether somebody has locked that file. So one of them sees the other.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pubqueue.app.store.ports import StoreError
from pubqueue.stores.sqlite.file_mode import MINE
from pubqueue.stores.sqlite.schema import ServedError, check_current

if TYPE_CHECKING:
    from collections.abc import Iterator


POLL_INTERVAL: Final = 0.02
"""Seconds between two looks whether somebody else still has it."""


def numbered(path: Path) -> list[int]:
    """Return the numbers of the processes whose files are there, whether these live or have died."""
    start = f"{path.name}-instance-"
    names = (name.removeprefix(start) for name in os.listdir(path.parent) if name.startswith(start))
    return sorted(int(name) for name in names if name.isdecimal())


def number_file(path: Path, number: int) -> Path:
    """Return the file of the process that has this number."""
    return Path(f"{path}-instance-{number}")


def see_that_it_is_nobodys(path: Path) -> None:
    """See that nobody has this store for themselves now, and that it is whole and on the schema of this program.

    Raises:
        StoreError: somebody copies it just now, or brings it to another schema.
        ForeignStoreError: what is there is half a copy, no store of ours, or another version has changed its schema meanwhile.

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
    """Have the store for oneself; so many seconds are waited for somebody else who has.

    Raises:
        ServedError: a process serves from it.
        StoreError: somebody else has it for themselves, or its place cannot be used.

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
    """Return the gate, which nobody else has now."""
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
    """Say whether the locked file is the one of that name: who had it before has removed theirs."""
    try:
        return os.path.samestat(gate.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
