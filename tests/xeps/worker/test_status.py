"""What a worker says on standard error, and when it says nothing."""

import asyncio
import logging
import threading
from collections import Counter
from time import monotonic
from types import SimpleNamespace

import pytest
from harness import virtual_time
from harness.batches.inside import cut, held_items, session_of
from harness.patience import TIMEOUT, turns
from harness.servers.queue_service import in_turn, refuse, result

from pubqueue import Handlers, Timings, Worker
from pubqueue.testing import Service
from pubqueue_xeps.wire.refusals import Reject, Release
from pubqueue_xeps.worker import status
from pubqueue_xeps.worker.status import COUNTED, LoopWatch, Minutes, report_minutes, watched


def held(**tally):
    return SimpleNamespace(name="jobs", tally=Counter(tally), in_hand=0)


def test_a_minute_is_logged_if_something_has_changed():
    items = held(done=5)
    minutes = Minutes(items)
    assert minutes.line() is None
    items.tally.update(done=1200, failed=2)
    items.in_hand = 4
    assert minutes.line() == "jobs: 1,200 done, 2 failed in the last minute, 4 in hand"
    assert minutes.line() is None
    items.in_hand = 0
    assert minutes.line() == "jobs: 0 done in the last minute, 0 in hand"
    items.tally.update(dict.fromkeys(COUNTED, 1))
    reported = "1 done, 1 failed, 1 rejected, 1 released, 1 held, 1 lost"
    assert minutes.line() == f"jobs: {reported} in the last minute, 0 in hand"


def test_once_a_minute_by_the_clock_of_the_loop(capsys):
    async def an_hour():
        items = held()
        telling = asyncio.create_task(report_minutes(items))
        for _ in range(3):
            await asyncio.sleep(20 * 60)
            items.tally["done"] += 1
        telling.cancel()

    virtual_time.run(an_hour())
    assert capsys.readouterr().err == 2 * "pubqueue: jobs: 1 done in the last minute, 0 in hand\n"


@pytest.mark.e2e
async def test_a_worker_reports_what_it_does(unset, capsys, service, worker_of):
    app = Handlers()

    @app.handler("bad")
    async def bad(item):
        raise ValueError("the handler's own words")

    @app.handler()
    async def good(item):
        """Do it."""

    worker = worker_of(requests=3)
    async with worker:
        running = asyncio.create_task(worker.run(app))
        service.deliver(worker.jid, "i1", "<good>geheim</good>")
        await service.next("retract")
        service.deliver(worker.jid, "i2", "<bad>geheim</bad>")
        await service.next("unlock")
        await service.heard(worker.jid)
        assert held_items(worker).tally == {"done": 1, "failed": 1}
        worker.stop()
        await running
    lines = capsys.readouterr().err.splitlines()
    assert [line for line in lines if line.startswith("pubqueue: ")] == [
        "pubqueue: connected as bot@localhost/one to jobs at queue.localhost, 3 at a time",
        "pubqueue: failed: i2 of jobs (ValueError)",
        "pubqueue: stopping, 0 in hand",
        "pubqueue: closed",
    ]
    assert "geheim" not in "".join(lines)
    assert "secret" not in "".join(lines)


@pytest.mark.e2e
async def test_what_becomes_of_each_item_is_counted(unset, capsys, service, worker_of):
    service.script["retract"] = in_turn(
        lambda iq: [result(iq), service.retracted(iq)], lambda iq: [refuse(iq, "conflict")]
    )
    async with worker_of(requests=4) as worker:
        for number, how in enumerate((None, None, Release(), Reject("no"))):
            service.deliver(worker.jid, f"i{number}")
            async with await anext(worker):
                if how is not None:
                    raise how
    assert "pubqueue: rejected: i3 of jobs is dead (no)" in capsys.readouterr().err.splitlines()
    expected = {"done": 1, "lost": 1, "release": 1, "reject": 1}
    assert (held_items(worker).tally, held_items(worker).in_hand) == (expected, 0)


