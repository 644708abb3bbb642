"""Tasks and the driver on the real service, without Spark: each line of the transaction's story."""

import asyncio
import logging
import sys
import time
from collections import Counter
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import harness.processes.slowed
import pytest
from pyspark.sql.types import StringType, StructType

from pubqueue_spark import session
from pubqueue_spark.errors import OptionError, RowError, ServiceError
from pubqueue_spark.write import finish, open_write, task
from pubqueue_spark.write.task import CHUNK, Pace, TaskWritten
from pubqueue_xeps.client import commits
from pubqueue_xeps.wire.requests import transactions

pytestmark = pytest.mark.e2e

MARK = {"txnAppId": "nightly", "txnVersion": "7"}
ROWS = StructType().add("payload", StringType())


@pytest.fixture(autouse=True)
def own_pool():
    yield
    session.pool().close()


@pytest.fixture
def in_task(monkeypatch):
    """Call something in a task of Spark, as far as the sink sees one."""

    def in_task(part, attempt, call, **properties):
        local = {"spark.app.id": "app-1"} | properties
        stub = SimpleNamespace(
            partitionId=lambda: part, taskAttemptId=lambda: attempt, getLocalProperty=local.get
        )
        monkeypatch.setattr(task.TaskContext, "get", lambda: stub)
        return call()

    return in_task


@pytest.fixture
def options(connection, component):
    return connection | {"node": "jobs", "retryBackoff": "0.01-0.1"}


def batch(options, **more):
    return open_write.batch(options | more, ROWS, overwrite=False)


def jobs(*numbers):
    return [(f"<job xmlns='urn:example:job' n='{n}'/>",) for n in numbers]


def test_only_the_attempts_of_the_driver_are_seen_and_logged_in_one_line(
    options, in_task, settled, caplog
):
    writer = batch(options, **MARK)
    in_task(0, 11, lambda: writer.write(iter(jobs(0, 1, 77))))
    done = [
        in_task(0, 12, lambda: writer.write(iter(jobs(0, 1)))),
        in_task(1, 13, lambda: writer.write(iter(jobs(2)))),
    ]
    with caplog.at_level(logging.INFO, "pubqueue_spark"):
        writer.commit([*done, None])
    settled(3)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(
        "version 7 of 'nightly' to queue.localhost: 3 items, 108 bytes, 0 known, 0 rows left out,"
        " 0 dead-lettered, 0 requests retried, 0 reconnects, longest task "
    )


@pytest.fixture
def slowed(component, background, monkeypatch):
    """Let the long work of the service pause before each slice of ten items until the driver asks how far it is, which it does soon.

    Returns the command by which it is as fast as ever.
    """
    monkeypatch.setattr(commits, "LATEST", commits.SOONEST)
    background.run(component.stop())
    whole = component.command
    slow = harness.processes.slowed.__file__
    component.command = (sys.executable, slow, "asked", "5", "10")
    background.run(component.start())
    return whole


@pytest.mark.usefixtures("slowed")
def test_a_commit_outlasts_the_timeouts_as_long_as_it_advances(
    options, in_task, settled, caplog, monkeypatch
):
    monkeypatch.setattr(finish, "REPORT_EVERY", 0.0)
    writer = batch(options, **MARK, progressTimeout="3", retries="0")
    done = in_task(0, 1, lambda: writer.write(iter(jobs(*range(200)))))
    began = time.monotonic()
    with caplog.at_level(logging.INFO, "pubqueue_spark"):
        writer.commit([done])
    assert time.monotonic() - began > 3, "each half of it has twenty slices"
    *progress, line = [record.getMessage() for record in caplog.records]
    assert line.startswith("version 7 of 'nightly' to queue.localhost: 200 items, ")
    for half in ("judged", "committed, and moved to their nodes"):
        assert any(it.endswith(f" of 200 items are {half}") for it in progress), progress
    settled(200)


async def killed(component, *, comes_back):
    """Kill the service, and start it again if it comes back at once; return whether it does."""
    await component.kill()
    if comes_back:
        await component.start()
    return comes_back


