"""What holds in both bindings, each by its own words: one topic and one queue lie under both."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from faces.grpc.clients import code_of
from grpc import StatusCode
from harness.patience import TIMEOUT, until

from pubqueue.faces.grpc.wire import tech as tech_messages
from pubqueue.faces.grpc.wire import v1 as v1_messages

OK, NOT_FOUND, EXISTS, INVALID = (
    StatusCode.OK,
    StatusCode.NOT_FOUND,
    StatusCode.ALREADY_EXISTS,
    StatusCode.INVALID_ARGUMENT,
)
MIB = 1 << 20


class V1:
    """The words of google.pubsub.v1."""

    topic, subscription = "projects/shop/topics/{}", "projects/shop/subscriptions/{}"
    nowhere = "waits for nothing, and has an empty answer"

    def __init__(self, stubs: SimpleNamespace) -> None:
        self._publisher, self._subscriber = stubs.publisher, stubs.subscriber

    def create_topic(self, name):
        return self._publisher.CreateTopic(name=name)

    def get_topic(self, name):
        return self._publisher.GetTopic(topic=name)

    def delete_topic(self, name):
        return self._publisher.DeleteTopic(topic=name)

    async def topics(self, size=0, token="", project="shop"):
        page = await self._publisher.ListTopics(
            project=f"projects/{project}", page_size=size, page_token=token
        )
        return [one.name for one in page.topics], page.next_page_token

    def create_subscription(self, name, topic, deadline=0, **fields):
        return self._subscriber.CreateSubscription(
            name=name, topic=topic, ack_deadline_seconds=deadline, **fields
        )

    def get_subscription(self, name):
        return self._subscriber.GetSubscription(subscription=name)

    def delete_subscription(self, name):
        return self._subscriber.DeleteSubscription(subscription=name)

    async def subscriptions(self, size=0, token="", project="shop"):
        page = await self._subscriber.ListSubscriptions(
            project=f"projects/{project}", page_size=size, page_token=token
        )
        return [one.name for one in page.subscriptions], page.next_page_token

    async def publish(self, topic, *data: bytes):
        messages = [v1_messages.PubsubMessage(data=one, attributes={"n": "1"}) for one in data]
        return list((await self._publisher.Publish(topic=topic, messages=messages)).message_ids)

    async def pull(self, name, count=1, *, wait=False) -> list[Any]:
        answer = await self._subscriber.Pull(
            subscription=name, max_messages=count, return_immediately=not wait
        )
        return [
            SimpleNamespace(ack=one.ack_id, data=one.message.data, id=one.message.message_id)
            for one in answer.received_messages
        ]

    def ack(self, name, *acks):
        return self._subscriber.Acknowledge(subscription=name, ack_ids=acks)

    def deadline(self, name, ack, seconds):
        return self._subscriber.ModifyAckDeadline(
            subscription=name, ack_ids=[ack], ack_deadline_seconds=seconds
        )

    def nack(self, name, ack):
        return self.deadline(name, ack, 0)


class Tech:
    """The words of tech.pubsub."""

    topic, subscription = "/topics/shop/{}", "shop/{}"

    def __init__(self, stubs: SimpleNamespace) -> None:
        self._publisher, self._subscriber = stubs.publisher, stubs.subscriber

    def create_topic(self, name):
        return self._publisher.CreateTopic(name=name)

    def get_topic(self, name):
        return self._publisher.GetTopic(topic=name)

    def delete_topic(self, name):
        return self._publisher.DeleteTopic(topic=name)

    async def topics(self, size=0, token="", project="shop"):
        query = f"cloud.googleapis.com/project in (/projects/{project})"
        page = await self._publisher.ListTopics(query=query, max_results=size, page_token=token)
        return [one.name for one in page.topic], page.next_page_token

    def create_subscription(self, name, topic, deadline=0, **fields):
        return self._subscriber.CreateSubscription(
            name=name, topic=topic, ack_deadline_seconds=deadline, **fields
        )

    def get_subscription(self, name):
        return self._subscriber.GetSubscription(subscription=name)

    def delete_subscription(self, name):
        return self._subscriber.DeleteSubscription(subscription=name)

    async def subscriptions(self, size=0, token="", project="shop"):
        query = f"cloud.googleapis.com/project in (/projects/{project})"
        page = await self._subscriber.ListSubscriptions(
            query=query, max_results=size, page_token=token
        )
        return [one.name for one in page.subscription], page.next_page_token

    async def publish(self, topic, *data: bytes):
        messages = [tech_messages.PubsubMessage(data=one) for one in data]
        done = await self._publisher.PublishBatch(topic=topic, messages=messages)
        return list(done.message_ids)

    async def pull(self, name, count=1, *, wait=False) -> list[Any]:
        answer = await self._subscriber.PullBatch(
            subscription=name, max_events=count, return_immediately=not wait
        )
        return [
            SimpleNamespace(
                ack=one.ack_id,
                data=one.pubsub_event.message.data,
                id=one.pubsub_event.message.message_id,
            )
            for one in answer.pull_responses
        ]

    def ack(self, name, *acks):
        return self._subscriber.Acknowledge(subscription=name, ack_id=acks)

    def deadline(self, name, ack, seconds):
        return self._subscriber.ModifyAckDeadline(
            subscription=name, ack_id=ack, ack_deadline_seconds=seconds
        )

    def nack(self, name, ack):
        return self._subscriber.Nack(subscription=name, ack_id=[ack])


@pytest.fixture(params=[V1, Tech])
def api(request, v1, tech):
    return request.param(v1 if request.param is V1 else tech)


@pytest.fixture
async def queue(api):
    """The names of a topic and a subscription of it."""
    topic, subscription = api.topic.format("orders"), api.subscription.format("bill")
    await api.create_topic(topic)
    await api.create_subscription(subscription, topic)
    return topic, subscription


async def test_a_topic_is_made_shown_listed_and_deleted(api):  # G1
    name = api.topic.format("orders")
    assert await code_of(api.get_topic(name)) is NOT_FOUND
    assert (await api.create_topic(name)).name == name
    assert await code_of(api.create_topic(name)) is EXISTS
    assert (await api.get_topic(name)).name == name
    assert await api.topics() == ([name], "")
    await api.delete_topic(name)
    assert await code_of(api.get_topic(name)) is NOT_FOUND
    assert await api.topics() == ([], "")
    assert await code_of(api.delete_topic(name)) is NOT_FOUND
    assert await code_of(api.publish(name, b"a")) is NOT_FOUND


async def test_what_is_not_there_is_not_found_in_each_rpc(api):  # G1
    name, topic = api.subscription.format("bill"), api.topic.format("orders")
    for call in (
        api.create_subscription(name, topic),
        api.get_subscription(name),
        api.delete_subscription(name),
        api.pull(name),
        api.ack(name, "a"),
        api.deadline(name, "a", 20),
        api.nack(name, "a"),
    ):
        assert await code_of(call) is NOT_FOUND


async def test_a_subscription_is_made_shown_listed_and_deleted(api, queue):  # G1, G23
    topic, name = queue
    shown = await api.get_subscription(name)
    assert (shown.name, shown.topic, shown.ack_deadline_seconds) == (name, topic, 10)
    assert await code_of(api.create_subscription(name, topic)) is EXISTS
    assert await api.subscriptions() == ([name], "")
    await api.publish(topic, b"a")
    await api.delete_subscription(name)
    assert await code_of(api.get_subscription(name)) is NOT_FOUND
    await api.create_subscription(name, topic)
    assert await api.pull(name) == [], "made anew it is empty"


async def test_what_is_no_name_is_refused(api):  # G2
    topic = api.topic.format("orders")
    await api.create_topic(topic)
    assert await code_of(api.create_topic(api.topic.format("x"))) is INVALID
    assert await code_of(api.create_topic("")) is INVALID
    assert await code_of(api.create_subscription("no name at all", topic)) is INVALID
    for deadline in (-1, 601):
        name = api.subscription.format("bill")
        assert await code_of(api.create_subscription(name, topic, deadline)) is INVALID
    assert (await api.topics(), await api.subscriptions()) == (([topic], ""), ([], ""))


async def test_pages_have_each_thing_once(api):  # G3
    names = [api.topic.format(f"t{n:02}") for n in range(7)]
    for name in names:
        await api.create_topic(name)
    await api.create_topic(api.topic.format("other").replace("shop", "elsewhere"))
    for n in range(3):
        await api.create_subscription(api.subscription.format(f"s{n:02}"), names[0])
    found, token = [], ""
    while True:
        some, token = await api.topics(3, token)
        assert len(some) <= 3
        found += some
        if not token:
            break
    assert found == names
    some, token = await api.topics(3)
    assert await code_of(api.subscriptions(3, token)) is INVALID, "a token of another list"
    assert await code_of(api.topics(3, "nonsense")) is INVALID
    some, token = await api.subscriptions(2)
    rest, end = await api.subscriptions(2, token)
    assert ([*some, *rest], end) == ([api.subscription.format(f"s{n:02}") for n in range(3)], "")


async def test_a_message_is_published_pulled_and_acknowledged(api, queue):  # G7, G20
    topic, name = queue
    ids = await api.publish(topic, b"a", b"b", b"c")
    assert ids == sorted(set(ids))
    found = await api.pull(name, 10)
    assert [(one.id, one.data) for one in found] == list(zip(ids, (b"a", b"b", b"c"), strict=True))
    await api.ack(name, *(one.ack for one in found))
    await api.ack(name, *(one.ack for one in found))
    assert await api.pull(name, 10) == []


async def test_every_subscription_has_every_message_under_the_same_id(api, queue):  # G6, G7, G13
    topic, name = queue
    other = api.subscription.format("ship")
    await api.create_subscription(other, topic)
    ids = await api.publish(topic, b"a")
    assert [one.id for one in await api.pull(name)] == ids
    assert [one.id for one in await api.pull(other)] == ids


async def test_a_batch_that_is_empty_or_too_long_is_refused(api, queue):  # G8
    topic, name = queue
    assert await code_of(api.publish(topic)) is INVALID
    assert await code_of(api.publish(topic, *[b"a"] * 1_001)) is INVALID
    assert await api.pull(name) == []


BODIES = [
    bytes(range(256)),
    b"\xff\xfe",
    b"a\0b",
    b"a\r\nb",
    b"<?xml version='1.0'?><a xmlns='b'/>",
    b"<a",
    b'{"a": 1}',
    b"",
    bytes(MIB),
]


@pytest.mark.parametrize("data", BODIES, ids=range(len(BODIES)))
async def test_data_of_every_kind_comes_byte_for_byte(api, queue, data):  # G9
    topic, name = queue
    await api.publish(topic, data)
    assert [one.data for one in await api.pull(name)] == [data]


async def test_what_is_too_large_is_refused_and_the_next_call_works(api, queue):  # G12
    topic, name = queue
    refused = {INVALID, StatusCode.RESOURCE_EXHAUSTED}
    for size in (11 * MIB, 21 * MIB):
        assert await code_of(api.publish(topic, bytes(size))) in refused
    await api.publish(topic, bytes(7 * MIB))
    assert [len(one.data) for one in await api.pull(name)] == [7 * MIB]


async def test_a_pull_that_waits_is_answered_by_a_publish(side, api, queue):  # G15
    topic, name = queue
    waiting = asyncio.ensure_future(api.pull(name, 5, wait=True))
    await until(lambda: side.broker.waiting.takes)
    await api.publish(topic, b"a")
    found = await asyncio.wait_for(waiting, TIMEOUT)
    assert [one.data for one in found] == [b"a"]


async def test_no_answer_has_more_than_asked_for(api, queue):  # G15
    topic, name = queue
    await api.publish(topic, *[b"a"] * 9)
    assert len(await api.pull(name, 4)) == 4
    assert len(await api.pull(name, 99)) == 5


async def test_several_pullers_get_each_message_once(api, queue):  # G17
    topic, name = queue
    await api.publish(topic, *[b"%d" % n for n in range(40)])
    found = await asyncio.gather(*(api.pull(name, 10) for _ in range(8)))
    assert sorted(int(one.data) for some in found for one in some) == list(range(40))


async def test_a_nack_gives_it_again_under_a_new_ack_id(api, queue):  # G18, G19, G22
    topic, name = queue
    await api.publish(topic, b"a")
    (first,) = await api.pull(name)
    assert await api.pull(name) == [], "it is outstanding"
    await api.nack(name, first.ack)
    (second,) = await api.pull(name, wait=True)
    assert second.ack != first.ack
    await api.ack(name, first.ack)
    await api.nack(name, first.ack)
    await api.ack(name, second.ack)
    assert await api.pull(name) == []


async def test_deadlines_are_moved_and_bounded(api, queue):  # G18
    topic, name = queue
    await api.publish(topic, b"a")
    (first,) = await api.pull(name)
    for wrong in (-1, 601):
        assert await code_of(api.deadline(name, first.ack, wrong)) is INVALID
    await api.deadline(name, first.ack, 1)
    (second,) = await asyncio.wait_for(api.pull(name, wait=True), TIMEOUT)
    assert (second.id, second.ack == first.ack) == (first.id, False)


async def test_a_late_ack_counts_until_another_has_the_item(side, api, queue):  # G21
    topic, name = queue
    await api.publish(topic, b"a")
    (first,) = await api.pull(name)
    await api.nack(name, first.ack)
    await api.ack(name, first.ack)
    assert await api.pull(name) == []


async def test_ack_ids_that_are_worthless_are_no_errors(api, queue):  # G21, G22
    topic, name = queue
    other = api.subscription.format("ship")
    await api.create_subscription(other, topic)
    await api.publish(topic, b"a")
    (mine,) = await api.pull(name)
    for worthless in ("", "a", "????", mine.ack[:-1], "a" * 9_000):
        assert await code_of(api.ack(name, worthless)) is OK
        assert await code_of(api.nack(name, worthless)) is OK
    await api.ack(other, mine.ack)
    assert len(await api.pull(other)) == 1, "an ack id of another subscription does nothing"
    await api.nack(name, mine.ack)
    assert len(await api.pull(name, wait=True)) == 1


async def test_a_waiting_pull_of_a_subscription_that_is_deleted_ends(side, api, queue):  # G23
    _, name = queue
    waiting = asyncio.ensure_future(api.pull(name, wait=True))
    await until(lambda: side.broker.waiting.takes)
    await api.delete_subscription(name)
    assert await code_of(waiting) is NOT_FOUND


async def test_a_cancelled_pull_loses_nothing(side, api, queue):  # G16
    topic, name = queue
    waiting = asyncio.ensure_future(api.pull(name, wait=True))
    await until(lambda: side.broker.waiting.takes)
    waiting.cancel()
    await until(lambda: not side.broker.waiting.takes)
    await api.publish(topic, b"a")
    assert len(await api.pull(name)) == 1


async def test_one_binding_publishes_and_the_other_pulls(v1, tech):  # G1
    first, second = V1(v1), Tech(tech)
    await first.create_topic("projects/shop/topics/orders")
    await second.create_subscription("shop/bill", "/topics/shop/orders")
    await first.publish("projects/shop/topics/orders", b"a")
    await second.publish("/topics/shop/orders", b"b")
    (one,) = await second.pull("shop/bill")
    assert one.data == b"a"
    await first.ack("projects/shop/subscriptions/bill", one.ack)
    assert [one.data for one in await first.pull("projects/shop/subscriptions/bill")] == [b"b"]
