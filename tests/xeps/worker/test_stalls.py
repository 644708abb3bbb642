"""An event loop that stands still is told, with the handler and its line."""

import asyncio
import logging
import threading
from time import monotonic

import pytest
from harness.patience import TIMEOUT, turns

from pubqueue import Handlers, Timings, Worker
from pubqueue.testing import Service
from pubqueue_xeps.worker import status
from pubqueue_xeps.worker.status import LoopWatch, watched

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
def log():
    handler, logger = Freeing(), logging.getLogger("pubqueue_xeps")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


@pytest.fixture
def service():
    with Service() as service:
        service.create("jobs")
        service.publish("jobs", 1, id="a")
        yield service


def worker(service):
    timings = Timings(stall=0.05)
    return Worker(**service.account(), node="jobs", signals=(), timings=timings)


@pytest.mark.parametrize("several", [False, True])
async def test_the_handler_that_blocks_is_named_with_its_line(service, log, several):
    async def rebook(item):
        assert log.missed.wait(TIMEOUT)  # blocks the loop until somebody has missed it

    app = Handlers()
    app.handler()(rebook)
    await service.run(worker(service), app if several else rebook, node="jobs")
    (missed, *_, over) = log.reported
    assert [missed[0], over[0]] == ["loop.stands_still", "loop.stood_still"]
    assert missed[1].startswith(f"the handler rebook, {__file__}:")
    assert over[1] == missed[1]
    assert over[2] >= missed[2] > 0
    assert service.done("jobs") == ["a"]


async def test_a_handler_that_waits_is_not_one_that_blocks(service, log):
    looked = threading.Event()

    def look(loop):
        # when this is done, the handler waits, and the loop for us
        asyncio.run_coroutine_threadsafe(turns(), loop).result(TIMEOUT)
        WATCHES[loop].look(monotonic() + 3600)  # long after any beat
        looked.set()

    async def waits(item):
        await asyncio.to_thread(look, asyncio.get_running_loop())

    await service.run(worker(service), waits, node="jobs")
    assert looked.is_set()
    assert log.reported == []


async def test_one_thread_watches_a_loop_however_many_workers_it_has():
    def threads():
        return [it.name for it in threading.enumerate()].count("pubqueue watch")

    with watched(60), watched(60):
        assert threads() == 1
    assert threads() == 0
    assert not WATCHES


async def test_a_lasting_state_is_logged_each_time_its_age_doubles(log):
    watch = LoopWatch(asyncio.get_running_loop(), 2)
    watch.beaten = 0
    for now in (1, 3, 4, 5, 7, 10, 20):
        watch.look(now)  # of this very loop, which is in this test
    assert [seconds for _, _, seconds in log.reported] == [2.5, 6.5, 19.5]