@pytest.fixture
def accidents(component, background, slowed, monkeypatch):
    """Let something happen once to a commit in that half: `accidents(what, half)`; returns the progress at that moment."""

    revivals = []

    def accidents(what, half):
        seen = []

        def reported(_progress, at_work):
            if half not in str(at_work) or not at_work.done or seen:
                return
            seen.append(at_work)
            if what != "connection":
                component.command = slowed  # when it comes back, nobody may ask any more
                death = killed(component, comes_back=what == "service")
                revivals.append(asyncio.run_coroutine_threadsafe(death, background.loop))
            for stream in session.pool().sessions.values():
                stream.drop()

        monkeypatch.setattr(finish.Progress, "reported", reported)
        return seen

    def ended():
        while revivals:
            if not revivals.pop().result(timeout=60):
                background.run(component.start())

    accidents.ended = ended
    yield accidents
    ended()


@pytest.mark.parametrize(
    "case", list(product(["service", "connection"], ["are judged", "are committed"]))
)
def test_what_is_lost_in_a_long_commit_does_not_matter(options, in_task, settled, accidents, case):
    seen = accidents(*case)
    writer = batch(options, **MARK, retries="1000")
    writer.commit([in_task(0, 1, lambda: writer.write(iter(jobs(*range(100)))))])
    assert seen
    settled(100)


def test_a_commit_that_was_at_work_when_its_service_went_is_not_called_undone(
    options, in_task, settled, accidents
):
    accidents("service for good", "are committed")  # it comes back after the driver has given up
    writer = batch(options, **MARK, retries="0")
    done = in_task(0, 1, lambda: writer.write(iter(jobs(*range(100)))))
    with pytest.raises(ServiceError) as caught:
        writer.commit([done])
    assert "nothing of it is visible" not in str(caught.value)
    assert "Whether version 7 of 'nightly' is committed is not known" in str(caught.value)
    accidents.ended()
    settled(100)


def test_a_service_that_tells_no_progress_is_waited_for(options, in_task, settled):
    writer = batch(options, **MARK)
    earlier = replace(writer, job=replace(writer.job, progress=False))
    earlier.commit([in_task(0, 1, lambda: earlier.write(iter(jobs(*range(2500)))))])
    settled(2500)


def test_a_replay_sends_no_more_than_it_must_and_warns(options, in_task, settled, caplog):
    writer = batch(options, **MARK)
    writer.commit([in_task(0, 1, lambda: writer.write(iter(jobs(*range(900)))))])
    again = in_task(0, 2, lambda: writer.write(iter(jobs(*range(900)))))
    assert (again.written[0].items, again.written[0].replayed) == (0, 900)
    with caplog.at_level(logging.INFO, "pubqueue_spark"):
        writer.commit([again])
    (line,) = caplog.records
    assert line.levelname == "WARNING"
    assert line.getMessage() == (
        "version 7 of 'nightly' was committed to queue.localhost before, and is not written again"
        " (onReplay=skip)."
    )
    settled(900)


def test_a_node_that_takes_few_items_at_once_gets_few(options, in_task, settled):
    """Its largest number of items is that of a request too."""
    writer = batch(options, node="small")
    done = in_task(0, 1, lambda: writer.write(iter(jobs(*range(25)))))
    assert (done.written[0].items, done.written[0].retries) == (25, 0)
    writer.abort([done])
    settled(0, records=0)


def test_of_two_drivers_with_one_mark_one_writes(options, in_task, settled):
    one, other = batch(options, **MARK), batch(options, **MARK, onReplay="fail")
    late = in_task(0, 1, lambda: other.write(iter(jobs(5))))
    one.commit([in_task(0, 2, lambda: one.write(iter(jobs(0, 1))))])
    with pytest.raises(ServiceError, match=r"was committed to .* before"):
        other.commit([late])
    settled(2)


def test_a_commit_that_comes_twice_counts_once(options, in_task, settled):
    writer = batch(options, **MARK)
    done = in_task(0, 1, lambda: writer.write(iter(jobs(0, 1))))
    for _ in range(2):
        writer.commit([done])
    writer.abort([None])
    settled(2)


def test_very_many_parts_are_committed_as_one_list(options, in_task, settled, monkeypatch):
    monkeypatch.setattr(transactions, "COMPACT", 10)
    writer = batch(options)
    writer.commit([in_task(n, n, lambda n=n: writer.write(iter(jobs(n)))) for n in range(11)])
    settled(11)


