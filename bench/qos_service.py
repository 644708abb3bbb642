"""`.venv/bin/python -m bench.qos_service`: the cost of a level of Quality of Service for the service.

A publisher publishes to the component behind a Prosody, in turns: by IQ, and by message at each level. It shows the
component's processor time for an item, and the time until all items are confirmed, as ratios to the publish by IQ in
the same round.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from harness.servers.live import component
from rich.console import Console

from bench.measure import processor_time
from bench.qos import PASSWORD, SERVICE, TOGETHER, WAYS, Cost, table
from pubqueue_demo.prosody import Prosody
from pubqueue_xeps.publisher.publisher import Publisher
from pubqueue_xeps.wire.publication import NewItem

if TYPE_CHECKING:
    from harness.processes.program import Program

NODE: Final = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
"""
SHOWN: Final = ("by IQ", "acknowledged", "assured")
NOTE: Final = """\
The component behind Prosody with SQLite, items of 200 bytes, 100 on their way at once. The processor time is
the component's. The ratios are of one round each: to the publish by IQ in the same round. The aims are 1.15
for acknowledged and 2.5 for assured."""


async def publish(server: Prosody, program: Program, name: str, items: int, number: int) -> Cost:
    """Publish all items one way, and return the cost of one; the first ones are warm-up."""
    address: dict[str, Any] = {"host": server.host, "port": server.c2s_port, "tls": "off"}
    level, payload = WAYS[name].level, {"text": "x" * 170}
    new = [NewItem(payload=payload, id=f"{number}-{level}-{n}") for n in range(items)]
    async with Publisher("etl@localhost", PASSWORD, service=SERVICE, level=level, **address) as one:
        await one.publish_many("jobs", [payload] * TOGETHER, in_flight=TOGETHER)
        processor, began = processor_time(program.pid), time.perf_counter()
        await one.publish_many("jobs", new, in_flight=TOGETHER)
        spent = processor_time(program.pid) - processor, time.perf_counter() - began
    return Cost(spent[0] / items * 1e6, spent[1] / items * 1e6)


async def measure(items: int, rounds: int) -> dict[str, list[Cost]]:
    """Let all ways publish in turns; the first round is warm-up."""
    found: dict[str, list[Cost]] = {name: [] for name in SHOWN}
    with tempfile.TemporaryDirectory(prefix="pq-") as folder:
        async with Prosody() as server:
            await server.account("etl", PASSWORD)
            async with component(server, Path(folder), NODE) as program:
                for number in range(rounds + 1):
                    for name in SHOWN:
                        cost = await publish(server, program, name, items, number)
                        if number:
                            found[name].append(cost)
    return found


@click.command(context_settings={"show_default": True})
@click.option("--items", default=2000, type=click.IntRange(100), help="Items in a round.")
@click.option("--rounds", default=3, type=click.IntRange(1), help="Rounds of each.")
def main(*, items: int, rounds: int) -> None:
    """Measure the cost of a level for the service."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=110)
    found = asyncio.run(measure(items, rounds))
    console.print(table(found, f"{rounds} rounds of {items} items"))
    console.print(NOTE, highlight=False)


if __name__ == "__main__":
    main()
