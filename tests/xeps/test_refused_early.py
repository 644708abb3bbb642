"""What could only run wrongly is refused with one sentence, before anything is sent or taken."""

import asyncio
import functools
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from harness.patience import TIMEOUT

from pubqueue import BlockingPublisher, Handlers, Publisher, Timing, Worker
from pubqueue.testing import Service, make_item
from pubqueue_xeps.batch import Batch
from pubqueue_xeps.middleware import NotCalledOn, wrapped
from pubqueue_xeps.wire.publication import NewItem


@pytest.fixture(scope="module")
def running():
    with Service() as service:
        yield service


@pytest.fixture
def service(running):
    running.clear()
    running.create("jobs", backoff_min=0, max_failures=1)
    return running


@pytest.fixture
def worker(service):
    return Worker(**service.account(), node="jobs", signals=())


class Object:
    """Can be called, and is async or not."""

    def __call__(self, item):
        """Do nothing."""


class AsyncObject:
    async def __call__(self, item):
        """Do nothing."""


async def nothing(item):
    """Do nothing."""


def plain(item):
    """Do nothing."""


@pytest.mark.parametrize(
    ("handler", "error", "sentence"),
    [
        (plain, TypeError, "The handler plain is no coroutine function: give it to `run_blocking`"),
        (Object(), TypeError, "The handler Object is no coroutine function"),
        (functools.partial(plain), TypeError, "The handler partial is no coroutine function"),
        (7, TypeError, "The handler is 7; it takes an async function, or Handlers"),
    ],
)
async def test_what_would_block_or_fail_is_no_handler(service, worker, handler, error, sentence):
    service.publish("jobs", 1)
    with pytest.raises(error, match=sentence):
        await worker.run(handler)
    assert [item.attempts for item in service.items("jobs")] == [0]


@functools.wraps(nothing)
def decorated(item):
    return nothing(item)


@pytest.mark.parametrize("handler", [AsyncObject(), functools.partial(nothing), decorated])
async def test_whatever_is_async_is_a_handler(service, worker, handler):
    service.publish("jobs", 1, id="a")
    await service.run(worker, handler, node="jobs")
    assert service.done("jobs") == ["a"]


@pytest.mark.parametrize(
    ("handler", "sentence"),
    [
        (nothing, "The handler nothing is a coroutine function: give it to `run`"),
        (AsyncObject(), "The handler AsyncObject is a coroutine function: give it to `run`"),
        (functools.partial(nothing), "is a coroutine function: give it to `run`"),
        (Handlers(), "Pass Handlers to `run`"),
        (None, "The handler is None; it takes a plain function"),
    ],
)
def test_what_is_async_does_not_run_in_threads(worker, handler, sentence):
    with pytest.raises(TypeError, match=sentence):
        worker.run_blocking(handler)


def plain_middleware(item, call_next):
    """Do nothing."""


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("x", "A middleware is an async function of the item and the next call, not 'x'"),
        (plain_middleware, "The middleware plain_middleware is not async: write `async def`"),
        (Object(), "The middleware Object is not async"),
        (Timing, r"The middleware Timing is a class: give Timing\(\)"),
    ],
)
def test_what_is_no_middleware_is_refused(wrong, sentence):
    with pytest.raises(TypeError, match=sentence):
        Handlers(wrong)


@pytest.mark.parametrize("name", [7, b"job", ("a", "b")])
def test_a_handler_is_of_items_by_a_text(name):
    with pytest.raises(TypeError, match="a handler selects items by a text"):
        Handlers().handler(name)


async def forgets(item, call_next):
    return None


async def never_awaits(item, call_next):
    call_next(item).close()


@pytest.mark.parametrize("wrong", [forgets, never_awaits])
async def test_a_middleware_that_does_not_call_on_loses_no_work(service, worker, wrong):
    app = Handlers(wrong)
    app.handler()(nothing)
    service.publish("jobs", 1, id="a")
    await service.run(worker, app, node="jobs")
    assert service.done("jobs") == []
    assert [item.reason for item in service.items("jobs")] == ["NotCalledOn"]


async def test_a_middleware_that_does_not_wait_for_the_handler_has_failed():
    begun, item, tasks = asyncio.Event(), make_item(1), []

    async def handler(_item):
        begun.set()
        await asyncio.Event().wait()

    async def hasty(item, call_next):
        tasks.append(asyncio.create_task(call_next(item)))
        await begun.wait()

    with pytest.raises(NotCalledOn, match="The middleware hasty returned without having awaited"):
        await wrapped([hasty], handler)(item)
    tasks[0].cancel()


async def test_a_middleware_may_settle_the_item_itself(service, worker):
    async def known(item, call_next):
        await item.retract()

    app = Handlers(known)
    app.handler()(nothing)
    service.publish("jobs", 1, id="a")
    await service.run(worker, app, node="jobs")
    assert service.done("jobs") == ["a"]


