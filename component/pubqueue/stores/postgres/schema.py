"""PostgreSQL's schema, statements, locks and errors."""

from __future__ import annotations

import logging
import re
import time
from contextlib import contextmanager
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import psycopg
from psycopg import errors
from psycopg.adapt import Dumper
from psycopg.pq import Format
from psycopg.types.numeric import Int8BinaryDumper

from pubqueue.engine.ports import (
    ForeignStoreError,
    StaleError,
    StoreError,
    UnfitError,
    UnreachableStoreError,
)
from pubqueue.stores.sql.session import Dialect, scripts, served_from, statements, unfinished_copy
from pubqueue.stores.sql.transaction import unfit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from psycopg import Connection
    from psycopg.abc import Buffer
    from psycopg.adapt import AdaptersMap


# Prepares a connection: sets how it writes, checks whose schema it is, and migrates it.

SCHEMA: Final = "pubqueue"

LOCK_TIMEOUT: Final = 5.0
"""Seconds to wait while another process holds a lock."""

SETTINGS: Final = {
    "search_path": SCHEMA,
    "synchronous_commit": "on",
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "5000",
    "client_min_messages": "warning",
    "join_collapse_limit": "1",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_sort": "off",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "plan_cache_mode": "force_generic_plan",
}
"""The connection of a machine that is gone ends in five seconds, and its locks with it.

A commit returns when it is on disk, and warns if it gave up waiting for a standby. Every statement is written for one plan:
by the indexes, in the order in which it is written. The planner's statistics of a queue are never right, because it is long
at one time and empty at another."""


def prepare(connection: Connection, *, half_copied: bool = False) -> None:
    """Prepare the connection for use, on the newest schema. Only a copy uses a store that is `half_copied`.

    Raises:
        ForeignStoreError: the schema is not ours, is newer than this program, or cannot be made.
        UnreachableStoreError: it has to be migrated, and a process of an older version serves from it.

    """
    configure(connection)
    if not half_copied and (source := copied_from(connection)) is not None:
        raise ForeignStoreError(unfinished_copy(source))
    steps = scripts(__package__)
    if version(connection) != len(steps):
        _migrate(connection, steps)


def configure(connection: Connection) -> None:
    """Prepare the connection for reading a schema."""
    register(connection.adapters)
    settings = SETTINGS | {"lock_timeout": f"{round(LOCK_TIMEOUT * 1000)}ms"}
    connection.execute(
        "; ".join(f"SET {name} = '{value}'" for name, value in settings.items()), prepare=False
    )


def newest() -> int:
    """Return the number of this program's schema."""
    return len(scripts(__package__))


def version(connection: Connection) -> int | None:
    """Return the number of the schema, None if there is none."""
    try:
        with connection.transaction():
            found = connection.execute("SELECT program, schema FROM pubqueue", prepare=False)
            row = found.fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return None
    except (errors.UndefinedColumn, errors.InsufficientPrivilege) as problem:
        raise ForeignStoreError(f"the schema {SCHEMA} belongs to another program") from problem
    if row is None or row[0] != "pubqueue":
        raise ForeignStoreError(f"the schema {SCHEMA} belongs to another program")
    return int(row[1])


def copied_from(connection: Connection) -> str | None:
    """Return the source of the unfinished copy in this store, None if the store is complete."""
    looked = connection.execute("SELECT to_regclass('copying') IS NULL", prepare=False).fetchone()
    if looked is None or looked[0]:
        return None
    row = connection.execute("SELECT source FROM copying", prepare=False).fetchone()
    return "" if row is None else str(row[0])


def _migrate(connection: Connection, steps: list[str]) -> None:
    """Run the migrations that the schema does not have yet, in one transaction; another process waits for it."""
    try:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock($1)", (LOCK,))
            done = version(connection)
            if done is None:
                _make_schema(connection)
            elif done > len(steps):
                raise ForeignStoreError(
                    f"its schema is number {done}, this program knows {len(steps)}; use a newer one"
                )
            elif done < len(steps) and not nobody_serves(connection, done):
                raise UnreachableStoreError(served_from(done, len(steps)))
            for script in steps[done or 0 :]:
                connection.execute(script.encode(), prepare=False)
            connection.execute("UPDATE pubqueue SET schema = $1", (len(steps),))
    except errors.InsufficientPrivilege as problem:
        raise ForeignStoreError(f"the schema {SCHEMA} cannot be made: {problem}") from problem


def _make_schema(connection: Connection) -> None:
    """Make the schema unless it exists; refuse one that another program has filled."""
    row = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1), EXISTS ("
        "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1)",
        (SCHEMA,),
    ).fetchone()
    there, filled = row or (False, False)
    if filled:
        raise ForeignStoreError(f"the schema {SCHEMA} belongs to another program")
    if not there:
        connection.execute(f"CREATE SCHEMA {SCHEMA}", prepare=False)


