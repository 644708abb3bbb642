"""What a handler returns is the reply, where the item was asked."""

import asyncio

import pytest
from harness.batches.inside import session_of
from harness.patience import TIMEOUT

from pubqueue import BlockingItem, Handlers, Publisher, Worker
from pubqueue.testing import Service, make_item


@pytest.fixture(scope="module")
def running():
    with Service() as service:
        yield service


@pytest.fixture
def service(running):
    running.clear()
    running.create("jobs", backoff_min=0, max_failures=1)
    return running


ASKED = {"reply-to": "replies/etl@localhost", "correlation-id": "jobs/a"}


async def asked(service, handler, payload, **settings):
    worker = Worker(**service.account(), node="jobs", signals=(), **settings)
    async with worker, Publisher(**service.account("etl")) as etl, asyncio.TaskGroup() as group:
        group.create_task(worker.run(handler))
        try:
            async with asyncio.timeout(TIMEOUT):
                return (await etl.ask("jobs", payload, id="a", timeout=TIMEOUT)).data
        finally:
            worker.stop()


async def doubles(item):
    return {"total": 2 * item.data}


async def test_the_value_of_a_handler_is_the_reply(service):
    assert await asked(service, doubles, 21) == {"total": 42}


async def test_so_is_that_of_one_of_several_through_its_middleware(service):
    async def outer(item, call_next):
        return {"from": await call_next(item)}

    app = Handlers(outer)

    @app.handler()
    def one(item: BlockingItem):
        return item.wants_reply

    assert await asked(service, app, 1) == {"from": True}


async def test_what_the_handler_has_replied_itself_stays(service):
    async def both(item):
        await item.reply("said")
        return "returned"

    assert await asked(service, both, 1) == "said"
    item = make_item(1, headers=ASKED)
    await item.respond(await both(item))
    assert [one.payload for one in item.follow_ups] == ["said"]


@pytest.mark.parametrize(
    ("headers", "value", "replied"),
    [
        (ASKED, 0, [0]),
        (ASKED, "", [""]),
        (ASKED, False, [False]),
        (ASKED, None, []),
        ({}, 7, []),
        ({"reply-to": "elsewhere", "correlation-id": "x"}, 7, []),
        ({"reply-to": "replies/x"}, 7, []),
    ],
)
async def test_what_is_a_reply(headers, value, replied):
    item = make_item(1, headers=headers)
    await item.respond(value)
    assert [one.payload for one in item.follow_ups] == replied


async def test_a_value_that_cannot_be_sent_is_a_failure_and_no_lost_work(service):
    async def returns_a_thing(item):
        return object()

    async with Publisher(**service.account("etl")) as etl:
        asking = asyncio.create_task(etl.ask("jobs", 1, id="a", timeout=TIMEOUT))
        worker = Worker(**service.account(), node="jobs", signals=())
        async with worker, asyncio.TaskGroup() as group:
            group.create_task(worker.run(returns_a_thing))
            async with asyncio.timeout(TIMEOUT):
                while not service.items("jobs") or service.items("jobs")[0].state != "dead":
                    await session_of(worker).ask_time()
            worker.stop()
        asking.cancel()
    assert [(it.state, it.reason) for it in service.items("jobs")] == [("dead", "TypeError")]
