"""Handlers that take several items at a time, on the real service in this process."""

import asyncio
import threading
from dataclasses import dataclass

import msgspec
import pytest
from harness.patience import TIMEOUT, turns

from pubqueue import ConfigurationError, Failed, Handlers, Items, Reject, Release, Worker
from pubqueue.testing import Service
from pubqueue_xeps.client.threads import in_thread
from pubqueue_xeps.worker import dispatcher
from pubqueue_xeps.worker.batches import Batches

LONG = 3600
"""Seconds within which no batch is called for its time."""
SOON = 0.05
"""Seconds after which a batch that is not full is called."""


class Flight(msgspec.Struct):
    seats: int


@pytest.fixture(scope="module")
def running():
    with Service() as service:
        yield service


@pytest.fixture
def service(running):
    running.clear()
    running.create("jobs", backoff_min=0, max_failures=3)
    return running


def publish(service, number, seats=1):
    for each in range(number):
        service.publish("jobs", {"seats": seats}, id=f"i{each}")


async def work(service, app, **settings):
    """Let a worker work on all items; it waits for each batch as long as the handler says."""
    bot = Worker(**service.account(), node="jobs", signals=(), **settings)
    await service.run(bot, app, node="jobs")


def ids(items):
    return [item.id for item in items]


def together(*sizes):
    """Return a middleware that lets so many items into their batch in one turn of the loop, and then so many others.

    However slowly they come, no batch is called for its time while others of it are on their way.
    """
    groups = iter([group for size in sizes for group in [(size, [], asyncio.Event())] * size])

    async def gathering(item, call_next):
        size, here, complete = next(groups)
        here.append(item)
        if len(here) == size:
            complete.set()
            await turns()
        await complete.wait()
        await call_next(item)

    return gathering


async def test_a_full_batch_is_called_at_once_and_the_rest_when_its_time_is_over(service):
    app, calls = Handlers(together(3, 3, 1)), []

    @app.handler(batch=3, within=SOON)
    async def insert(items):
        calls.append(ids(items))

    publish(service, 7)
    await work(service, app, requests=1)  # but for the batches
    assert [len(call) for call in calls] == [3, 3, 1]
    assert sorted(service.done("jobs")) == sorted(name for call in calls for name in call)


async def test_the_service_of_a_test_has_no_batch_wait(service):
    app, calls = Handlers(), []

    @app.handler(batch=10, within=LONG)
    async def insert(items):
        calls.append(ids(items))

    publish(service, 1)
    await service.work(app, node="jobs")
    assert calls == [["i0"]]


async def test_each_item_is_settled_by_itself_and_the_end_counts_for_the_others(service):
    app, calls = Handlers(together(5, 1)), []

    @app.handler(batch=5, within=SOON, retries=1, reject_on=KeyError)
    async def insert(items: Items, flights: list[Flight]) -> None:
        assert [flight.seats for flight in flights] == [1] * len(items)
        calls.append(ids(items))
        of = {item.id: item for item in items}
        if len(calls) > 1:
            raise OSError
        items.settle(of["i0"])
        items.settle(of["i1"], Reject("departed"))
        items.settle(of["i2"], KeyError("some text"))
        await of["i3"].retract()
        raise OSError("some text")

    publish(service, 5)
    await work(service, app)
    assert calls == [["i0", "i1", "i2", "i3", "i4"], ["i4"]]
    assert sorted(service.done("jobs")) == ["i0", "i3"]
    assert {item.id: item.reason for item in service.items("jobs")} == {
        "i1": "departed",
        "i2": "KeyError (not retried)",
        "i4": "OSError (failed 2 times)",
    }


async def test_a_payload_that_does_not_fit_rejects_its_item_alone(service):
    app, calls = Handlers(), []

    @app.handler(batch=2, within=LONG)
    async def insert(items: Items, flights: list[Flight]) -> None:
        calls.append(flights)

    service.publish("jobs", {"seats": "many"}, id="bad")
    publish(service, 2)
    await work(service, app, requests=3)
    assert calls == [[Flight(1), Flight(1)]]
    assert service.dead("jobs") == ["bad"]


async def test_a_plain_function_gets_blocking_items(service):
    app, threads = Handlers(), []

    @app.handler(batch=2, within=LONG)
    def insert(items):
        threads.append(threading.current_thread() is not threading.main_thread())
        assert items[0].touch(60) is not None
        items.settle(items[1], Reject("departed"))

    publish(service, 2)
    await work(service, app)
    assert (threads, service.done("jobs"), service.dead("jobs")) == ([True], ["i0"], ["i1"])


@pytest.mark.parametrize("blocks", [False, True])
async def test_after_the_time_limit_what_is_settled_stays_so(service, monkeypatch, blocks):
    app, settled, go = Handlers(), threading.Event(), threading.Event()

    def begun(call, name):
        ended = in_thread(call, name)
        assert settled.wait(TIMEOUT)  # the limit begins when the thread is at work
        return ended

    async def waits(items):
        items.settle(items[0])
        await asyncio.Event().wait()

    def sleeps(items):
        items.settle(items[0])
        settled.set()
        go.wait(TIMEOUT)

    monkeypatch.setattr(dispatcher, "in_thread", begun)

    app.handler(batch=2, within=LONG, time_limit=0.05, retries=0)(sleeps if blocks else waits)
    publish(service, 2)
    await work(service, app)
    go.set()
    assert service.done("jobs") == ["i0"]
    assert [item.reason for item in service.items("jobs")] == ["TimeLimit (failed once)"]


