"""What operators see of streams: who, from where, since when, to which queue, what each holds; and that they can end one."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from faces.contract import stored
from faces.grpc.clients import SUBSCRIBER, Stub
from faces.grpc.test_streams import BILL, open_stream, publish, queue
from faces.grpc.test_who_calls import basic
from faces.sides import SERVICE
from grpc import StatusCode
from harness.batches.facts import who
from harness.patience import until

from pubqueue.model.decision import Refusal
from pubqueue.model.entities import Jid
from pubqueue.model.replies import ConnectionEnded
from pubqueue.rules.inspect import EndConnection, ReadConnections

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
