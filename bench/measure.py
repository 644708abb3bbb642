"""Rounds of measurement, and their samples."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.contestants import ANSWER_SHORTLY, EMPTY, running
from bench.load import Load, subscribe
from bench.places import PLACES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from bench.contestants import Situation
    from bench.places import Place


@dataclass(frozen=True, slots=True)
class Work:
    """How many items, publishers and workers there are."""

    items: int = 2000
    payload: int = 200
    window: int = 256  # items in flight at any time; those that no worker has yet are a backlog
    publishers: int = 2
    workers: int = 4
    requests: int = 32  # queue_requests of each worker
    short: bool = True  # publishers ask for short answers, like our library

    @property
    def warm_up(self) -> int:
        """Items before the clock starts, while code is loaded and statements are prepared."""
        return self.items // 4

    @property
    def publisher_names(self) -> list[str]:
        """The accounts that publish."""
        return [f"publisher{number}" for number in range(self.publishers)]

    def asks_short(self, contestant: str) -> bool:
        """Whether publishers ask this contestant for short answers."""
        return self.short and contestant in ANSWER_SHORTLY


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one contestant in one place."""

    place: str
    contestant: str
    items: int
    seconds: float  # of the wall clock
    component: float  # seconds of processor time, user and system
    server: float
    load: float

    @property
    def rate(self) -> float:
        """Item lives per second."""
        return self.items / self.seconds

    @property
    def cost(self) -> float:
        """Microseconds of the component's processor time per item life."""
        return self.component / self.items * 1e6

    @property
    def server_cost(self) -> float:
        """Microseconds of the server's processor time per item life."""
        return self.server / self.items * 1e6


async def rounds(
    places: Sequence[str], contestants: Sequence[str], work: Work, count: int
) -> AsyncIterator[Sample]:
    """Measure all contestants in turns, A B C A B C, so that a slow minute affects them alike."""
    for name in places:
        async with PLACES[name]() as place:
            for _ in range(count):
                for contestant in contestants:
                    yield await measure(name, place, contestant, work)


async def measure(
    name: str,
    place: Place,
    contestant: str,
    work: Work,
    *,
    launcher: Sequence[str] = (),
    situation: Situation = EMPTY,
) -> Sample:
    """Start the contestant, warm it up, measure it, stop it."""
    publishers = work.publisher_names
    workers = [f"worker{number}" for number in range(work.workers)]
    with tempfile.TemporaryDirectory(prefix="pubqueue-bench-") as folder:
        async with running(
            contestant,
            place,
            Path(folder),
            publishers=publishers,
            requests=work.requests,
            launcher=launcher,
            situation=situation,
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
                short=work.asks_short(contestant),
            )
            await load.run(work.warm_up)
            before = _clocks(child.pid, place.pid)
            await load.run(work.items)
            after = _clocks(child.pid, place.pid)
            await place.part(parties)
    spent = [end - start for start, end in zip(before, after, strict=True)]
    return Sample(name, contestant, work.items, *spent)


def _clocks(component: int, server: int | None) -> tuple[float, float, float, float]:
    return (
        time.perf_counter(),
        processor_time(component),
        processor_time(server) if server else 0.0,
        time.process_time(),
    )


def processor_time(pid: int) -> float:
    """Return the seconds of processor time that a process and its threads have used.

    This is clock_getcpuclockid(3) of Linux; /proc/PID/stat only has steps of 10 ms.
    """
    return time.clock_gettime((~pid << 3) | 2)
