"""Two common queues on PostgreSQL, written as usually recommended: `python -m bench.rivals QUEUE ROLE ADDRESS SIZE
COUNT`.

A publisher commits each job separately, on four connections at once, and prints `done`. A worker takes one job at a
time. Both print `ready` first, and run until they are stopped.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import procrastinate
import psycopg

from bench.load import payload

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

AT_ONCE: Final = 4
"""How many jobs a publisher publishes at once."""
GUN: Final = 1
"""The advisory lock that publishers wait for."""
IDLE: Final = 0.05
"""Seconds until the plain loop looks again after it has found no job."""

JOBS: Final = (
    "CREATE TABLE job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload text NOT NULL)"
)
INSERT: Final = "INSERT INTO job (payload) VALUES (%s)"
TAKE: Final = "SELECT id, payload FROM job ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
DELETE: Final = "DELETE FROM job WHERE id = %s"


@dataclass(frozen=True, slots=True)
class Role:
    """The role of a process."""

    address: str
    size: int
    count: int


# --- a plain loop ----------------------------------------------------------------------------------


async def make_plain(address: str) -> None:
    """Make the table."""
    async with await psycopg.AsyncConnection.connect(address, autocommit=True) as connection:
        await connection.execute(JOBS)


async def publish_plain(role: Role) -> None:
    """Insert job by job."""
    body = payload(role.size)

    async def share() -> None:
        async with await psycopg.AsyncConnection.connect(role.address, autocommit=True) as own:
            for _ in range(role.count // AT_ONCE):
                await own.execute(INSERT, (body,))

    await _when_ready(role, [share] * AT_ONCE)


async def work_plain(role: Role) -> None:
    """Take, do and delete job by job, each in one transaction; if a worker dies in it, the job is free again."""
    with psycopg.connect(role.address) as connection:
        _say("ready")
        while True:
            with connection.transaction():
                row = connection.execute(TAKE).fetchone()
                if row is not None:
                    connection.execute(DELETE, row[:1])
            if row is None:
                time.sleep(IDLE)  # noqa: ASYNC251  # no other task runs here


# --- procrastinate ---------------------------------------------------------------------------------


def _app(address: str) -> tuple[procrastinate.App, Any]:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=address))

    @app.task(name="work")
    async def work(payload: str) -> None:
        """Do nothing."""

    return app, work


async def make_procrastinate(address: str) -> None:
    """Make its tables and functions."""
    app, _ = _app(address)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()


async def publish_procrastinate(role: Role) -> None:
    """Defer job by job."""
    app, work = _app(role.address)
    body = payload(role.size)

    async def share() -> None:
        for _ in range(role.count // AT_ONCE):
            await work.defer_async(payload=body)

    async with app.open_async():
        await _when_ready(role, [share] * AT_ONCE)


async def work_procrastinate(role: Role) -> None:
    """Work like its own command; done jobs are deleted, as ours are."""
    app, _ = _app(role.address)
    async with app.open_async():
        _say("ready")
        await app.run_worker_async(concurrency=1, delete_jobs="successful")


# --- both ------------------------------------------------------------------------------------------

MAKE: Final[dict[str, Callable[[str], Awaitable[None]]]] = {
    "skip-locked": make_plain,
    "procrastinate": make_procrastinate,
}
EMPTY: Final = {
    "skip-locked": "SELECT NOT EXISTS (SELECT 1 FROM job)",
    "procrastinate": "SELECT NOT EXISTS (SELECT 1 FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))",
}
"""Whether all jobs are done."""
ROLES: Final[dict[tuple[str, str], Callable[[Role], Awaitable[None]]]] = {
    ("skip-locked", "publish"): publish_plain,
    ("skip-locked", "work"): work_plain,
    ("procrastinate", "publish"): publish_procrastinate,
    ("procrastinate", "work"): work_procrastinate,
}


def _say(word: str) -> None:
    print(word, flush=True)


async def _when_ready(role: Role, shares: list[Callable[[], Awaitable[None]]]) -> None:
    async with await psycopg.AsyncConnection.connect(role.address, autocommit=True) as connection:
        _say("ready")
        await connection.execute("SELECT pg_advisory_lock_shared(%s)", (GUN,))
        await connection.execute("SELECT pg_advisory_unlock_shared(%s)", (GUN,))
        await asyncio.gather(*(share() for share in shares))
        _say("done")
        await asyncio.Event().wait()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    queue, role, address, size, count = sys.argv[1:]
    asyncio.run(ROLES[queue, role](Role(address, int(size), int(count))))  # type: ignore[arg-type]
