"""`.venv/bin/python -m bench.services`: the processor time that an item costs with 1, 2 and 4 services.

One publisher and one worker have so many services behind one Prosody, each a process with a store of its own. Every item
is published, delivered and acknowledged. The load grows with the services, as it does where one database is not enough:
each has the same number of publishes in flight, and the same window. The turns of all are in each round, and a ratio
is that of one round.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from harness.servers.several import SERVICES, several
from rich.console import Console
from rich.table import Table

from bench.processors import of_family
from bench.report import spread
from pubqueue_demo.prosody import Prosody
from pubqueue_xeps.publisher.publisher import Publisher
from pubqueue_xeps.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.processes.program import Program

PASSWORD: Final = "bench"
COUNTS: Final = (1, 2, 4)
AT_ONCE: Final = 64
"""Publishes in flight, and the window, for each service."""
NODES: Final = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bot@localhost"]
"""
NOTE: Final = """\
Items of 200 bytes, each published, delivered and acknowledged; SQLite. CPU is that of the processes of all services
together, and of this process with its publisher and its worker; without the XMPP server. Figures are the median of
the rounds (smallest-largest). What the clients cost is what distributing costs. What services cost depends on how full
their batches are: as long as one server and one client feed them all, each has a part of the rate, and smaller batches."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What an item has cost in microseconds."""

    services: float
    clients: float

    @property
    def all(self) -> float:
        """Both together."""
        return self.services + self.clients


async def measure(items: int, rounds: int) -> dict[int, list[Sample]]:
    """Measure all in turns; the first round is warm-up."""
    found: dict[int, list[Sample]] = {count: [] for count in COUNTS}
    with tempfile.TemporaryDirectory(prefix="pq-") as folder:
        async with Prosody(component=SERVICES[0], more_components=SERVICES[1:]) as server:
            for name in ("etl", "bot"):
                await server.account(name, PASSWORD)
            async with several(server, Path(folder), NODES, SERVICES) as programs:
                for number in range(rounds + 1):
                    for count in COUNTS:
                        sample = await _turn(server, programs, SERVICES[:count], items * count)
                        if number:
                            found[count].append(sample)
    return found


async def _turn(
    server: Prosody, programs: dict[str, Program], services: Sequence[str], items: int
) -> Sample:
    """Publish and work; return the costs."""
    at: dict[str, Any] = {
        "services": services,
        "host": server.host,
        "port": server.c2s_port,
        "tls": "off",
    }
    over, left = asyncio.Event(), items
    window = AT_ONCE * len(services)

    async def work(_item: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            over.set()

    worker = Worker(
        "bot@localhost", PASSWORD, node="jobs", requests=window, signals=(), status=False, **at
    )
    async with Publisher("etl@localhost", PASSWORD, **at) as publisher, worker:
        running = asyncio.create_task(worker.run(work))
        before, own = _spent(programs, services), time.process_time()
        payloads = [{"job": "x" * 180} for _ in range(items)]
        await publisher.publish_many("jobs", payloads, in_flight=window)
        async with asyncio.timeout(600):
            await over.wait()
        await worker.drain()
        spent = _spent(programs, services) - before, time.process_time() - own
        await running
    return Sample(*(seconds / items * 1e6 for seconds in spent))


def _spent(programs: dict[str, Program], services: Sequence[str]) -> float:
    return sum(of_family(programs[name].pid) for name in services)


@click.command(context_settings={"show_default": True})
@click.option("--items", default=2000, type=click.IntRange(100), help="Items for each service.")
@click.option("--rounds", default=5, type=click.IntRange(1), help="Rounds of each.")
def main(*, items: int, rounds: int) -> None:
    """Measure the processor time that an item costs with several services."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=110)
    found = asyncio.run(measure(items, rounds))
    shown = Table(title=f"{rounds} rounds of {items} items for each service")
    for title in ("services", "their CPU, µs/item", "clients' CPU, µs/item", "both", "ratio"):
        shown.add_column(title, justify="right", no_wrap=True)
    whole = "{:.0f}".format
    for count, samples in found.items():
        ratios = [one.all / first.all for one, first in zip(samples, found[1], strict=True)]
        shown.add_row(
            f"{count}",
            spread([one.services for one in samples], whole),
            spread([one.clients for one in samples], whole),
            spread([one.all for one in samples], whole),
            spread(ratios, "{:.2f}".format),
        )
    console.print(shown)
    console.print(NOTE, highlight=False)


if __name__ == "__main__":
    main()
