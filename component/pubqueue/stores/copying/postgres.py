"""PostgreSQL's end of a copy."""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import psycopg

from pubqueue.engine.ports import ForeignStoreError
from pubqueue.stores import postgres
from pubqueue.stores.copying.copy import COPYING, KEYS, OF_PROCESSES, DatabaseTable, RefusedError
from pubqueue.stores.postgres.connection import connected, see_that_sessions_are_kept
from pubqueue.stores.postgres.instances import have_alone
from pubqueue.stores.postgres.schema import (
    LOCK,
    SCHEMA,
    configure,
    copied_from,
    prepare,
    translated,
    version,
)
from pubqueue.stores.postgres.store import PostgresStore
from pubqueue.stores.sql.session import scripts, unfinished_copy, unlike

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from psycopg import Connection

    from pubqueue.engine.ports import Store
    from pubqueue.stores.copying.copy import Row, Source


KINDS: Final = {
    "bigint": "integer",
    "integer": "integer",
    "boolean": "integer",
    "text": "text",
    "bytea": "bytes",
    "double precision": "real",
}

COLUMNS: Final = """
    SELECT c.relname, a.attname, format_type(a.atttypid, NULL), a.atttypid::bigint, a.attidentity <> '',
        array_position(i.indkey::int2[], a.attnum)
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    LEFT JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
    WHERE c.relnamespace = $1::regnamespace AND c.relkind = 'r'
        AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
"""

REFERENCES: Final = """
    SELECT mine.relname, theirs.relname FROM pg_constraint o
    JOIN pg_class mine ON mine.oid = o.conrelid JOIN pg_class theirs ON theirs.oid = o.confrelid
    WHERE o.contype = 'f' AND o.connamespace = $1::regnamespace
"""

PATIENT: Final = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0"
"""A copy may take long, and one end waits for the other."""


class PostgresPlace:
    """Implements both ends on one connection."""

    def __init__(self, connection: Connection) -> None:
        self.name = _name(connection)
        self._connection = connection
        self._types: dict[tuple[str, str], int] = {}
        self._flags: set[tuple[str, str]] = set()
        self._identities: dict[str, str] = {}

    # --- reading ---

    def tables(self) -> dict[str, DatabaseTable]:
        """Return its tables, by name."""
        refers: dict[str, set[str]] = {}
        for mine, theirs in self._ask(REFERENCES, SCHEMA):
            refers.setdefault(mine, set()).add(theirs)
        kinds: dict[str, dict[str, str]] = {}
        keys: dict[str, list[tuple[int, str]]] = {}
        for table, column, kind, oid, is_identity, place in self._ask(COLUMNS, SCHEMA):
            if table in OF_PROCESSES or table == COPYING:
                continue
            kinds.setdefault(table, {})[column] = KINDS.get(kind, kind)
            self._types[table, column] = oid
            if kind == "boolean":
                self._flags.add((table, column))
            if is_identity:
                self._identities[table] = column
            if place is not None:
                keys.setdefault(table, []).append((place, column))
        return {
            name: DatabaseTable(
                name,
                kinds[name],
                KEYS.get(name) or tuple(column for _, column in sorted(keys[name])),
                frozenset(refers.get(name, ())),
            )
            for name in kinds
        }

    def count(self, table: DatabaseTable) -> int:
        """Return how many rows a table has."""
        return int(self._ask(f"SELECT count(*) FROM {_quoted(table.name)}")[0][0])  # noqa: S608  # names of the schema

    def rows(self, table: DatabaseTable) -> Generator[Row, None, None]:
        """Yield all rows in the order of their key, one by one."""
        columns, key = _listed(table.columns), _listed(table.key)
        select = f"SELECT {columns} FROM {_quoted(table.name)} ORDER BY {key}"  # noqa: S608  # names of the schema
        flags = self._places_of_flags(table)
        with self._connection.cursor().copy(f"COPY ({select}) TO STDOUT (FORMAT BINARY)") as answer:
            answer.set_types(self._types_of(table))
            for row in answer.rows():
                yield _turned(row, flags, int) if flags else row

    def last_numbers(self) -> dict[str, int]:
        """Return the last number that was used, for each table whose numbers are never reused."""
        last = (
            "SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence($1, $2)::regclass), 0)"
        )
        return {
            table: int(self._ask(last, f"{SCHEMA}.{_quoted(table)}", column)[0][0])
            for table, column in self._identities.items()
        }

    def died(self) -> list[int]:
        """Return the numbers of processes that have ended without leaving: no other process is alive."""
        return [int(number) for (number,) in self._ask("SELECT number FROM instance ORDER BY 1")]

    # --- writing ---

    def copied_from(self) -> str | None:
        """Return the source of the unfinished copy in it, None if there is none."""
        return copied_from(self._connection)

    def is_empty(self) -> bool:
        """Return whether it has no contents; the next numbers of sequences do not count."""
        return not any(
            self._ask(f"SELECT 1 FROM {_quoted(table)} LIMIT 1")  # noqa: S608  # names of the schema
            for table in self.tables()
            if table != "sequence"
        )

    def begin(self, source: str) -> None:
        """Mark it as the unfinished copy of that store, and empty it."""
        tables = _listed((*self.tables(), "instance", "writer"))
        with self._connection.transaction():
            self._do(f"DROP TABLE IF EXISTS {COPYING}")
            self._do(f"CREATE TABLE {COPYING} (source text NOT NULL)")
            self._do(f"INSERT INTO {COPYING} VALUES ($1)", source)  # noqa: S608  # ours
            self._do(f"TRUNCATE {tables} RESTART IDENTITY")

    def fill(self, table: DatabaseTable, rows: Iterable[Row]) -> None:
        """Write these rows, in one transaction for the table."""
        into = f"{_quoted(table.name)} ({_listed(table.columns)})"
        flags = self._places_of_flags(table)
        with self._connection.cursor().copy(f"COPY {into} FROM STDIN (FORMAT BINARY)") as sent:
            sent.set_types(self._types_of(table))
            for row in rows:
                sent.write_row(_turned(row, flags, bool) if flags else row)

    def finish(self, last: Mapping[str, int], died: Sequence[int]) -> None:
        """Let numbers continue, note the processes that died, and remove the mark."""
        with self._connection.transaction():
            for table, column in self._identities.items():
                of = f"{SCHEMA}.{_quoted(table)}", column
                highest = f"SELECT coalesce(max({_quoted(column)}), 0) FROM {_quoted(table)}"  # noqa: S608  # names of the schema
                number = max(last.get(table, 0), int(self._ask(highest)[0][0]))
                if number:
                    self._do("SELECT setval(pg_get_serial_sequence($1, $2), $3)", *of, number)
            for number in died:
                self._do("INSERT INTO instance VALUES ($1)", number)
            self._do(f"DROP TABLE {COPYING}")

    def _places_of_flags(self, table: DatabaseTable) -> list[int]:
        return [
            place
            for place, column in enumerate(table.columns)
            if (table.name, column) in self._flags
        ]

    def _types_of(self, table: DatabaseTable) -> list[int]:
        return [self._types[table.name, column] for column in table.columns]

    def _ask(self, statement: str, *values: object) -> list[Any]:
        return self._connection.execute(statement, values, prepare=False).fetchall()

    def _do(self, statement: str, *values: object) -> None:
        self._connection.execute(statement, values, prepare=False)


