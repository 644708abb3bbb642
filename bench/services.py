"""`.venv/bin/python -m bench.services`: the processor time that an item costs with 1, 2 and 4 services.

So many services are behind one Prosody, each a process with a store of its own. Every item is published, delivered and
acknowledged. The load grows with the services, as it does where one database is not enough: there is a process with a
publisher and a worker for each, and all of these have all services. The turns of all are in each round, and a ratio is that of one
round.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
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
"""Publishes in flight, and the window, of each client."""
STEP: Final = 5
"""Items after which a client reports them."""
NODES: Final = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bot@localhost"]
"""
NOTE: Final = """\
Items of 200 bytes, each published, delivered and acknowledged; SQLite. CPU is that of the processes of all services
together, and the processes of all clients; without the XMPP server. Figures are the median of
the rounds (smallest-largest). The aim is a ratio of at most 1.05."""


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
    words = [server.host, str(server.c2s_port), ",".join(services), str(items // len(services))]
    clients = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "bench.services", *(f"--client={word}" for word in words)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for _ in services
    ]
    async with asyncio.timeout(900):
        for client in clients:
            await _line(client)
        pids = [client.pid for client in clients]
        before = _spent(programs, services), sum(map(of_family, pids))
        for client in clients:
            _tell(client, "go")
        done = asyncio.Event()
        left = items

        async def count(client: asyncio.subprocess.Process) -> None:
            nonlocal left
            while left >= STEP * len(clients):
                found = int(await _line(client))
                left -= found
            done.set()

        counting = [asyncio.create_task(count(client)) for client in clients]
        await done.wait()
        after = _spent(programs, services), sum(map(of_family, pids))
        for task in counting:
            task.cancel()
        for client in clients:
            _tell(client, "end")
            await client.communicate()
    spent = [later - earlier for earlier, later in zip(before, after, strict=True)]
    return Sample(*(seconds / items * 1e6 for seconds in spent))


async def _line(client: asyncio.subprocess.Process) -> bytes:
    assert client.stdout
    return await client.stdout.readline()


def _tell(client: asyncio.subprocess.Process, word: str) -> None:
    assert client.stdin
    client.stdin.write(f"{word}\n".encode())


async def client(host: str, port: str, services: str, items: str) -> None:
    """Publish so many items and work on whatever comes, from a line of the standard input to the next."""
    at: dict[str, Any] = {
        "services": services.split(","),
        "host": host,
        "port": int(port),
        "tls": "off",
    }
    number, done = int(items), 0

    async def work(_item: object) -> None:
        nonlocal done
        done += 1
        if done == STEP:
            print(done, flush=True)
            done = 0

    worker = Worker("bot@localhost", PASSWORD, node="jobs", requests=AT_ONCE, status=False, **at)
    async with Publisher("etl@localhost", PASSWORD, **at) as publisher, worker:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        running = asyncio.create_task(worker.run(work))
        payloads = [{"job": "x" * 180} for _ in range(number)]
        await publisher.publish_many("jobs", payloads, in_flight=AT_ONCE)
        await asyncio.to_thread(sys.stdin.readline)
        await worker.drain()
        await running


def _spent(programs: dict[str, Program], services: Sequence[str]) -> float:
    return sum(of_family(programs[name].pid) for name in services)


@click.command(context_settings={"show_default": True})
@click.option("--items", default=2000, type=click.IntRange(100), help="Items for each service.")
@click.option("--rounds", default=5, type=click.IntRange(1), help="Rounds of each.")
@click.option("--client", "words", multiple=True, hidden=True)
def main(*, items: int, rounds: int, words: tuple[str, ...]) -> None:
    """Measure the processor time that an item costs with several services."""
    if words:
        asyncio.run(client(*words))
        return
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
