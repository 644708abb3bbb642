"""Rounds of the service on two stores and of two other queues, with the processor time of each part."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.databases.postgres import WIPE, Postgres

from bench.contestants import READY, ROOT, Situation, running
from bench.load import STALLED, Load, subscribe
from bench.measure import Work, processor_time
from bench.processors import beside_the_main_thread, of_family
from bench.rivals import AT_ONCE, EMPTY, GUN, MAKE
from pubqueue_demo.process import Child, spawn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import psycopg

    from bench.places import Place

SQLITE: Final = "pubqueue, SQLite"
POSTGRES: Final = "pubqueue, PostgreSQL"
CONTESTANTS: Final = (SQLITE, POSTGRES, *MAKE)
FEWER: Final = {"procrastinate": 4}
"""Slow contestants get fewer items, divided by this."""
LOOK: Final = 0.02
"""Seconds between two checks whether another queue is empty."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Seconds of processor time; `line` is the component's part in batches, which run one after another."""

    component: float = 0.0
    line: float = 0.0
    database: float = 0.0
    server: float = 0.0
    clients: float = 0.0

    def __sub__(self, before: Parts) -> Parts:
        return Parts(
            self.component - before.component,
            self.line - before.line,
            self.database - before.database,
            self.server - before.server,
            self.clients - before.clients,
        )


@dataclass(frozen=True, slots=True)
class Round:
    """The result of one contestant in one round."""

    contestant: str
    items: int
    seconds: float
    parts: Parts

    @property
    def rate(self) -> float:
        """Item lives per second."""
        return self.items / self.seconds

    def cost(self, part: str) -> float:
        """Microseconds of a part's processor time per item life."""
        spent: float = getattr(self.parts, part)
        return spent / self.items * 1e6


def server() -> Postgres:
    """Return a durable PostgreSQL with default memory settings."""
    return Postgres(fsync="on", shared_buffers="128MB", max_connections="100")


def superuser(postgres: Postgres) -> str:
    """Return the address for contestants that create their own schema."""
    return f"postgresql://postgres@{postgres.host}:{postgres.port}/queues"


async def rounds(place: Place, postgres: Postgres, work: Work, count: int) -> AsyncIterator[Round]:
    """Measure all in turns, so that a slow minute affects them alike."""
    for make in MAKE.values():
        await make(superuser(postgres))
    for _ in range(count):
        for name in CONTESTANTS:
            if name in MAKE:
                less = replace(work, items=work.items // FEWER.get(name, 1))
                yield await measure_rival(name, postgres, less)
            else:
                address = postgres.address if name == POSTGRES else None
                yield await measure_ours(name, place, postgres, work, address)


async def measure_ours(
    name: str, place: Place, postgres: Postgres, work: Work, address: str | None
) -> Round:
    """Start the component on an empty store, warm it up, measure it, stop it."""
    postgres.ask(WIPE)
    publishers = work.publisher_names
    workers = [f"worker{number}" for number in range(work.workers)]
    with tempfile.TemporaryDirectory(prefix="pubqueue-bench-") as folder:
        async with running(
            "pubqueue",
            place,
            Path(folder),
            publishers=publishers,
            requests=work.requests,
            situation=Situation(address=address),
        ) as child:
            parties = await place.parties([*publishers, *workers])
            busy = parties[len(publishers) :]
            for worker in busy:
                await subscribe(worker, work.requests)
            load = Load(
                parties[: len(publishers)],
                busy,
                window=work.window,
                size=work.payload,
                short=work.short,
            )

            def used() -> Parts:
                return Parts(
                    component=processor_time(child.pid),
                    line=beside_the_main_thread(child.pid),
                    database=of_family(postgres.pid),
                    server=processor_time(place.pid) if place.pid else 0.0,
                    clients=time.process_time(),
                )

            await load.run(work.warm_up)
            before, begun = used(), time.perf_counter()
            await load.run(work.items)
            seconds, after = time.perf_counter() - begun, used()
            await place.part(parties)
    return Round(name, work.items, seconds, after - before)


async def measure_rival(name: str, postgres: Postgres, work: Work) -> Round:
    """Measure another queue, with as many workers as ours, while items are published."""
    async with AsyncExitStack() as ends:
        session = ends.enter_context(postgres.session())
        queue = _Queue(ends, name, postgres, work, session)
        workers = [await queue.started("work", 0) for _ in range(work.workers)]
        await queue.race(await queue.publishers(work.warm_up))
        publishers = await queue.publishers(work.items)

        def used() -> Parts:
            clients = sum(processor_time(child.pid) for child in (*workers, *publishers))
            return Parts(database=of_family(postgres.pid), clients=clients)

        before, begun = used(), time.perf_counter()
        await queue.race(publishers)
        seconds, after = time.perf_counter() - begun, used()
    return Round(name, sum(_shares(work, work.items)), seconds, after - before)


@dataclass(frozen=True, slots=True)
class _Queue:
    """Another queue and its load; `ends` stops everything that was started."""

    ends: AsyncExitStack
    name: str
    postgres: Postgres
    work: Work
    session: psycopg.Connection  # of the superuser

    async def publishers(self, items: int) -> Sequence[Child]:
        """Start the publishers, which wait for a lock that we hold, so that their start is not measured."""
        self.session.execute("SELECT pg_advisory_lock(%s)", (GUN,))
        return [await self.started("publish", share) for share in _shares(self.work, items)]

    async def race(self, publishers: Sequence[Child]) -> None:
        """Let them publish; return when all items are done."""
        self.session.execute("SELECT pg_advisory_unlock(%s)", (GUN,))
        for publisher in publishers:
            await publisher.wait_line("done", timeout=STALLED)
        async with asyncio.timeout(STALLED):
            while self.session.execute(EMPTY[self.name].encode()).fetchone() != (True,):  # noqa: ASYNC110  # nothing tells
                await asyncio.sleep(LOOK)

    async def started(self, role: str, count: int) -> Child:
        """Start a process, and return when it is ready."""
        folder = self.ends.enter_context(tempfile.TemporaryDirectory(prefix="pubqueue-bench-"))
        work = self.work
        words = [self.name, role, superuser(self.postgres), str(work.payload), str(count)]
        child = await spawn(
            [sys.executable, "-m", "bench.rivals", *words],
            name=f"{self.name} {role}",
            log=Path(folder) / "stderr",
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        self.ends.push_async_callback(child.kill)
        await child.wait_line("ready", timeout=READY)
        return child


def _shares(work: Work, items: int) -> list[int]:
    """Return how many each publisher publishes."""
    return [max(1, items // work.publishers // AT_ONCE) * AT_ONCE] * work.publishers
