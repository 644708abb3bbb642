"""Streams that follow the log of a real component: bounded, restarted, and robbed of events."""

import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest
from harness.clients.past_events import Past, logged
from harness.processes.program import Program, write_config
from pyspark.errors import StreamingQueryException

from pubqueue_xeps.wire.refusals import Reject

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


@pytest.fixture
def program(background, prosody, tmp_path):
    """A component whose queues keep a log."""
    place = SimpleNamespace(
        domain=prosody.component,
        secret=prosody.secret,
        host=prosody.host,
        port=prosody.component_port,
    )
    program = Program(write_config(tmp_path, place, logged("jobs", "other")))
    background.run(program.__aenter__())
    yield program
    background.run(program.__aexit__(None, None, None))


@pytest.fixture
def past(background, prosody, connection, program):
    """What is done in its queues."""
    background.run(prosody.account("bot", connection["password"]))
    return Past(prosody, connection["password"])


class Query:
    """A query that reads what there is, as often as it is run; its checkpoint stays."""

    def __init__(self, spark, connection, folder):
        self._spark = spark
        self._options = connection | {"table": "events", "retryBackoff": "0.1-0.5"}
        self._folder = folder
        self.rows = []

    def start(self, *, once=True, **options):
        source = self._spark.readStream.format("pubqueue").options(**self._options | options)
        writing = (
            source.load()
            .writeStream.foreachBatch(lambda batch, _: self.rows.extend(batch.collect()))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
        )
        return (writing.trigger(availableNow=True) if once else writing).start()

    def run(self, **options):
        """Return the progress of each batch that had rows."""
        query = self.start(**options)
        try:
            assert query.awaitTermination(60)
        finally:
            query.stop()
        return [it for it in query.recentProgress if it.numInputRows]

    @property
    def seqs(self):
        return sorted(row.seq for row in self.rows)


@pytest.fixture
def query(spark, connection, past, tmp_path):
    return Query(spark, connection, tmp_path)


def test_three_bounded_batches_and_the_end(query, past, background):
    background.run(past.publish("jobs", 40, app="a"))
    progress = query.run(startingOffsets="earliest", maxEventsPerTrigger="15", numPartitions="2")
    assert [it.numInputRows for it in progress] == [15, 15, 10]
    ends = [(it.sources[0].endOffset, it.sources[0].latestOffset) for it in progress]
    assert ends == [(f'{{"seq": {n}}}', '{"seq": 40}') for n in (15, 30, 40)]
    assert query.seqs == list(range(1, 41))
    assert query.run(maxEventsPerTrigger="15") == []


def test_a_restart_gives_every_event_once(query, past, background):
    background.run(past.publish("jobs", 2, app="a"))
    query.run(startingOffsets="earliest")
    background.run(past.work("jobs", 2))
    background.run(past.publish("other", 5, app="a", version=2))
    query.run(startingOffsets="earliest")
    assert query.seqs == list(range(1, 12))
    kinds = [row.event for row in query.rows if row.seq > 2]
    assert sorted(kinds) == ["completed"] * 2 + ["delivered"] * 2 + ["published"] * 5


def test_a_stream_of_one_node_begins_with_what_is_new_and_outlives_the_component(
    query, past, background, program
):
    background.run(past.publish("jobs", 3, app="a"))
    running = query.start(once=False, node="j*", retries="60")
    try:
        running.processAllAvailable()
        assert query.rows == []
        background.run(program.kill())
        background.run(program.start())
        background.run(past.publish("other", 2, app="a", version=2))
        background.run(past.publish("jobs", 2, app="a", version=3))
        running.processAllAvailable()
    finally:
        running.stop()
    assert query.seqs == [6, 7]


def test_dead_letters_are_followed_by_their_deaths(query, past, background):
    async def reject(count):
        async with past.worker("bot", "jobs") as worker:
            for _ in range(count):
                async with await anext(worker):
                    raise Reject("no seat")

    background.run(past.publish("jobs", 5, app="a"))
    background.run(reject(2))
    query.run(table="deadletters", startingOffsets="earliest")
    first = {row.item_id for row in query.rows}
    background.run(reject(2))
    query.run(table="deadletters")
    assert len(first) == 2
    assert len({row.item_id for row in query.rows}) == len(query.rows) == 4


@pytest.fixture
def forget(tmp_path):
    """Take events out of the log, as its retention does."""

    def forget(words):
        with closing(sqlite3.connect(tmp_path / "pubqueue.db", timeout=30)) as store, store:
            store.execute(f"DELETE FROM event WHERE {words}")

    return forget


def test_events_that_were_forgotten_are_not_passed_over_in_silence(query, past, background, forget):
    background.run(past.publish("jobs", 10, app="a"))
    query.run(startingOffsets="earliest", maxEventsPerTrigger="10")
    background.run(past.publish("jobs", 10, app="a", version=2))
    forget("seq <= 14")
    lost = r"queue.localhost has deleted events 11 to 14 \(event_log_days, event_log_size\); "
    with pytest.raises(StreamingQueryException, match=lost + "failOnDataLoss=false continues"):
        query.run()
    query.run(failOnDataLoss="false")
    assert query.seqs == [*range(1, 11), *range(15, 21)]
