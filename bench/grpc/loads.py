"""The loads, and the figures of our service and of those that it is compared with."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import grpc

from bench import measure as xmpp
from bench.connections import resident
from bench.contestants import running
from bench.grpc.services import LIMITS, PUBLISHER, QUIET, SUBSCRIBER, TOPIC
from bench.load import NODE, PUBSUB, SHORT, payload
from bench.measure import processor_time
from bench.payloads import JSON
from bench.places import PLACES
from bench.rest.loads import Goal, emptied_of_work
from bench.stomp.thin import HOST
from bench.wire import BenchError
from pubqueue.faces.grpc.wire import v1

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from bench.grpc.services import Client, Served
    from bench.load import Party
    from bench.wire import Stanza

    Figures = Mapping[str, float]

RATE: Final = "calls/s"
COST: Final = "CPU µs/call"
CLIENT: Final = "client µs/call"
MESSAGE: Final = "CPU µs/message"
MESSAGES: Final = "messages/s"
MEMORY: Final = "KiB each"
GROWN: Final = "MiB above rest"
SLOWEST: Final = "slowest call, ms"

IN_BATCH: Final = 100
STREAMS: Final = 2
CREDIT: Final = 1_000
FEW: Final = 100
PER_CHANNEL: Final = 500
"""Streams of one connection."""
"""The fraction of the messages for slow loads."""
LARGE: Final = 9_000_000
"""Bytes of a large message."""
AT_ONCE: Final = 20
UNDER_WAY: Final = 256
"""Publishes of XMPP."""
STALLED: Final = 120.0
"""Seconds without an end."""


@dataclass(frozen=True, slots=True)
class Work:
    """The amount of work."""

    messages: int
    payload: int
    streams: int

    @property
    def body(self) -> bytes:
        """The published payload."""
        return JSON % (b"x" * (self.payload - len(JSON % b"")))

    def request(self, count: int = 1) -> bytes:
        """Return a Publish of so many messages."""
        message = v1.PubsubMessage(data=self.body, attributes={"content-type": "application/json"})
        return v1.PublishRequest(topic=TOPIC, messages=[message] * count).SerializeToString()


class Services(NamedTuple):
    """The services that are compared."""

    ours: Served
    bare: Served


async def calls(served: Served, request: bytes, count: int, at_once: int) -> Figures:
    """Publish this many requests, `at_once` in flight. A quarter is warm-up."""
    client = served.client()
    left = 0

    async def go_on() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await client.ask(PUBLISHER, "Publish", request)

    async def round_of(some: int) -> None:
        nonlocal left
        left = some
        async with asyncio.timeout(STALLED):
            await asyncio.gather(*(go_on() for _ in range(at_once)))

    await round_of(max(at_once, count // 4))
    began, spent, own = time.perf_counter(), processor_time(served.pid), time.process_time()
    await round_of(count)
    seconds = time.perf_counter() - began
    spent, own = processor_time(served.pid) - spent, time.process_time() - own
    await client.close()
    return {RATE: count / seconds, COST: spent / count * 1e6, CLIENT: own / count * 1e6}


def each(figures: Figures) -> Figures:
    """Return the figures per message of calls with a hundred messages."""
    return {MESSAGE: figures[COST] / IN_BATCH, MESSAGES: figures[RATE] * IN_BATCH}


async def _published(
    served: Served, request: bytes, count: int, at_once: int, subscriptions: int = 1
) -> Figures:
    names = await served.topic(subscriptions)
    try:
        return await calls(served, request, count, at_once)
    finally:
        await served.clear(names)


# --- the parts ------------------------------------------------------------------------------------


async def single(services: Services, work: Work) -> tuple[Figures, Figures]:
    """Publish one message a call."""
    given = work.request(), work.messages // 4, 50
    return await _published(services.ours, *given), await calls(services.bare, *given)


async def batches(services: Services, work: Work) -> tuple[Figures, Figures]:
    """Publish a hundred messages per call, compared with publishes on a direct stream of XMPP."""
    given = work.request(IN_BATCH), max(10, work.messages // IN_BATCH), 10
    return each(await _published(services.ours, *given)), await xmpp_publishes(work)


async def lives(services: Services, work: Work) -> tuple[Figures, Figures]:
    """Publish in hundreds, stream, acknowledge in hundreds; compared with item lives on a direct stream of XMPP."""
    served = services.ours
    (name,) = await served.topic(1)
    client = served.client()
    life = _Lives(client, name)
    await life.run(work.request(IN_BATCH), work.messages // 4)
    began, spent = time.perf_counter(), processor_time(served.pid)
    await life.run(work.request(IN_BATCH), work.messages)
    seconds, spent = time.perf_counter() - began, processor_time(served.pid) - spent
    await life.end()
    await client.close()
    await served.clear([name])
    ours = {MESSAGE: spent / work.messages * 1e6, MESSAGES: work.messages / seconds}
    given = xmpp.Work(items=work.messages, payload=work.payload)
    async with PLACES["direct"]() as place:
        sample = await xmpp.measure("direct", place, "pubqueue", given)
    return ours, {MESSAGE: sample.cost, MESSAGES: sample.rate}


class _Lives:
    """Two streams, and acknowledgements in hundreds."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._name = client, name
        self._left = 0
        self._over = asyncio.Event()
        self._working = [asyncio.create_task(self._work()) for _ in range(STREAMS)]

    async def _requests(self) -> AsyncIterator[bytes]:
        yield v1.StreamingPullRequest(
            subscription=self._name,
            stream_ack_deadline_seconds=60,
            max_outstanding_messages=CREDIT,
        ).SerializeToString()
        await asyncio.Event().wait()

    async def _work(self) -> None:
        async for answer in self._client.stream(self._requests()):
            found = v1.StreamingPullResponse.FromString(answer).received_messages
            ids = [one.ack_id for one in found]
            done = v1.AcknowledgeRequest(subscription=self._name, ack_ids=ids)
            await self._client.ask(SUBSCRIBER, "Acknowledge", done.SerializeToString())
            self._left -= len(ids)
            if self._left <= 0:
                self._over.set()

    async def run(self, request: bytes, messages: int) -> None:
        """Run this many message lives, rounded up to hundreds."""
        count = -(-messages // IN_BATCH)
        self._left += count * IN_BATCH
        self._over.clear()

        async def publish() -> None:
            nonlocal count
            while count > 0:
                count -= 1
                await self._client.ask(PUBLISHER, "Publish", request)

        async with asyncio.timeout(STALLED):
            await asyncio.gather(*(publish() for _ in range(4)))
            await self._over.wait()

    async def end(self) -> None:
        """Close the streams."""
        for task in self._working:
            task.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)


