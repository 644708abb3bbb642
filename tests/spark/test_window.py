import asyncio
import logging
import re
import time
import xml.etree.ElementTree as ET

import pytest
from harness.patience import TIMEOUT, turns

from pubqueue_spark.client import window as window_module
from pubqueue_spark.client.option import Backoff
from pubqueue_spark.client.refusals import failure
from pubqueue_spark.client.window import Limits, Task, Window, WindowCounts
from pubqueue_spark.errors import RowError, ServiceError
from pubqueue_xeps.errors import LoginRefused, ServerUnreachable
from pubqueue_xeps.wire.requests import IqRequest

STANZAS = "urn:ietf:params:xml:ns:xmpp-stanzas"
OK = "<iq xmlns='jabber:client' type='result'/>"


def error(kind, condition):
    return (
        f"<iq xmlns='jabber:client' type='error'><error type='{kind}'>"
        f"<{condition} xmlns='{STANZAS}'/></error></iq>"
    )


class FakeLine:
    """A stream whose far end answers as the test tells it to."""

    def __init__(self):
        self.up = True
        self.sent = []
        self.news = asyncio.Event()
        self.restored = 0
        self.dropped = 0
        self.failures = []
        self.window = self.results = None
        self.script = None

    def send(self, data):
        ids = re.findall(r"<iq type='set' id='(pq0-\d+)'", data.decode())
        self.sent += ids
        self.news.set()
        if self.script:
            for request in ids:
                self.answer(request, self.script(request))

    def answer(self, request, text=OK):
        if text:
            asyncio.get_running_loop().call_soon(
                lambda: self.window.answer(request, ET.fromstring(text))
            )

    def drop(self):
        self.dropped += 1
        self.lose()

    def lose(self):
        self.up = False
        self.window.line_lost()

    async def restore(self):
        if self.failures:
            raise self.failures.pop(0)
        self.restored += 1
        self.up = True

    async def until(self, count):
        async with asyncio.timeout(TIMEOUT):
            while len(self.sent) < count:
                self.news.clear()
                await self.news.wait()


class Answers:
    """Keeps every answer; `instead` may answer a refusal."""

    def __init__(self):
        self.done = []
        self.instead = None

    def taken(self, request, answer):
        self.done.append(request)

    def refused(self, request, refusal, retried):
        if self.instead:
            return self.instead(request)
        raise failure(refusal, request, service="queue.localhost", retried=retried)


def publishes(count, size=10):
    return [IqRequest("set", f"row {n}", "x" * size) for n in range(count)]


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self):
        return self.now


def make(line, *, size=4, timeout=5.0, retries=3, slow_after=5.0, clock=time.monotonic):
    limits = Limits(size, timeout, retries, Backoff(0.001, 0.002), slow_after)
    task = Task("queue.localhost", "partition 0", "pq0-")
    line.results = Answers()
    line.window = Window(line, task, limits, line.results, clock=clock, jitter=lambda: 1.0)
    return line.window


async def send(window, rows):
    await window.put(rows)
    return await window.drain()


async def test_every_publish_is_counted_when_all_are_taken():
    line = FakeLine()
    line.script = lambda _: OK
    head = len("<iq type='set' id='pq0-0' to=\"queue.localhost\">")
    assert await send(make(line), publishes(10)) == WindowCounts(
        done=10, rows=10, bytes=10 * (head + 15)
    )
    assert line.sent == [f"pq0-{n}" for n in range(10)]


async def test_the_iq_goes_to_the_service():
    line = FakeLine()
    seen = []
    line.send = seen.append
    await make(line).put(publishes(1))
    assert seen == [b"<iq type='set' id='pq0-0' to=\"queue.localhost\">xxxxxxxxxx</iq>"]


async def test_no_more_than_the_window_is_in_flight():
    line = FakeLine()
    window = make(line, size=4)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(send(window, publishes(6)))
        await line.until(4)
        assert line.sent == ["pq0-0", "pq0-1", "pq0-2", "pq0-3"]
        line.answer("pq0-2")
        await line.until(5)
        assert line.sent[4:] == ["pq0-4"]
        for n in (0, 1, 3, 4):
            line.answer(f"pq0-{n}")
        await line.until(6)
        line.answer("pq0-5")
    assert window.counts.done == 6


