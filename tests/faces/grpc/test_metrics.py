"""Metrics of calls: by method and code, with durations, and what is open; all labels are words of the program."""

from __future__ import annotations

import asyncio
import re

import aiohttp
import grpc
import pytest
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, Stub, code_of
from faces.grpc.service import GrpcService
from grpc import StatusCode
from harness.operators.metrics_reader import Watcher
from harness.patience import TIMEOUT, until

from pubqueue.faces.grpc.wire import v1 as m

TOPIC, BILL = "projects/shop/topics/orders", "projects/shop/subscriptions/bill"


@pytest.fixture
async def scraped(tmp_path):
    """A service, a channel to it, and what reads its metrics."""
    async with GrpcService(tmp_path, top='http = "127.0.0.1:0"\n') as service:
        (port,) = re.findall(r"http\.listening.*?port=(\d+)", service.log)
        timeout = aiohttp.ClientTimeout(TIMEOUT)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            grpc.aio.insecure_channel(service.address) as channel,
        ):
            yield channel, Watcher(int(port), session)


async def test_calls_are_counted_by_method_and_code(scraped):
    channel, watcher = scraped
    publisher, subscriber = Stub(channel, PUBLISHER), Stub(channel, SUBSCRIBER)
    await publisher.CreateTopic(name=TOPIC)
    assert await code_of(publisher.CreateTopic(name=TOPIC)) is StatusCode.ALREADY_EXISTS
    await subscriber.CreateSubscription(name=BILL, topic=TOPIC)
    garbage = channel.unary_unary(f"/{PUBLISHER}/GetTopic")(b"\xff\xff")
    assert await code_of(garbage) is StatusCode.INVALID_ARGUMENT
    pulling = subscriber.Pull(subscription=BILL, max_messages=1)
    await until(lambda: is_open(watcher, "Pull", SUBSCRIBER))
    pulling.cancel()
    await publisher.Publish(topic=TOPIC, messages=[m.PubsubMessage(data=b"a")])
    unknown = channel.unary_unary(f"/{PUBLISHER}/Nonsense")(b"")
    assert await code_of(unknown) is StatusCode.UNIMPLEMENTED
    await until(lambda: ended(watcher, "CANCELLED", "Pull", SUBSCRIBER))
    found = await watcher.metrics()
    calls = {key[1:]: n for key, n in found.items() if key[0] == "pubqueue_grpc_calls_total"}
    wanted = {
        ("OK", "CreateTopic", PUBLISHER): 1,
        ("ALREADY_EXISTS", "CreateTopic", PUBLISHER): 1,
        ("INVALID_ARGUMENT", "GetTopic", PUBLISHER): 1,
        ("OK", "Publish", PUBLISHER): 1,
        ("OK", "CreateSubscription", SUBSCRIBER): 1,
        ("CANCELLED", "Pull", SUBSCRIBER): 1,
    }
    assert calls == {tuple(sorted(labels)): n for labels, n in wanted.items()}
    assert found["pubqueue_grpc_call_seconds_count", "CreateTopic", PUBLISHER] == 2
    assert found["pubqueue_grpc_call_seconds_bucket", "+Inf", "CreateTopic", PUBLISHER] == 2
    assert found["pubqueue_grpc_call_seconds_sum", "Pull", SUBSCRIBER] > 0
    assert found["pubqueue_grpc_calls_open", "Pull", SUBSCRIBER] == 0
    assert found["pubqueue_connections", "grpc"] == 1


async def is_open(watcher, *labels):
    return (await watcher.metrics()).get(("pubqueue_grpc_calls_open", *labels))


async def ended(watcher, *labels):
    return ("pubqueue_grpc_calls_total", *sorted(labels)) in await watcher.metrics()


async def test_streams_that_are_open_and_what_they_hold_are_shown(scraped):
    channel, watcher = scraped
    publisher, subscriber = Stub(channel, PUBLISHER), Stub(channel, SUBSCRIBER)
    await publisher.CreateTopic(name=TOPIC)
    await subscriber.CreateSubscription(name=BILL, topic=TOPIC)
    messages = [m.PubsubMessage(data=b"%d" % n) for n in range(3)]
    await publisher.Publish(topic=TOPIC, messages=messages)
    hold = asyncio.Event()

    async def requests():
        yield m.StreamingPullRequest(subscription=BILL, stream_ack_deadline_seconds=60)
        await hold.wait()

    stream = subscriber.StreamingPull(requests())
    heard = []
    while len(heard) < 3:
        heard += (await asyncio.wait_for(stream.read(), TIMEOUT)).received_messages
    found = await watcher.metrics()
    assert found["pubqueue_grpc_calls_open", "StreamingPull", SUBSCRIBER] == 1
    assert found["pubqueue_grpc_messages_outstanding",] == 3
    hold.set()
    await until(lambda: ended(watcher, "OK", "StreamingPull", SUBSCRIBER))
    found = await watcher.metrics()
    assert found["pubqueue_grpc_calls_open", "StreamingPull", SUBSCRIBER] == 0
    assert found["pubqueue_grpc_messages_outstanding",] == 0
    assert ("pubqueue_grpc_call_seconds_count", "StreamingPull", SUBSCRIBER) not in found


async def test_what_is_retained_is_a_number_of_its_own(scraped):  # G38
    channel, watcher = scraped
    publisher, subscriber = Stub(channel, PUBLISHER), Stub(channel, SUBSCRIBER)
    await publisher.CreateTopic(name=TOPIC)
    await subscriber.CreateSubscription(name=BILL, topic=TOPIC, retain_acked_messages=True)
    messages = [m.PubsubMessage(data=data) for data in (b"a", b"b", b"c")]
    await publisher.Publish(topic=TOPIC, messages=messages)
    answer = await subscriber.Pull(subscription=BILL, max_messages=2)
    ids = [one.ack_id for one in answer.received_messages]
    await subscriber.Acknowledge(subscription=BILL, ack_ids=ids)
    found = await watcher.metrics()
    assert found["pubqueue_queue_done", BILL] == len(ids)
    assert found["pubqueue_queue_depth", BILL] == 3 - len(ids)
