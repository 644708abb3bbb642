"""Floods: idle streams, clients that do not read, large messages, garbage, pings, too many streams. Others are served as before."""

from __future__ import annotations

import asyncio
import random
import struct
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, TECH_SUBSCRIBER, Stub, code_of, silent
from faces.grpc.service import GrpcService
from faces.grpc.test_callers import basic
from grpc import StatusCode
from harness.patience import TIMEOUT, until
from harness.processes.program import COLD

from pubqueue.faces.grpc.wire import tech
from pubqueue.faces.grpc.wire import v1 as m

TOPIC, BILL = "projects/shop/topics/orders", "projects/shop/subscriptions/bill"
QUIET, OWN = "projects/shop/topics/quiet", "projects/shop/subscriptions/quiet"
LOCAL = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
IDLE, PER_CHANNEL = 2_000, 500
EACH = 64 << 10
"""Bytes of memory that an idle stream may take."""

MEGABYTE = 1 << 20
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, GOAWAY = 4, 6, 7
ENHANCE_YOUR_CALM = 11


@pytest.fixture
async def service(tmp_path):
    async with GrpcService(tmp_path, command=COLD) as running:
        yield running


@asynccontextmanager
async def calling(service, metadata=()):
    async with grpc.aio.insecure_channel(service.address, LOCAL) as channel:
        yield SimpleNamespace(
            publisher=Stub(channel, PUBLISHER, metadata),
            subscriber=Stub(channel, SUBSCRIBER, metadata),
        )


@pytest.fixture
async def v1(service):
    async with calling(service) as stubs:
        for topic, name in ((TOPIC, BILL), (QUIET, OWN)):
            await stubs.publisher.CreateTopic(name=topic)
            await stubs.subscriber.CreateSubscription(name=name, topic=topic)
        yield stubs


async def served(v1, data=b"x"):
    """Publish, pull and acknowledge, as anybody may while others do what they like."""
    async with asyncio.timeout(TIMEOUT):
        messages = [m.PubsubMessage(data=data)]
        await v1.publisher.Publish(topic=TOPIC, messages=messages)
        answer = await v1.subscriber.Pull(subscription=BILL, max_messages=1)
        (found,) = answer.received_messages
        assert found.message.data == data
        await v1.subscriber.Acknowledge(subscription=BILL, ack_ids=[found.ack_id])


def resident(service):
    """Return the bytes of memory that the service has."""
    text = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) * 1024


def highest(service):
    """Return the most bytes of memory that the service has had since `begin_anew`."""
    text = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024


def begin_anew(service):
    """Have the kernel forget how much memory the service has had."""
    Path(f"/proc/{service.process.pid}/clear_refs").write_text("5")


async def hold(first):
    """Say the first request of a stream, and no more."""
    yield first
    await asyncio.Event().wait()