async def test_the_window_is_bounded_in_bytes_too(monkeypatch):
    monkeypatch.setattr(window_module, "MAX_BYTES", 250)
    line = FakeLine()
    window = make(line, size=4)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(send(window, publishes(3, size=100)))
        await line.until(1)
        assert line.sent == ["pq0-0"]
        line.script = lambda _: OK
        line.answer("pq0-0")
    assert window.counts.done == 3


async def test_a_publish_bigger_than_all_bytes_goes_alone(monkeypatch):
    monkeypatch.setattr(window_module, "MAX_BYTES", 50)
    line = FakeLine()
    line.script = lambda _: OK
    assert (await send(make(line), publishes(3, size=100))).done == 3


async def test_a_refusal_of_the_row_names_it_and_stops_the_rest():
    line = FakeLine()
    line.script = lambda request: error("modify", "bad-request") if request == "pq0-1" else OK
    with pytest.raises(RowError, match=r"^queue.localhost refused row 1: bad-request, type modify"):
        await send(make(line, size=2), publishes(100))
    assert len(line.sent) < 100


async def test_a_handler_of_answers_may_replace_or_drop_a_refused_request():
    line = FakeLine()
    window = make(line, size=4)
    (other,) = publishes(1, size=3)
    instead = [[other], []]
    results = line.results
    results.instead = lambda _: instead.pop()
    line.script = lambda it: error("modify", "bad-request") if it in {"pq0-1", "pq0-3"} else OK
    rows = publishes(5)
    counts = await send(window, rows)
    assert counts.done == 4
    assert sorted(results.done, key=str) == sorted([rows[0], other, rows[2], rows[4]], key=str)


async def test_a_refusal_of_everything_is_fatal_at_once():
    line = FakeLine()
    line.script = lambda _: error("auth", "forbidden")
    with pytest.raises(ServiceError, match="forbidden, type auth; let the node's owner make"):
        await send(make(line), publishes(3))


async def test_a_publish_that_is_asked_to_wait_is_sent_again_until_it_is_taken():
    line = FakeLine()
    busy = {"pq0-1": 2, "pq0-3": 1}

    def script(request):
        if busy.get(request):
            busy[request] -= 1
            return error("wait", "resource-constraint")
        return OK

    line.script = script
    counts = await send(make(line), publishes(6))
    assert (counts.done, counts.retries) == (6, 3)
    assert sorted(line.sent) == sorted([f"pq0-{n}" for n in range(6)] + ["pq0-1", "pq0-1", "pq0-3"])


async def test_a_service_that_only_answers_wait_fails_after_the_retries():
    line = FakeLine()
    line.script = lambda _: error("wait", "resource-constraint")
    with pytest.raises(ServiceError, match="after 3 retries: resource-constraint, type wait"):
        await send(make(line), publishes(1))
    assert line.sent == ["pq0-0"] * 4


async def test_being_asked_to_wait_halves_the_window_and_success_opens_it_again():
    line = FakeLine()
    window = make(line, size=8)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(send(window, publishes(30)))
        await line.until(8)
        for n in range(2):
            line.answer(f"pq0-{n}", error("wait", "resource-constraint"))
        for n in range(2, 8):
            line.answer(f"pq0-{n}")
        await line.until(10)
        assert window.allowed == 8
        line.script = lambda _: OK
        for request in line.sent[8:]:
            line.answer(request)
    assert window.counts.done == 30


async def test_what_is_in_flight_when_the_stream_is_lost_is_sent_again_under_the_same_ids():
    line = FakeLine()
    window = make(line, size=4)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(send(window, publishes(6)))
        await line.until(4)
        line.answer("pq0-1")
        await line.until(5)
        line.script = lambda _: OK
        line.lose()
    assert line.sent[5:9] == ["pq0-0", "pq0-2", "pq0-3", "pq0-4"]
    assert window.counts.done == 6
    assert (window.counts.reconnects, line.restored) == (1, 1)


