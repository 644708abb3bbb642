"""A queue that workers of another protocol share with streams and pulls: one line, and failures that count for both."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from faces.grpc import clients
from harness.batches.toy_face import LineFace
from harness.patience import until
from harness.servers.users import SERVICE
from harness.stores.store_reader import StoreReader

from pubqueue.faces.grpc.wire import v1 as m
from pubqueue.model.entities import Affiliation, ItemId, Jid, Principal
from pubqueue.rules.nodes import SetAffiliations
from pubqueue.rules.subscribe import Options, Subscribe

TOPIC, BILL = "projects/shop/topics/orders", "projects/shop/subscriptions/bill"
ETL, BEE = Principal(Jid(f"etl@{SERVICE}")), Jid(f"bee@{SERVICE}")


@pytest.fixture
def lines():
    """The faces of the other protocol, as they are made."""
    return []


@pytest.fixture
def make_face(lines):
    def make(broker):
        lines.append(LineFace(broker, service=SERVICE))
        lines[0].largest = 1_000
        broker.outbox.least = 1_000
        lines[0].go_up()
        return clients.a_face(broker)

    return make


@pytest.fixture
async def worker(side, v1, lines):
    """A worker of the other protocol, with a window of three."""
    await v1.publisher.CreateTopic(name=TOPIC)
    await v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC)
    entries = ((BEE, Affiliation.MEMBER),)
    await side.broker.handle(SetAffiliations(ETL, BILL, entries))
    line = lines[0].connect("bee")
    by = Principal(line.address)
    await side.broker.handle(Subscribe(by, BILL, line.address, "s", Options(3)))
    return line


def publish(v1, *data):
    messages = [m.PubsubMessage(data=one) for one in data]
    return v1.publisher.Publish(topic=TOPIC, messages=messages)


async def test_each_item_is_done_once_by_either(side, v1, worker):  # G41
    done: Counter[str] = Counter()

    async def work():
        while True:
            words = (await worker.hear()).split(" ")
            if words[0] == "ITEM":
                worker.say(f"DONE {words[1]} {words[2]}")
                done[words[2]] += 1

    async def pull():
        while True:
            answer = await v1.subscriber.Pull(subscription=BILL, max_messages=3)
            ids = [one.ack_id for one in answer.received_messages]
            await v1.subscriber.Acknowledge(subscription=BILL, ack_ids=ids)
            done.update(one.message.message_id for one in answer.received_messages)

    ids = set()
    for n in range(5):
        ids.update((await publish(v1, *[b"%d" % n] * 8)).message_ids)
    tasks = [asyncio.create_task(one()) for one in (work, pull)]
    await until(lambda: len(done) == 40)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert done == Counter(ids)


async def test_what_is_too_large_for_the_other_goes_to_grpc_and_stops_nothing(
    side, v1, worker
):  # G42
    done = await publish(v1, bytes(5_000), b"small")
    await side.broker.settled()
    heard = await worker.hear()
    assert done.message_ids[1] in heard
    answer = await v1.subscriber.Pull(subscription=BILL, max_messages=9)
    assert [len(one.message.data) for one in answer.received_messages] == [5_000]


async def test_a_nack_counts_for_both(side, v1, worker):  # G41
    (name,) = (await publish(v1, bytes(5_000))).message_ids
    answer = await v1.subscriber.Pull(subscription=BILL, max_messages=1)
    ids = [one.ack_id for one in answer.received_messages]
    await v1.subscriber.ModifyAckDeadline(subscription=BILL, ack_ids=ids, ack_deadline_seconds=0)
    item = await side.store.read(lambda tx: StoreReader(tx).item(BILL, ItemId(name)))
    assert item.failed == 1


async def test_a_thousand_messages_are_done_although_a_puller_dies(side, v1):  # G47
    await v1.publisher.CreateTopic(name=TOPIC)
    await v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC, ack_deadline_seconds=10)
    ids = set((await publish(v1, *[b"%d" % n for n in range(1_000)])).message_ids)
    acked: Counter[str] = Counter()

    async def pull(*, dies):
        while len(acked) < 1_000:
            answer = await v1.subscriber.Pull(subscription=BILL, max_messages=50)
            found = answer.received_messages
            some = [one.ack_id for one in found]
            if dies:
                await v1.subscriber.ModifyAckDeadline(  # so that the test does not wait for long
                    subscription=BILL, ack_ids=some, ack_deadline_seconds=1
                )
                return
            await v1.subscriber.Acknowledge(subscription=BILL, ack_ids=some)
            acked.update(one.message.message_id for one in found)

    tasks = [asyncio.create_task(pull(dies=n == 0)) for n in range(4)]
    await until(lambda: len(acked) == 1_000)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert acked == Counter(ids)
