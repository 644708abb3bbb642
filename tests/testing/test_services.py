"""Two services in the process of a test: one connection reaches both, and each has its share."""

import asyncio
import re
from pathlib import Path

import pytest
from harness.batches.inside import held_items
from harness.patience import until

from pubqueue import Publisher, Worker
from pubqueue.testing import Services
from pubqueue_xeps.wire.services import read_services, score

PAGE = Path(__file__).parents[2] / "docs/how-to/several-services.md"
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


async def test_a_long_queue_at_one_service_keeps_no_item_of_another_waiting(pubqueue_services):
    services = pubqueue_services
    services.create("jobs")
    first, second = services.addresses
    for number in range(10):
        services[first].publish("jobs", number, id=f"long{number}")
    services[second].publish("jobs", 1, id="short")
    bot = Worker(**services.account(), node="jobs", requests=4, signals=())
    taken = []
    async with bot:
        await until(lambda: [len(held_items(bot, at).locked()) for at in (0, 1)] == [2, 1])
        async for item in bot:
            taken.append(item.id)
            await item.retract()
            if len(taken) == 11:
                bot.stop()
    assert "short" in taken[:3], "the window of four is divided"
    assert [one for one in taken if one != "short"] == [f"long{number}" for number in range(10)]


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
    async def handle(item): ...

    with Services() as services:
        services.create("jobs")
        bot = Worker(**services.account(), node="jobs", signals=())
        with pytest.raises(LookupError, match="no node 'none'"):
            await services.run(bot, handle, node="none")


async def test_the_page_several_services_does_what_it_says(pubqueue_services, monkeypatch):
    services = pubqueue_services
    services.create("orders")
    (code,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    shop = {"__name__": "shop"}
    exec(code.replace("example.org", "localhost"), shop)
    first = services.addresses[0]
    monkeypatch.setenv("PUBQUEUE_URL", services[first].url("shop"))
    monkeypatch.setenv("PUBQUEUE_PASSWORD", services[first].password)
    await shop["publish"]()
    working = asyncio.create_task(shop["work"]())
    for address in services.addresses:
        await services[address].settled("orders")
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert "order-7" in services.done("orders")
    assert len(services.done("orders")) == 2


def test_the_page_has_the_numbers_of_the_rule():
    rows = re.findall(
        r"^\| `(.+?)` \| .+? \| `(\w{16})` \| `(\w{16})` \| `(.+?)` \|$",
        PAGE.read_text(),
        re.MULTILINE,
    )
    names = ["queue-a.example.org", "queue-b.example.org"]
    assert len(rows) == 3
    for key, *numbers, place in rows:
        assert [score(name, key.encode()).hex() for name in names] == numbers
        assert read_services(names).place(key) == f"{place}.example.org"
