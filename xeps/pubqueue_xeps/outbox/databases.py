"""Runs the statements of an outbox: on a connection of the user's, in the user's transaction, or in transactions of a relay's own.

Attributes distinguish the connections, so that neither SQLAlchemy nor Django is imported unless one of theirs is given.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from pubqueue_xeps.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pubqueue_xeps.outbox.rows import Statement

T = TypeVar("T")

PARAMETER: Final = re.compile(r":([a-z]\w*)", re.ASCII)
BUSY_SECONDS: Final = 30
"""How long a relay waits for another writer of a SQLite file, and for PostgreSQL to accept a connection."""


class Database(Protocol):
    """A connection in a transaction."""

    dialect: str
    """What it is a connection to; an outbox may not know it."""

    def rows(self, statement: Statement) -> list[Any]:
        """Run a statement that reads, and return its rows."""

    def change(self, statement: Statement) -> int:
        """Run a statement that writes, and return the number of rows."""

    def run(self, sql: str) -> None:
        """Run a statement without values."""

    def is_in_transaction(self) -> bool:
        """Return whether what is written is committed later; also if that cannot be known."""


def on(connection: Any, work: Callable[[Database], T]) -> T | Coroutine[Any, Any, T]:  # noqa: ANN401 - of other libraries
    """Do something on a connection, and return the result; on one of SQLAlchemy's asyncio, return a coroutine that does."""
    if hasattr(connection, "run_sync"):
        done: Coroutine[Any, Any, T] = connection.run_sync(lambda inner: work(database(inner)))
        return done
    return work(database(connection))


def database(connection: Any) -> Database:  # noqa: ANN401 - of other libraries
    """Return what runs statements on a connection that blocks; raise TypeError for anything else."""
    if isinstance(connection, _Direct | _SqlAlchemy):
        return connection
    if isinstance(connection, str):
        return _of_django(connection)
    if hasattr(connection, "vendor") and hasattr(connection, "in_atomic_block"):
        return _Django(connection)
    if hasattr(connection, "get_bind") or (
        hasattr(connection, "dialect") and hasattr(connection, "execute")
    ):
        return _SqlAlchemy(connection)
    driver = _driver(connection)
    if driver is None or inspect.iscoroutinefunction(getattr(connection, "execute", None)):
        kind = type(connection)
        raise TypeError(
            f"{kind.__module__}.{kind.__qualname__} is not a connection that an outbox knows: a Session, AsyncSession, Connection"
            " or AsyncConnection of SQLAlchemy, Django's connection or its alias, or a connection of sqlite3, psycopg or psycopg2."
        )
    return _Direct(connection, driver)


# A connection of the standard library's sqlite3, or of a driver of PostgreSQL.


class _Driver(NamedTuple):
    dialect: str
    mark: str
    """What stands for a value in a statement."""


DRIVERS: Final = {
    "sqlite3": _Driver("sqlite", "?"),
    "psycopg": _Driver("postgresql", "%s"),
    "psycopg2": _Driver("postgresql", "%s"),
}
"""By the package of the connection's class."""


def _driver(connection: object) -> _Driver | None:
    packages = (kind.__module__.partition(".")[0] for kind in type(connection).__mro__)
    return next((DRIVERS[name] for name in packages if name in DRIVERS), None)


def _positional(statement: Statement, mark: str) -> tuple[str, list[Any]]:
    names: list[str] = PARAMETER.findall(statement.sql)
    return PARAMETER.sub(mark, statement.sql), [statement.values[name] for name in names]


def _awaits_commit(connection: Any) -> bool:  # noqa: ANN401 - of a driver
    """Return whether a connection of a driver commits later what it is given now; True if that is not known."""
    if isinstance(connection, sqlite3.Connection):
        at_once = connection.isolation_level is None or getattr(connection, "autocommit", 0) is True
        return connection.in_transaction or not at_once
    info = getattr(connection, "info", None)
    idle = 0  # libpq's PQTRANS_IDLE
    return not (
        getattr(connection, "autocommit", False) is True
        and getattr(info, "transaction_status", None) == idle
    )


class _Direct:
    def __init__(self, connection: Any, driver: _Driver) -> None:  # noqa: ANN401 - of a driver
        self._connection, self._mark = connection, driver.mark
        self.dialect = driver.dialect

    def rows(self, statement: Statement) -> list[Any]:
        cursor = self._executed(*_positional(statement, self._mark))
        try:
            return list(cursor.fetchall())
        finally:
            cursor.close()

    def change(self, statement: Statement) -> int:
        cursor = self._executed(*_positional(statement, self._mark))
        try:
            return int(cursor.rowcount)
        finally:
            cursor.close()

    def run(self, sql: str) -> None:
        self._executed(sql, []).close()

    def is_in_transaction(self) -> bool:
        return _awaits_commit(self._connection)

    def _executed(self, sql: str, values: list[Any]) -> Any:  # noqa: ANN401 - a cursor of a driver
        cursor = self._connection.cursor()
        cursor.execute(sql, values)
        return cursor


# A connection of Django.


def _of_django(alias: str) -> Database:
    from django.db import connections  # noqa: PLC0415 - only who uses it has it

    return _Django(connections[alias])


class _Django(_Direct):
    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - Django's
        super().__init__(connection, _Driver(connection.vendor, "%s"))

    def is_in_transaction(self) -> bool:
        return bool(self._connection.in_atomic_block or not self._connection.get_autocommit())


# A connection or session of SQLAlchemy.


