"""What the store uses of aiosqlite beside its public interface: of another version it has to be looked at again."""

import asyncio
import sqlite3
import threading

import aiosqlite
import pytest

LOOKED_AT = "0.22.1"
"""The version in which `_conn`, `_execute` and `_thread` are as `stores/sqlite/store.py` needs them."""


@pytest.fixture
async def connection():
    async with aiosqlite.Connection(lambda: sqlite3.connect(":memory:"), 64) as found:
        yield found


def test_the_version_is_the_one_that_was_looked_at():
    assert aiosqlite.__version__ == LOOKED_AT


def execute(connection, job, *given):
    return connection._execute(job, *given)


def thread_of(connection):
    return connection._thread


async def test_a_job_runs_on_the_thread_of_the_connection_and_its_result_comes_back(connection):
    thread = await execute(connection, threading.current_thread)
    assert thread is thread_of(connection)
    assert thread is not threading.current_thread()
    assert await execute(connection, divmod, 7, 2) == (3, 1)


async def test_jobs_run_one_after_the_other_in_their_order(connection):
    found = []
    await asyncio.gather(*(execute(connection, found.append, number) for number in range(100)))
    assert found == list(range(100))


async def test_what_a_job_raises_comes_back_and_the_thread_lives(connection):
    with pytest.raises(ZeroDivisionError):
        await execute(connection, divmod, 7, 0)
    assert await execute(connection, divmod, 7, 2) == (3, 1)


async def test_the_connection_itself_can_be_used_while_the_thread_is_idle():
    connection = aiosqlite.Connection(
        lambda: sqlite3.connect(":memory:", check_same_thread=False), 64
    )
    async with connection:
        assert connection._conn.execute("SELECT 1").fetchone() == (1,)


async def test_the_thread_ends_when_the_connection_is_closed():
    connection = aiosqlite.Connection(lambda: sqlite3.connect(":memory:"), 64)
    await connection
    thread = thread_of(connection)
    await connection.close()
    await asyncio.to_thread(thread.join, 10)
    assert not thread.is_alive()
