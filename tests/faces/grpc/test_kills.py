"""kill -9 at any moment, on both stores: what was published is there, what was acknowledged does not come again, settings stay."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress

import grpc
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, Stub
from faces.grpc.service import GrpcService
from harness.patience import TIMEOUT, until

from pubqueue.faces.grpc.wire.messages import v1 as m

TOPIC, BILL = "projects/shop/topics/orders", "projects/shop/subscriptions/{}"
NAMES = (BILL.format("bill"), BILL.format("ordered"))
ROUNDS, BATCH = 4, 30


class Work:
    """A publisher and workers that go on whatever happens, and what they know."""

    def __init__(self, address: str) -> None:
        options = [("grpc.initial_reconnect_backoff_ms", 20), ("grpc.max_reconnect_backoff_ms", 50)]
        self.channel = grpc.aio.insecure_channel(address, options)
        self.publisher = Stub(self.channel, PUBLISHER)
        self.subscriber = Stub(self.channel, SUBSCRIBER)
        self.published: set[bytes] = set()
        self.acked: dict[str, Counter[bytes]] = {name: Counter() for name in NAMES}
        self.ended: dict[str, set[str]] = {name: set() for name in NAMES}
        self.again: dict[str, set[str]] = {name: set() for name in NAMES}
        self.order: list[bytes] = []
        self._number = 0

    async def publish(self) -> None:
        """Publish a batch, again and again until it is confirmed; a batch that was published and not confirmed is there twice."""
        batch = [b"%06d" % (self._number + n) for n in range(BATCH)]
        self._number += BATCH
        messages = [m.PubsubMessage(data=one, ordering_key="key") for one in batch]
        await self.persist(lambda: self.publisher.Publish(topic=TOPIC, messages=messages))
        self.published.update(batch)

    async def persist(self, call):
        async with asyncio.timeout(TIMEOUT):
            while True:
                try:
                    return await call()
                except grpc.aio.AioRpcError as problem:
                    if problem.code() is not grpc.StatusCode.UNAVAILABLE:
                        raise

    async def work(self, name: str) -> None:
        """Pull and acknowledge; an ack that is confirmed is for good."""
        while True:
            answer = await self.persist(
                lambda: self.subscriber.Pull(subscription=name, max_messages=10)
            )
            came = {one.message.message_id for one in answer.received_messages}
            self.again[name] |= came & self.ended[name]
            ids = [one.ack_id for one in answer.received_messages]
            await self.persist(
                lambda ids=ids: self.subscriber.Acknowledge(subscription=name, ack_ids=ids)
            )
            self.ended[name] |= came
            for one in answer.received_messages:
                self.acked[name][one.message.data] += 1
                if name == NAMES[1]:
                    self.order.append(one.message.data)

    def is_done(self) -> bool:
        return all(self.published <= set(acked) for acked in self.acked.values())


async def test_nothing_is_lost_and_nothing_that_was_acknowledged_comes_again(
    kept, tmp_path
):  # G6, G20, G33, G46
    service = GrpcService(tmp_path, store=kept.address)
    dice = random.Random(7)
    async with service:
        service.stay()
        work = Work(service.address)
        await work.publisher.CreateTopic(name=TOPIC)
        for name in NAMES:
            await work.subscriber.CreateSubscription(
                name=name,
                topic=TOPIC,
                enable_message_ordering=name == NAMES[1],
                labels={"kept": "yes"},
                ack_deadline_seconds=10,
            )
        before = [await work.subscriber.GetSubscription(subscription=name) for name in NAMES]
        working = [asyncio.create_task(work.work(name)) for name in NAMES for _ in range(2)]
        for _ in range(ROUNDS):
            publishing = asyncio.create_task(work.publish())
            some = dice.randrange(BATCH)
            await until(
                lambda: publishing.done() or sum(map(len, work.acked.values())) >= some  # noqa: B023  # awaited here
            )
            await service.kill()
            await service.start()
            await publishing
        async with asyncio.timeout(TIMEOUT):
            while not work.is_done():
                done, _ = await asyncio.wait(working, timeout=0.05)
                assert not done
        after = [await work.subscriber.GetSubscription(subscription=name) for name in NAMES]
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        with suppress(grpc.aio.AioRpcError):
            await work.channel.close()
    assert after == before
    assert work.again == {name: set() for name in NAMES}, "what was acknowledged came again"
    firsts = list(dict.fromkeys(work.order))
    assert [data for data in firsts if data in work.published] == sorted(work.published)


async def test_exactly_once_nothing_comes_again_before_its_deadline(kept, tmp_path):  # G32
    async with GrpcService(tmp_path, store=kept.address) as service:
        service.stay()
        work = Work(service.address)
        name = NAMES[0]
        await work.publisher.CreateTopic(name=TOPIC)
        await work.subscriber.CreateSubscription(
            name=name, topic=TOPIC, enable_exactly_once_delivery=True, ack_deadline_seconds=600
        )
        messages = [m.PubsubMessage(data=b"%d" % n) for n in range(5)]
        await work.publisher.Publish(topic=TOPIC, messages=messages)
        answer = await work.subscriber.Pull(subscription=name, max_messages=9)
        ids = [one.ack_id for one in answer.received_messages]
        assert len(ids) == 5
        await service.kill()
        await service.start()
        empty = await work.persist(
            lambda: work.subscriber.Pull(subscription=name, max_messages=9, return_immediately=True)
        )
        assert not empty.received_messages
        await work.subscriber.Acknowledge(subscription=name, ack_ids=ids)  # fails if one is over
        await work.channel.close()