async def test_middleware_is_around_each_item(service):
    seen = []

    async def noting(item, call_next):
        if item.id == "i0":
            return await item.retract()
        try:
            await call_next(item)
            seen.append((item.id, "done"))
        except Failed as error:
            seen.append((item.id, error.outcome.reason))
            raise

    app, calls = Handlers(noting, together(2, 1)), []

    @app.handler(batch=2, within=SOON)
    async def insert(items):
        calls.append(ids(items))
        if len(items) > 1:
            items.settle(items[0], Failed("once more"))

    publish(service, 3)
    await work(service, app)
    assert calls == [["i1", "i2"], ["i1"]]
    assert sorted(seen) == [("i1", "done"), ("i1", "once more"), ("i2", "done")]


async def test_an_exception_is_logged_once_for_a_call(service, caplog):
    app = Handlers()

    @app.handler(batch=3, within=LONG, retries=0)
    async def insert(items):
        raise OSError("some text")

    publish(service, 3)
    await work(service, app)
    logged = [it for it in caplog.records if it.exc_info and it.name == "pubqueue_xeps"]
    assert [(it.pubqueue["event"], it.pubqueue["items"]) for it in logged] == [("batch.failed", 3)]
    assert len(service.dead("jobs")) == 3


async def test_concurrency_counts_calls_and_what_waits_is_not_begun(service):
    app, calls, most, now = Handlers(), [], 0, 0

    @app.handler(batch=2, within=LONG, concurrency=1)
    async def insert(items):
        nonlocal most, now
        now += 1
        most = max(most, now)
        calls.append(ids(items))
        await items[0].touch()  # a way to the service and back
        now -= 1

    publish(service, 6)
    await work(service, app, handlers=app, requests=6)
    assert (most, [len(call) for call in calls]) == (1, [2, 2, 2])


async def test_at_the_end_what_is_gathered_is_done_without_a_wait(service):
    app, calls, begun = Handlers(), [], asyncio.Event()

    async def noting(item, call_next):
        begun.set()
        await call_next(item)

    app = Handlers(noting)

    @app.handler(batch=10, within=LONG)
    async def insert(items):
        calls.append(ids(items))

    publish(service, 1)
    bot = Worker(**service.account(), node="jobs", signals=())
    working = asyncio.create_task(bot.run(app))
    await begun.wait()
    bot.stop()
    async with asyncio.timeout(TIMEOUT):
        await working
    assert (calls, service.done("jobs")) == ([["i0"]], ["i0"])


async def test_when_the_grace_is_over_the_call_ends_before_its_items_are_released(service):
    app, begun, ends = Handlers(), asyncio.Event(), []

    @app.handler(batch=2, within=LONG)
    async def insert(items):
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.to_thread(str)  # it cleans up
            ends.append([item.state for item in items])

    publish(service, 2)
    bot = Worker(**service.account(), node="jobs", grace=0, signals=())
    working = asyncio.create_task(bot.run(app))
    await begun.wait()
    bot.stop()
    async with asyncio.timeout(TIMEOUT):
        await working
    assert ends == [["in hand", "in hand"]]
    assert [(item.state, item.failures) for item in service.items("jobs")] == [("queued", 0)] * 2


async def test_a_release_by_the_handler_counts_no_failure(service):
    app, calls = Handlers(), []

    @app.handler(batch=2, within=LONG)
    async def insert(items):
        calls.append([item.failures for item in items])
        if len(calls) == 1:
            raise Release(60)

    publish(service, 2)
    await work(service, app)
    assert calls == [[0, 0], [0, 0]]


async def test_a_batch_that_can_never_be_full_is_refused(service):
    app = Handlers()

    @app.handler(batch=20)
    async def insert(items): ...

    bot = Worker(**service.account(), node="jobs", signals=())
    with pytest.raises(ConfigurationError, match="batches of 20 from 'jobs', and the worker has 5"):
        await bot.run(app, concurrency=5)
    async with bot:
        with pytest.raises(ConfigurationError, match="the worker has 10 at a time"):
            await bot.run(app)


@pytest.mark.parametrize(
    ("wrong", "error", "sentence"),
    [
        ({"batch": 0}, ValueError, "batch is 0; it takes a whole number, 1 or more"),
        ({"within": 1}, ValueError, "give batch= too"),
        ({"batch": 2, "within": -1}, ValueError, "within"),
    ],
)
def test_other_batches_are_refused(wrong, error, sentence):
    with pytest.raises(error, match=sentence):
        Handlers().handler(**wrong)


def test_payloads_of_a_batch_are_a_list():
    async def one(items, flights: Flight): ...

    async def three(items, flights: list[Flight], more): ...

    with pytest.raises(TypeError, match=r"write flights: list\[SomeType\]"):
        Handlers().handler(batch=2)(one)
    with pytest.raises(TypeError, match=r"takes \(items\) or \(items, payloads: list"):
        Handlers().handler(batch=2)(three)


# The gathering alone.


@dataclass(eq=False)
class Given:
    id: str


async def test_an_item_that_leaves_is_not_called_and_a_call_without_items_is_cancelled():
    called, begun, ended = [], asyncio.Event(), []

    async def call(items):
        called.append(ids(items))
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    batches = Batches(3, LONG, call, has_place=lambda: True, on_end=lambda: None)
    one, two, three, four = (Given(name) for name in "abcd")
    joined = {each.id: asyncio.create_task(batches.join(each, each)) for each in (one, two)}
    await asyncio.wait(joined.values(), timeout=0.01)
    joined["a"].cancel()
    await asyncio.wait({joined["a"]})
    joined |= {each.id: asyncio.create_task(batches.join(each, each)) for each in (three, four)}
    await begun.wait()
    assert called == [["b", "c", "d"]]
    for name in "bc":
        joined[name].cancel()
        await asyncio.wait({joined[name]})
    assert not ended  # one of them is still waited for
    joined["d"].cancel()
    await asyncio.wait({joined["d"]})
    assert ended