async def test_an_answer_that_comes_twice_counts_once():
    line = FakeLine()
    window = make(line)
    await window.put(publishes(2))
    for _ in range(2):
        window.answer("pq0-0", ET.fromstring(OK))
    window.answer("pq0-1", ET.fromstring(OK))
    assert (await window.drain()).done == 2


async def test_a_stream_that_cannot_be_made_again_fails_after_the_retries_with_the_reason():
    line = FakeLine()
    window = make(line, retries=3)
    await window.put(publishes(3))
    line.failures = [ServerUnreachable("nobody is there.") for _ in range(9)]
    line.lose()
    with pytest.raises(ServiceError) as caught:
        await window.drain()
    assert str(caught.value) == (
        "no answer from queue.localhost through 3 new connections; the oldest unanswered request is"
        " row 0. The last reason: nobody is there."
    )
    assert len(line.failures) == 9 - 3


@pytest.mark.parametrize(("retries", "tries"), [(0, "1 try"), (2, "3 tries")])
async def test_a_stream_that_never_was_there_is_no_unanswered_request(retries, tries):
    line = FakeLine()
    line.up = False
    line.failures = [ServerUnreachable("nobody is there.") for _ in range(9)]
    window = make(line, retries=retries)
    window.no_way_in("nobody is there.")
    await window.put(publishes(1))
    with pytest.raises(ServiceError) as caught:
        await window.drain()
    assert str(caught.value) == (
        f"partition 0 has no connection for queue.localhost: nobody is there ({tries})."
    )


async def test_a_server_that_refuses_all_is_asked_once():
    line = FakeLine()
    window = make(line, retries=3)
    await window.put(publishes(1))
    line.failures = [LoginRefused("wrong name or password.") for _ in range(9)]
    line.lose()
    with pytest.raises(ServiceError, match=r"^partition 0 found no way in: wrong name or password"):
        await window.drain()
    assert len(line.failures) == 8


async def test_a_server_that_ends_the_stream_for_one_stanza_ends_the_job_at_last():
    line = FakeLine()
    window = make(line, retries=3)
    line.script = lambda _: line.lose()
    with pytest.raises(ServiceError, match=r"through 3 new connections; the oldest .* row 0"):
        await send(window, publishes(1))


async def test_a_mute_stream_counts_as_lost_and_a_slow_one_does_not():
    line, clock = FakeLine(), Clock()
    window = make(line, timeout=0.01, size=8, clock=clock)

    async def answer_slowly():
        await line.until(8)
        for n in range(8):
            clock.now += 0.009  # 0.072 s in all: longer than the timeout, never silent
            window.answer(f"pq0-{n}", ET.fromstring(OK))
            await turns()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(send(window, publishes(8)))
        tasks.create_task(answer_slowly())
    assert line.dropped == 0

    line.sent.clear()
    await window.put(publishes(1))
    line.script = lambda _: OK  # for the second time it is sent
    clock.now += 0.02
    assert (await window.drain()).done == 9
    assert line.dropped == 1
    assert line.sent == ["pq0-8", "pq0-8"]


async def test_a_slow_full_window_is_explained_once_in_the_log(caplog):
    line, clock = FakeLine(), Clock()
    window = make(line, size=2, slow_after=0.1, clock=clock)

    async def answer_slowly():
        for n in range(20):
            await line.until(n + 1)
            clock.now += 0.02
            line.answer(f"pq0-{n}")

    with caplog.at_level(logging.WARNING, "pubqueue_spark"):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send(window, publishes(20)))
            tasks.create_task(answer_slowly())
    (record,) = caplog.records
    assert "28 items/s" in record.getMessage()
    assert "unlimited_jids" in record.getMessage()


async def test_a_fast_window_is_not_logged(caplog):
    line, clock = FakeLine(), Clock()

    def answer_quickly(_request):
        clock.now += 0.001
        return OK

    line.script = answer_quickly
    await send(make(line, slow_after=0.0, clock=clock), publishes(500))
    assert not caplog.records
