"""A stream of files into a queue: its query and its batches are the transactions."""

import os
from collections import Counter

import pytest
from harness.processes.spark_accidents import first
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


class Stream:
    """A query that takes the files of a folder, one in each batch, and ends when there are no more."""

    def __init__(self, sink, folder):
        self._sink = sink
        self._files = folder / "files"
        self._files.mkdir()
        self.checkpoint = folder / "checkpoint"
        self._rows = 0

    def add_file(self, rows=100):
        """Files are read in the order of their age, to the millisecond."""
        path = self._files / f"{self._rows}.json"
        last = range(self._rows, self._rows + rows)
        path.write_text("".join(f'{{"n": {n}}}\n' for n in last))
        os.utime(path, (1e9 + self._rows, 1e9 + self._rows))
        self._rows += rows

    def run(self, source="pubqueue", **options):
        """Write everything that is there; raises when the query fails."""
        files = (
            self._sink.spark.readStream.schema("n long")
            .option("maxFilesPerTrigger", "1")
            .json(str(self._files))
        )
        words = f.format_string("<job xmlns='urn:example:job' n='%d'>%s</job>", "n", f.rand())
        query = (
            files.select(words.alias("payload"))
            .writeStream.format(source)
            .options(**self._sink.options | options)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()
        return query

    def forget_last_commit(self):
        """Spark believes that the last batch was never done."""
        commits = self.checkpoint / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink()


@pytest.fixture
def stream(sink, tmp_path):
    stream = Stream(sink, tmp_path)
    for _ in range(3):
        stream.add_file()
    return stream


def test_each_batch_is_a_transaction(stream, settled, connection):
    query = stream.run()
    settled(300, records=3)
    assert len(query.recentProgress) == 3
    assert connection["password"] not in str(query.recentProgress)
    assert str(query.lastProgress.sink.description)


def test_a_batch_whose_entry_in_the_commit_log_is_lost_is_skipped(stream, settled):
    stream.run()
    stream.forget_last_commit()
    stream.run()
    settled(300, records=3)
    stream.add_file(50)
    stream.run()
    settled(350, records=4)


def test_a_driver_that_dies_between_the_service_s_commit_and_spark_s(
    stream, settled, accident, tmp_path
):
    stream.run()
    flag = tmp_path / "flag"

    def commit(go, messages):
        go(messages)
        if first(flag):
            os._exit(1)

    source = accident(commit=commit)
    stream.add_file()
    with pytest.raises(StreamingQueryException, match="exited unexpectedly"):
        stream.run(source)
    settled(400, records=4)  # the abort that Spark sends after it changes nothing
    stream.run(source)
    settled(400, records=4)


def test_a_replay_is_an_error_if_that_is_wanted(stream, settled):
    stream.run()
    stream.forget_last_commit()
    with pytest.raises(StreamingQueryException, match="before, and is not written again"):
        stream.run(onReplay="fail")
    settled(300, records=3)


def test_a_task_of_a_stream_that_is_tried_again(stream, settled, accident, tmp_path):
    flag = tmp_path / "flag"

    def write(go, rows):
        done = go(rows)
        if first(flag):
            raise RuntimeError("out of luck")
        return done

    stream.run(accident(write=write))
    assert flag.exists()
    settled(300, records=3)


def test_the_component_killed_in_the_commit_of_a_batch(stream, settled, doomed):
    back = doomed("committed@CommitVersion", 2)
    stream.run(progressTimeout="2")
    back()
    settled(300, records=3)


def test_a_batch_of_which_every_task_fails_leaves_nothing_that_the_next_try_does_not_clear(
    stream, settled, accident, tmp_path
):
    flag = tmp_path / "flag"

    def write(go, rows):
        done = go(rows)
        if not flag.exists():
            raise RuntimeError("out of luck")
        return done

    source = accident(write=write)
    with pytest.raises(StreamingQueryException, match="out of luck"):
        stream.run(source)
    flag.touch()
    stream.run(source)
    settled(300, records=3)


def test_a_stream_at_once_is_replayed_without_a_second_item(stream, settled):
    stream.run(visibility="immediate")
    stream.forget_last_commit()
    stream.run(visibility="immediate")
    settled(300, records=3)


def test_the_name_of_a_stream_s_transactions_may_be_chosen(stream, settled, tmp_path):
    stream.run(txnAppId="orders")
    stream.checkpoint = tmp_path / "another"
    stream.run(txnAppId="orders")
    settled(300, records=3)
    stream.checkpoint = tmp_path / "a third"
    stream.run()
    settled(Counter(dict.fromkeys(range(300), 2)), records=6)


def test_a_stream_has_its_own_versions(stream, settled):
    with pytest.raises(StreamingQueryException, match="option txnVersion: a stream has its own"):
        stream.run(txnAppId="orders", txnVersion="1")
    settled(0, records=0)
