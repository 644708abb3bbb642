"""Having a file for oneself: nobody serves from it meanwhile.

Whoever copies a store locks a file of that purpose first, and then looks whether a process has the lock of its number;
a process takes its number first, and then looks whether somebody has locked that file. So one of them sees the other.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pubqueue.app.ports import StoreError
from pubqueue.stores.sqlite.private import MINE
from pubqueue.stores.sqlite.schema import HALF_COPIED

if TYPE_CHECKING:
    from collections.abc import Iterator


def numbered(path: Path) -> list[int]:
    """Return the numbers of the processes whose files are there, whether these live or have died."""
    start = f"{path.name}-instance-"
    names = (name.removeprefix(start) for name in os.listdir(path.parent) if name.startswith(start))
    return sorted(int(name) for name in names if name.isdecimal())


def number_file(path: Path, number: int) -> Path:
    """Return the file of the process that has this number."""
    return Path(f"{path}-instance-{number}")


def is_somebodys(path: Path) -> bool:
    """Say whether somebody has this store for themselves, or had it and has left half a copy."""
    try:
        descriptor = os.open(_gate(path), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(descriptor, fcntl.LOCK_SH) or _is_half_copied(path)
    finally:
        os.close(descriptor)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Have the store for oneself.

    Raises:
        StoreError: a process serves from it, somebody else has it for themselves, or its place cannot be used.

    """
    gate = _gate(path)
    try:
        descriptor = os.open(gate, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, MINE)
    except OSError as problem:
        raise StoreError(f"{path}: {problem.strerror}") from problem
    try:
        if not _locked(descriptor, fcntl.LOCK_EX) or not _is_still(gate, descriptor):
            raise StoreError(f"{path}: somebody copies it just now")
        try:
            if any(_lives(number_file(path, number)) for number in numbered(path)):
                raise StoreError(f"{path}: a process serves from it; stop it first")
            yield
        finally:
            gate.unlink()
    finally:
        os.close(descriptor)


def _is_half_copied(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
    return bool(application == HALF_COPIED)


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