# Columns as PostgreSQL takes them: whole arrays in binary form, each of a fixed type whatever it contains.
#
# psycopg would look at every element to choose a type, and a column with only NULLs would need another prepared statement.

_HEAD: Final = Struct(">iiIii")
_LENGTH: Final = Struct(">i")
_INT: Final = Struct(">iq")
_FLAG: Final = Struct(">i?")
_NULL: Final = _LENGTH.pack(-1)


def _integer(value: int) -> bytes:
    return _INT.pack(8, value)


def _flag(value: object) -> bytes:
    return _FLAG.pack(1, bool(value))


def _text(value: str) -> bytes:
    encoded = value.encode()
    return _LENGTH.pack(len(encoded)) + encoded


def _byte_count(value: bytes) -> bytes:
    return _LENGTH.pack(len(value)) + value


class Column:
    """The values of one column; its subclasses are PostgreSQL's types."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values


class _Integers(Column):
    pass


class _Texts(Column):
    pass


class _Bytes(Column):
    pass


class _Flags(Column):
    pass


class _ColumnDumper(Dumper):
    """Writes an array of one dimension with lower bound 1; a NULL is a length of -1."""

    format = Format.BINARY
    element: int
    write: Callable[[Any], bytes]

    def dump(self, obj: Column) -> Buffer | None:
        """Return the array."""
        write = type(self).write
        values = obj.values
        head = _HEAD.pack(1, 1, self.element, len(values), 1)
        return head + b"".join([_NULL if value is None else write(value) for value in values])


class _IntegersDumper(_ColumnDumper):
    oid, element, write = 1016, 20, staticmethod(_integer)


class _TextsDumper(_ColumnDumper):
    oid, element, write = 1009, 25, staticmethod(_text)


class _BytesDumper(_ColumnDumper):
    oid, element, write = 1001, 17, staticmethod(_byte_count)


class _FlagsDumper(_ColumnDumper):
    oid, element, write = 1000, 16, staticmethod(_flag)


COLUMNS: Final[dict[str, Callable[[Sequence[Any]], Column]]] = {
    "bigint": _Integers,
    "text": _Texts,
    "bytea": _Bytes,
    "boolean": _Flags,
}
"""The array types that statements take, by name."""


def register(adapters: AdaptersMap) -> None:
    """Register columns with a connection, and let every number be a bigint, so that each statement is prepared once."""
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(_Integers, _IntegersDumper)
    adapters.register_dumper(_Texts, _TextsDumper)
    adapters.register_dumper(_Bytes, _BytesDumper)
    adapters.register_dumper(_Flags, _FlagsDumper)


def columns(kinds: Sequence[str], rows: Sequence[Sequence[object]]) -> list[Column]:
    """Return rows as columns of these types."""
    turned = zip(*rows, strict=True)
    return [COLUMNS[kind](values) for kind, values in zip(kinds, turned, strict=True)]


# Settings of a server that lose confirmed data when its power fails, or when a standby takes over.

MEANING: Final = {
    "fsync": "a loss of power may destroy everything",
    "full_page_writes": "a loss of power may destroy pages, unless the file system prevents it",
    "synchronous_commit": "pubqueue turns it on for itself, others on this server may lose what they wrote",
}

DIFFERENT: Final = 1.0
"""Seconds by which clocks may differ without a warning."""

LOCAL: Final = """\
the server has synchronous standbys and synchronous_commit local: pubqueue waits for them all the same, \
others on this server may lose what they wrote when one takes over"""
NO_STANDBY: Final = """\
the server has synchronous_standby_names and no standby is connected: nothing is confirmed until one is"""
LAGGING: Final = """\
the server has a standby and no synchronous_standby_names: \
what was confirmed last may be lost when it takes over"""


def doubts(connection: Connection) -> list[str]:
    """Return a sentence about each of these settings. Values that a session sets for itself do not count."""
    rows = connection.execute(
        "SELECT name FROM pg_settings WHERE name = ANY($1::text[]) AND reset_val = 'off' ORDER BY name",
        (list(MEANING),),
    )
    off = [f"the server has {name} off: {MEANING[name]}" for (name,) in rows]
    return off + _about_standbys(connection) + about_clocks(connection)


def about_clocks(connection: Connection) -> list[str]:
    """Return a sentence if the clocks differ: deadlines and logs are then on different times."""
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    ahead = round(time.time() - row[0], 1) if row is not None else 0.0
    if abs(ahead) < DIFFERENT:
        return []
    side = "ahead of" if ahead > 0 else "behind"
    return [
        f"the clock of this machine is {abs(ahead):g} s {side} the database's; deadlines go by that of the database"
    ]


def _about_standbys(connection: Connection) -> list[str]:
    """Return a sentence if a commit may be lost when a standby takes over. Every role can see whether there are standbys."""
    row = connection.execute(
        "SELECT current_setting('synchronous_standby_names') != '',"
        " (SELECT reset_val = 'local' FROM pg_settings WHERE name = 'synchronous_commit'),"
        " EXISTS (SELECT 1 FROM pg_stat_replication)"
    ).fetchone()
    named, local, connected = row or (False, False, False)
    if not named:
        return [LAGGING] if connected else []
    return [
        sentence for sentence, applies in ((LOCAL, local), (NO_STANDBY, not connected)) if applies
    ]


# Translates errors of PostgreSQL and of the connection to those of the store interface.

STALE: Final = (
    errors.IntegrityError,  # a constraint is also a guard
    errors.DivisionByZero,  # `queries.guarded`
    errors.SerializationFailure,
    errors.DeadlockDetected,
)

logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # it also logs what it raises


def words(problem: Exception) -> StoreError:
    """Return the store error for an error of PostgreSQL, of its client or of the network."""
    match problem:
        case psycopg.Error() if isinstance(problem, STALE):
            return StaleError("constraint", text_of(problem))
        case psycopg.DataError():
            return UnfitError(text_of(problem))
        case psycopg.Error():
            return StoreError(text_of(problem))
        case _:
            return unfit(problem)


@contextmanager
def translated() -> Iterator[None]:
    """Raise errors of PostgreSQL as StoreError."""
    try:
        yield
    except psycopg.Error as problem:
        raise words(problem) from problem


def not_opened(problem: StoreError) -> ForeignStoreError:
    """Return the store error for a schema that could not be opened. One that the server or the network has caused may pass."""
    passes = isinstance(problem.__cause__, psycopg.OperationalError)
    unreachable = passes or isinstance(problem, UnreachableStoreError)
    return (UnreachableStoreError if unreachable else ForeignStoreError)(f"PostgreSQL: {problem}")


def text_of(problem: psycopg.Error) -> str:
    """Return what went wrong, in one line."""
    return " ".join(str(problem).split()) or type(problem).__name__


# The advisory locks of a database, which together with the leases show the writer, the serving processes, and exclusive access.

LOCK: Final = 0x70756271
"""`pubq`: the advisory lock of the writer, in this database; together with an epoch, that of a process."""

GATE: Final = -1
"""An epoch that no process has: for the lock of a process with exclusive access to the schema."""

OF_LEASES: Final = 12
"""The number of the first schema with leases."""

NOBODY_WRITES: Final = """
    SELECT NOT EXISTS (
        SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid::bigint = $1 AND objid != ($2::int8 & 4294967295)::oid
    )
