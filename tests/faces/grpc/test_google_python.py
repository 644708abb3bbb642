"""Google's own client for Python, unmodified, against the service as its operator runs it (PUBSUB_EMULATOR_HOST)."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue

import pytest
from faces.grpc.service import GrpcService
from google.api_core.exceptions import AlreadyExists, InvalidArgument, NotFound
from google.cloud import pubsub_v1
from google.cloud.pubsub_v1.types import FlowControl, PublisherOptions, StreamingPullRequest
from harness.patience import TIMEOUT, wait_until

PROJECT = "shop"


@pytest.fixture
async def service(tmp_path, monkeypatch):
    async with GrpcService(tmp_path) as running:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", running.address)
        yield running


@pytest.fixture
def clients(service):
    publisher = pubsub_v1.PublisherClient(
        publisher_options=PublisherOptions(enable_message_ordering=True)
    )
    subscriber = pubsub_v1.SubscriberClient()
    yield publisher, subscriber
    publisher.stop()
    publisher.transport.close()
    subscriber.close()


@pytest.fixture
def queue(clients):
    publisher, subscriber = clients
    topic = publisher.topic_path(PROJECT, "orders")
    name = subscriber.subscription_path(PROJECT, "bill")
    publisher.create_topic(name=topic)
    subscriber.create_subscription(name=name, topic=topic, ack_deadline_seconds=10)
    return topic, name


async def test_topics_and_subscriptions_are_administered(clients, queue):  # G50
    def all_of_it():
        publisher, subscriber = clients
        topic, name = queue
        with pytest.raises(AlreadyExists):
            publisher.create_topic(name=topic)
        with pytest.raises(InvalidArgument):
            publisher.create_topic(name="nonsense")
        assert [one.name for one in publisher.list_topics(project=f"projects/{PROJECT}")] == [topic]
        assert list(publisher.list_topic_subscriptions(topic=topic)) == [name]
        assert subscriber.get_subscription(subscription=name).ack_deadline_seconds == 10
        subscriber.delete_subscription(subscription=name)
        publisher.delete_topic(topic=topic)
        with pytest.raises(NotFound):
            publisher.get_topic(topic=topic)

    await asyncio.to_thread(all_of_it)


async def test_messages_are_published_and_pulled(clients, queue):  # G50
    def all_of_it():
        publisher, subscriber = clients
        topic, name = queue
        futures = [publisher.publish(topic, b"%d" % n, kind="order") for n in range(200)]
        ids = [future.result(TIMEOUT) for future in futures]
        assert len(set(ids)) == 200
        found = []
        while len(found) < 200:
            answer = subscriber.pull(subscription=name, max_messages=50)
            found += answer.received_messages
            subscriber.acknowledge(
                subscription=name, ack_ids=[one.ack_id for one in answer.received_messages]
            )
        assert sorted(int(one.message.data) for one in found) == list(range(200))
        assert found[0].message.attributes == {"kind": "order"}

    await asyncio.to_thread(all_of_it)


async def test_a_seek_back_gives_acknowledged_messages_again(clients, queue):  # G38, G50
    def all_of_it():
        publisher, subscriber = clients
        topic, _ = queue
        name = subscriber.subscription_path(PROJECT, "audit")
        subscriber.create_subscription(
            request={"name": name, "topic": topic, "retain_acked_messages": True}
        )
        futures = [publisher.publish(topic, b"%d" % n) for n in range(700)]
        ids = {future.result(TIMEOUT) for future in futures}
        wanted = Counter(b"%d" % n for n in range(700))
        start = pulled(subscriber, name, 700)
        assert Counter(one.message.data for one in start) == wanted
        hour = timedelta(hours=1)
        subscriber.seek(request={"subscription": name, "time": datetime.now(UTC) - hour})
        again = pulled(subscriber, name, 700)
        assert {one.message.message_id for one in again} == ids
        assert Counter(one.message.data for one in again) == wanted
        subscriber.seek(request={"subscription": name, "time": datetime.now(UTC) + hour})
        publisher.publish(topic, b"new").result(TIMEOUT)
        assert [one.message.data for one in pulled(subscriber, name, 1)] == [b"new"]

    await asyncio.to_thread(all_of_it)


def pulled(subscriber, name, count):
    """Pull and acknowledge so many messages."""
    found = []
    while len(found) < count:
        answer = subscriber.pull(subscription=name, max_messages=100)
        found += answer.received_messages
        ids = [one.ack_id for one in answer.received_messages]
        subscriber.acknowledge(subscription=name, ack_ids=ids)
    return found


async def test_a_streaming_pull_calls_back_and_nacks_come_again(clients, queue):  # G19, G50
    def all_of_it():
        publisher, subscriber = clients
        topic, name = queue
        seen: Counter[bytes] = Counter()
        done: set[bytes] = set()
        lock = threading.Lock()

        def on_message(message):
            with lock:
                seen[message.data] += 1
                again = seen[message.data] == 1 and int(message.data) % 10 == 0
                if not again:
                    done.add(message.data)
            message.nack() if again else message.ack()

        pulling = subscriber.subscribe(name, on_message, flow_control=FlowControl(max_messages=20))
        for n in range(100):
            publisher.publish(topic, b"%d" % n)
        wait_until(lambda: len(done) == 100)
        pulling.cancel()
        pulling.result(TIMEOUT)
        assert [seen[b"%d" % n] for n in range(100)] == [
            2 if n % 10 == 0 else 1 for n in range(100)
        ]

    await asyncio.to_thread(all_of_it)


async def test_ordering_keys_come_in_order(clients, queue):  # G33, G50
    def all_of_it():
        publisher, subscriber = clients
        topic, _ = queue
        name = subscriber.subscription_path(PROJECT, "ordered")
        subscriber.create_subscription(
            request={"name": name, "topic": topic, "enable_message_ordering": True}
        )
        for n in range(40):
            publisher.publish(topic, b"%d" % n, ordering_key=f"key-{n % 4}")
        seen: dict[str, list[int]] = {}
        lock = threading.Lock()

        def on_message(message):
            with lock:
                seen.setdefault(message.ordering_key, []).append(int(message.data))
            message.ack()

        pulling = subscriber.subscribe(name, on_message)
        wait_until(lambda: sum(map(len, seen.values())) == 40)
        pulling.cancel()
        pulling.result(TIMEOUT)
        assert all(numbers == sorted(numbers) for numbers in seen.values())
        assert len(seen) == 4

    await asyncio.to_thread(all_of_it)


async def test_a_key_is_sent_ahead_and_again_after_a_nack(clients, queue):  # G33, G50
    def all_of_it():
        publisher, subscriber = clients
        topic, _ = queue
        name = subscriber.subscription_path(PROJECT, "ordered")
        subscriber.create_subscription(
            request={"name": name, "topic": topic, "enable_message_ordering": True}
        )
        said: SimpleQueue[StreamingPullRequest | None] = SimpleQueue()
        said.put(StreamingPullRequest(subscription=name, stream_ack_deadline_seconds=60))
        answers = subscriber.streaming_pull(requests=iter(said.get, None))
        for n in range(10):
            publisher.publish(topic, b"%d" % n, ordering_key="key").result(TIMEOUT)
        found = []

        def numbers(count):
            while len(found) < count:
                found.extend(next(answers).received_messages)
            return [int(one.message.data) for one in found]

        assert numbers(10) == [*range(10)]
        said.put(StreamingPullRequest(ack_ids=[one.ack_id for one in found[:2]]))
        third = found[2].ack_id
        said.put(StreamingPullRequest(modify_deadline_ack_ids=[third], modify_deadline_seconds=[0]))
        assert numbers(18) == [*range(10), *range(2, 10)]
        said.put(StreamingPullRequest(ack_ids=[one.ack_id for one in found[10:]]))
        said.put(None)
        answers.cancel()

    await asyncio.to_thread(all_of_it)


async def test_a_client_goes_on_after_a_kill(service, clients, queue):  # G46, G50
    publisher, subscriber = clients
    topic, name = queue
    done: Counter[bytes] = Counter()

    def on_message(message):
        done[message.data] += 1
        message.ack()

    def publish(numbers):
        for future in [publisher.publish(topic, b"%d" % n) for n in numbers]:
            future.result(TIMEOUT)

    service.stay()
    brief = FlowControl(max_duration_per_lease_extension=10)  # what it held comes again after this
    pulling = subscriber.subscribe(name, on_message, flow_control=brief)
    await asyncio.to_thread(publish, range(50))
    await service.kill()
    await service.start()
    await asyncio.to_thread(publish, range(50, 100))
    await asyncio.to_thread(wait_until, lambda: len(done) == 100)
    pulling.cancel()
    await asyncio.to_thread(pulling.result, TIMEOUT)
