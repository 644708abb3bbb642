"""A publish to more subscriptions than one commit may: answered when all have it, and killed at any step it is in all of them or in none."""

from __future__ import annotations

import asyncio
import signal
import sys

import grpc
import pytest
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, Stub
from faces.grpc.service import GrpcService
from harness.patience import TIMEOUT
from harness.processes import doomed
from harness.stores.kept import KeptInFile

from pubqueue.faces.grpc.wire.messages import v1 as m

TOPIC = "projects/shop/topics/orders"
NAMES = [f"projects/shop/subscriptions/team-{number}" for number in range(5)]
DATA = [b"%03d" % number for number in range(500)]
"""2,500 copies: five slices."""

STEPS = {
    "judged": ("written@LookAtFed", 1, 0),
    "not marked": ("written@MarkPublish", 1, 0),
    "marked": ("committed@MarkPublish", 1, len(DATA)),
    "third slice not written": ("written@FeedSlice", 3, len(DATA)),
    "third slice written": ("committed@FeedSlice", 3, len(DATA)),
    "last slice written": ("committed@FeedSlice", 5, len(DATA)),
}
"""Where the service is killed, at which passage, and how many messages are in each subscription afterwards."""


class Shop:
    def __init__(self, address):
        self._channel = grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self.publisher = Stub(self._channel, PUBLISHER)
        self.subscriber = Stub(self._channel, SUBSCRIBER)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self._channel.close()

    async def furnish(self):
        await self.publisher.CreateTopic(name=TOPIC)
        for name in NAMES:
            await self.subscriber.CreateSubscription(
                name=name, topic=TOPIC, ack_deadline_seconds=600
            )

    async def publish(self):
        messages = [m.PubsubMessage(data=one) for one in DATA]
        return (await self.publisher.Publish(topic=TOPIC, messages=messages)).message_ids

    async def pulled(self, name, count):
        """Return so many messages, and what is there besides."""
        found = []
        while len(found) < count:
            answer = await self.subscriber.Pull(subscription=name, max_messages=1_000)
            found += answer.received_messages
        rest = await self.subscriber.Pull(
            subscription=name, max_messages=1_000, return_immediately=True
        )
        return [one.message for one in (*found, *rest.received_messages)]


@pytest.fixture
def in_file(tmp_path):
    return KeptInFile(tmp_path / "pubqueue.db")


async def test_it_is_answered_when_every_subscription_has_all_of_it(in_file, tmp_path):  # G6, G7
    async with (
        asyncio.timeout(TIMEOUT),
        GrpcService(tmp_path, store=in_file.address) as service,
        Shop(service.address) as shop,
    ):
        await shop.furnish()
        ids = await shop.publish()
        for name in NAMES:
            found = await shop.pulled(name, 0)
            assert [one.data for one in found] == DATA, "in their order"
            assert [one.message_id for one in found] == ids


@pytest.mark.parametrize("step", STEPS)
async def test_killed_at_any_step_it_is_in_all_or_in_none(kept, tmp_path, step):  # G6, G46
    point, passage, count = STEPS[step]
    command = (sys.executable, "-I", doomed.__file__, point, f"{passage}")
    async with asyncio.timeout(TIMEOUT):
        service = GrpcService(tmp_path, store=kept.address, command=command)
        await service.start()
        async with Shop(service.address) as shop:
            await shop.furnish()
            with pytest.raises(grpc.aio.AioRpcError) as problem:
                await shop.publish()
        assert problem.value.code() is grpc.StatusCode.UNAVAILABLE
        assert await service.ended() == -signal.SIGKILL
        async with GrpcService(tmp_path, store=kept.address) as again, Shop(again.address) as shop:
            for name in NAMES:
                assert [one.data for one in await shop.pulled(name, count)] == DATA[:count]
