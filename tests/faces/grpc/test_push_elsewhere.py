"""A push configuration that is set at one instance is in effect at the others at once: no worker waits for its next look."""

from __future__ import annotations

from base64 import b64decode
from functools import partial

import grpc
import pytest
from faces.contract import make_store
from faces.grpc import clients
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, Stub
from faces.grpc.hooks import a_hook
from faces.sides import two_sides
from harness.patience import TIMEOUT, until

from pubqueue.faces.grpc import endpoints, push
from pubqueue.faces.grpc.settings import GrpcSettings
from pubqueue.faces.grpc.wire import v1 as m
from pubqueue.faces.push import worker
from pubqueue.model.entities import NodeName
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure

__all__ = ["make_store"]

TOPIC, BILL = "projects/shop/topics/orders", "projects/shop/subscriptions/bill"
NEVER = 10.0 * TIMEOUT


class Instance:
    def __init__(self, side, channel):
        self.side, self.pushers = side, side.face.pushers
        self.publisher, self.subscriber = Stub(channel, PUBLISHER), Stub(channel, SUBSCRIBER)

    async def publish(self, data):
        await self.publisher.Publish(topic=TOPIC, messages=[m.PubsubMessage(data=data)])

    async def push_to(self, url):
        config = m.PushConfig(push_endpoint=url)
        await self.subscriber.ModifyPushConfig(subscription=BILL, push_config=config)

    async def pushes_to(self, *urls):
        """Wait until it has a worker that waits for items, and pushes there; or none."""
        await until(lambda: self.pushers.targets == [*urls])
        await until(lambda: self.side.broker.waiting.takes == len(urls))


@pytest.fixture
async def hooks():
    async with a_hook() as one, a_hook() as other:
        yield one, other


@pytest.fixture
async def both(make_store, monkeypatch):
    monkeypatch.setattr(push, "RESCAN", NEVER)
    monkeypatch.setattr(worker, "WAIT", NEVER)
    face = partial(clients.a_face, settings=GrpcSettings(anonymous="etl", push_to=("127.0.0.1:*",)))
    async with two_sides(make_store, face) as sides:
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


async def data(hook):
    return b64decode((await hook.next())["message"]["data"])


async def test_what_is_set_at_one_is_pushed_by_the_other(both, hooks):  # G26
    one, other = both
    await one.push_to(hooks[0].url)
    await other.pushes_to(hooks[0].url)
    await one.pushers.stop()
    await one.publish(b"a")
    assert await data(hooks[0]) == b"a"


async def test_another_endpoint_gets_what_is_published_then(both, hooks):  # G26
    one, _ = both
    for hook in hooks:
        await one.push_to(hook.url)
        for each in both:
            await each.pushes_to(hook.url)
    await one.pushers.stop()
    await one.publish(b"a")
    assert await data(hooks[1]) == b"a"
    assert hooks[0].got.empty()


async def test_without_an_endpoint_no_instance_pushes(both, hooks):  # G26
    one, other = both
    for urls in ([hooks[0].url], []):
        await one.push_to("".join(urls))
        for each in both:
            await each.pushes_to(*urls)
    await one.publish(b"a")
    found = await other.subscriber.Pull(subscription=BILL, max_messages=9)
    assert [each.message.data for each in found.received_messages] == [b"a"]
    assert hooks[0].got.empty()


async def test_a_deleted_subscription_has_no_worker_anywhere(both, hooks):  # G26
    one, other = both
    await one.push_to(hooks[0].url)
    for each in both:
        await each.pushes_to(hooks[0].url)
    await other.subscriber.DeleteSubscription(subscription=BILL)
    for each in both:
        await each.pushes_to()


async def test_what_an_owner_writes_by_a_form_counts_too(both, hooks):  # G26
    one, _ = both
    by, node = one.side.face.service, NodeName(BILL)
    for urls in ([hooks[0].url], []):
        labels = "".join(f"{endpoints.PUSH}={endpoints.written(url, {})}" for url in urls)
        await one.side.broker.handle(Configure(by, node, Settings({"labels": labels})))
        for each in both:
            await each.pushes_to(*urls)
