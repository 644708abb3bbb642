"""`.venv/bin/python -m bench.qos`: the cost of a level of Quality of Service for a publisher.

A publisher publishes the same items in turns: by IQ, and by message at each level, with and without a file of pending
publishes. A peer behind Prosody, in its own process, answers all of them at once and stores nothing, so that only the
publisher's side is measured: processor time of its process, items per second, and stanzas per item.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from harness.servers.qos_service import QosService
from harness.servers.queue_service import result
from rich.console import Console
from rich.table import Table

from bench.report import spread
from pubqueue_demo.prosody import Prosody
from pubqueue_xeps.publisher.publisher import Publisher
from pubqueue_xeps.wire.publication import NewItem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PASSWORD: Final = "bench"
SERVICE: Final = "queue.localhost"
TOGETHER: Final = 100
NOTE: Final = """\
Behind Prosody, items of 200 bytes, 100 on their way at once; a peer that keeps nothing answers. The ratios are of one
round each: to the publish by IQ in the same round."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to publish: its level, whether it has a file, and the stanzas per item."""

    level: str | None
    lasting: bool
    stanzas: int


WAYS: Final = {
    "by IQ": Way(None, lasting=False, stanzas=2),
    "unacknowledged": Way("unacknowledged", lasting=False, stanzas=1),
    "acknowledged": Way("acknowledged", lasting=False, stanzas=2),
    "acknowledged, file": Way("acknowledged", lasting=True, stanzas=2),
    "assured": Way("assured", lasting=False, stanzas=4),
    "assured, file": Way("assured", lasting=True, stanzas=4),
}


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an item in one round: microseconds of processor time, and of time."""

    processor: float
    time: float


class Peer(QosService):
    """Answers publishes, also those by IQ, and judges nothing."""

    def __init__(self, port: int, secret: str) -> None:
        super().__init__(port, secret)
        self.script["publish"] = lambda iq: [result(iq)]

    def _judge(self, stanza: Any) -> None:
        self.seen.clear()  # its records are not used


async def answer(port: int, secret: str) -> None:
    """Run the peer until the process ends."""
    async with Peer(port, secret):
        print("ready", flush=True)
        await asyncio.Event().wait()


@asynccontextmanager
async def peer(server: Prosody) -> AsyncIterator[None]:
    """Run the peer as a process of its own."""
    words = ("-m", "bench.qos", "--peer", str(server.component_port), server.secret)
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        yield
    finally:
        process.kill()
        await process.wait()


async def publish(server: Prosody, way: Way, items: int, file: Path) -> Cost:
    """Publish all items one way, and return the cost of one; the first ones are warm-up."""
    address = {"host": server.host, "port": server.c2s_port, "tls": "off"}
    made: dict[str, Any] = {"level": way.level, "pending": file if way.lasting else None}
    payload = {"text": "x" * 170}
    new = [NewItem(payload=payload, id=f"{way.level}-{n}") for n in range(items)]
    async with Publisher("etl@localhost", PASSWORD, service=SERVICE, **address, **made) as one:
        await one.publish_many("jobs", [payload] * TOGETHER, in_flight=TOGETHER)
        processor, began = time.process_time(), time.perf_counter()
        await one.publish_many("jobs", new, in_flight=TOGETHER)
        spent = time.process_time() - processor, time.perf_counter() - began
    return Cost(spent[0] / items * 1e6, spent[1] / items * 1e6)


async def measure(items: int, rounds: int) -> dict[str, list[Cost]]:
    """Let all ways publish in turns; the first round is warm-up."""
    found: dict[str, list[Cost]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory(prefix="pq-") as folder:
        async with Prosody() as server:
            await server.account("etl", PASSWORD)
            async with peer(server):
                for number in range(rounds + 1):
                    for name, way in WAYS.items():
                        file = Path(folder) / f"{number}-{name}.db"
                        cost = await publish(server, way, items, file)
                        if number:
                            found[name].append(cost)
    return found


def table(found: dict[str, list[Cost]], title: str) -> Table:
    """Return the table: each way compared with the publish by IQ of the same round."""
    shown = Table(title=title)
    for column in ("publish", "stanzas", "CPU µs an item", "CPU, to IQ", "time, to IQ"):
        shown.add_column(column, justify="left" if column == "publish" else "right", no_wrap=True)
    plain = found["by IQ"]
    for name, costs in found.items():
        pairs = list(zip(costs, plain, strict=True))
        shown.add_row(
            name,
            str(WAYS[name].stanzas),
            spread([cost.processor for cost in costs], "{:.0f}".format),
            spread([cost.processor / other.processor for cost, other in pairs], "{:.2f}".format),
            spread([cost.time / other.time for cost, other in pairs], "{:.2f}".format),
        )
    return shown


@click.command(context_settings={"show_default": True})
@click.option("--items", default=2000, type=click.IntRange(100), help="Items in a round.")
@click.option("--rounds", default=3, type=click.IntRange(1), help="Rounds of each.")
@click.option("--peer", "serve", nargs=2, hidden=True, default=None)
def main(*, items: int, rounds: int, serve: tuple[str, str] | None) -> None:
    """Measure the cost of a level for a publisher."""
    if serve is not None:
        asyncio.run(answer(int(serve[0]), serve[1]))
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=110)
    found = asyncio.run(measure(items, rounds))
    console.print(table(found, f"{rounds} rounds of {items} items"))
    console.print(NOTE, highlight=False)


if __name__ == "__main__":
    main()
