"""Publishers and workers of the front door, against the service in the process."""

import asyncio

import pytest
from harness.patience import until

from pubqueue import BlockingPublisher, NoReplyWanted, Publisher, QuestionDied, Worker
from pubqueue.testing import make_item
from pubqueue_xeps.handlers import Handlers


def test_a_publisher_that_blocks_needs_other_arguments_alone(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    with BlockingPublisher(**service.account("shop")) as publisher:
        published = publisher.publish("jobs", {"order": 7}, id="a")
        again = publisher.publish("jobs", {"order": 7}, id="a")
    assert (published.id, published.duplicate, again.duplicate) == ("a", False, True)
    seen = []

    async def handle(item):
        seen.append((item.data, item.publisher))

    asyncio.run(service.work(handle, node="jobs"))
    assert seen == [({"order": 7}, "shop@localhost")]


async def test_a_worker_may_take_its_connection_from_the_environment(pubqueue_service, monkeypatch):
    service = pubqueue_service
    service.create("jobs & more")
    service.publish("jobs & more", 1, id="a")
    monkeypatch.setenv("PUBQUEUE_URL", service.url("bot", node="jobs & more"))
    monkeypatch.setenv("PUBQUEUE_PASSWORD", service.password)

    async def handle(_item):
        """Succeed."""

    await service.run(Worker(signals=()), handle, node="jobs & more")
    assert service.done("jobs & more") == ["a"]


async def test_follow_ups_go_to_their_node_and_replies_to_the_asker(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    service.create("mail")

    async def handle(item):
        await item.publish("mail", {"to": item.data["order"]})
        await item.reply("done")

    async with Publisher(**service.account("shop")) as publisher:
        asking = asyncio.create_task(publisher.ask("jobs", {"order": 7}, timeout=20))
        worker = Worker(**service.account("bot"), node="jobs", signals=())
        running = asyncio.create_task(worker.run(handle))
        reply = await asking
        worker.stop()
        await running
    assert reply.data == "done"
    assert [item.payload for item in service.items("mail")] == [
        b"<json xmlns='urn:xmpp:json:0'>{\"to\":7}</json>"
    ]


async def test_who_asked_learns_at_once_that_the_item_expired(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    async with Publisher(**service.account("shop")) as publisher:
        asking = asyncio.create_task(publisher.ask("jobs", 7, id="a", ttl=3600, timeout=60))
        await until(lambda: service.items("jobs"))
        service.advance(3601)
        with pytest.raises(QuestionDied, match="the time to live ended") as caught:
            await asking
    assert (caught.value.node, caught.value.id, caught.value.attempts) == ("jobs", "a", 0)


async def test_what_a_handler_publishes_of_a_lone_item_is_noted():
    item = make_item({"order": 7}, id="a", headers={})
    async with item:
        published = await item.publish("mail", {"to": 7}, delay=60)
    (noted,) = item.follow_ups
    assert (noted.node, noted.payload, noted.delay) == ("mail", {"to": 7}, 60)
    assert (published.id, published.duplicate) == (noted.id, False)
    with pytest.raises(NoReplyWanted):
        await make_item().reply("done")


async def test_handlers_by_name_are_run_as_they_are(pubqueue_service):
    service = pubqueue_service
    service.create("jobs")
    service.publish("jobs", {"type": "sum", "of": [1, 2]}, id="a")
    service.publish("jobs", {"type": "fail"}, id="b")
    handlers, sums = Handlers(), []

    @handlers.handler("sum")
    async def add(item):
        sums.append(sum(item.data["of"]))

    @handlers.handler("fail", retries=1)
    async def fail(_item):
        raise ZeroDivisionError

    await service.work(handlers, node="jobs")
    assert (sums, service.done("jobs"), service.dead("jobs")) == ([3], ["a"], ["b"])
    assert service.attempts("jobs", "b") == 2
