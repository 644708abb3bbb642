"""The loads of each broker, and their figures."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.connections import resident
from bench.payloads import JSON
from bench.wire import BenchError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from bench.stomp.brokers import Broker
    from bench.stomp.thin import Client

    Figures = Mapping[str, float]

STALLED: Final = 60.0
"""Seconds without an end."""

RATE: Final = "items/s"
COST: Final = "CPU µs/item"
CLIENTS: Final = "clients µs/item"
MEDIAN: Final = "p50 ms"
RARE: Final = "p99 ms"
SHARE: Final = "% of a core"
MEMORY: Final = "KiB each"


WORKERS: Final = 4
PREFETCH: Final = 100
PACE: Final = 200
"""Items per second of the paced load."""
BEAT: Final = 10.0
"""Seconds between the heart-beats of each side."""
PER_ADDRESS: Final = 400
"""Connections from one loopback address; some brokers have a limit."""


@dataclass(frozen=True, slots=True)
class Work:
    """The amount of work."""

    items: int
    payload: int
    window: int
    """SENDs that are under way."""
    seconds: float
    """The seconds of the paced load, and of watching idle connections."""
    connections: int

    @property
    def body(self) -> bytes:
        """The published body."""
        return JSON % (b"x" * (self.payload - len(JSON % b"")))


class Flow:
    """One publisher and several workers."""

    def __init__(self, publisher: Client, workers: list[Client], body: bytes) -> None:
        self._publisher, self._workers, self._body = publisher, workers, body
        self._unsent = self._open = 0
        self._over: asyncio.Future[None]
        publisher.on_confirmed = self._confirmed
        for worker in workers:
            worker.on_body = self._taken

    async def run(self, items: int, window: int) -> None:
        """Publish this many items, several in flight; return when all are confirmed and acknowledged."""
        self._unsent, self._open = items, 2 * items
        self._over = asyncio.get_running_loop().create_future()
        for _ in range(min(window, items)):
            self._publish()
        self._publisher.flush()
        try:
            async with asyncio.timeout(STALLED):
                await self._over
        except TimeoutError:
            raise BenchError(f"{self._open} answers or items have not come") from None
        await asyncio.gather(*(worker.settled() for worker in self._workers))

    def _publish(self) -> None:
        self._unsent -= 1
        self._publisher.publish(self._body)

    def _confirmed(self) -> None:
        if self._unsent:
            self._publish()
        self._done()

    def _taken(self, _body: bytes) -> None:
        self._done()

    def _done(self) -> None:
        self._open -= 1
        if not self._open:
            self._over.set_result(None)


async def lives(broker: Broker, work: Work) -> Figures:
    """Measure item lives: published with a receipt, delivered, acknowledged without one."""
    publisher, workers = await _people(broker)
    flow = Flow(publisher, workers, work.body)
    await flow.run(max(1, work.items // 4), work.window)  # warm-up
    began, spent, own = time.perf_counter(), broker.spent(), time.process_time()
    await flow.run(work.items, work.window)
    seconds = time.perf_counter() - began
    spent, own = broker.spent() - spent, time.process_time() - own
    await _part(publisher, workers)
    return {
        RATE: work.items / seconds,
        COST: spent / work.items * 1e6,
        CLIENTS: own / work.items * 1e6,
    }


async def single(broker: Broker, work: Work) -> Figures:
    """Measure item lives, a tenth of them, each published when the one before is confirmed."""
    return await lives(broker, replace(work, items=max(1, work.items // 10), window=1))


async def paced(broker: Broker, work: Work) -> Figures:
    """Measure how long an item takes from its publish until a worker has it, at a steady rate."""
    publisher, workers = await _people(broker)
    sent: dict[bytes, float] = {}
    waits: list[float] = []
    items, over = max(1, round(PACE * work.seconds)), asyncio.Event()

    def taken(body: bytes) -> None:
        waits.append(time.perf_counter() - sent.pop(body[:8]))
        if len(waits) == items:
            over.set()

    for worker in workers:
        worker.on_body = taken
    began, spent = time.perf_counter(), broker.spent()
    for number in range(items):
        await asyncio.sleep(max(0.0, began + number / PACE - time.perf_counter()))
        name = b"%08d" % number
        sent[name] = time.perf_counter()
        publisher.publish(name + work.body[8:])
        publisher.flush()
    async with asyncio.timeout(STALLED):
        await over.wait()
    spent = broker.spent() - spent
    await _part(publisher, workers)
    waits.sort()
    middle, rare = waits[len(waits) // 2], waits[len(waits) * 99 // 100]
    return {MEDIAN: middle * 1e3, RARE: rare * 1e3, COST: spent / items * 1e6}


async def idle(broker: Broker, work: Work) -> Figures:
    """Measure connections on which both sides send only heart-beats."""
    before, count = resident(broker.pid), work.connections
    beats = f"{BEAT * 1000:.0f},{BEAT * 1000:.0f}"
    clients = [
        await broker.client(beats, f"127.0.0.{1 + number // PER_ADDRESS}")
        for number in range(count)
    ]
    beating = asyncio.create_task(_beat(clients))
    grown = resident(broker.pid) - before
    began, spent = time.perf_counter(), broker.spent()
    await asyncio.sleep(work.seconds)
    took, spent = time.perf_counter() - began, broker.spent() - spent
    beating.cancel()
    for one in clients:
        await one.close()
    return {SHARE: 100 * spent / took, MEMORY: grown * 1024 / count}


async def _beat(clients: list[Client]) -> None:
    """Let each client send heart-beats at intervals, one after another."""
    while True:
        for one in clients:
            one.beat()
            await asyncio.sleep(0.8 * BEAT / len(clients))


async def _people(broker: Broker) -> tuple[Client, list[Client]]:
    publisher = await broker.client()
    workers = [await broker.client() for _ in range(WORKERS)]
    for worker in workers:
        await worker.work(PREFETCH)
    return publisher, workers


async def _part(publisher: Client, workers: list[Client]) -> None:
    await asyncio.gather(*(worker.settled() for worker in workers))
    for one in (publisher, *workers):
        await one.close()


class Part(NamedTuple):
    """A part of a run: its title, and the measurement."""

    title: Callable[[Work], str]
    measure: Callable[[Broker, Work], Awaitable[Figures]]
    is_once: bool = False
    """Whether one round is enough; only for brokers that support heart-beats."""


PARTS: Final[Mapping[str, Part]] = {
    "lives": Part(lambda work: f"{work.items} items, {work.window} SENDs under way", lives),
    "single": Part(lambda work: f"{work.items // 10} items, one SEND under way", single),
    "paced": Part(lambda _work: f"{PACE} items/s, from the publish until a worker has it", paced),
    "idle": Part(
        lambda work: f"{work.connections} idle connections, beats of {BEAT:.0f} s",
        idle,
        is_once=True,
    ),
}
