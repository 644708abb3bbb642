"""`.venv/bin/python -m proof.fuzz`: feed 100,000 stanzas, print what was said to them; then what reading costs."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Final

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from proof.fuzz.costs import too_dear
from proof.fuzz.judge import Fuzzer
from proof.fuzz.rig import Rig

STEP: Final = 1000
WARM: Final = 0.3
"""The part of a run after which caches are full, and memory has to stay as it is."""

GROWTH: Final = 16.0
"""MiB; what fragmentation may take from there to the end of a run."""


def resident() -> float:
    """Return the MiB of memory that this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


async def fuzz(stanzas: int, seed: int, console: Console) -> float:
    """Run, print the counts, and return by how many MiB the process has grown after warming up."""
    random = Random(seed)
    warm = begun = 0.0
    with tempfile.TemporaryDirectory(prefix="pubqueue-fuzz-") as folder:
        async with Rig(Path(folder), random) as rig:
            fuzzer = Fuzzer(rig, random)
            begun = time.monotonic()
            for done in track(range(0, stanzas, STEP), "stanzas", console=console, transient=True):
                await fuzzer.run(min(STEP, stanzas - done))
                warm = warm if warm and done > stanzas * WARM else resident()
    seconds = time.monotonic() - begun
    growth = resident() - warm
    table = Table("said by the face", "times", title=f"{stanzas:,} stanzas, seed {seed}")
    table.columns[1].justify = "right"
    for what, times in sorted(fuzzer.counts.items(), key=lambda entry: -entry[1]):
        table.add_row(what, f"{times:,}")
    console.print(table)
    waits = fuzzer.waits
    console.print(
        f"the honest client worked {len(waits):,} times, in at most {max(waits, default=0) * 1000:.0f} ms"
    )
    console.print(f"{stanzas / seconds:.0f} stanzas/s; memory {warm:.0f} MiB, then {growth:+.1f}")
    return growth


@click.command(context_settings={"show_default": True})
@click.option("--stanzas", default=100_000, type=click.IntRange(1))
@click.option("--seed", default=1, help="The stanzas follow from it.")
def main(*, stanzas: int, seed: int) -> None:
    """Feed the face stanzas of every kind; stop at the first that it does not bear."""
    console = Console()
    growth = asyncio.run(fuzz(stanzas, seed, console))
    dear = too_dear()
    for name, taken in dear.items():
        console.print(f"too dear to read: {name}: {taken}")
    sys.exit(1 if growth > GROWTH or dear else 0)


if __name__ == "__main__":
    main()