async def test_two_thousand_idle_streams_take_little_and_others_are_served(service, v1):  # G48
    await served(v1)
    before = resident(service)
    first = m.StreamingPullRequest(subscription=OWN, stream_ack_deadline_seconds=60)
    channels = [
        grpc.aio.insecure_channel(service.address, LOCAL) for _ in range(IDLE // PER_CHANNEL)
    ]
    stubs = [Stub(channel, SUBSCRIBER) for channel in channels]
    streams = [stubs[n % len(stubs)].StreamingPull(hold(first)) for n in range(IDLE)]
    reading = [asyncio.create_task(stream.read()) for stream in streams]
    await served(v1)
    messages = [m.PubsubMessage(data=b"%d" % n) for n in range(100)]
    await v1.publisher.Publish(topic=QUIET, messages=messages)
    heard = 0
    while heard < 100:  # so all that are open are known to be, and each message goes to one
        done, _ = await asyncio.wait(reading, timeout=TIMEOUT, return_when=asyncio.FIRST_COMPLETED)
        assert done, "the streams are not served"
        heard += sum(len(one.result().received_messages) for one in done)
        reading = [one for one in reading if one not in done]
    assert heard == 100
    assert resident(service) - before < IDLE * EACH
    await served(v1)
    for one in (*reading, *streams):
        one.cancel()
    for channel in channels:
        await channel.close()
    await served(v1)


async def test_nothing_more_is_locked_for_a_client_that_does_not_read(service, v1):  # G48
    count = 40
    first = m.StreamingPullRequest(subscription=OWN, stream_ack_deadline_seconds=600)
    async with grpc.aio.insecure_channel(service.address, LOCAL) as channel:
        deaf = Stub(channel, SUBSCRIBER).StreamingPull(hold(first))
        body = random.Random(1).randbytes(MEGABYTE // 2)
        for _ in range(count):
            await v1.publisher.Publish(topic=QUIET, messages=[m.PubsubMessage(data=body)])
        found = 0
        while answer := await pulled(v1):
            found += len(answer)
        assert found > count * 3 // 4, "what it does not read goes to others"
        await served(v1)
        deaf.cancel()


async def pulled(v1):
    answer = await v1.subscriber.Pull(subscription=OWN, max_messages=5, return_immediately=True)
    return answer.received_messages


async def test_large_messages_do_not_hold_up_others_and_too_large_ones_have_a_code(
    service, v1
):  # G12, G48
    large = m.PubsubMessage(data=b"x" * 9_000_000, attributes={"content-type": "text/plain"})
    async with calling(service) as other:
        publishing = asyncio.gather(
            *(other.publisher.Publish(topic=QUIET, messages=[large]) for _ in range(8))
        )
        count = 0
        while not publishing.done():
            await v1.publisher.Publish(topic=TOPIC, messages=[m.PubsubMessage(data=b"x")])
            count += 1
        await publishing
        assert count >= 4, "small calls are answered between the large ones"
        bigger = m.PubsubMessage(data=bytes(21 * MEGABYTE))
        code = await code_of(other.publisher.Publish(topic=QUIET, messages=[bigger]))
        assert code is StatusCode.RESOURCE_EXHAUSTED
        many = [large, m.PubsubMessage(data=bytes(2 * MEGABYTE))]
        code = await code_of(other.publisher.Publish(topic=QUIET, messages=many))
        assert code is StatusCode.INVALID_ARGUMENT
    await served(v1, b"x")


@pytest.mark.parametrize(
    ("name", "request_of"),
    [
        (f"/{SUBSCRIBER}/Pull", lambda: m.PullRequest(subscription=OWN, max_messages=1)),
        (f"/{TECH_SUBSCRIBER}/Pull", lambda: tech.PullRequest(subscription="shop/quiet")),
        (f"/{TECH_SUBSCRIBER}/PullBatch", lambda: tech.PullBatchRequest(subscription="shop/quiet")),
    ],
    ids=["v1", "tech", "batch"],
)
async def test_a_pull_that_waits_has_no_turn_of_a_large_request(
    service, v1, name, request_of
):  # G48
    """Fields that are not known make a request as large as its sender likes."""
    size = 300_000
    padding = (
        b"\xc2\x3e" + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + bytes(size)
    )
    async with grpc.aio.insecure_channel(service.address, LOCAL) as channel:
        call = channel.unary_unary(name)(request_of().SerializeToString() + padding)
        assert await code_of(call) is StatusCode.INVALID_ARGUMENT


async def test_large_messages_of_a_connection_stay_with_their_client_until_their_turn(
    service, v1
):  # G12
    count, large = 20, m.PubsubMessage(data=bytes(7 * MEGABYTE))

    async def publish():
        await v1.publisher.Publish(topic=QUIET, messages=[large])

    for _ in range(10):  # until SQLite's cache of pages is full
        await publish()
    before = resident(service)
    begin_anew(service)
    await asyncio.gather(*(publish() for _ in range(count)))
    assert highest(service) - before < count * 7 * MEGABYTE * 7 // 8
    await served(v1)


async def test_garbage_on_a_connection_ends_it_alone(service, v1):  # G48
    dice = random.Random(3)
    host, _, port = service.address.rpartition(":")
    shapes = [
        lambda: dice.randbytes(dice.randrange(1, 2_000)),
        lambda: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        lambda: PREFACE + dice.randbytes(500),
        lambda: PREFACE[: dice.randrange(len(PREFACE))],
        lambda: PREFACE + frame(SETTINGS) + frame(dice.randrange(256), dice.randbytes(30)),
        lambda: PREFACE + frame(SETTINGS) + frame(1, b"\xff" * 9_000, stream=1, flags=4),
    ]
    for n in range(120):
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(shapes[n % len(shapes)]())
        if n % 20 == 0:
            await served(v1)
        writer.close()
    await served(v1)
    for data in (b"\xff", dice.randbytes(300)):
        assert await garbage(service, data) is StatusCode.INVALID_ARGUMENT
    await served(v1)


async def garbage(service, data):
    async with grpc.aio.insecure_channel(service.address, LOCAL) as channel:
        call = channel.unary_unary(f"/{SUBSCRIBER}/Acknowledge")(b"\xff" + data)
        return await code_of(call)


def frame(kind, body=b"", *, stream=0, flags=0):
    """Return a frame of HTTP/2 (RFC 9113, 4.1)."""
    return (
        struct.pack("!I", len(body))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + body
    )


async def test_a_flood_of_pings_ends_its_connection_alone(service, v1):  # G48
    host, _, port = service.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(PREFACE + frame(SETTINGS) + frame(PING, bytes(8)) * 200)
    async with asyncio.timeout(TIMEOUT):
        while True:
            head = await reader.readexactly(9)
            body = await reader.readexactly(int.from_bytes(head[:3], "big"))
            if head[3] == GOAWAY:
                break
    assert int.from_bytes(body[4:8], "big") == ENHANCE_YOUR_CALM
    writer.close()
    await served(v1)


async def test_one_account_has_too_many_streams_and_another_is_served(tmp_path):  # G48
    bounds = 'listen = "127.0.0.1:0"\nstreams_per_account = 50\nanonymous = "dev"'
    async with GrpcService(tmp_path, bounds, command=COLD) as service, calling(service) as greedy:
        await greedy.publisher.CreateTopic(name=TOPIC)
        await greedy.subscriber.CreateSubscription(name=BILL, topic=TOPIC)
        streams = [greedy.subscriber.StreamingPull(silent()) for _ in range(80)]
        ends = [asyncio.create_task(stream.code()) for stream in streams]
        await until(lambda: sum(one.done() for one in ends) >= 30)
        over = [one.result() for one in ends if one.done()]
        assert over == [StatusCode.RESOURCE_EXHAUSTED] * 30
        async with calling(service, basic("etl")) as other:
            await other.publisher.CreateTopic(name=QUIET)
            await other.subscriber.CreateSubscription(name=OWN, topic=QUIET)
            mine = m.StreamingPullRequest(subscription=OWN, stream_ack_deadline_seconds=60)
            stream = other.subscriber.StreamingPull(hold(mine))
            await other.publisher.Publish(topic=QUIET, messages=[m.PubsubMessage(data=b"x")])
            answer = await asyncio.wait_for(stream.read(), TIMEOUT)
            assert [one.message.data for one in answer.received_messages] == [b"x"]
            stream.cancel()
        for one in (*ends, *streams):
            one.cancel()
