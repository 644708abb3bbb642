"""Schedules that handlers declare, on the real service in this process."""

import asyncio
import itertools
from contextlib import AsyncExitStack

import pytest
from harness.batches.inside import session_of
from harness.patience import TIMEOUT

from pubqueue import Handlers, Refused, Timings, Worker
from pubqueue.testing import Service
from pubqueue_xeps.wire.services import Services
from pubqueue_xeps.worker.schedules import Schedules

IDS = (f"nightly-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def running():
    with Service() as service:
        yield service


@pytest.fixture
def service(running):
    running.clear()
    running.create("jobs")
    return running


@pytest.fixture
def declared():
    """Return handlers that declare a schedule with the same id, which no other test has."""
    name = next(IDS)

    def make(cron="0 3 * * *", **other):
        app = Handlers()

        @app.periodic(cron, node="jobs", id=name, **other)
        async def nightly(item): ...

        return app

    make.id = name
    return make


async def start(service, app, account="operator", **settings):
    """Run a worker until it has ensured the schedules, and takes items."""
    done = asyncio.Event()

    @app.handler("begun")
    async def begun(item):
        done.set()

    service.publish("jobs", {"type": "begun"})
    bot = Worker(**service.account(account), handlers=app, signals=(), **settings)
    working = asyncio.create_task(bot.run())
    waiting = asyncio.create_task(done.wait())
    async with asyncio.timeout(TIMEOUT):
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            bot.stop()
        waiting.cancel()
        await working


def events(caplog):
    names = [it.pubqueue["event"] for it in caplog.records if hasattr(it, "pubqueue")]
    return [name for name in names if name.startswith("schedule.")]


async def shown(service, name):
    async with Worker(**service.account("operator"), node="jobs", signals=()) as bot:
        schedules = Schedules(session_of(bot), service.address, Timings())
        return await schedules.stored(name)


async def test_it_is_created_once_and_changed_when_it_is_otherwise(service, declared, caplog):
    caplog.set_level("INFO")
    await start(service, declared())
    await start(service, declared())
    assert events(caplog) == ["schedule.created"]
    await start(service, declared("*/5 * * * *", payload={"deep": True}, ttl=90.5, group="g"))
    await start(service, declared("*/5 * * * *", payload={"deep": True}, ttl=90.5, group="g"))
    assert events(caplog) == ["schedule.created", "schedule.changed"]
    found = await shown(service, declared.id)
    assert (found["cron"], found["ttl"], found["group"]) == (("*/5 * * * *",), ("90.5",), ("g",))


async def test_those_of_queues_that_it_does_not_work_for_are_left_alone(service, declared):
    app = declared()

    @app.periodic("@daily", node="elsewhere", id=next(IDS))
    async def other(item): ...

    await start(service, app, node="jobs")


async def test_workers_that_start_together_do_not_fail(service, declared, caplog):
    caplog.set_level("INFO")
    async with AsyncExitStack() as stack:
        bots = [Worker(**service.account("operator"), node="jobs", signals=()) for _ in range(4)]
        for bot in bots:
            await stack.enter_async_context(bot)
        all_of_them = [Schedules(session_of(bot), service.address, Timings()) for bot in bots]
        tasks = declared().schedules()
        await asyncio.gather(
            *(each.ensure(tasks, Services((service.address,))) for each in all_of_them)
        )
    assert events(caplog) == ["schedule.created"]
    assert (await shown(service, declared.id))["cron"] == ("0 3 * * *",)


async def test_an_account_that_may_not_is_told_what_to_do(service, declared):
    sentence = f"declare the schedule '{declared.id}', but bot@localhost is not an administrator of queue.localhost.*--no-schedules"
    with pytest.raises(Refused, match=sentence) as raised:
        await start(service, declared(), "bot")
    assert (raised.value.condition, raised.value.node) == ("forbidden", "jobs")
    await start(service, declared(), "bot", schedules=False)
    service.clear()  # of what the worker that ended has left
    service.create("jobs")
    service.publish("jobs", 1, id="a", headers={"schedule": declared.id})
    await service.work(declared(), node="jobs")
    assert service.done("jobs") == ["a"]


@pytest.mark.parametrize(
    ("cron", "sentence"), [("0 25 * * *", "refused the schedule"), ("some day", "refused the sche")]
)
async def test_a_line_that_the_service_cannot_read_is_refused(service, declared, cron, sentence):
    with pytest.raises(Refused, match=sentence):
        await start(service, declared(cron))


async def test_its_items_go_to_its_handler(service, declared):
    seen, app, name = [], Handlers(), declared.id

    @app.periodic("@daily", node="jobs", id=name, retries=0)
    async def nightly(item):
        seen.append(item.id)

    @app.handler()
    async def rest(item):
        raise AssertionError

    service.publish("jobs", 1, id="a", headers={"schedule": name})
    await service.work(app, node="jobs")
    assert seen == ["a"]
