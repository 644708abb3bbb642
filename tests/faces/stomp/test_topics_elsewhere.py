"""Subscribers of a topic that are connected to another instance than the publisher, and other notices for them."""

import pytest
from faces.contract import make_store, sides
from faces.stomp import clients
from faces.stomp.clients import Connection
from harness.batches.facts import BOSS, who
from harness.patience import until

from pubqueue.engine.listings import ForwardedTo
from pubqueue.model.decision import Refused
from pubqueue.model.entities import NodeName
from pubqueue.rules.declare import Declare
from pubqueue.rules.messages import marks_for
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Delete

__all__ = ["make_store", "sides"]

MANY = 300
NEWS = NodeName("news")


@pytest.fixture(autouse=True)
async def all_closed():
    yield
    await clients.closed()


@pytest.fixture
def face_of():
    return clients.a_face


@pytest.fixture(params=[True, False], ids=["kept", "transient"])
async def topic(sides, request):
    """Make the topic `news`, with or without kept items."""
    settings = Settings({"persist_items": request.param, "publish_model": "open"})
    made = await sides[0].broker.handle(Declare(who(BOSS, admin=True), NEWS, settings, (BOSS,), ()))
    assert not isinstance(made, Refused)


async def logged_in(side, name="bee"):
    client = await Connection.to(side.face)
    assert (await client.connect(name)).command == "CONNECTED"
    return client


async def subscriber(side, name="bee"):
    client = await logged_in(side, name)
    answer = await client.do("SUBSCRIBE", destination="/topic/news", id="s", ack="auto")
    assert answer.command == "RECEIPT"
    return client


async def kept(side, number):
    return await side.store.read(lambda tx: tx.page(ForwardedTo(marks_for(number)), None, 9))


@pytest.mark.usefixtures("topic")
async def test_each_instance_delivers_each_message_once_and_in_order(sides):
    one, other = sides
    etl = await logged_in(one, "etl")
    readers = [await subscriber(one), await subscriber(other), await subscriber(other, "ann")]
    for number in range(MANY):
        etl.say("SEND", f"{number}".encode(), destination="/topic/news")
    for reader in readers:
        messages = [await reader.hear() for _ in range(MANY)]
        assert [one.body for one in messages] == [f"{number}".encode() for number in range(MANY)]
        assert {one.headers["destination"] for one in messages} == {"/topic/news"}
    assert (await etl.do("SEND", b"last", destination="/topic/news")).command == "RECEIPT"
    assert [(await reader.hear()).body for reader in readers] == [b"last"] * 3

    async def nothing_is_kept():
        return not await kept(one, other.broker.instance.number)

    await until(nothing_is_kept)


@pytest.mark.usefixtures("topic")
async def test_a_subscriber_elsewhere_is_notified_that_its_topic_was_deleted(sides):
    one, other = sides
    bee = await subscriber(other)
    await one.broker.handle(Delete(who(BOSS, admin=True), NEWS))
    ended = await bee.hear()
    assert (ended.command, b"deleted" in ended.body) == ("ERROR", True)


@pytest.mark.usefixtures("topic")
async def test_what_is_kept_for_an_instance_goes_with_it(sides, monkeypatch):
    one, other = sides
    etl, _ = await logged_in(one, "etl"), await subscriber(other)
    monkeypatch.setattr(other.broker.forwarding, "look", lambda: None)
    assert (await etl.do("SEND", b"a", destination="/topic/news")).command == "RECEIPT"
    number = other.broker.instance.number

    async def is_kept():
        return len(await kept(one, number)) == 1

    async def is_dropped():
        return not await kept(one, number)

    await until(is_kept)
    await other.kill()
    await until(is_dropped)
