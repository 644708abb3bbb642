"""StreamingPull: credit, several streams, acknowledgements by any way, and ends; and what operators see of streams."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from faces.contract import stored
from faces.grpc.clients import SUBSCRIBER, Stub, silent
from faces.grpc.test_callers import basic
from grpc import StatusCode
from harness.batches.facts import who
from harness.patience import TIMEOUT, until
from harness.servers.users import SERVICE
from msgspec.structs import replace

from pubqueue.faces.grpc.calls import Call
from pubqueue.faces.grpc.streaming import streaming_pull
from pubqueue.faces.grpc.wire import ResourceKind, node_of
from pubqueue.faces.grpc.wire import v1 as m
from pubqueue.model.decision import Refusal
from pubqueue.model.entities import Jid, NodeName
from pubqueue.model.replies import ConnectionEnded, Quieted
from pubqueue.rules.inspect import EndConnection, ReadConnections
from pubqueue.rules.settle_each import SettleEach
from pubqueue.rules.subscribers import QuietWorker

TOPIC, BILL = "projects/shop/topics/orders", "projects/shop/subscriptions/bill"
INVALID = StatusCode.INVALID_ARGUMENT


class Stream:
    """A stream to a subscription: what comes is kept in the order in which it came."""

    def __init__(self, v1, **first) -> None:
        said = {"subscription": BILL, "stream_ack_deadline_seconds": 60} | first
        self._requests: asyncio.Queue[m.StreamingPullRequest | None] = asyncio.Queue()
        self.say(**said)
        self.call = v1.subscriber.StreamingPull(self._said())
        self.messages = []
        self.confirmed = []
        self.properties = []
        self._reading = asyncio.create_task(self._read())

    async def _said(self):
        while (request := await self._requests.get()) is not None:
            yield request

    async def _read(self):
        async for answer in self.call:
            self.messages += answer.received_messages
            self.properties.append(answer.subscription_properties)
            if answer.HasField("acknowledge_confirmation") or answer.HasField(
                "modify_ack_deadline_confirmation"
            ):
                self.confirmed.append(answer)

    def say(self, **fields):
        self._requests.put_nowait(m.StreamingPullRequest(**fields))

    def half_close(self):
        self._requests.put_nowait(None)

    @property
    def data(self):
        return [one.message.data for one in self.messages]

    async def has(self, count):
        """Wait until so many messages have come, and return their data."""
        await until(lambda: len(self.messages) >= count or self._reading.done())
        return self.data

    async def ends(self):
        """Return the code with which it ends."""
        async with asyncio.timeout(TIMEOUT):
            try:
                await self._reading
            except grpc.aio.AioRpcError as problem:
                return problem.code()
            return await self.call.code()

    async def close(self):
        self.call.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


@pytest.fixture
async def queue(v1):
    await v1.publisher.CreateTopic(name=TOPIC)
    await v1.subscriber.CreateSubscription(name=BILL, topic=TOPIC)


@pytest.fixture
async def open_stream(v1, queue):
    made = []

    def opened(**first):
        made.append(Stream(v1, **first))
        return made[-1]

    yield opened
    for one in made:
        await one.close()


async def publish(v1, *data, **fields):
    messages = [m.PubsubMessage(data=one, **fields) for one in data]
    return list((await v1.publisher.Publish(topic=TOPIC, messages=messages)).message_ids)


async def open_messages(v1):
    """Return what is there to be pulled at once."""
    found = await v1.subscriber.Pull(subscription=BILL, max_messages=9, return_immediately=True)
    return [one.message.data for one in found.received_messages]


async def quiet(side, v1):
    """Wait until nothing is under way, and then for answers that come behind all that was sent before: what has not come waits for something."""
    for _ in range(3):
        await side.broker.settled()
        await v1.subscriber.GetSubscription(subscription=BILL)


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ({"subscription": ""}, INVALID),
        ({"stream_ack_deadline_seconds": 9}, INVALID),
        ({"stream_ack_deadline_seconds": 601}, INVALID),
        ({"subscription": "nonsense"}, INVALID),
        ({"subscription": BILL + "x"}, StatusCode.NOT_FOUND),
    ],
)
async def test_a_first_request_that_cannot_be_meant_ends_it(open_stream, first, code):  # G28
    assert await open_stream(**first).ends() is code


@pytest.mark.parametrize(
    "later",
    [
        {"subscription": BILL},
        {"max_outstanding_messages": 7},
        {"max_outstanding_bytes": 7},
        {"stream_ack_deadline_seconds": 9},
        {"modify_deadline_ack_ids": ["a"]},
        {"modify_deadline_seconds": [-1], "modify_deadline_ack_ids": ["a"]},
    ],
)
async def test_a_later_request_that_cannot_be_meant_ends_it(open_stream, later):  # G28
    stream = open_stream()
    stream.say(**later)
    assert await stream.ends() is INVALID


async def test_empty_requests_and_a_new_deadline_keep_it(v1, open_stream):  # G28
    stream = open_stream()
    stream.say()
    stream.say(stream_ack_deadline_seconds=30)
    stream.say(ack_ids=["nonsense"])
    await publish(v1, b"a")
    assert await stream.has(1) == [b"a"]


async def test_messages_come_and_are_acknowledged_on_the_stream(side, v1, open_stream):  # G20, G29
    stream = open_stream(max_outstanding_messages=2)
    await publish(v1, b"a", b"b", b"c")
    assert await stream.has(2) == [b"a", b"b"]
    await quiet(side, v1)
    assert stream.data == [b"a", b"b"], "no more than the credit"
    stream.say(ack_ids=[stream.messages[0].ack_id])
    assert await stream.has(3) == [b"a", b"b", b"c"]


async def test_credit_is_freed_by_unary_calls(side, v1, open_stream):  # G29, G30
    stream = open_stream(max_outstanding_messages=1)
    await publish(v1, b"a", b"b")
    await stream.has(1)
    await v1.subscriber.Acknowledge(subscription=BILL, ack_ids=[stream.messages[0].ack_id])
    await stream.has(2)
    await v1.subscriber.ModifyAckDeadline(
        subscription=BILL, ack_ids=[stream.messages[1].ack_id], ack_deadline_seconds=0
    )
    assert await stream.has(3) == [b"a", b"b", b"b"]


async def test_a_deadline_that_ends_frees_credit_and_gives_it_again(v1, open_stream):  # G18, G29
    stream = open_stream(max_outstanding_messages=1)
    await publish(v1, b"a")
    await stream.has(1)
    stream.say(modify_deadline_ack_ids=[stream.messages[0].ack_id], modify_deadline_seconds=[1])
    assert await stream.has(2) == [b"a", b"a"]
    assert len({one.ack_id for one in stream.messages}) == 2


async def test_bytes_are_bounded_and_one_message_may_exceed_them(side, v1, open_stream):  # G29
    stream = open_stream(max_outstanding_bytes=20_000)
    await publish(v1, *[bytes(9_000)] * 4)
    await stream.has(2)
    await quiet(side, v1)
    assert len(stream.messages) == 2
    stream.say(ack_ids=[one.ack_id for one in stream.messages])
    assert len(await stream.has(4)) == 4
    small = open_stream(max_outstanding_bytes=1)
    stream.say(ack_ids=[one.ack_id for one in stream.messages])
    await stream.close()
    await publish(v1, bytes(9_000), b"b")
    await small.has(1)
    await quiet(side, v1)
    assert len(small.messages) == 1, "what is larger than the whole room comes alone"


async def test_a_stream_whose_credit_is_negative_has_no_bound(v1, open_stream):
    stream = open_stream(max_outstanding_messages=-1, max_outstanding_bytes=-1)
    await publish(v1, *[b"a"] * 1_000)
    await publish(v1, b"b")
    assert len(await stream.has(1_001)) == 1_001


async def test_each_message_goes_to_one_of_several_streams(v1, open_stream):  # G17, G29
    streams = [open_stream(max_outstanding_messages=5) for _ in range(4)]
    await publish(v1, *[b"%d" % n for n in range(20)])
    await until(lambda: sum(len(one.messages) for one in streams) == 20)
    assert sorted(int(data) for one in streams for data in one.data) == list(range(20))
    assert {len(one.messages) for one in streams} == {5}


async def test_a_message_comes_at_once_after_its_publish(v1, open_stream):
    stream = open_stream()
    for n in range(5):
        await publish(v1, b"%d" % n)
        await stream.has(n + 1)
    assert stream.data == [b"0", b"1", b"2", b"3", b"4"]


async def test_what_a_closed_stream_has_delivered_stays_its_clients(side, v1, open_stream):  # G30
    stream = open_stream()
    await publish(v1, b"a", b"b")
    await stream.has(2)
    await stream.close()
    await quiet(side, v1)
    assert not await open_messages(v1)
    assert len(side.face.outstanding) == 0
    await v1.subscriber.Acknowledge(subscription=BILL, ack_ids=[stream.messages[0].ack_id])
    again = open_stream()
    again.say(modify_deadline_ack_ids=[stream.messages[1].ack_id], modify_deadline_seconds=[0])
    assert await again.has(1) == [b"b"], "the one that was acknowledged is done"


async def test_acknowledgements_that_have_come_count_though_the_client_has_cancelled_since(
    side, v1, open_stream, monkeypatch
):  # G30
    handle, come, may_go_on = side.broker.handle_for, asyncio.Event(), asyncio.Event()

    async def held_up(by, request, size=0):
        if isinstance(request, SettleEach):
            come.set()
            await may_go_on.wait()
        return await handle(by, request, size)

    stream = open_stream()
    (name,) = await publish(v1, b"a")
    await stream.has(1)
    monkeypatch.setattr(side.broker, "handle_for", held_up)
    stream.say(ack_ids=[stream.messages[0].ack_id])
    await come.wait()
    await stream.close()
    await quiet(side, v1)
    may_go_on.set()
    await until(lambda: not len(side.face.outstanding))
    await quiet(side, v1)
    assert await stored(side, name, node_of(BILL, ResourceKind.SUBSCRIPTION)) is None


async def test_half_closed_by_the_client_it_ends_with_ok(open_stream):  # G30
    stream = open_stream()
    stream.half_close()
    assert await stream.ends() is StatusCode.OK


async def test_a_client_that_is_gone_takes_nothing(side, v1, open_stream):  # G16
    stream = open_stream()
    await until(lambda: side.broker.waiting.takes)
    await stream.close()
    await until(lambda: not side.broker.waiting.takes)
    await publish(v1, b"a")
    assert await open_stream().has(1) == [b"a"]


async def test_what_is_taken_while_a_client_reads_nothing_is_given_back_when_it_goes(
    side, v1
):  # G16, G30
    await v1.publisher.CreateTopic(name=TOPIC)
    await v1.subscriber.CreateSubscription(
        name=BILL, topic=TOPIC, enable_exactly_once_delivery=True
    )

    async def requests():
        yield m.StreamingPullRequest(
            subscription=BILL, stream_ack_deadline_seconds=600, ack_ids=["worthless"]
        )
        await asyncio.Event().wait()

    answers = streaming_pull(Call(who(f"etl@{SERVICE}"), side.face), requests())
    assert (await anext(answers)).acknowledge_confirmation.invalid_ack_ids == ["worthless"]
    await publish(v1, b"a")
    await until(lambda: not side.broker.waiting.takes)
    await side.broker.settled()
    await answers.aclose()
    assert await open_messages(v1) == [b"a"]


async def test_a_deleted_subscription_ends_its_streams(side, v1, open_stream):  # G23
    streams = [open_stream() for _ in range(3)]
    await until(lambda: side.broker.waiting.takes == 3)
    await v1.subscriber.DeleteSubscription(subscription=BILL)
    assert [await one.ends() for one in streams] == [StatusCode.NOT_FOUND] * 3


async def test_a_service_that_stops_ends_its_streams(side, open_stream):  # G30, G46
    stream = open_stream()
    await until(lambda: side.broker.waiting.takes)
    ending = asyncio.create_task(side.face.stop())
    assert await asyncio.wait_for(stream.ends(), 5) is StatusCode.UNAVAILABLE
    await ending


async def test_too_many_streams_are_refused(v1, side, open_stream):
    side.face.grpc = type(side.face.grpc)(anonymous="etl", streams_per_account=1)
    first = open_stream()
    await until(lambda: side.broker.waiting.takes)
    refused = v1.subscriber.StreamingPull(silent())
    assert await refused.code() is StatusCode.RESOURCE_EXHAUSTED
    await first.close()
    await publish(v1, b"a")
    await until(lambda: not side.face.streams)
    assert await open_stream().has(1) == [b"a"]


ORDERED = "projects/shop/subscriptions/ordered"


@pytest.fixture
async def ordered(v1, queue):
    await v1.subscriber.CreateSubscription(
        name=ORDERED, topic=TOPIC, enable_message_ordering=True, ack_deadline_seconds=10
    )


def nack(stream, *messages):
    spans = [0] * len(messages)
    ids = [one.ack_id for one in messages]
    stream.say(modify_deadline_ack_ids=ids, modify_deadline_seconds=spans)


async def test_a_key_comes_in_order_before_it_is_acknowledged(v1, ordered, open_stream):  # G33
    stream = open_stream(subscription=ORDERED)
    for n in range(10):
        await publish(v1, b"a%d" % n, ordering_key="a")
        await publish(v1, b"b%d" % n, ordering_key="b")
    await stream.has(20)
    for key in (b"a", b"b"):
        assert [data for data in stream.data if data[:1] == key] == [
            key + b"%d" % n for n in range(10)
        ]
    assert stream.properties[0].message_ordering_enabled


async def test_a_nack_brings_back_what_follows_in_order(v1, ordered, open_stream):  # G33
    await publish(v1, *(b"%d" % n for n in range(10)), ordering_key="a")
    stream = open_stream(subscription=ORDERED)
    await stream.has(10)
    acked = [stream.messages[at].ack_id for at in (0, 1, 6)]
    stream.say(ack_ids=acked)
    nack(stream, stream.messages[2])
    late = [one.ack_id for one in stream.messages[3:6]]
    stream.say(ack_ids=late)  # they are not the client's any more
    await stream.has(17)
    assert stream.data == [b"%d" % n for n in [*range(10), 2, 3, 4, 5, 7, 8, 9]]


async def test_messages_that_come_back_free_their_credit(v1, ordered, open_stream):
    await publish(v1, *(b"%d" % n for n in range(8)), ordering_key="a")
    stream = open_stream(subscription=ORDERED, max_outstanding_messages=4)
    await stream.has(4)
    nack(stream, stream.messages[0])
    await stream.has(8)
    assert stream.data == [b"%d" % n for n in (0, 1, 2, 3, 0, 1, 2, 3)]


async def test_all_of_a_key_goes_to_one_stream(v1, ordered, open_stream):  # G33
    streams = [open_stream(subscription=ORDERED) for _ in range(3)]
    await publish(v1, b"first", ordering_key="a")
    await until(lambda: any(one.messages for one in streams))
    (holder,) = [one for one in streams if one.messages]
    for n in range(9):
        await publish(v1, b"%d" % n, ordering_key="a")
    assert await holder.has(10) == [b"first", *(b"%d" % n for n in range(9))]
    assert sum(len(one.messages) for one in streams) == 10


async def test_the_next_pull_gets_nothing_of_a_key_that_is_outstanding(v1, ordered):  # G33
    await publish(v1, *(b"%d" % n for n in range(9)), ordering_key="a")

    async def pull(count):
        pulled = await v1.subscriber.Pull(
            subscription=ORDERED, max_messages=count, return_immediately=True
        )
        found = pulled.received_messages
        return [one.message.data for one in found], [one.ack_id for one in found]

    data, ids = await pull(4)
    assert data == [b"0", b"1", b"2", b"3"]
    assert await pull(4) == ([], [])
    await v1.subscriber.Acknowledge(subscription=ORDERED, ack_ids=ids)
    assert (await pull(9))[0] == [b"4", b"5", b"6", b"7", b"8"]


__all__ = ["open_stream", "queue"]
ADMIN, STRANGER = who("root@x", admin=True), who("eve@x")


async def listed(side, **given):
    return await side.broker.handle(ReadConnections(ADMIN, **given))


async def test_an_administrator_sees_streams_and_what_each_holds(side, v1, open_stream):  # G30
    stream = open_stream(max_outstanding_messages=2)
    await publish(v1, b"a", b"b", b"c")
    await stream.has(2)
    idle = v1.subscriber.StreamingPull(forever())
    await until(lambda: len(side.face.streams) == 2)
    page = await listed(side)
    assert page.total == 2
    shown = {(one.face, one.peer, one.private, one.nodes, one.holds) for one in page.clients}
    assert shown == {("grpc", "127.0.0.1", False, (BILL,), 2), ("grpc", "127.0.0.1", False, (), 0)}
    assert all(one.address.startswith(f"etl@{SERVICE}/grpc.") for one in page.clients)
    assert all(one.since <= page.now for one in page.clients)
    (alone,) = (await listed(side, node=BILL)).clients
    assert alone.nodes == (BILL,)
    item = await stored(side, stream.messages[0].message.message_id, node=BILL)
    assert item.holder == alone.address, "items are locked to the address that is shown"
    idle.cancel()
    await until(lambda: len(side.face.streams) == 1)


async def forever():
    await asyncio.Event().wait()
    yield


async def test_an_administrator_ends_a_stream_and_what_it_held_has_not_failed(
    side, v1, open_stream
):
    stream = open_stream()
    await publish(v1, b"a")
    await stream.has(1)
    (client,) = (await listed(side, account=Jid(f"etl@{SERVICE}"))).clients
    ending = EndConnection(ADMIN, client.address)
    assert await side.broker.handle(ending) == ConnectionEnded(client.address, is_here=True)
    assert await stream.ends() is StatusCode.UNAVAILABLE, "clients open another one"
    other = open_stream()
    assert await other.has(1) == [b"a"]
    item = await stored(side, other.messages[0].message.message_id, node=BILL)
    assert item.failed == 0
    assert await side.broker.handle(ending) == ConnectionEnded(client.address, is_here=False)


async def test_a_quiet_stream_keeps_what_it_holds_and_gets_no_more_until_it_is_resumed(
    side, v1, open_stream
):
    stream = open_stream()
    await publish(v1, b"a")
    await stream.has(1)
    (client,) = (await listed(side)).clients
    node = NodeName(BILL)
    quiet = QuietWorker(ADMIN, node, client.address, quiet=True)
    assert (await side.broker.handle(replace(quiet, by=STRANGER))).refusal is Refusal.FORBIDDEN
    assert await side.broker.handle(quiet) == Quieted(node, 1, asking=True)
    assert [one.quiet for one in (await listed(side)).clients] == [True]
    await until(lambda: not side.broker.waiting.takes)
    await publish(v1, b"b")
    other = open_stream()
    assert await other.has(1) == [b"b"]
    other.half_close()
    await other.ends()
    await side.broker.handle(replace(quiet, quiet=False))
    await publish(v1, b"c")
    assert await stream.has(2) == [b"a", b"c"]
    gone = replace(quiet, jid=Jid(f"etl@{SERVICE}/grpc.0.none"))
    assert (await side.broker.handle(gone)).refusal is Refusal.NOT_SUBSCRIBED


async def test_a_silent_stream_can_be_ended_too(side, v1, queue):
    silent = v1.subscriber.StreamingPull(forever())
    await until(lambda: len(side.face.streams))
    (client,) = (await listed(side)).clients
    await side.broker.handle(EndConnection(ADMIN, client.address))
    assert await asyncio.wait_for(silent.code(), 10) is StatusCode.UNAVAILABLE
    await until(lambda: not len(side.face.streams))


async def test_no_other_account_sees_them_or_ends_one(side, open_stream):
    open_stream()
    await until(lambda: len(side.face.streams))
    (client,) = (await listed(side)).clients
    for request in (ReadConnections(STRANGER), EndConnection(STRANGER, client.address)):
        assert (await side.broker.handle(request)).refusal is Refusal.FORBIDDEN
    assert len(side.face.streams) == 1


async def test_the_streams_of_a_removed_user_end(side, channel, queue):  # G30, G40
    mine = Stub(channel, SUBSCRIBER, basic("etl"))
    stream = mine.StreamingPull(forever())
    await until(lambda: len(side.face.streams))
    side.face.accounts.adopt([])
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asyncio.wait_for(stream.read(), 10)
    assert caught.value.code() is StatusCode.UNAUTHENTICATED
    assert not len(side.face.streams)
