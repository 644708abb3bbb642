"""`.venv/bin/python -m bench.pauses`: how long other accounts wait during long work.

Each load fills an empty store. Then a trickle of publishes, deliveries and retracts runs in another node, first alone,
then during the load until that is finished.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import structlog
from harness.batches.queue_requests import a_queue, joins
from rich.console import Console
from rich.table import Table

from bench.loads import LOADS
from bench.trickle import NODE, WORKER, Clock, CountingStore, Service, Trickle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.loads import Load
    from bench.trickle import Effort

ALONE: Final = 0.3
"""How long the trickle runs before and after the load, in seconds."""
WINDOW: Final = 1000
ALLOWED: Final = 0.25
NOTE: Final = """\
Waits in milliseconds: of a publish from the moment it was planned for to its answer, of a delivery from there to the
worker, of a retract from the delivery to its answer. "rows" are the rows that the largest batch wrote, "steps" are
thousands of instructions of SQLite that the longest one took, "cpu" is its processor time."""


@dataclass(frozen=True, slots=True)
class Pause:
    """The waits of the trickle during one load in seconds, by kind, and the duration of the load."""

    load: str
    size: int
    took: float
    waits: dict[str, list[float]]
    effort: Effort

    def worst(self) -> float:
        """Return the longest wait."""
        return max(max(waits) for waits in self.waits.values())


async def measure(load: Load, size: int, folder: Path) -> Pause:
    """Run the trickle during the load."""
    loop, clock = asyncio.get_running_loop(), Clock()
    store = CountingStore(folder / "queue.db")
    await store.open()
    await load.lay(store, size, clock())
    service = Service(store, clock)
    await service.start()
    await service.do(a_queue(NODE, lock_timeout=86_400))
    await service.do(joins(WORKER, WINDOW, node=NODE))
    if load.prepare is not None:
        await load.prepare(service, size)
    trickle = Trickle(service)
    trickle.start()
    await asyncio.sleep(ALONE)
    began = loop.time()
    await load.run(service, size)
    took = loop.time() - began
    await asyncio.sleep(ALONE)
    await trickle.stop()
    await service.stop()
    return Pause(load.name, size, took, trickle.waits, store.most)


def table(pauses: Sequence[Pause]) -> Table:
    """Return a row for each load."""
    grid = Table("load", "size", "took s", *_heads(), "rows", "steps", "cpu ms")
    for one in pauses:
        cells = [cell for kind in one.waits.values() for cell in (_of(kind, 0.999), _of(kind, 1))]
        style = "red" if one.worst() > ALLOWED else ""
        effort = f"{one.effort.rows}", f"{one.effort.steps}", f"{one.effort.cpu * 1000:.0f}"
        grid.add_row(one.load, f"{one.size}", f"{one.took:.1f}", *cells, *effort, style=style)
    return grid


def _heads() -> list[str]:
    kinds = "publish", "delivery", "retract"
    return [head for kind in kinds for head in (f"{kind} 99.9 %", "worst")]


def _of(waits: list[float], share: float) -> str:
    at = min(len(waits) - 1, int(len(waits) * share))
    return f"{sorted(waits)[at] * 1000:.0f}"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(sorted(LOADS)))
@click.option(
    "--scale", default=1.0, show_default=True, help="A factor for the sizes of the loads."
)
def main(*, names: Sequence[str], scale: float) -> None:
    """Measure the waits of a trickle of work during each of these loads, or all loads."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    console, pauses = Console(), []
    if not console.is_terminal:
        console = Console(width=120)
    for load in [LOADS[name] for name in names] or LOADS.values():
        with tempfile.TemporaryDirectory(prefix="pq-") as folder:
            size = max(1, round(load.size * scale))
            pauses.append(asyncio.run(measure(load, size, Path(folder))))
    console.print(table(pauses))
    console.print(NOTE, highlight=False)


if __name__ == "__main__":
    main()
