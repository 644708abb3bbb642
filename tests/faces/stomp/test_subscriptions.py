"""Subscriptions of STOMP: topics, queues that several clients share, and what ends them."""

import pytest
from faces.contract import stored
from faces.stomp.serving import BOSS, INDIVIDUAL, NEWS, ended, put, serving
from harness.batches.facts import JOBS
from harness.batches.queue_requests import joins, publishes
from harness.patience import until
from harness.servers.users import SERVICE

from pubqueue.engine.listings import ConnectionsOf
from pubqueue.engine.ports import StoreError
from pubqueue.faces import flow
from pubqueue.model.entities import Jid, State
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Delete
from pubqueue.rules.presence import FreeConnections, Leave


async def test_a_topic_notifies_all_subscribers(served):  # N08
    etl = await served.log_in()
    await put(etl, "before", destination="/topic/news")
    some = [await served.works(destination=to, ack="auto") for to in ("/topic/news", "news")]
    await put(etl, "a", destination="/topic/news")
    for one in some:
        message = await one.hear()
        assert (message.headers["item-id"], message.headers["destination"]) == ("a", "/topic/news")
        assert "ack" not in message.headers


async def test_a_presence_based_topic_notifies_connected_subscribers(served):
    settings = Settings({"presence_based_delivery": True})
    await served.broker.handle(Declare(BOSS, NEWS, settings, (Jid("boss@x"),)))
    etl, bee = await served.log_in(), await served.works(destination="/topic/news", ack="auto")
    await put(etl, "a", destination="/topic/news")
    assert (await bee.hear()).headers["item-id"] == "a"


async def test_two_subscriptions_of_a_connection_are_two_workers(served):  # N10, N11
    bee, etl = await served.works(**INDIVIDUAL), await served.log_in()
    answer = await bee.do("SUBSCRIBE", destination="/queue/jobs", id="t", **INDIVIDUAL)
    assert answer.command == "RECEIPT"
    await put(etl, *"abc")
    heard = [(await bee.hear()).headers["subscription"] for _ in range(2)]
    assert sorted(heard) == ["s", "t"]
    await served.broker.settled()
    assert (await stored(served.side, "c")).state is State.QUEUED


async def test_a_node_that_is_deleted_ends_its_subscribers(served):  # N23
    bee = await served.works()
    await served.broker.handle(Delete(BOSS, JOBS))
    await ended(bee, "subscription ended")


async def test_a_queue_is_shared_with_workers_of_xmpp(served):  # N22
    await served.broker.handle(joins(Jid("ann@x/1")))
    etl = await served.log_in()
    await put(etl, "a", priority="3", group="g")
    item = await stored(served.side, "a")
    assert (item.priority, item.group) == (3, "g")
    await served.broker.handle(publishes("b", payload=b"<work xmlns='urn:x'/>"))
    bee = await served.works()
    heard = {(await bee.hear()).headers["item-id"]}
    assert heard <= {"a", "b"}


@pytest.mark.parametrize("auto_creates", [True, False])
async def test_a_queue_is_created_for_accounts_that_may(auto_creates):
    async with serving(auto_creates=auto_creates) as served:
        etl = await served.log_in()
        answer = await etl.do("SUBSCRIBE", destination="/queue/new", id="s")
        assert answer.command == ("RECEIPT" if auto_creates else "ERROR")


CONSUMERS, EACH = ("bee", "ann", "eva", "slow"), 50


async def test_each_message_is_for_one_and_all_get_as_many():  # N09
    async with serving() as served:
        consumers = [await served.works(name, **INDIVIDUAL) for name in CONSUMERS]
        etl = await served.log_in()
        counts, seen = dict.fromkeys(consumers, 0), []
        for turn in range(EACH):
            names = {f"{turn}-{name}" for name in CONSUMERS}
            await put(etl, *names)
            for consumer in consumers:
                frame = await consumer.hear()
                seen.append(frame.headers["item-id"])
                counts[consumer] += 1
                await consumer.do("ACK", id=frame.headers["ack"])
            assert names == set(seen[-len(consumers) :])
        assert len(seen) == len(set(seen))
        assert jain(counts.values()) > 0.9


def jain(counts):
    """Return how evenly it is shared: 1 if all have as many (Jain's index)."""
    return sum(counts) ** 2 / (len(counts) * sum(count * count for count in counts))


async def test_one_consumer_gets_them_in_their_order():  # N09
    async with serving() as served:
        etl = await served.log_in()
        names = [f"{number}" for number in range(EACH)]
        await put(etl, *names)
        bee = await served.works(**INDIVIDUAL)
        for name in names:
            frame = await bee.hear()
            assert frame.headers["item-id"] == name
            await bee.do("ACK", id=frame.headers["ack"])


async def test_the_receipt_of_a_subscribe_comes_before_the_first_message():  # N14
    async with serving() as served:
        await put(await served.log_in(), *(f"{number}" for number in range(EACH)))
        bee = await served.log_in("bee")
        bee.say("SUBSCRIBE", destination="/queue/jobs", id="s", receipt="r", ack="client")
        assert (await bee.hear()).headers == {"receipt-id": "r"}
        heard = [(await bee.hear()).headers["item-id"] for _ in range(EACH)]
        assert heard == [f"{number}" for number in range(EACH)]


async def test_a_client_with_many_subscriptions_leaves_by_few_requests(served, monkeypatch):
    """What it holds is released at once, and all its subscriptions end, whatever the number of requests."""
    asked, submit = [], served.broker.submit

    def noting(request, answer):
        asked.append(request)
        submit(request, answer)

    monkeypatch.setattr(flow, "TOGETHER", 8)
    many = 2 * 8
    bee = await served.log_in("bee")
    for number in range(many):
        bee.say("SUBSCRIBE", destination="/queue/jobs", id=f"{number}", ack="client-individual")
    await bee.do("SUBSCRIBE", destination="/queue/jobs", id="last", ack="client-individual")
    await put(await served.log_in(), "a")
    heard = await bee.hear()
    monkeypatch.setattr(served.broker, "submit", noting)
    bee.close()
    await until(lambda: sum(isinstance(one, FreeConnections) for one in asked) == 3)
    await served.broker.settled()
    frees = [one for one in asked if isinstance(one, FreeConnections)]
    assert not any(isinstance(one, Leave) for one in asked)
    assert sum(len(one.jids) for one in frees) == many + 1
    holder = heard.headers["subscription"]
    number = many if holder == "last" else int(holder)
    assert frees[0].jid.endswith(f".{number + 1}"), "those that hold something come first"
    assert (await stored(served.side, "a")).state is State.QUEUED
    rows = await served.side.store.read(
        lambda tx: tx.page(ConnectionsOf(SERVICE, served.broker.instance.number), 0, many)
    )
    assert rows == []


async def test_a_client_whose_store_fails_when_it_leaves_is_freed_later(served, monkeypatch):
    bee = await served.works(**INDIVIDUAL)
    await bee.do("SUBSCRIBE", destination="/queue/jobs", id="t", **INDIVIDUAL)
    await put(await served.log_in(), "a")
    await bee.hear()
    refused = []

    async def fails(_work):
        refused.append(True)
        raise StoreError("the disk is full")

    with monkeypatch.context() as broken:
        broken.setattr(served.side.store, "batch", fails)
        bee.close()
        await until(lambda: refused)

    async def is_queued():
        return (await stored(served.side, "a")).state is State.QUEUED

    await until(is_queued)