@pytest.mark.e2e
async def test_a_lost_connection_and_its_return_are_logged(unset, capsys, service, worker_of):
    async with worker_of() as worker:
        await service.subscriber()
        cut(session_of(worker))
        await service.subscriber()
        await session_of(worker).ready()
    lines = capsys.readouterr().err.splitlines()
    connected = "pubqueue: connected as bot@localhost/one to jobs at queue.localhost, 1 at a time"
    assert lines[0] == connected
    assert lines[1].startswith("pubqueue: the connection is lost (")
    assert lines[1].endswith("), reconnecting")
    assert [line for line in lines[2:] if "trying again" not in line] == [
        connected,
        "pubqueue: stopping, 0 in hand",
        "pubqueue: closed",
    ]


@pytest.mark.e2e
async def test_a_quiet_worker_reports_nothing(unset, capsys, service, worker_of):
    async with worker_of(status=False):
        pass
    assert capsys.readouterr().err == ""


# An event loop that stands still is told, with the handler and its line.


WATCHES = status.WATCHES


class Freeing(logging.Handler):
    """Keeps what is logged, and lets go on whoever waits for the loop to be missed."""

    def __init__(self):
        super().__init__()
        self.missed = threading.Event()
        self.reported = []

    def emit(self, record):
        facts = record.pubqueue
        if facts["event"].startswith("loop."):
            self.reported.append((facts["event"], facts["where"], facts["seconds"]))
            self.missed.set()


@pytest.fixture
def stalls():
    handler, logger = Freeing(), logging.getLogger("pubqueue_xeps")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture
def own_service():
    with Service() as own_service:
        own_service.create("jobs")
        own_service.publish("jobs", 1, id="a")
        yield own_service


def worker(own_service, stall):
    timings = Timings(stall=stall)
    return Worker(**own_service.account(), node="jobs", signals=(), timings=timings)


@pytest.mark.parametrize("several", [False, True])
async def test_the_handler_that_blocks_is_named_with_its_line(own_service, stalls, several):
    async def rebook(item):
        stalls.missed.clear()  # a busy machine may have stopped it elsewhere
        assert stalls.missed.wait(TIMEOUT)  # blocks the loop until somebody has missed it

    app = Handlers()
    app.handler()(rebook)
    await own_service.run(worker(own_service, 0.05), app if several else rebook, node="jobs")
    handler = f"the handler rebook, {__file__}:"
    missed, *later = [one for one in stalls.reported if one[1].startswith(handler)]
    over = next(one for one in later if one[0] == "loop.stood_still")
    assert missed[0] == "loop.stands_still"
    assert over[2] >= missed[2] > 0
    assert own_service.done("jobs") == ["a"]


async def test_a_handler_that_waits_is_not_one_that_blocks(own_service, stalls):
    looked = threading.Event()

    def look(loop):
        # when this is done, the handler waits, and the loop for us
        asyncio.run_coroutine_threadsafe(turns(), loop).result(TIMEOUT)
        WATCHES[loop].look(monotonic() + 3600)  # long after any beat
        looked.set()

    async def waits(item):
        await asyncio.to_thread(look, asyncio.get_running_loop())

    await own_service.run(worker(own_service, TIMEOUT), waits, node="jobs")
    assert looked.is_set()
    assert stalls.reported == []


async def test_one_thread_watches_a_loop_however_many_workers_it_has():
    def threads():
        return [it.name for it in threading.enumerate()].count("pubqueue watch")

    with watched(60), watched(60):
        assert threads() == 1
    assert threads() == 0
    assert not WATCHES


async def test_a_lasting_state_is_logged_each_time_its_age_doubles(stalls):
    watch = LoopWatch(asyncio.get_running_loop(), 2)
    watch.beaten = 0
    for now in (1, 3, 4, 5, 7, 10, 20):
        watch.look(now)  # of this very loop, which is in this test
    assert [seconds for _, _, seconds in stalls.reported] == [2.5, 6.5, 19.5]