async def fed(services: Services, work: Work) -> tuple[Figures, Figures]:
    """Publish to ten subscriptions, compared with one."""
    given = work.request(10), max(10, work.messages // FEW), 10
    ten = await _published(services.ours, *given, subscriptions=10)
    return ten, await _published(services.ours, *given)


async def idle(services: Services, work: Work) -> tuple[Figures, Figures]:
    """Measure idle streams, and other calls with and without them."""
    served = services.ours
    given = work.request(), max(50, work.messages // 10), 10
    without = await _published(served, *given)
    names = await served.topic(1, QUIET)
    before = resident(served.pid)
    clients = [served.client() for _ in range(-(-work.streams // PER_CHANNEL))]
    first = v1.StreamingPullRequest(subscription=names[0], stream_ack_deadline_seconds=60)
    hold = asyncio.Event()

    async def requests() -> AsyncIterator[bytes]:
        yield first.SerializeToString()
        await hold.wait()

    async def read(client: Client) -> None:
        async for _ in client.stream(requests()):
            raise BenchError("something has come on a quiet stream")

    reading = [asyncio.create_task(read(clients[n % len(clients)])) for n in range(work.streams)]
    await emptied_of_work(served.pid)
    grown = resident(served.pid) - before
    beside = await _published(served, *given)
    if (ended := [task for task in reading if task.done()]) and not hold.is_set():
        ended[0].result()
    hold.set()
    await asyncio.gather(*reading, return_exceptions=True)
    for client in clients:
        await client.close()
    await served.clear(names, QUIET)
    return {MEMORY: grown * 1024 / work.streams, COST: beside[COST]}, {COST: without[COST]}


async def large(services: Services, _work: Work) -> tuple[Figures, Figures]:
    """Publish large messages, twenty at once, while another client makes small calls in its own thread."""
    served = services.ours
    names, quiet = await served.topic(1), await served.topic(0, QUIET)
    client = served.client()
    message = v1.PubsubMessage(data=b"x" * LARGE, attributes={"content-type": "text/plain"})
    request = v1.PublishRequest(topic=TOPIC, messages=[message]).SerializeToString()
    before, over = resident(served.pid), threading.Event()
    forget_peak(served.pid)
    trickling = asyncio.create_task(asyncio.to_thread(_trickle, served, over))
    await asyncio.gather(*(client.ask(PUBLISHER, "Publish", request) for _ in range(AT_ONCE)))
    over.set()
    longest = await trickling
    grown = peak(served.pid) - before
    await client.close()
    await served.clear(names)
    await served.clear(quiet, QUIET)
    return {GROWN: grown / 1024, SLOWEST: longest * 1e3}, {}


def _trickle(served: Served, over: threading.Event) -> float:
    """Make small calls, one after another, and return the duration of the longest, in seconds."""
    longest = 0.0
    small = v1.PublishRequest(topic=QUIET, messages=[v1.PubsubMessage(data=b"x")])
    request = small.SerializeToString()
    with grpc.insecure_channel(f"{HOST}:{served.port}", LIMITS) as channel:
        publish = channel.unary_unary(f"/{PUBLISHER}/Publish")
        while not over.is_set():
            begun = time.perf_counter()
            publish(request)
            longest = max(longest, time.perf_counter() - begun)
    return longest


def forget_peak(pid: int) -> None:
    """Reset the peak of a process's memory."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak(pid: int) -> int:
    """Return the peak of a process's memory in KiB."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0])


async def xmpp_publishes(work: Work) -> Figures:
    """Measure publishes on a direct stream of XMPP."""
    with tempfile.TemporaryDirectory(prefix="pq-") as folder:
        async with (
            PLACES["direct"]() as place,
            running(
                *("pubqueue", place, Path(folder)), publishers=["publisher"], requests=1
            ) as service,
        ):
            (party,) = await place.parties(["publisher"])
            publishes = _Publishes(party, payload(work.payload))
            await publishes.run(work.messages // 4)
            spent = processor_time(service.pid)
            await publishes.run(work.messages)
            spent = processor_time(service.pid) - spent
            await place.part([party])
    return {MESSAGE: spent / work.messages * 1e6}


class _Publishes:
    """Publishes over XMPP with short answers, several in flight."""

    def __init__(self, party: Party, body: str) -> None:
        self._stream = party.stream
        publish = f"<publish node='{NODE}'{SHORT}><item>{body}</item></publish>"
        self._iq = f"<iq type='set' id='%d' {party.address}><pubsub xmlns='{PUBSUB}'>{publish}</pubsub></iq>"
        self._left = self._open = 0
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        party.stream.listen(self._heard, lambda: None)

    async def run(self, count: int) -> None:
        """Publish so many items."""
        self._over = asyncio.get_running_loop().create_future()
        self._left = self._open = count
        for _ in range(min(UNDER_WAY, count)):
            self._publish()
        await asyncio.wait_for(self._over, STALLED)

    def _publish(self) -> None:
        self._left -= 1
        self._stream.write((self._iq.replace("%d", str(self._left), 1)).encode())

    def _heard(self, stanza: Stanza) -> None:
        if stanza.name != "iq":
            return
        if stanza.attributes.get("type") != "result":
            self._over.set_exception(BenchError(f"a publish was refused: {stanza.names}"))
            return
        self._open -= 1
        if self._left:
            self._publish()
        if not self._open:
            self._over.set_result(None)


# --- goals ----------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A measured part, its comparison, and its goal."""

    title: str
    beside: str
    measure: Callable[[Services, Work], Awaitable[tuple[Figures, Figures]]]
    goals: tuple[Goal, ...]


PARTS: Final[Mapping[str, Part]] = {
    "publish": Part("one message, 50 at once", "bare", single, (Goal(RATE, least=0.6, of=RATE),)),
    "batch": Part(
        *("100 messages, 10 at once", "XMPP, direct", batches),
        (Goal(MESSAGE, most=1.2, of=MESSAGE),),
    ),
    "life": Part(
        *("lives, in hundreds, 2 streams", "XMPP, direct", lives),
        (Goal(MESSAGE, most=1.5, of=MESSAGE),),
    ),
    "feeding": Part(
        "10 messages, 10 subscriptions", "1 subscription", fed, (Goal(COST, most=6.4, of=COST),)
    ),
    "idle": Part(
        *("idle streams, calls of others", "without them", idle),
        (Goal(MEMORY, most=64), Goal(COST, most=1.5, of=COST)),
    ),
    "large": Part("9 MB, 20 at once", "", large, (Goal(GROWN, most=96), Goal(SLOWEST, most=250))),
}
