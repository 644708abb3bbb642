"""Two services in the process of a test: one connection reaches both, and each has its share."""

import asyncio

import pytest
from harness.patience import until

from pubqueue import Publisher, Worker
from pubqueue.testing import Services
from pubqueue_xeps.wire.services import read_services

IDS = [f"i{number}" for number in range(20)]


async def test_a_publisher_and_a_worker_have_both(pubqueue_services):
    services = pubqueue_services
    services.create("jobs")
    rule = read_services(services.addresses)
    places, replies = {}, []

    async def handle(item):
        places[item.id] = item.service
        return {"at": item.service} if item.wants_reply else None

    async with Publisher(**services.account("shop")) as publisher:
        for one in IDS:
            published = await publisher.publish("jobs", 1, id=one)
            assert published.service == rule.place(one)
        asking = asyncio.create_task(publisher.ask("jobs", 1, id="question"))
        worker = Worker(**services.account(), node="jobs", requests=4, signals=())
        async with worker, asyncio.TaskGroup() as group:
            group.create_task(worker.run(handle))
            replies.append((await asking).data)
            await until(lambda: len(places) == len(IDS) + 1)
            await worker.drain()
    assert places == {one: rule.place(one) for one in [*IDS, "question"]}
    assert replies == [{"at": rule.place("question")}]
    for address in services.addresses:
        assert set(services[address].done("jobs")) == {
            one for one, place in places.items() if place == address
        }


async def test_each_test_has_them_without_nodes(pubqueue_services):
    pubqueue_services.create("jobs")
    assert [pubqueue_services[one].items("jobs") for one in pubqueue_services.addresses] == [[], []]


async def test_their_run_ends_when_all_are_settled():
    with Services("a.localhost", "b.localhost", "c.localhost") as services:
        services.create("jobs", max_failures=1)
        async with Publisher(**services.account("shop")) as publisher:
            await publisher.publish_many("jobs", list(range(12)))
        seen = []

        async def handle(item):
            seen.append(item.data)

        await services.run(
            Worker(**services.account(), node="jobs", signals=()), handle, node="jobs"
        )
        assert sorted(seen) == list(range(12))
        assert len(services.done("jobs")) == 12


async def test_what_is_left_is_named():
    with Services() as services, pytest.raises(LookupError, match="no node 'none'"):
        await services.run(
            Worker(**services.account(), node="jobs", signals=()), print_nothing, node="none"
        )


async def print_nothing(item): ...
