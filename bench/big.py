"""`.venv/bin/python -m bench.big`: the service on big stores, and after kill -9.

Each situation has a store of its own, filled by the interface of stores. The service starts, its workers over STOMP hold items, and it is killed.
Then it starts again: measured are the time until it is ready and until a new worker has its first item, the cost of a subscription and of an item's
life, with as many items waiting after it as before, and the memory in the end. Nothing may be lost.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections import deque
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from harness.processes.program import COLD, Program
from rich.console import Console
from rich.table import Table

from bench import stock
from bench.connections import resident
from bench.load import NODE
from bench.measure import processor_time
from bench.stomp.brokers import PASSCODE, USER
from bench.stomp.thin import HOST, StompClient
from bench.wire import BenchError
from pubqueue.accounts import credentials
from pubqueue.config.loading import load
from pubqueue.loopback import free_ports
from pubqueue.model.entities import Jid
from pubqueue.wiring.serving import queue

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FEW: Final = 1000
"""Items that wait in the reference, and beside the other queues and subscribers."""
PER_CONNECTION: Final = 1000
"""Subscriptions of a connection."""
AT_ONCE: Final = 100
"""Lives that are under way together, and items that one worker holds."""
PIPELINED: Final = 20
"""Subscriptions that are asked for together."""
PATIENCE: Final = 60.0
"""Seconds for the next item."""
WIDTH: Final = 150
SERVICE: Final = "queue.localhost"
CONFIG: Final = """\
jid = "{0}"
server = ""
store = "sqlite:///{1}"
subscriptions_per_account = {subscriptions}

[stomp]
listen = "{2}:{3}"
connections_per_login = 1000
subscriptions_per_connection = {per_connection}

[[user]]
name = "{4}"
password = "{5}"

[[node]]
name = "{6}"
queueing = true
owners = ["boss@{0}"]
publishers = ["{4}@{0}"]
members = ["{4}@{0}"]

[limits.accounts."{4}@{0}"]
nodes = 0
"""
NOTE: Final = """\
Ready and first item are seconds after the start that follows kill -9; a first item is that of a worker that connects as soon as the service is
ready. CPU is the service's, user and system. "x" is the figure divided by that of the first row."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What the store holds, and who works: `queues` beside that of the benchmark, or `subscribers` of that one."""

    name: str
    items: int
    queues: int = 0
    subscribers: int = 0

    @property
    def total(self) -> int:
        """How many items there are."""
        return self.items + self.queues

    def subscriptions(self) -> list[tuple[str, int]]:
        """Return the queue of each subscription of the workers, and how many items it may hold."""
        if self.queues:
            return [(f"other{number}", 1) for number in range(self.queues)]
        if self.subscribers:
            return [(NODE, 1)] * self.subscribers
        return [(NODE, AT_ONCE)]

    def destinations(self) -> Iterator[str]:
        """Return where the lives are published, without an end."""
        names = [name for name, _ in self.subscriptions()]
        while True:
            yield from names


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured: seconds after the start, MiB, and microseconds of processor time."""

    ready: float
    work: float
    """Processor time until it is ready, in seconds."""
    first: float
    memory: float
    subscription: float
    life: float


class Worker(StompClient):
    """A connection with many subscriptions. It acknowledges nothing by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.got: deque[tuple[Worker, bytes]] = deque()
        self.news = asyncio.Event()

    async def subscribe(self, each: Sequence[tuple[str, int]]) -> None:
        """Subscribe to these queues, with so many items in flight each; return when the last one is answered."""
        for number, (name, most) in enumerate(each, 1):
            words = f"id:{number}\ndestination:/queue/{name}\nack:client-individual\nprefetch-count:{most}"
            self.said.append(f"SUBSCRIBE\n{words}\n\n\0".encode())
            if number % PIPELINED == 0 or number == len(each):
                await self.settled()

    def send(self, name: str, body: bytes) -> None:
        """Publish to this queue, at the next `flush`."""
        head = f"SEND\ndestination:/queue/{name}\nreceipt:s\ncontent-length:{len(body)}\n\n"
        self.said.append(head.encode() + body + b"\0")

    def hear(self, piece: bytes) -> None:
        frame = piece.lstrip(b"\n")
        if not frame.startswith(b"MESSAGE"):
            super().hear(piece)
            return
        head = frame.partition(b"\n\n")[0]
        self.got.append((self, head[head.index(b"\nack:") + 5 :].partition(b"\n")[0]))
        self.news.set()

    def acknowledge(self, name: bytes) -> None:
        """Acknowledge an item, at the next `flush`."""
        self.said.append(b"ACK\nid:%b\n\n\0" % name)


