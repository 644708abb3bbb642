"""The store of a run: a file that only its readers and writers can lose, or a PostgreSQL that is killed as well."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Final, Protocol, Self

import psycopg
from harness.databases.postgres import Postgres, other_user
from harness.databases.postgres_kills import children, kill_all, kill_session, sessions
from harness.stores.postgres_recount import events, recount_postgres
from harness.stores.recount import recount

from proof.faults_run.plan import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path
    from random import Random

    from harness.stores.recount import Count


SIZE_QUERY: Final = """
    SELECT max(pg_relation_size(oid)) FROM pg_class WHERE relnamespace = 'pubqueue'::regnamespace
"""

LEAST: Final = 256 << 10
"""Bytes: what is smaller can always be written, as the component's own log."""


class RunStore(Protocol):
    """Where all instances of a run store; a context manager."""

    @property
    def address(self) -> Path | str:
        """Where it is, as `write_config` wants to know it."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def is_empty(self) -> bool:
        """Say whether it has no items, seen from beside it."""

    def recount(self) -> Count:
        """Count what is in it when nobody writes any more."""

    def events(self) -> Sequence[tuple[object, ...]]:
        """Return kind and item of all events."""

    def look_after(self) -> None:
        """Start it again if it has ended by itself, as an operator's system does."""

    def is_used(self) -> bool:
        """Say whether the queue is connected to it; it may just be coming back from an earlier fault."""

    def befall(self, fault: Fault, random: Random) -> None:
        """Have it meet a fault; return when it is there again, or comes back by itself."""

    def writers(self, components: Iterable[int]) -> Iterable[int]:
        """Return the processes that write to its files, given those of the components."""

    @property
    def user(self) -> Sequence[str]:
        """What is put before a command so that it is run by the user of those processes."""

    def sizes(self) -> tuple[int, int]:
        """Return from where on of its files writes may be refused, at the least, and where these end by now."""


class SqliteFile:
    """A file in the folder of the run."""

    def __init__(self, folder: Path) -> None:
        self.address = folder / "pubqueue.db"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave it to the folder."""

    def is_empty(self) -> bool:
        with closing(sqlite3.connect(f"file:{self.address}?mode=ro", uri=True)) as look:
            return bool(look.execute("SELECT count(*) FROM item").fetchone() == (0,))

    def recount(self) -> Count:
        return recount(self.address)

    def events(self) -> Sequence[tuple[object, ...]]:
        with closing(sqlite3.connect(self.address)) as store:
            return store.execute("SELECT kind, item FROM event ORDER BY seq").fetchall()

    def look_after(self) -> None:
        """Do nothing: a file does not end."""

    def is_used(self) -> bool:
        return True

    def befall(self, fault: Fault, random: Random) -> None:
        raise AssertionError(f"a file meets no {fault} of {random}")

    def writers(self, components: Iterable[int]) -> Iterable[int]:
        return components

    @property
    def user(self) -> Sequence[str]:
        return ()

    def sizes(self) -> tuple[int, int]:
        log = self.address.with_name(f"{self.address.name}-wal")
        return LEAST, max(LEAST, *(file.stat().st_size for file in (self.address, log)))


class PostgresServer:
    """A server of the run's own."""

    def __init__(self, _folder: Path) -> None:
        self._server = Postgres()

    @property
    def address(self) -> str:
        return self._server.address

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__(None, None, None)

    def is_empty(self) -> bool:
        try:
            return self._server.ask("SELECT count(*) FROM pubqueue.item") == [(0,)]
        except psycopg.OperationalError:
            return False  # it is just coming back

    def recount(self) -> Count:
        return recount_postgres(self._server)

    def events(self) -> Sequence[tuple[object, ...]]:
        return events(self._server)

    def look_after(self) -> None:
        if self._server.has_ended:  # it could not write while it recovered
            self._server.start()

    def is_used(self) -> bool:
        try:
            return bool(sessions(self._server))
        except psycopg.OperationalError:
            return False

    def befall(self, fault: Fault, random: Random) -> None:
        match fault:
            case Fault.DATABASE:
                kill_all(self._server)
                self._server.start()  # by whoever calls: it ends with the thread that started it
            case Fault.DATABASE_RESTART:
                self._server.stop()
                self._server.start()
            case _:
                kill_session(self._server, random)

    def writers(self, components: Iterable[int]) -> Iterable[int]:  # the server writes
        return children(self._server.pid)

    @property
    def user(self) -> Sequence[str]:
        user = other_user()
        return ("setpriv", *user, "--") if user else ()

    def sizes(self) -> tuple[int, int]:
        """Return sizes of its tables, which are files of their own; its log is in larger ones, and ends with the server."""
        try:
            ((largest,),) = self._server.ask(SIZE_QUERY)
        except psycopg.OperationalError:
            return LEAST, LEAST  # it is just coming back
        return LEAST, max(LEAST, int(str(largest)))


STORES: Final[dict[str, Callable[[Path], RunStore]]] = {
    "sqlite": SqliteFile,
    "postgres": PostgresServer,
}
