"""Profiles a contestant by function, in each of its threads."""

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
    """Run one round under the profiler, print the most expensive functions, keep the files.

    It counts processor time. The profiler makes calls slower, so read the order, not the microseconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(_measure(work, place, contestant, str(folder.resolve())))
    show(folder)


def show(folder: Path) -> None:
    """Print the most expensive functions of each thread that wrote its figures to the folder."""
    for path in sorted(folder.glob("*.prof")):
        print(f"\n== {path}")
        pstats.Stats(str(path)).sort_stats("tottime").print_stats(SHOWN)


async def _measure(work: Work, place: str, contestant: str, folder: str) -> None:
    async with PLACES[place]() as entered:
        await measure(place, entered, contestant, work, launcher=("bench.profiled", folder))
