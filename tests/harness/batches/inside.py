"""Looks at private members of the program, each in one place: whoever renames one of them mends it here.

A test looks inside where what it proves cannot be observed from outside: a connection that is cut or fails, memory that is not used.
"""

from __future__ import annotations

from typing import Any


def connection_of(store: Any) -> Any:
    """Return the connection on which a SQLite store runs its batches."""
    return store._connection


def reader_of(store: Any) -> Any:
    """Return the connection on which a SQLite store reads beside its batches."""
    return store._reader


def connect_to(store: Any) -> Any:
    """Return a connection of its own to the file of a SQLite store, for who needs no thread."""
    return store._connect()


def transact_on(store: Any, connection: Any, job: Any) -> Any:
    """Run a batch of a store on a connection, on the thread of whoever calls."""
    return store._transact(connection, job)


def conninfo_of(store: Any) -> str:
    """Return the words by which a PostgreSQL store connects."""
    return store._conninfo


def notifications_to(instances: Any) -> Any:
    """Return the connection on which a PostgreSQL store hears of other processes."""
    return instances._listens_on


def is_committed(store: Any, line: Any) -> bool:
    """Have a PostgreSQL store find out what became of a batch whose commit had no answer."""
    return store._is_committed(line, RuntimeError("cut"))


def postgres_connection_in(tx: Any) -> Any:
    """Return the connection of a transaction of PostgreSQL."""
    return session_in(tx)._connection


def session_in(tx: Any) -> Any:
    """Return the statements of a transaction."""
    return tx._tx._session


def line_of(store: Any) -> Any:
    """Return the connection, with its thread, of a PostgreSQL store."""
    return store._line


def writer_id(store: Any) -> str:
    """Return the name under which a PostgreSQL store notes its batches."""
    return store._id


def cache_of(broker: Any) -> Any:
    """Return the rows that a broker remembers between batches."""
    return committer_of(broker)._rows.cache


def forget_rows(broker: Any) -> None:
    """Let a broker load all rows anew."""
    committer_of(broker)._changes.forget()


def store_of(broker: Any) -> Any:
    """Return the store of a broker."""
    return committer_of(broker)._store


def committer_of(broker: Any) -> Any:
    """Return what runs a broker's batches."""
    return broker._committer


def kept_presence(broker: Any) -> Any:
    """Return the presence that a broker keeps to try again."""
    return broker._presence_retry


def session_of(worker: Any) -> Any:
    """Return a worker's session with the queue."""
    return worker._session


def held_items(worker: Any) -> Any:
    """Return the items that a worker holds."""
    return worker._held_items


def connection_keeper(publisher: Any) -> Any:
    """Return what keeps a publisher connected."""
    return publisher._parts()[0]


def cut(session: Any) -> None:
    """Lose the connection of a worker's session or of a publisher, as by a broken cable."""
    session._client.abort()


async def has_noticed_the_cut(session: Any) -> None:
    """Return when a session has given its connection up."""
    await session._cut.wait()


def close_pipes(process: Any) -> None:
    """Let go of what asyncio keeps of a process that has ended, before the loop is gone."""
    process._transport.close()
