"""Where a contestant's time goes, by function, in each of its threads."""

from __future__ import annotations

import asyncio
import pstats
from typing import TYPE_CHECKING

from bench.measure import Work, measure
from bench.places import PLACES

if TYPE_CHECKING:
    from pathlib import Path

SHOWN = 40


def profile(work: Work, place: str, contestant: str, folder: Path) -> None:
    """Run one round under the profiler, print the dearest functions, keep the files.

    What is counted is processor time. The profiler makes calls dearer than they are: read the order, not the
    microseconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(_measure(work, place, contestant, str(folder.resolve())))
    for path in sorted(folder.glob("*.prof")):
        print(f"\n== {path}")
        pstats.Stats(str(path)).sort_stats("tottime").print_stats(SHOWN)


async def _measure(work: Work, place: str, contestant: str, folder: str) -> None:
    async with PLACES[place]() as entered:
        await measure(place, entered, contestant, work, launcher=("bench.profiled", folder))
