"""Accidents in the middle of a batch, each on the real thing: Spark, Prosody, the component.

After every one of them the same holds: what is visible is what was written, once; nothing is staged;
the service has one record of the transaction.
"""

import os
import signal
import sqlite3
from collections import Counter
from contextlib import closing

import pytest
from harness.processes.spark_accidents import first
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as f

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

MARK = {"txnAppId": "nightly", "txnVersion": "20261121"}


def failing_once(data, flag, *, after):
    """Raise when the first attempt of one partition has yielded so many rows."""

    def rows(partition):
        for number, row in enumerate(partition):
            if number == after and first(flag):
                raise RuntimeError("out of luck")
            yield row

    return data.sparkSession.createDataFrame(data.rdd.mapPartitions(rows), data.schema)


@pytest.mark.parametrize(
    ("frame", "after"),
    [((100, 2, False), 20), ((200, 4, True), 20), ((1300, 1, True), 1000)],  # 1000: several chunks
)
def test_a_task_that_raises_after_some_rows_and_is_tried_again(
    sink, settled, tmp_path, frame, after
):
    rows, partitions, random = frame
    data = sink.frame(rows, partitions, random=random)
    sink.save(failing_once(data, tmp_path / "flag", after=after))
    assert (tmp_path / "flag").exists()
    settled(rows)


def test_a_python_worker_that_is_killed_after_it_has_published(sink, settled, accident, tmp_path):
    flag = tmp_path / "flag"

    def write(go, rows):
        done = go(rows)
        if first(flag):
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    sink.save(sink.frame(60, random=True), accident(write=write))
    assert flag.exists()
    settled(60)


def test_a_driver_that_dies_between_the_service_s_commit_and_spark_s(
    sink, settled, accident, tmp_path
):
    flag = tmp_path / "flag"

    def commit(go, messages):
        go(messages)
        if first(flag):
            os._exit(1)

    source = accident(commit=commit)
    with pytest.raises(Py4JJavaError, match="exited unexpectedly"):
        sink.save(sink.frame(100), source, **MARK)
    settled(100)  # the abort that Spark sends after it changes nothing
    sink.save(sink.frame(100, 4, random=True), source, **MARK)
    settled(100)


def test_a_driver_that_dies_before_its_commit_leaves_nothing_that_the_next_run_does_not_clear(
    sink, settled, accident, tmp_path
):
    flag = tmp_path / "flag"

    def commit(go, messages):
        if first(flag):
            os._exit(1)
        go(messages)

    source = accident(commit=commit)
    with pytest.raises(Py4JJavaError, match="exited unexpectedly"):
        sink.save(sink.frame(100), source, **MARK)
    settled(0, records=0)
    sink.save(sink.frame(100, 3), source, **MARK)
    settled(100)


def test_a_batch_that_is_run_again_with_another_partitioning_and_other_rows_is_skipped(
    sink, settled
):
    sink.save(sink.frame(100, 2, random=True), **MARK)
    sink.save(sink.frame(100, 4, random=True), **MARK)
    sink.save(sink.frame(100, 1), txnAppId="nightly", txnVersion="20261120")
    settled(100)
    message = sink.failure(sink.frame(100), **MARK, onReplay="fail")
    assert "version 20261121 of 'nightly' was committed to queue.localhost before" in message
    settled(100)
    sink.save(sink.frame(100), txnAppId="nightly", txnVersion="20261122")
    settled(Counter(dict.fromkeys(range(100), 2)), records=2)


def test_a_batch_without_a_mark_is_another_one_each_time(sink, settled):
    sink.save(sink.frame(50))
    sink.save(sink.frame(50))
    settled(Counter(dict.fromkeys(range(50), 2)), records=2)


def test_an_empty_batch_is_no_transaction(sink, settled):
    sink.save(sink.frame(0), **MARK)
    settled(0, records=0)
    sink.save(sink.frame(10), **MARK)
    settled(10)


def test_nothing_is_visible_before_the_commit_and_all_of_it_afterwards(
    sink, component, settled, accident
):
    store = f"file:{component.store}?mode=ro"

    def commit(go, messages):
        with closing(sqlite3.connect(store, uri=True)) as queue:
            query = "SELECT (SELECT count(*) FROM staged), (SELECT count(*) FROM item)"
            assert queue.execute(query).fetchone() == (300, 0)
        go(messages)

    sink.save(sink.frame(300), accident(commit=commit))
    settled(300)


def test_the_component_killed_while_a_batch_is_staged(sink, component, settled, in_the_middle):
    async def kill_and_start():
        await component.kill()
        await component.start()

    source, back = in_the_middle(kill_and_start, after=300)
    # what it had received and not answered is never answered: the stream counts as silent
    sink.save(sink.frame(4000), source, progressTimeout="2")
    back()
    settled(4000)


@pytest.mark.parametrize("point", ["applied", "committed"])
def test_the_component_killed_in_its_commit(sink, settled, doomed, point):
    back = doomed(f"{point}@CommitVersion")
    sink.save(sink.frame(200), progressTimeout="2")
    assert back() == -signal.SIGKILL
    settled(200)


def test_the_server_restarted_while_a_batch_is_staged(sink, prosody, settled, in_the_middle):
    source, back = in_the_middle(prosody.restart, after=300)
    sink.save(sink.frame(4000), source)
    back()
    settled(4000)


def test_at_once_a_failed_task_makes_no_second_item_of_the_same_rows(sink, settled, tmp_path):
    data = failing_once(sink.frame(1300, 1), tmp_path / "flag", after=1000)
    sink.save(data, visibility="immediate", **MARK)
    assert (tmp_path / "flag").exists()
    settled(1300)
    sink.save(sink.frame(1300, 4), visibility="immediate", **MARK)
    settled(1300)


GOOD = [(f"<job n='{n}'/>",) for n in range(30)]


def recorded(component):
    """Return items, rows left out and dead letters of the one transaction, as the service recorded them."""
    with closing(sqlite3.connect(f"file:{component.store}?mode=ro", uri=True)) as store:
        (record,) = store.execute("SELECT items, skipped, dead_lettered FROM txn").fetchall()
        return record


def test_bad_rows_are_left_out_if_that_is_wanted_and_the_record_counts_them(
    sink, component, settled
):
    data = sink.spark.createDataFrame([*GOOD, (None,), ("<bad",)], "payload string").coalesce(1)
    assert "more than maxErrors=1 bad rows" in sink.failure(data, onError="skip", maxErrors="1")
    settled(0, records=0)
    sink.save(data, onError="skip", maxErrors="2")
    settled(30)
    assert recorded(component) == (30, 2, 0)


def test_bad_rows_go_to_a_node_of_their_own_in_the_same_transaction(sink, component, settled):
    big = f"<job>{'x' * 200_000}</job>"
    rows = [*GOOD, (None,), ("<bad",), (big,)]
    data = sink.spark.createDataFrame(rows, "payload string").coalesce(1)
    sink.save(data, onError="deadletter", deadLetterNode="bad")
    settled(30)
    assert recorded(component) == (33, 0, 3)


def test_one_batch_may_fill_several_queues(sink, settled):
    data = sink.frame(100).withColumn("node", f.expr("if(rand() < 0.5, 'jobs', 'other')"))
    sink.save(data)
    settled(100)


def test_rows_under_one_id_are_one_item(sink, settled):
    data = sink.frame(100, 1).withColumn("item_id", f.expr("concat('i', hash(payload) % 1)"))
    sink.save(data)
    settled(Counter([99]))