NAIVE = datetime(2026, 11, 22, 12)  # noqa: DTZ001 - what is refused
WRONG = [
    ({"id": ""}, ValueError, "id is ''; it takes a non-empty text, or None"),
    ({"id": 7}, ValueError, "id is 7; it takes a non-empty text"),
    ({"headers": {"a": 1}}, TypeError, "header 'a' has a value that is not text"),
    ({"headers": {1: "a"}}, TypeError, "header 1 has a name that is not text"),
    ({"headers": ["a"]}, TypeError, "headers are a mapping of names to texts, not list"),
    ({"delay": NAIVE}, ValueError, "delay is 2026-11-22T12:00:00, which has no time zone"),
    ({"ttl": NAIVE}, ValueError, "ttl is 2026-11-22T12:00:00, which has no time zone"),
    ({"delay": timedelta(seconds=-1)}, ValueError, "delay is .*; it takes seconds, 0 or more"),
    ({"ttl": "60"}, ValueError, "ttl is '60'; it takes seconds, 0 or more, a timedelta"),
]


@pytest.mark.parametrize(("wrong", "error", "sentence"), WRONG)
async def test_an_invalid_item_is_refused_by_all_publishers(service, wrong, error, sentence):
    async with Publisher(**service.account()) as publisher:
        with pytest.raises(error, match=sentence):
            await publisher.publish("jobs", 1, **wrong)
        if "delay" not in wrong:
            with pytest.raises(error, match=sentence):
                await publisher.ask("jobs", 1, **wrong)
        batch = Batch(None, "queue.localhost", app="a", version=1)
        with pytest.raises(error, match=sentence):
            await batch.publish("jobs", 1, **wrong)
        with pytest.raises(Exception, match="1 of 1 items were not published") as caught:
            await publisher.publish_many("jobs", [NewItem(payload=1, **wrong)])
        assert isinstance(caught.value.results[0], error)
    assert service.items("jobs") == []


async def test_an_empty_id_of_follow_up_work_is_refused():
    item = make_item(1)
    with pytest.raises(ValueError, match="id is ''"):
        await item.publish("more", 1, id="")
    assert item.follow_ups == []


@pytest.mark.parametrize("wrong", [float("nan"), -1, "60", True, NAIVE])
async def test_a_time_that_is_none_is_refused_wherever_one_is_taken(service, wrong):
    with pytest.raises(ValueError, match="timeout is"):
        Publisher(**service.account(), timeout=wrong)
    with pytest.raises(ValueError, match="seconds is"):
        await make_item(1).touch(wrong)
    async with Publisher(**service.account()) as publisher:
        with pytest.raises(ValueError, match="timeout is"):
            await publisher.publish("jobs", 1, timeout=wrong)


async def test_times_may_be_timedeltas_and_aware_datetimes(service):
    async with Publisher(**service.account(), timeout=timedelta(minutes=1)) as publisher:
        await publisher.publish("jobs", 1, delay=timedelta(hours=1), timeout=timedelta(seconds=30))
        at = datetime.now(UTC) + timedelta(hours=2)
        await publisher.publish("jobs", 2, delay=at, ttl=timedelta(days=1))
        await publisher.publish("jobs", 3, delay=datetime(2000, 1, 1, tzinfo=UTC))
    due = sorted(item.due_in or 0 for item in service.items("jobs"))
    assert due[0] == 0
    assert 3595 < due[1] <= 3600
    assert 7100 < due[2] <= 7200


FORKED = """
import os, sys
from pubqueue import BlockingPublisher
from pubqueue.testing import Service

with Service() as service:
    service.create("jobs")
    publisher = BlockingPublisher(**service.account())
    publisher.open()
    publisher.publish("jobs", 1)
    child = os.fork()
    if child == 0:
        for use in (lambda: publisher.publish("jobs", 2), publisher.open):
            try:
                use()
            except RuntimeError as error:
                print(error, flush=True)
        publisher.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    publisher.publish("jobs", 3)
    publisher.close()
    print(len(service.items("jobs")))
"""


def test_a_publisher_is_not_used_after_a_fork():
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    reported = "The publisher was opened before this process was forked: open one of its own here."
    assert ended.stdout.splitlines() == [reported, reported, "2"]


async def test_an_async_publisher_is_not_used_after_a_fork(service, monkeypatch):
    publisher = Publisher(**service.account())
    async with publisher:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(RuntimeError, match="before this process was forked"):
            await publisher.publish("jobs", 1)
        monkeypatch.undo()
        await publisher.publish("jobs", 2)


def test_a_closed_blocking_publisher_raises_an_error():
    with pytest.raises(RuntimeError, match="enter it with `with`"):
        BlockingPublisher("a@localhost", "x", service="q.localhost").publish("jobs", 1)