def test_a_commit_that_names_what_is_not_staged_is_refused(options, in_task, settled):
    writer = batch(options, **MARK)
    done = in_task(0, 1, lambda: writer.write(iter(jobs(0, 1))))
    with pytest.raises(ServiceError) as caught:
        writer.commit([TaskWritten((replace(done.written[0], items=3),))])
    assert str(caught.value).startswith(
        "queue.localhost refused the commit of version 7 of 'nightly', and nothing of it is visible:"
        f" conflict, type cancel; part 0 is named with 3 items of attempt {done.written[0].attempt}, and 2 are staged"
    )
    writer.abort([done])
    settled(0, records=0)


def test_a_driver_that_is_given_up_for_lost_drops_nothing_of_its_successor_s(
    options, in_task, settled
):
    lost, successor = batch(options, **MARK), batch(options, **MARK)
    theirs = in_task(0, 1, lambda: lost.write(iter(jobs(0))))
    done = [
        in_task(0, 2, lambda: successor.write(iter(jobs(0, 1)))),
        in_task(1, 3, lambda: successor.write(iter(jobs(2, 3)))),
    ]
    lost.abort([theirs, None])
    successor.commit(done)
    settled(4)


def test_a_task_that_fails_drops_what_it_has_staged(options, in_task, settled):
    writer = batch(options, **MARK, itemsPerRequest="1")
    with pytest.raises(RowError):
        in_task(0, 1, lambda: writer.write(iter([*jobs(0, 1), ("<broken",)])))
    settled(0, records=0)


def test_the_name_of_an_application_belongs_to_its_account(
    options, in_task, background, prosody, settled
):
    writer = batch(options, **MARK)
    writer.commit([in_task(0, 1, lambda: writer.write(iter(jobs(0))))])
    background.run(prosody.account("other", "hunter3hunter3"))
    theirs = batch(
        options,
        txnAppId="nightly",
        txnVersion="8",
        jid="other@localhost",
        password="hunter3hunter3",
    )
    theirs.commit([in_task(0, 2, lambda: theirs.write(iter(jobs(5))))])
    settled(Counter([0, 5]), records=2)


def test_a_commit_without_an_answer_reports_that_its_outcome_is_not_known(
    options, in_task, background, component, caplog
):
    writer = batch(options, **MARK, retries="1", progressTimeout="1")
    done = in_task(0, 1, lambda: writer.write(iter(jobs(0))))
    background.run(component.kill())
    with pytest.raises(ServiceError) as caught:
        writer.commit([done])
    writer.abort([done])
    background.run(component.start())
    assert "version 7 of 'nightly'" in str(caught.value)
    assert "nothing of it is visible" in str(caught.value) or "is not known" in str(caught.value)
    assert "its staged items stay until they expire" in caplog.text


def test_the_task_of_a_stream_names_its_batch(options, in_task, settled):
    writer = open_write.stream(options | {"checkpointLocation": "x"}, ROWS, overwrite=False)
    batch = {"sql.streaming.queryId": "query", "streaming.sql.batchId": "4"}
    done = in_task(0, 1, lambda: writer.write(iter(jobs(0))), **batch)
    assert (done.written[0].mark.app, done.written[0].mark.version) == ("query", 4)
    open_write.stream(options, ROWS, overwrite=False).commit([done], 4)
    settled(1)
    with pytest.raises(OptionError, match="only micro-batches can be written"):
        in_task(0, 1, lambda: writer.write(iter(jobs(0))))


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"txnAppId": "a"}, "options txnAppId, txnVersion: give both, or neither"),
        ({"txnVersion": "1"}, "options txnAppId, txnVersion: give both, or neither"),
    ],
)
def test_a_mark_has_two_halves(options, more, sentence):
    with pytest.raises(OptionError, match=sentence):
        batch(options, **more)


def test_a_stream_s_output_mode_is_not_complete(options):
    with pytest.raises(OptionError, match=r"use outputMode\('append'\)"):
        open_write.stream(options, ROWS, overwrite=True)


def test_a_task_keeps_to_its_rate():
    now, slept = [100.0], []

    def sleep(seconds):
        slept.append(round(seconds, 6))
        now[0] += seconds

    pace = Pace(50, lambda: now[0], sleep)
    assert pace.chunk == 5
    for _ in range(3):
        pace.wait(5)
    now[0] += 60  # the service was slow
    pace.wait(5)
    assert slept == [0.1] * 4


def test_without_a_rate_no_item_waits():
    pace = Pace(None, sleep=lambda _: pytest.fail("no"))
    assert pace.chunk == CHUNK
    pace.wait(10**6)
