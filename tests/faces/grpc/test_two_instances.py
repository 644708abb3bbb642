"""Two instances on one store: what one publishes the other delivers, and what a dead one has delivered comes again after its deadline."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from functools import partial

import grpc
import pytest
from faces.contract import make_store
from faces.grpc import clients
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, Stub, code_of
from faces.sides import two_sides
from grpc import StatusCode
from harness.patience import TIMEOUT, until
from harness.servers.users import RIGHT, SERVICE

from pubqueue.faces.grpc.wire import class_of
from pubqueue.faces.grpc.wire import v1 as m
from pubqueue.model.entities import Affiliation, Jid, NodeName, Principal
from pubqueue.rules.discovery import Describe
from pubqueue.rules.nodes import SetAffiliations

__all__ = ["make_store"]

FieldMask = class_of("google.protobuf.FieldMask")
TOPIC, BILL = "projects/shop/topics/orders", "projects/shop/subscriptions/bill"


class Instance:
    def __init__(self, side, channel):
        self.side = side
        self.publisher, self.subscriber = Stub(channel, PUBLISHER), Stub(channel, SUBSCRIBER)

    async def publish(self, *data):
        messages = [m.PubsubMessage(data=one) for one in data]
        await self.publisher.Publish(topic=TOPIC, messages=messages)

    async def pull(self, *, wait=False):
        answer = await self.subscriber.Pull(
            subscription=BILL, max_messages=9, return_immediately=not wait
        )
        return answer.received_messages


@pytest.fixture
async def both(make_store):
    async with two_sides(make_store, partial(clients.a_face)) as sides:
        await until(lambda: all(side.face.addresses for side in sides))
        channels = [
            grpc.aio.insecure_channel(f"127.0.0.1:{side.face.addresses[0][1]}") for side in sides
        ]
        one, other = map(Instance, sides, channels)
        await one.publisher.CreateTopic(name=TOPIC)
        await one.subscriber.CreateSubscription(name=BILL, topic=TOPIC)
        yield one, other
        for channel in channels:
            await channel.close()
        for side in sides:
            await side.face.stop()  # one that was killed in a test has not closed its sockets


async def test_what_one_publishes_a_pull_at_the_other_gets(both):  # G51
    one, other = both
    waiting = asyncio.ensure_future(other.pull(wait=True))
    await until(lambda: other.side.broker.waiting.takes)
    await one.publish(b"a")
    (found,) = await asyncio.wait_for(waiting, TIMEOUT)
    await one.subscriber.Acknowledge(subscription=BILL, ack_ids=[found.ack_id])
    assert not await one.pull(), "an ack id is good at every instance"


async def test_a_stream_at_the_other_gets_it_too(both):  # G51
    one, other = both
    first = m.StreamingPullRequest(subscription=BILL, stream_ack_deadline_seconds=10)
    hold = asyncio.Event()

    async def requests():
        yield first
        await hold.wait()

    stream = other.subscriber.StreamingPull(requests())
    await until(lambda: other.side.broker.waiting.takes)
    await one.publish(b"a")
    answer = await asyncio.wait_for(stream.read(), TIMEOUT)
    assert [found.message.data for found in answer.received_messages] == [b"a"]
    assert not await one.pull(), "each message to one"
    hold.set()
    stream.cancel()


async def test_what_a_dead_instance_has_delivered_stays_its_clients_to_the_deadline(both):  # G51
    one, other = both
    await one.publish(b"a", b"b")
    held = await other.pull()
    await other.side.kill()
    await one.side.broker.settled()
    assert not await one.pull(), "not before their deadlines"
    await one.subscriber.Acknowledge(subscription=BILL, ack_ids=[held[0].ack_id])
    await one.subscriber.ModifyAckDeadline(
        subscription=BILL, ack_ids=[held[1].ack_id], ack_deadline_seconds=1
    )
    (again,) = await asyncio.wait_for(one.pull(wait=True), TIMEOUT)
    assert again.message.data == b"b"


async def test_rights_that_end_at_one_end_at_the_other_with_the_next_call(both):  # G40, G51
    one, other = both
    by, jid = Principal(Jid(f"etl@{SERVICE}")), Jid(f"bee@{SERVICE}")
    await one.side.broker.handle(SetAffiliations(by, NodeName(BILL), ((jid, Affiliation.MEMBER),)))
    proof = b64encode(f"bee:{RIGHT}".encode()).decode()
    other.subscriber.metadata = [("authorization", f"Basic {proof}")]
    await one.publish(b"a", b"b")
    answer = await other.subscriber.Pull(subscription=BILL, max_messages=1)
    await one.side.broker.handle(SetAffiliations(by, NodeName(BILL), ((jid, Affiliation.NONE),)))
    ids = [found.ack_id for found in answer.received_messages]
    done = other.subscriber.Acknowledge(subscription=BILL, ack_ids=ids)
    assert await code_of(done) is StatusCode.NOT_FOUND
    pulled = other.subscriber.Pull(subscription=BILL, max_messages=1)
    assert await code_of(pulled) is StatusCode.NOT_FOUND
    left = await one.side.broker.handle(Describe(by, NodeName(BILL), manage=True))
    assert left.node.items == 2


async def test_a_subscription_that_is_gone_at_one_is_gone_at_the_other(both):  # G51
    one, other = both
    assert not await other.pull()
    await one.subscriber.DeleteSubscription(subscription=BILL)
    assert await code_of(other.pull()) is StatusCode.NOT_FOUND
    await one.publisher.CreateTopic(name=TOPIC + "2")
    await one.subscriber.CreateSubscription(name=BILL, topic=TOPIC + "2")
    assert not await other.pull()


async def test_updates_of_two_settings_at_once_both_hold(both):  # G37
    one, other = both
    for number in range(10):
        given = m.Subscription(
            name=BILL,
            topic=TOPIC,
            labels={"n": f"{number}"},
            enable_exactly_once_delivery=number % 2 == 0,
        )
        updates = [
            at.subscriber.UpdateSubscription(subscription=given, update_mask=FieldMask(paths=[it]))
            for at, it in ((one, "labels"), (other, "enable_exactly_once_delivery"))
        ]
        await asyncio.gather(*updates)
        found = await one.subscriber.GetSubscription(subscription=BILL)
        assert dict(found.labels) == {"n": f"{number}"}
        assert found.enable_exactly_once_delivery is (number % 2 == 0)
