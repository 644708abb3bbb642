"""Accesses private members of the program, each in one place: a change of one of them needs only one fix here.

A test looks inside if its subject cannot be observed from outside: a connection that is cut or fails, memory that is not used.
"""

from __future__ import annotations

from typing import Any


def postgres_connection_in(tx: Any) -> Any:
    """Return the connection of a transaction of PostgreSQL."""
    return session_in(tx)._connection


def session_in(tx: Any) -> Any:
    """Return the statements of a transaction."""
    return tx._session


def session_of(worker: Any, at: int = 0) -> Any:
    """Return a worker's session with the queue, at its first service or another one."""
    return worker._items.parts[at].session


def held_items(worker: Any, at: int = 0) -> Any:
    """Return the items that a worker holds, of its first service or another one."""
    return worker._items.parts[at].held_items


def connection_keeper(publisher: Any) -> Any:
    """Return the object that keeps a publisher connected."""
    return publisher._parts().keeper


def cut(session: Any) -> None:
    """Lose the connection of a worker's session or of a publisher, as by a broken cable."""
    session._client.abort()


async def has_noticed_the_cut(session: Any) -> None:
    """Return when a session has given its connection up."""
    await session._cut.wait()


def close_pipes(process: Any) -> None:
    """Release asyncio's objects of a process that has ended, before the loop is gone."""
    process._transport.close()