class _SqlAlchemy:
    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - SQLAlchemy's
        self._connection = connection
        bound = connection.get_bind() if hasattr(connection, "get_bind") else connection
        self.dialect: str = bound.dialect.name

    def rows(self, statement: Statement) -> list[Any]:
        return list(self._executed(statement.sql, statement.values).fetchall())

    def change(self, statement: Statement) -> int:
        return int(self._executed(statement.sql, statement.values).rowcount)

    def run(self, sql: str) -> None:
        self._executed(sql, {})

    def is_in_transaction(self) -> bool:
        of_session = getattr(self._connection, "connection", None)
        inner = of_session() if callable(of_session) else self._connection
        # what the driver knows; a driver that is not known here has SQLAlchemy's default, a transaction
        driven = inner.connection.driver_connection
        return _driver(driven) is None or _awaits_commit(driven)

    def _executed(self, sql: str, values: dict[str, Any]) -> Any:  # noqa: ANN401 - a result of SQLAlchemy
        from sqlalchemy import text  # noqa: PLC0415 - only who uses it has it

        return self._connection.execute(text(sql), values)


# Where a relay finds the table.


class Source(Protocol):
    """Runs each work in a transaction of its own."""

    async def run(self, work: Callable[[Database], T]) -> T:
        """Commit what the work does, and return its result; what it raises rolls back, and is raised."""

    async def close(self) -> None:
        """Close the relay's own connection."""


def source(where: Any) -> Source:  # noqa: ANN401 - of other libraries
    """Return where a relay finds the table: an engine of SQLAlchemy, an alias of Django, a URL, or a function that connects.

    Raises ConfigurationError for a URL that cannot be read, TypeError for anything else.
    """
    if isinstance(where, str):
        return _Opened(_connector(where)) if "://" in where else _OfDjango(where)
    if hasattr(where, "sync_engine"):
        return _AsyncEngine(where)
    if hasattr(where, "dialect") and hasattr(where, "begin"):
        return _Engine(where)
    if callable(where):
        return _Opened(where)
    kind = type(where)
    raise TypeError(
        f"{kind.__module__}.{kind.__qualname__} is no database for a relay: an Engine or AsyncEngine of SQLAlchemy, an alias of Django,"
        " a URL such as postgresql://user@host/name, or a function that returns a connection."
    )


class _AsyncEngine:
    def __init__(self, engine: Any) -> None:  # noqa: ANN401 - SQLAlchemy's
        self._engine = engine

    async def run(self, work: Callable[[Database], T]) -> T:
        async with self._engine.begin() as connection:
            result: T = await connection.run_sync(lambda inner: work(_SqlAlchemy(inner)))
            return result

    async def close(self) -> None:
        """Leave the engine to its owner."""


class _InThread:
    """A thread for statements that block; a driver may want its connection to be used in one thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="pubqueue outbox")

    async def run(self, work: Callable[[Database], T]) -> T:
        running = asyncio.get_running_loop().run_in_executor(self._thread, self._work, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # the thread goes on, and what follows has to know that it is through
            await asyncio.wait({running})
            raise

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._end)
        self._thread.shutdown()

    def _work(self, work: Callable[[Database], T]) -> T:
        raise NotImplementedError

    def _end(self) -> None:
        """Close the thread's connection."""


class _Engine(_InThread):
    def __init__(self, engine: Any) -> None:  # noqa: ANN401 - SQLAlchemy's
        super().__init__()
        self._engine = engine

    def _work(self, work: Callable[[Database], T]) -> T:
        with self._engine.begin() as connection:
            return work(_SqlAlchemy(connection))


class _OfDjango(_InThread):
    def __init__(self, alias: str) -> None:
        super().__init__()
        self._alias = alias

    def _work(self, work: Callable[[Database], T]) -> T:
        from django.db import connections, transaction  # noqa: PLC0415 - only who uses it has it

        connection = connections[self._alias]
        connection.close_if_unusable_or_obsolete()  # as at the beginning of a request
        with transaction.atomic(using=self._alias):
            return work(_Django(connection))

    def _end(self) -> None:
        from django.db import connections  # noqa: PLC0415 - as above

        connections[self._alias].close()


class _Opened(_InThread):
    """A connection that is kept, and opened again after an error."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        super().__init__()
        self._connect = connect
        self._connection: Any = None

    def _work(self, work: Callable[[Database], T]) -> T:
        if self._connection is None:
            self._connection = self._connect()
        try:
            result = work(database(self._connection))
            self._connection.commit()
        except BaseException:
            self._end()
            raise
        return result

    def _end(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it may be broken, and closing it is all that is left to do
                connection.close()


def _connector(url: str) -> Callable[[], Any]:
    """Return a function that connects to a URL as SQLAlchemy writes them; raise ConfigurationError, which never repeats the URL."""
    scheme, _, rest = url.partition("://")
    kind = scheme.partition("+")[0]
    if kind == "sqlite":
        path = rest.removeprefix("/")
        if not rest.startswith("/") or path in {"", ":memory:"}:
            raise ConfigurationError(
                "The URL of a SQLite database names a file: sqlite:///relative.db or sqlite:////absolute.db.",
                argument="database",
            )
        return lambda: sqlite3.connect(path, timeout=BUSY_SECONDS)
    if kind not in {"postgresql", "postgres"}:
        raise ConfigurationError(
            f"A database at {scheme}:// cannot have an outbox; sqlite:/// and postgresql:// can.",
            argument="database",
        )
    try:
        import psycopg  # noqa: PLC0415 - an extra
    except ImportError:
        raise ConfigurationError(
            "A relay for PostgreSQL needs pip install 'psycopg[binary]'.", argument="database"
        ) from None
    return lambda: psycopg.connect(f"postgresql://{rest}", connect_timeout=BUSY_SECONDS)
