"""A service that is killed in work of many steps, a seek or a publish to very many: the next one, or another instance, completes it, once."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, Stub
from faces.grpc.service import GrpcService
from harness.patience import TIMEOUT
from harness.processes.killed_lives import killed_itself, start_doomed

from pubqueue.faces.grpc.wire import v1 as m

TOPIC = "projects/shop/topics/orders"
BILL = "projects/shop/subscriptions/bill"
NAMES = [f"projects/shop/subscriptions/team-{number}" for number in range(5)]
EACH, COUNT = 500, 1_500
"""Messages of a publish, which are 2,500 copies for the teams in five slices; and of three steps of a seek."""
DATA = [b"%d" % number for number in range(COUNT)]


class Client:
    """Everything that a client does here, on a connection of its own."""

    def __init__(self, address):
        self._channel = grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self.publisher = Stub(self._channel, PUBLISHER)
        self.subscriber = Stub(self._channel, SUBSCRIBER)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self._channel.close()

    async def make(self, *names, **settings):
        await self.publisher.CreateTopic(name=TOPIC)
        for name in names:
            given = {"name": name, "topic": TOPIC, "ack_deadline_seconds": 600}
            await self.subscriber.CreateSubscription(**given, **settings)

    async def publish(self, data=tuple(DATA[:EACH])):
        messages = [m.PubsubMessage(data=one) for one in data]
        return (await self.publisher.Publish(topic=TOPIC, messages=messages)).message_ids

    async def pulled(self, name, count):
        """Return so many messages, and what is there besides."""
        found = []
        while len(found) < count:
            answer = await self.subscriber.Pull(subscription=name, max_messages=1_000)
            found += answer.received_messages
        return [*found, *await self.left(name)]

    async def left(self, name):
        named = {"subscription": name, "max_messages": 1_000}
        answer = await self.subscriber.Pull(**named, return_immediately=True)
        return answer.received_messages

    async def done(self):
        """Pull and acknowledge all, and see that each is there once."""
        found = await self.pulled(BILL, COUNT)
        for first in range(0, COUNT, EACH):
            ids = [one.ack_id for one in found[first : first + EACH]]
            await self.subscriber.Acknowledge(subscription=BILL, ack_ids=ids)
        assert sorted(int(one.message.data) for one in found) == [*range(COUNT)]

    async def seek(self, seconds):
        """Seek on, or back by so much that all that the test has published is newer."""
        moment = datetime.now(UTC) + timedelta(seconds=seconds)
        await self.subscriber.Seek(subscription=BILL, time=moment)


async def test_a_publish_is_answered_when_every_subscription_has_all_of_it(tmp_path):  # G6, G7
    async with (
        asyncio.timeout(TIMEOUT),
        GrpcService(tmp_path) as service,
        Client(service.address) as shop,
    ):
        await shop.make(*NAMES)
        ids = await shop.publish()
        for name in NAMES:
            found = [one.message for one in await shop.pulled(name, 0)]
            assert [one.data for one in found] == DATA[:EACH], "in their order"
            assert [one.message_id for one in found] == ids


STEPS = {
    "judged": ("written@LookAtFed", 1, 0),
    "not marked": ("written@MarkPublish", 1, 0),
    "marked": ("committed@MarkPublish", 1, EACH),
    "third slice not written": ("written@FeedSlice", 3, EACH),
    "third slice written": ("committed@FeedSlice", 3, EACH),
    "last slice written": ("committed@FeedSlice", 5, EACH),
}
"""Where the service is killed, at which passage, and how many messages are in each subscription afterwards."""


@pytest.mark.parametrize("step", STEPS)
async def test_killed_at_any_step_it_is_in_all_or_in_none(kept, tmp_path, step):  # G6, G46
    point, passage, count = STEPS[step]
    service = GrpcService(tmp_path, store=kept.address)
    async with asyncio.timeout(TIMEOUT):
        await start_doomed(service, point, passage)
        async with Client(service.address) as shop:
            await shop.make(*NAMES)
            with pytest.raises(grpc.aio.AioRpcError) as problem:
                await shop.publish()
        assert problem.value.code() is grpc.StatusCode.UNAVAILABLE
        await killed_itself(service)
        async with service, Client(service.address) as shop:
            for name in NAMES:
                found = [one.message.data for one in await shop.pulled(name, count)]
                assert found == DATA[:count]


async def killed_in_a_seek(service, point, passage, seconds):
    """Have everything done, or nothing, and the service killed in the middle of a seek back, or on."""
    await start_doomed(service, f"{point}@SeekItems", passage)
    async with Client(service.address) as client:
        await client.make(BILL, retain_acked_messages=True)
        for first in range(0, COUNT, EACH):
            await client.publish(DATA[first : first + EACH])
        if seconds < 0:
            await client.done()
        with pytest.raises(grpc.aio.AioRpcError):
            await client.seek(seconds)
    await killed_itself(service)


@pytest.mark.parametrize(("point", "passage"), [("written", 2), ("committed", 3), ("answering", 5)])
async def test_the_next_one_brings_the_rest_back(kept, tmp_path, point, passage):  # G38, G46
    service = GrpcService(tmp_path, store=kept.address)
    async with asyncio.timeout(TIMEOUT):
        await killed_in_a_seek(service, point, passage, -3_600)
        assert kept.recount().wrong == ()
        async with service, Client(service.address) as client:
            await client.done()
    assert kept.recount().wrong == ()


async def test_the_next_one_empties_the_rest(kept, tmp_path):  # G38, G46
    service = GrpcService(tmp_path, store=kept.address)
    async with asyncio.timeout(TIMEOUT):
        await killed_in_a_seek(service, "committed", 2, 60)
        async with service, Client(service.address) as client:
            while await client.left(BILL):
                pass
            await client.seek(-3_600)
            await client.done()
    assert kept.recount().wrong == ()


@pytest.mark.parametrize("kept", ["postgres"], indirect=True)
async def test_another_instance_goes_on(kept, tmp_path):  # G38, G51
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    one, other = (GrpcService(folder, store=kept.address) for folder in folders)
    async with asyncio.timeout(TIMEOUT), other:
        await killed_in_a_seek(one, "committed", 3, -3_600)
        async with Client(other.address) as client:
            await client.done()
    assert kept.recount().wrong == ()


async def test_exactly_once_nothing_comes_again_before_its_deadline(kept, tmp_path):  # G32, G46
    """And settings and labels are as they were."""
    async with asyncio.timeout(TIMEOUT), GrpcService(tmp_path, store=kept.address) as service:
        async with Client(service.address) as client:
            settings = {"enable_message_ordering": True, "labels": {"kept": "yes"}}
            await client.make(BILL, enable_exactly_once_delivery=True, **settings)
            await client.publish(DATA[:5])
            before = await client.subscriber.GetSubscription(subscription=BILL)
            ids = [one.ack_id for one in await client.pulled(BILL, 5)]
            assert len(ids) == 5
        await service.kill()
        await service.start()
        async with Client(service.address) as client:
            assert await client.subscriber.GetSubscription(subscription=BILL) == before
            assert not await client.left(BILL)
            await client.subscriber.Acknowledge(
                subscription=BILL, ack_ids=ids
            )  # fails if one is over
