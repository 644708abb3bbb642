"""The loads of the service and of the bare handler, and their figures."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from bench.connections import resident, used
from bench.measure import processor_time
from bench.payloads import JSON
from bench.rest.services import QUEUE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from bench.rest.raw import RawClient
    from bench.rest.services import Served

    Figures = Mapping[str, float]
    Step = Callable[[RawClient], Awaitable[None]]

RATE: Final = "requests/s"
COST: Final = "CPU µs/request"
CLIENT: Final = "client µs/request"
MESSAGE: Final = "CPU µs/message"
MEDIAN: Final = "p50 ms"
RARE: Final = "p99 ms"
SHARE: Final = "% of a core"
MEMORY: Final = "KiB each"

TYPE: Final = b"Content-Type: application/json\r\n"
FORM: Final = b"Content-Type: application/x-www-form-urlencoded\r\n"
ACKNOWLEDGED: Final = b"acknowledge=true"
WAIT: Final = 50
"""Seconds that a request waits for a message."""
IN_BATCH: Final = 100
PACE: Final = 100
"""Messages per second of the paced load."""
PER_ADDRESS: Final = 400
"""Connections from one address of the loopback interface."""


@dataclass(frozen=True, slots=True)
class Work:
    """The amount of work."""

    requests: int
    payload: int
    seconds: float
    waiting: int

    @property
    def body(self) -> bytes:
        """The published body."""
        return JSON % (b"x" * (self.payload - len(JSON % b"")))


class Links(NamedTuple):
    """The links of a queue."""

    post: bytes
    once: bytes
    batch: bytes
    poller: bytes

    @classmethod
    async def of(cls, client: RawClient) -> Links:
        """Ask the queue."""
        answer = await client.ask(b"GET", QUEUE, status=200)
        names = b"post-message", b"post-message-once", b"post-batch", b"poller"
        return cls(*map(answer.link, names))


async def loaded(
    served: Served, requests: int, connections: int, step: Callable[[RawClient], Step]
) -> Figures:
    """Run this many steps over several connections, each with its own state. A quarter is warm-up."""
    clients = [await served.client() for _ in range(connections)]
    steps = [step(client) for client in clients]
    left = 0

    async def go_on(client: RawClient, one: Step) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await one(client)

    async def round_of(count: int) -> None:
        nonlocal left
        left = count
        await asyncio.gather(*map(go_on, clients, steps))

    await round_of(max(connections, requests // 4))
    began, spent, own = time.perf_counter(), processor_time(served.pid), time.process_time()
    await round_of(requests)
    seconds = time.perf_counter() - began
    spent, own = processor_time(served.pid) - spent, time.process_time() - own
    for client in clients:
        client.close()
    return {
        RATE: requests / seconds,
        COST: spent / requests * 1e6,
        CLIENT: own / requests * 1e6,
    }


def per(figures: Figures, requests: int) -> Figures:
    """Return the figures per request of steps with this many requests each."""
    return {
        name: value * requests if name == RATE else value / requests
        for name, value in figures.items()
    }


# --- the bare handler ---------------------------------------------------------------------------


async def bare(served: Served, work: Work, connections: int) -> Figures:
    """Measure the bare handler."""

    def step(_client: RawClient) -> Step:
        async def one(client: RawClient) -> None:
            await client.ask(b"POST", b"/messages", work.body, TYPE, status=201)

        return one

    return await loaded(served, work.requests, connections, step)


# --- the service --------------------------------------------------------------------------------


async def posts(served: Served, work: Work, connections: int) -> Figures:
    """Measure POST of post-message."""
    links = await _links(served)

    def step(_client: RawClient) -> Step:
        async def one(client: RawClient) -> None:
            await client.ask(b"POST", links.post, work.body, TYPE, status=201)

        return one

    figures = await loaded(served, work.requests, connections, step)
    await emptied(served)
    return figures


async def once(served: Served, work: Work, connections: int) -> Figures:
    """Measure POST of create-next, each with the link of the answer before."""
    links = await _links(served)

    def step(_client: RawClient) -> Step:
        following = b""

        async def one(client: RawClient) -> None:
            nonlocal following
            if not following:
                begun = await client.ask(b"POST", links.once, status=200)
                following = begun.link(b"create-next")
            answer = await client.ask(b"POST", following, work.body, TYPE, status=200)
            following = answer.link(b"create-next")

        return one

    figures = await loaded(served, work.requests, connections, step)
    await emptied(served)
    return figures


async def lives(served: Served, work: Work, connections: int) -> Figures:
    """Measure a post, a poll and an acknowledgement; the figures are of one of these three requests."""
    links = await _links(served)

    def step(_client: RawClient) -> Step:
        async def one(client: RawClient) -> None:
            await client.ask(b"POST", links.post, work.body, TYPE, status=201)
            wait = b"Accept-Wait: %d\r\n" % WAIT
            answer = await client.ask(b"POST", links.poller, b"", wait, status=200)
            path = answer.link(b"acknowledgement")
            await client.ask(b"POST", path, ACKNOWLEDGED, FORM, status=204)

        return one

    figures = await loaded(served, max(1, work.requests // 3), connections, step)
    return per(figures, 3)


async def batches(served: Served, work: Work, connections: int) -> Figures:
    """Measure batches of a hundred messages, as multiparts; the figures are of one message."""
    links = await _links(served)
    mark = b"a-part-of-a-batch"
    part = b"--%b\r\n%b\r\n%b\r\n" % (mark, TYPE, work.body)
    body = part * IN_BATCH + b"--%b--\r\n" % mark
    kind = b"Content-Type: multipart/mixed; boundary=%b\r\n" % mark

    def step(_client: RawClient) -> Step:
        async def one(client: RawClient) -> None:
            await client.ask(b"POST", links.batch, body, kind, status=201)

        return one

    few = max(connections, work.requests // IN_BATCH)
    figures = await loaded(served, few, connections, step)
    await emptied(served)
    return {MESSAGE: figures[COST] / IN_BATCH, "messages/s": figures[RATE] * IN_BATCH}


async def paced(served: Served, work: Work, connections: int) -> Figures:
    """Measure the time from the answer to a post until a waiting poller has the message, at a steady rate.

    A delivery may come before the answer to its publisher: that counts as no time.
    """
    links = await _links(served)
    publisher, pollers = (
        await served.client(),
        [await served.client() for _ in range(connections)],
    )
    count = max(1, round(PACE * work.seconds))
    came: dict[bytes, float] = {}
    wait = b"Accept-Wait: %d\r\n" % WAIT

    async def poll(client: RawClient) -> None:
        while True:
            answer = await client.ask(b"POST", links.poller, b"", wait, status=200)
            came[answer.body[:8]] = time.perf_counter()
            path = answer.link(b"acknowledgement")
            await client.ask(b"POST", path, ACKNOWLEDGED, FORM, status=204)

    polling = [asyncio.create_task(poll(client)) for client in pollers]
    began, committed = time.perf_counter(), {}
    for number in range(count):
        await asyncio.sleep(max(0.0, began + number / PACE - time.perf_counter()))
        name = b"%08d" % number
        await publisher.ask(b"POST", links.post, name + work.body[8:], status=201)
        committed[name] = time.perf_counter()
    async with asyncio.timeout(WAIT):
        while len(came) < count:
            for task in polling:
                if task.done():
                    task.result()
            await asyncio.sleep(0.01)
    for task in polling:
        task.cancel()
    await asyncio.gather(*polling, return_exceptions=True)
    for client in (publisher, *pollers):
        client.close()
    waits = sorted(max(0.0, came[name] - at) for name, at in committed.items())
    return {
        MEDIAN: waits[len(waits) // 2] * 1e3,
        RARE: waits[len(waits) * 99 // 100] * 1e3,
    }


async def crowd(served: Served, work: Work, _connections: int) -> Figures:
    """Measure requests that wait for a message."""
    links = await _links(served)
    before, count = resident(served.pid), work.waiting
    wait = b"Accept-Wait: %d\r\n" % WAIT
    clients = [
        await served.client(f"127.0.0.{1 + number // PER_ADDRESS}") for number in range(count)
    ]
    for client in clients:
        client.send(b"POST", links.poller, b"", wait)
    await emptied_of_work(served.pid)
    grown = resident(served.pid) - before
    began, spent = time.perf_counter(), used(served.pid)
    await asyncio.sleep(work.seconds)
    took, spent = time.perf_counter() - began, used(served.pid) - spent
    for client in clients:
        client.close()
    return {SHARE: spent / took * 100, MEMORY: grown * 1024 / count}


async def emptied_of_work(pid: int) -> None:
    """Wait until a service is idle: its processor time no longer grows."""
    before = -1.0
    while (now := used(pid)) != before:
        before = now
        await asyncio.sleep(0.3)


async def emptied(served: Served) -> None:
    """Take and acknowledge every message that is left."""
    links = await _links(served)
    clients = [await served.client() for _ in range(16)]

    async def drain(client: RawClient) -> None:
        while (answer := await client.send(b"POST", links.poller)).status == 200:
            path = answer.link(b"acknowledgement")
            await client.ask(b"POST", path, ACKNOWLEDGED, FORM, status=204)
        client.close()

    await asyncio.gather(*map(drain, clients))


async def _links(served: Served) -> Links:
    client = await served.client()
    links = await Links.of(client)
    client.close()
    return links


# --- goals --------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A measured part, and its number of connections."""

    title: str
    measure: Callable[[Served, Work, int], Awaitable[Figures]]
    connections: int
    goals: tuple[Goal, ...]


