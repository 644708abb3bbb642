"""A service that is killed in the middle of a Seek: the next one, or another instance, brings back all that is retained, and each once."""

from __future__ import annotations

import asyncio
import signal
import sys
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, Stub
from faces.grpc.service import GrpcService
from harness.patience import TIMEOUT
from harness.processes import doomed
from harness.processes.program import PUBQUEUE
from harness.stores.kept import KeptInFile, KeptInPostgres

from pubqueue.faces.grpc.wire.messages import v1 as m

TOPIC, BILL = "projects/shop/topics/orders", "projects/shop/subscriptions/bill"
EACH, COUNT = 500, 1_500
"""Messages of a publish, and of three steps of a seek."""


class Client:
    """Everything that a client does here, on a connection of its own."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.aio.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self.publisher = Stub(self.channel, PUBLISHER)
        self.subscriber = Stub(self.channel, SUBSCRIBER)

    async def prepare(self) -> None:
        await self.publisher.CreateTopic(name=TOPIC)
        await self.subscriber.CreateSubscription(
            name=BILL, topic=TOPIC, retain_acked_messages=True, ack_deadline_seconds=600
        )
        for first in range(0, COUNT, EACH):
            messages = [m.PubsubMessage(data=b"%d" % n) for n in range(first, first + EACH)]
            await self.publisher.Publish(topic=TOPIC, messages=messages)

    async def done(self, count: int = COUNT) -> list[int]:
        """Pull and acknowledge so many messages, and return their numbers."""
        found: list[int] = []
        while len(found) < count:
            answer = await self.subscriber.Pull(subscription=BILL, max_messages=1_000)
            ids = [one.ack_id for one in answer.received_messages]
            await self.subscriber.Acknowledge(subscription=BILL, ack_ids=ids)
            found += [int(one.message.data) for one in answer.received_messages]
        return sorted(found)

    async def seek(self, seconds: int) -> None:
        moment = datetime.now(UTC) + timedelta(seconds=seconds)
        await self.subscriber.Seek(subscription=BILL, time=moment)

    async def left(self) -> int:
        answer = await self.subscriber.Pull(
            subscription=BILL, max_messages=1_000, return_immediately=True
        )
        return len(answer.received_messages)


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request, tmp_path):
    if request.param == "sqlite":
        return KeptInFile(tmp_path / "pubqueue.db")
    return KeptInPostgres(request.getfixturevalue("postgres"))


async def killed_in_a_seek(service: GrpcService, point: str, passage: int, seconds: int) -> None:
    """Have everything done, or nothing, and the service killed in the middle of a seek back, or on."""
    service.command = (sys.executable, "-I", doomed.__file__, f"{point}@SeekItems", f"{passage}")
    await service.start()
    client = Client(service.address)
    await client.prepare()
    if seconds < 0:
        assert await client.done() == list(range(COUNT))
    with pytest.raises(grpc.aio.AioRpcError):
        await client.seek(seconds)
    assert await service.ended() == -signal.SIGKILL
    await client.channel.close()


@pytest.mark.parametrize(("point", "passage"), [("written", 2), ("committed", 3), ("answering", 5)])
async def test_the_next_one_brings_the_rest_back(kept, tmp_path, point, passage):  # G38, G46
    service = GrpcService(tmp_path, store=kept.address)
    async with asyncio.timeout(TIMEOUT):
        await killed_in_a_seek(service, point, passage, -60)
        assert kept.recount().wrong == ()
        service.command = (PUBQUEUE,)
        async with service:
            client = Client(service.address)
            assert await client.done() == list(range(COUNT))
            assert await client.left() == 0
            await client.channel.close()
    assert kept.recount().wrong == ()


async def test_the_next_one_empties_the_rest(kept, tmp_path):  # G38, G46
    service = GrpcService(tmp_path, store=kept.address)
    async with asyncio.timeout(TIMEOUT):
        await killed_in_a_seek(service, "committed", 2, 60)
        service.command = (PUBQUEUE,)
        async with service:
            client = Client(service.address)
            while await client.left():
                pass
            await client.seek(-60)
            assert await client.done() == list(range(COUNT))
            await client.channel.close()
    assert kept.recount().wrong == ()


async def test_another_instance_goes_on(postgres, tmp_path):  # G38, G51
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    one, other = (GrpcService(folder, store=KeptInPostgres(postgres).address) for folder in folders)
    async with asyncio.timeout(TIMEOUT):
        async with other:
            await killed_in_a_seek(one, "committed", 3, -60)
            client = Client(other.address)
            assert await client.done() == list(range(COUNT))
            assert await client.left() == 0
            await client.channel.close()
    assert KeptInPostgres(postgres).recount().wrong == ()