"""
"""Whether no process has the lock of its epoch."""

OVER: Final = "SELECT NOT EXISTS (SELECT 1 FROM instance WHERE until > clock_timestamp())"
"""Whether all leases are over: a process that has just lost its connection has no lock, and still serves."""


def nobody_serves(connection: Connection, schema: int) -> bool:
    """Block processes that begin to serve until this transaction ends; return whether none serves. `schema` is the schema's number.

    A process that begins first takes the lock of its epoch, and then checks the gate. So at least one of the two detects the other.
    """
    questions: list[tuple[str, tuple[int, ...]]] = [
        ("SELECT pg_try_advisory_xact_lock($1::int, $2::int)", (LOCK, GATE)),
        (NOBODY_WRITES, (LOCK, GATE)),
    ]
    if schema >= OF_LEASES:
        questions.append((OVER, ()))
    for question, values in questions:
        row = connection.execute(question, values, prepare=False).fetchone()
        if row is None or not row[0]:
            return False
    return True


# PostgreSQL's statements by name, and the types of their arrays.

DIALECT: Final = Dialect("JOIN", r"(SELECT json_array_elements_text($\1::json))")

SQL: Final = statements(__package__, DIALECT)

_ARRAY: Final = re.compile(r"\$(\d+)::(\w+)\[\]")

ARRAYS: Final = {
    name: tuple(kind for _, kind in sorted(set(found), key=lambda one: int(one[0])))
    for name, text in SQL.items()
    if (found := _ARRAY.findall(text))
}
"""By statement for many rows, the types of its arrays, in order."""


def guarded(statement: str) -> str:
    """Return a statement that fails unless the number of changed rows is its last value.

    So the commit can be sent without waiting for the number of rows.
    """
    last = 1 + max((int(number) for number in re.findall(r"\$(\d+)", statement)), default=0)
    return (
        f"WITH done AS ({statement} RETURNING 1) SELECT 1 / (count(*) = ${last})::integer FROM done"  # noqa: S608  # ours
    )


GUARDED: Final = {
    name: guarded(text)
    for name, text in SQL.items()
    if re.match(r"(--.*\n)*(INSERT|UPDATE|DELETE)", text) and "RETURNING" not in text
}
"""The statements that change rows, in the form that checks their number."""
