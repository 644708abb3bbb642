"""What a worker says on standard error, and when it says nothing."""

import ast
import asyncio
import logging
import threading
from collections import Counter
from pathlib import Path
from string import Formatter
from time import monotonic
from types import SimpleNamespace

import pytest
import structlog
from harness import virtual_time
from harness.batches.inside import cut, held_items, session_of
from harness.patience import TIMEOUT, turns
from harness.servers.queue_service import in_turn, refuse, result

from pubqueue import Handlers, Timings, Worker
from pubqueue.testing import Service
from pubqueue_xeps.log import log
from pubqueue_xeps.wire.refusals import Reject, Release
from pubqueue_xeps.worker import status
from pubqueue_xeps.worker.status import (
    COUNTED,
    SENTENCES,
    STANDARD_ERROR,
    LoopWatch,
    Minutes,
    report_minutes,
    show,
    wanted,
    watched,
)


@pytest.fixture
def unset(monkeypatch):
    """Have logging be as in a program that has set up none."""
    # pytest has handlers at the real one
    monkeypatch.setattr(status, "ROOT", SimpleNamespace(handlers=[]))
    monkeypatch.delenv("PUBQUEUE_QUIET", raising=False)
    structlog.reset_defaults()  # of what another test has set up
    yield
    structlog.reset_defaults()


def held(**tally):
    return SimpleNamespace(name="jobs", tally=Counter(tally), in_hand=0)


def test_it_is_wanted_where_no_server_listens(unset):
    assert wanted()
    with STANDARD_ERROR.reporting():
        assert wanted()  # by a second worker


def test_not_where_logging_is_set_up(unset):
    status.ROOT.handlers.append(logging.NullHandler())
    assert not wanted()


def test_not_where_our_logger_has_a_handler(unset, monkeypatch):
    monkeypatch.setattr(logging.getLogger("pubqueue_xeps"), "handlers", [logging.NullHandler()])
    assert not wanted()


def test_not_where_structlog_is_set_up(unset):
    structlog.configure()
    assert not wanted()


def test_not_where_quiet_is_asked_for(unset, monkeypatch):
    monkeypatch.setenv("PUBQUEUE_QUIET", "1")
    assert not wanted()


def test_events_are_reported_once_however_many_workers_there_are(unset, capsys):
    with STANDARD_ERROR.reporting(), STANDARD_ERROR.reporting():
        log.info("worker.subscribed", jid="bot@x/1", node="jobs", service="q.x", requests=10)
    log.info("worker.stopping", in_hand=3)
    expected = "pubqueue: connected as bot@x/1 to jobs at q.x, 10 at a time\n"
    assert capsys.readouterr().err == expected
    assert logging.getLogger("pubqueue_xeps").level == logging.NOTSET


def test_of_other_events_only_warnings_are_logged(unset, capsys):
    with STANDARD_ERROR.reporting():
        log.info("item.given_back", id="i1")
        log.warning("item.released", id="i1")
    expected = "pubqueue: released at the end, unfinished: i1 of ?\n"
    assert capsys.readouterr().err == expected


def test_a_failure_is_logged_with_its_traceback(unset, capsys):
    with STANDARD_ERROR.reporting():
        try:
            _ = 1 / 0
        except ZeroDivisionError:
            log.exception("item.failed", id="i1", node="jobs", error="ZeroDivisionError")
    first, second, *_, last = capsys.readouterr().err.splitlines()
    assert first == "pubqueue: failed: i1 of jobs (ZeroDivisionError)"
    assert second == "Traceback (most recent call last):"
    assert last == "ZeroDivisionError: division by zero"


def test_nothing_is_printed_once_logging_is_set_up(unset, capsys):
    with STANDARD_ERROR.reporting():
        status.ROOT.handlers.append(logging.NullHandler())
        log.warning("worker.disconnected", why="x")
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_no_escape_commands(capsys):
    show("\x1b[2J i1\n")
    assert capsys.readouterr().err == "pubqueue: \ufffd[2J i1\ufffd\n"


LEVELS = ("warning", "error", "exception")


def logged():
    """Return each event that the library logs, with its level and the names of its facts."""
    for file in sorted(Path(status.__file__).parents[1].rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text("utf-8"))):
            match call:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="log"), attr=level), args=[event]
                ):
                    assert isinstance(event, ast.Constant), (
                        f"{file.name} makes the name of an event"
                    )
                    yield event.value, level, {fact.arg for fact in call.keywords}


def test_whatever_is_wrong_has_a_sentence_and_the_facts_for_it():
    events = list(logged())
    assert len(events) > 20
    assert {event for event, level, _ in events if level in LEVELS} <= set(SENTENCES)
    assert set(SENTENCES) <= {event for event, _, _ in events}
    for event, level, facts in events:
        if level in LEVELS or event == "worker.subscribed":
            named = {name for _, name, _, _ in Formatter().parse(SENTENCES[event]) if name}
            assert named <= facts, event


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
    reported = "1 done, 1 failed, 1 rejected, 1 released, 1 lost"
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


def worker(own_service):
    timings = Timings(stall=0.05)
    return Worker(**own_service.account(), node="jobs", signals=(), timings=timings)


@pytest.mark.parametrize("several", [False, True])
async def test_the_handler_that_blocks_is_named_with_its_line(own_service, stalls, several):
    async def rebook(item):
        assert stalls.missed.wait(TIMEOUT)  # blocks the loop until somebody has missed it

    app = Handlers()
    app.handler()(rebook)
    await own_service.run(worker(own_service), app if several else rebook, node="jobs")
    missed, *later = stalls.reported
    over = next(one for one in later if one[0] == "loop.stood_still")  # a busy machine has more
    assert missed[0] == "loop.stands_still"
    assert missed[1].startswith(f"the handler rebook, {__file__}:")
    assert over[1] == missed[1]
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

    await own_service.run(worker(own_service), waits, node="jobs")
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