class Crew:
    """The workers of a situation; what any of them gets is in `got`."""

    def __init__(self, port: int, situation: Situation) -> None:
        self._port, self._situation = port, situation
        self.workers: list[Worker] = []
        self.got: deque[tuple[Worker, bytes]] = deque()
        self._news = asyncio.Event()

    async def one(self) -> Worker:
        """Return a new connection, whose items are the crew's."""
        worker = await Worker.to(self._port)
        await worker.connect(USER, PASSCODE)
        worker.got, worker.news = self.got, self._news
        self.workers.append(worker)
        return worker

    async def connect(self) -> list[tuple[Worker, list[tuple[str, int]]]]:
        """Log in, and return each worker with the subscriptions that are its own."""
        each = self._situation.subscriptions()
        shares = [each[at : at + PER_CONNECTION] for at in range(0, len(each), PER_CONNECTION)]
        return [(await self.one(), share) for share in shares]

    async def subscribe(self) -> None:
        """Have all subscriptions."""
        for worker, share in await self.connect():
            await worker.subscribe(share)

    async def has(self, count: int) -> None:
        """Wait for this many items."""
        async with asyncio.timeout(PATIENCE):
            while len(self.got) < count:
                self._news.clear()
                await self._news.wait()

    async def live(self, count: int) -> None:
        """Publish and acknowledge this many items, some at once."""
        publisher, destinations = await self.one(), self._situation.destinations()
        confirmed = asyncio.Semaphore(0)
        publisher.on_confirmed = confirmed.release
        for begin in range(0, count, AT_ONCE):
            some = min(AT_ONCE, count - begin)
            for _ in range(some):
                publisher.send(next(destinations), stock.BODY)
            publisher.flush()
            async with asyncio.timeout(PATIENCE):
                for _ in range(some):
                    await confirmed.acquire()
            for _ in range(some):
                await self.has(1)
                worker, name = self.got.popleft()
                worker.acknowledge(name)
                worker.flush()
        for worker in self.workers:
            await worker.settled()

    async def close(self) -> None:
        """End all connections."""
        for worker in self.workers:
            await worker.close()
        self.workers.clear()
        self.got.clear()


async def measure(situation: Situation, lives: int, folder: Path) -> Figures:
    """Fill a store, kill the service on it, and measure it on its next start."""
    (port,) = free_ports(1)
    path, config = folder / "queue.db", folder / "pubqueue.toml"
    config.write_text(
        CONFIG.format(
            *(SERVICE, path, HOST, port, USER, credentials.make(PASSCODE).text, NODE),
            subscriptions=2 * max(FEW, situation.queues, situation.subscribers),
            per_connection=2 * PER_CONNECTION,
        )
    )
    config.chmod(0o600)
    async with queue(load(config, {})):
        pass  # it makes the store, and its queue
    program = Program(config, COLD)
    await stock.waiting(path, situation.items)
    await stock.others(path, situation.queues, Jid(f"{USER}@{SERVICE}"))
    crew = Crew(port, situation)
    try:
        await program.start()
        await crew.subscribe()
        await crew.has(min(len(situation.subscriptions()), situation.total))
        await program.kill()
        await crew.close()
        began = time.perf_counter()
        await program.start()
        ready, work = time.perf_counter() - began, processor_time(program.pid)
        newcomer = await crew.one()
        await newcomer.subscribe([(NODE, 1)])
        await crew.has(1)
        first = time.perf_counter() - began
        await crew.close()
        shares = await crew.connect()
        before = processor_time(program.pid)
        for worker, share in shares:
            await worker.subscribe(share)
        subscribed = processor_time(program.pid)
        await crew.live(lives)
        lived = processor_time(program.pid)
        memory = resident(program.pid)
        await crew.close()
        await program.stop()
    finally:
        await program.kill()
    if (left := _count(path)) != situation.total:
        raise BenchError(f"{situation.total} items waited, and {left} are left")
    count = len(situation.subscriptions())
    costs = (subscribed - before) / count, (lived - subscribed) / lives
    return Figures(ready, work, first, memory, *(1e6 * cost for cost in costs))


def _count(path: Path) -> int:
    with closing(sqlite3.connect(path)) as store:
        (count,) = store.execute("SELECT count(*) FROM item").fetchone()
    return int(count)


def situations(items: int, queues: int, subscribers: int) -> list[Situation]:
    """Return what is measured; the first is the reference."""
    return [
        Situation(f"{FEW:,} waiting", FEW),
        Situation(f"{items:,} waiting", items),
        Situation(f"{queues:,} queues", FEW, queues=queues),
        Situation(f"{subscribers:,} subscribers", FEW + subscribers, subscribers=subscribers),
    ]


def table(found: Sequence[tuple[str, Figures]]) -> Table:
    """Show each situation in a row, beside the first."""
    grid = Table()
    titles = "ready s", "CPU s, ready", "first item s", "MiB", "CPU µs/subscription", "CPU µs/life"
    for title in ("service", *titles):
        grid.add_column(title, justify="left" if title == "service" else "right", no_wrap=True)
    reference = _row(found[0][1])
    for name, figures in found:
        cells = [
            f"{one:.{1 if one < 100 else 0}f} ({one / other:.2f} x)"
            for one, other in zip(_row(figures), reference, strict=True)
        ]
        grid.add_row(name, *cells)
    return grid


def _row(one: Figures) -> tuple[float, ...]:
    return one.ready, one.work, one.first, one.memory, one.subscription, one.life


@click.command(context_settings={"show_default": True})
@click.option("--items", default=1_000_000, type=click.IntRange(1), help="Items that wait.")
@click.option("--queues", default=10_000, type=click.IntRange(1), help="Queues in use.")
@click.option("--subscribers", default=10_000, type=click.IntRange(1), help="Of one queue.")
@click.option("--lives", default=3_000, type=click.IntRange(1), help="Item lives in each.")
@click.option("--only", type=click.IntRange(0, 3), help="Measure one situation alone.")
def main(*, items: int, queues: int, subscribers: int, lives: int, only: int | None) -> None:
    """Measure the service on big stores, and its start after kill -9."""
    each = situations(items, queues, subscribers)
    found: list[tuple[str, Figures]] = []
    try:
        for situation in each if only is None else [each[only]]:
            with tempfile.TemporaryDirectory(prefix="pq-") as folder:
                figures = asyncio.run(measure(situation, lives, Path(folder)))
            found.append((situation.name, figures))
    except BenchError as error:
        raise click.ClickException(str(error)) from error
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    console.print(table(found))
    console.print(NOTE, highlight=False)


if __name__ == "__main__":
    main()