class Goal(NamedTuple):
    """The limit of a figure, absolute or relative to the bare handler over as many connections."""

    figure: str
    most: float = 0.0
    least: float = 0.0
    of: str = ""
    """The figure of the bare handler; empty: none."""

    def met(self, value: float) -> bool:
        """Return whether the figure is as it should be."""
        return value >= self.least if self.least else value <= self.most


def _of_bare(most: float) -> tuple[Goal, ...]:
    return Goal(COST, most=most, of=COST), Goal(RATE, least=0.33, of=RATE)


MANY, FEW = 64, 16

PARTS: Final[Mapping[str, Part]] = {
    "post": Part("POST post-message, 64 connections", posts, MANY, _of_bare(2.5)),
    "post-few": Part("POST post-message, 16 connections", posts, FEW, _of_bare(4.0)[:1]),
    "once": Part("POST create-next, 64 connections", once, MANY, _of_bare(2.5)),
    "life": Part("post, poll, acknowledge, 64 connections", lives, MANY, _of_bare(3.0)[:1]),
    "life-few": Part("post, poll, acknowledge, 16 connections", lives, FEW, _of_bare(5.0)[:1]),
    "batch": Part(
        "batches of 100, 16 connections", batches, FEW, (Goal(MESSAGE, most=0.5, of=COST),)
    ),
    "wait": Part(
        "a message a waiting poller gets, 16 of them",
        *(paced, FEW),
        (Goal(MEDIAN, most=2.0), Goal(RARE, most=20.0)),
    ),
    "crowd": Part(
        *("requests that wait", crowd, 0), (Goal(SHARE, most=1.0), Goal(MEMORY, most=64.0))
    ),
}