@contextmanager
def source(store: Store) -> Iterator[PostgresPlace]:
    """Open a schema to copy from: no other process writes to it, and it is read from one snapshot."""
    with _connected(store) as connection:
        name = _name(connection)
        if version(connection) is None:
            raise RefusedError(f"{name}: there is no store")
        have_alone(connection, name)
        prepare(connection)
        place = PostgresPlace(connection)
        connection.execute("SELECT pg_advisory_lock($1)", (LOCK,))  # before the snapshot is taken
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield place


@contextmanager
def running(store: Store) -> Iterator[PostgresPlace]:
    """Open a schema for reading while others may write to it: it is read from one snapshot, and no process waits for it."""
    with _connected(store) as connection:
        name = _name(connection)
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        done, known = version(connection), len(scripts(postgres.__name__))
        if done is None:
            raise RefusedError(f"{name}: there is no store")
        if (begun := copied_from(connection)) is not None:
            raise ForeignStoreError(f"{name}: {unfinished_copy(begun)}")
        if done != known:
            raise ForeignStoreError(f"{name}: {unlike(done, known)}")
        yield PostgresPlace(connection)


@contextmanager
def target(store: Store, source: Source) -> Iterator[PostgresPlace]:
    """Open a schema to copy into, or make it."""
    with _connected(store) as connection:
        name = _name(connection)
        if source.name == name:
            raise RefusedError(f"{name} is both the source and the target")
        have_alone(connection, name)
        prepare(connection, half_copied=True)
        yield PostgresPlace(connection)


@contextmanager
def _connected(store: Store) -> Iterator[Connection]:
    """Connect; errors of PostgreSQL are raised as StoreError. At the end an open transaction is rolled back, and all locks are free."""
    assert isinstance(store, PostgresStore)
    with translated(), closing(connected(store.conninfo)) as connection:
        see_that_sessions_are_kept(store.conninfo)
        configure(connection)
        connection.execute(PATIENT, prepare=False)
        try:
            yield connection
        finally:  # of a connection that is only closed, the server keeps the locks until it has noticed
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK; SELECT pg_advisory_unlock_all()", prepare=False)


def _name(connection: Connection) -> str:
    """Return its address, without credentials."""
    info = connection.info
    return f"postgresql://{info.host}:{info.port}/{info.dbname}"


def _turned(row: Row, places: Sequence[int], into: type) -> Row:
    """Return the row with the flags in these places converted to the type of the other side."""
    values = list(row)
    for place in places:
        if values[place] is not None:
            values[place] = into(values[place])
    return tuple(values)


def _listed(columns: Iterable[str]) -> str:
    return ", ".join(map(_quoted, columns))


def _quoted(name: str) -> str:
    return f'"{name}"'
