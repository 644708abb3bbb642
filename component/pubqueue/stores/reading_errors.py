"""Why a store cannot be looked at or opened."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from importlib import import_module
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar
from urllib.parse import urlsplit

from pubqueue.stores import store_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pubqueue.engine.ports import Store, Transaction


# Looks at the store at an address and leaves it unchanged: nothing is created, written or migrated.
#
# So a configuration can be checked beside a running service, or before its first start.

T = TypeVar("T")


class Looked(NamedTuple, Generic[T]):
    """The findings in a store, and their report. None: the store has nothing yet that could be read."""

    found: T | None
    says: list[str]


class _Kind(Protocol):
    def look(self, store: Store, job: Callable[[Transaction], T]) -> Looked[T]: ...


KINDS: Final = {"sqlite": "pubqueue.stores.sqlite", "postgresql": "pubqueue.stores.postgres"}
"""The module `looking` of each durable kind of store; PostgreSQL's library may not be installed."""


def look(address: str, job: Callable[[Transaction], T]) -> Looked[T]:
    """Run a job that only reads on the store at this address, if it exists.

    Raises:
        ForeignStoreError: the store was not made by this program, or cannot be used.
        UnreachableStoreError: the store cannot be connected to.
        ValueError: it is not the address of a store.

    """
    store = store_at(address)
    package = KINDS.get(urlsplit(address).scheme)
    if package is None:
        return Looked(None, ["it keeps nothing when the service ends"])
    kind: _Kind = import_module(f"{package}.looking")
    return kind.look(store, job)


def older(done: int, known: int) -> str:
    """Return what happens to a store that an earlier version has written."""
    return f"its schema is number {done}; the start of this version brings it to {known}"


# Why a file cannot be opened: its owner, and the user of this process.


def why(path: Path, problem: OSError, wanted: int = os.R_OK) -> str:
    """Return the error of the system, and for missing permissions the owner and mode of the obstacle.

    That is the file, or the first folder on the way to it that does not let this user pass.
    """
    reason = problem.strerror or str(problem)
    if not isinstance(problem, PermissionError):
        return reason
    return reason + in_the_way(path, wanted)


def in_the_way(path: Path, wanted: int = os.R_OK) -> str:
    """Return ` (... belongs to ...)` about the obstacle between this user and a file; empty if there is none."""
    there = path.absolute()
    for one in (*reversed(there.parents), there):
        is_last = one == there
        try:
            found = one.stat()
        except OSError:
            return ""
        if not os.access(one, wanted if is_last else os.X_OK, effective_ids=True):
            owner = f"{_user(found.st_uid)}:{_group(found.st_gid)}"
            mode = stat.S_IMODE(found.st_mode)
            return f" ({one} belongs to {owner}, mode {mode:04o}; this is {_user(os.geteuid())})"
    return ""


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
