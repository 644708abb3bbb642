"""Tables of a real queue, each read by Spark and compared with what was really done."""

from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from xml.etree.ElementTree import Element, SubElement, canonicalize

import pytest
from harness.clients.past_events import SERVICE, Past, logged
from harness.processes.program import Program, write_config
from pyspark.errors import PySparkException

from pubqueue_spark.read.tables import SCHEMAS
from pubqueue_xeps.wire.refusals import Reject
from pubqueue_xeps.xep_0254 import queueing

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

LARGE = 50_000
LOTS = 1100
"""More events than a page has (1000)."""


@pytest.fixture(scope="module")
def past(background, prosody, connection, tmp_path_factory):
    """A component in which this and that has happened; a worker still has an item in hand."""
    for name in ("bot", "boss", "stranger"):
        background.run(prosody.account(name, connection["password"]))
    place = SimpleNamespace(
        domain=prosody.component,
        secret=prosody.secret,
        host=prosody.host,
        port=prosody.component_port,
    )
    nodes = logged("jobs", "lots", "big", "empty")
    program = Program(write_config(tmp_path_factory.mktemp("past"), place, nodes))
    past, stack = Past(prosody, connection["password"]), AsyncExitStack()
    background.run(program.__aenter__())
    background.run(_happen(past, stack))
    yield past
    background.run(stack.aclose())
    background.run(program.__aexit__(None, None, None))


async def _happen(past, stack):
    async with past.client("etl") as etl:
        queue = queueing(etl)
        await queue.publish(SERVICE, "jobs", job(1), id="i1", headers={"trace": "<7>"})
        await queue.publish(SERVICE, "jobs", job(2), id="i2", headers={"trace": "8"}, priority=3)
        await queue.publish(SERVICE, "jobs", job(3), id="i3", delay=3600)
        for number in range(8):
            large = Element("{urn:example:large}large")
            large.text = "&" * (LARGE // 5)
            await queue.publish(SERVICE, "big", large, id=f"b{number}")
    worker = await stack.enter_async_context(past.worker("bot", "jobs"))
    async with await anext(worker):
        raise Reject("no seat")  # i2, the urgent one
    async with await anext(worker):
        pass  # i1
    async with past.client("etl") as etl:
        await queueing(etl).publish(SERVICE, "jobs", job(4), id="i4")
    await anext(worker)
    await past.publish("jobs", 2, app="orders", version=7)
    await past.publish("lots", LOTS, app="lots")


def job(number):
    job = Element("{urn:example:job}job", {"n": str(number), "at": "a<b"})
    SubElement(job, "{urn:example:job}step").text = "go & see"
    return job


PAYLOAD = '<job xmlns="urn:example:job" n="%d" at="a&lt;b"><step>go &amp; see</step></job>'


def same(payload, number):
    """Compare without the order of attributes, which Prosody does not keep."""
    return canonicalize(payload) == canonicalize(PAYLOAD % number)


@pytest.fixture
def read(spark, connection, past):
    def read(table, **options):
        found = spark.read.format("pubqueue").options(**connection, table=table)
        return found.options(**options).load()

    return read


def failure(frame_of, *arguments, **options):
    with pytest.raises(PySparkException) as caught:
        frame_of(*arguments, **options).count()
    return str(caught.value)


def by_id(frame):
    return {row.item_id: row.asDict() for row in frame.collect()}


def recent(moment):
    return abs(datetime.now(UTC) - moment.astimezone(UTC)) < timedelta(minutes=10)


def test_items(read):
    found = by_id(read("items", node="jobs"))
    assert {name: row["state"] for name, row in found.items() if name[0] == "i"} == {
        "i2": "dead",
        "i3": "delayed",
        "i4": "locked",
    }
    marks = {(row["txn_app"], row["txn_version"]) for name, row in found.items() if name[0] != "i"}
    assert marks == {("orders", 7)}
    assert (found["i4"]["txn_app"], found["i4"]["txn_version"]) == (None, None)
    i2, i3, i4 = found["i2"], found["i3"], found["i4"]
    assert (i2["node"], i2["priority"], i2["headers"], i2["publisher"]) == (
        *("jobs", 3, {"trace": "8"}),
        "etl@localhost",
    )
    assert same(i2["payload"], 2)
    assert (i2["acquired"], i2["locked_by"], i2["locked_until"]) == (1, None, None)
    assert recent(i3["published_at"])
    assert i3["not_before"] - i3["published_at"] >= timedelta(seconds=3599)
    assert i4["locked_by"] == "bot@localhost/one"
    assert i4["locked_until"] > i4["published_at"]
    assert [row["state"] for row in found.values()].count("queued") == 2
    assert list(found["i2"]) == SCHEMAS["items"].names


def test_dead_letters(read):
    (row,) = read("deadletters").collect()
    assert (row.node, row.item_id, row.state, row.reason, row.last_worker, row.origin) == (
        *("jobs", "i2", "dead", "no seat", "bot@localhost/one"),
        None,
    )
    assert same(row.payload, 2)
    assert row.dead_at >= row.published_at
    assert row.death > 0


def test_events(read):
    found = read("events", node="jobs").orderBy("seq").collect()
    assert [(row.event, row.item_id) for row in found if row.item_id in {"i1", "i2", "i3"}] == [
        ("published", "i1"),
        ("published", "i2"),
        ("published", "i3"),
        ("delivered", "i2"),
        ("unlocked", "i2"),
        ("dead", "i2"),
        ("delivered", "i1"),
        ("completed", "i1"),
    ]
    (done,) = (row for row in found if row.event == "completed")
    assert (done.node, done.attempt, done.worker, done.publisher) == (
        *("jobs", 1, "bot@localhost/one"),
        "etl@localhost",
    )
    assert 0 <= done.held_ms <= done.age_ms
    assert recent(done.at)
    (dead,) = (row for row in found if row.event == "dead")
    assert (dead.detail, dead.moved_from, dead.moved_to) == ("no seat", None, None)


def test_transactions(read):
    (row,) = read("transactions").where("app = 'orders'").collect()
    assert (row.version, row.rows, row.publisher, row.skipped, row.dead_lettered) == (
        *(7, 2, "etl@localhost", None),
        None,
    )
    assert row.bytes > 0
    assert row.seconds is None
    assert recent(row.committed_at)
    assert read("transactions", jid="stranger@localhost").count() == 0


def test_the_transactions_have_what_the_sink_reported(spark, read, connection):
    rows = spark.createDataFrame([("<a/>",), (None,)], "payload string")
    rows.write.format("pubqueue").mode("append").options(
        **connection, node="lots", txnAppId="nightly", txnVersion="3", onError="skip"
    ).save()
    (row,) = read("transactions").where("app = 'nightly'").collect()
    assert (row.version, row.rows, row.skipped, row.dead_lettered) == (3, 1, 1, 0)
    assert row.seconds > 0


def test_nodes(read):
    found = {row.node: row for row in read("nodes").collect()}
    assert set(found) == {"jobs", "lots", "big", "empty"}
    jobs = found["jobs"]
    assert (jobs.queued, jobs.locked, jobs.delayed, jobs.dead) == (2, 1, 1, 1)
    assert (jobs.subscribers, jobs.window_free, jobs.config) == (1, 0, {})
    assert 0 <= jobs.oldest_age_ms < 600_000
    assert found["empty"].oldest_age_ms is None
    (owned,) = read("nodes", jid="boss@localhost", node="jobs").collect()
    assert owned.config["x-queueing#event_log"] == "1"


@pytest.mark.parametrize("table", ["items", "deadletters", "events", "nodes"])
def test_a_stranger_gets_the_refusal_of_a_reader(read, table):
    message = failure(read, table, jid="stranger@localhost")
    what = "nodes" if table in {"items", "deadletters"} else table
    assert f"option jid: stranger@localhost may not read {what} at queue.localhost; owners and" in (
        message
    )


def test_a_stranger_that_names_a_node_gets_the_same_refusal(read):
    message = failure(read, "items", jid="stranger@localhost", node="jobs")
    assert "stranger@localhost may not read items of node 'jobs' at queue.localhost" in message


def test_more_events_than_a_page_has(read):
    whole = read("events", node="lots", endingOffsets='{"seq":1120}')
    ranges = read("events", node="lots", endingOffsets='{"seq":1120}', numPartitions="3")
    seqs = [row.seq for row in whole.select("seq").collect()]
    assert len(seqs) > 1000
    assert len(set(seqs)) == len(seqs)
    assert ranges.rdd.getNumPartitions() == 3
    assert sorted(row.seq for row in ranges.collect()) == seqs


def test_more_payloads_than_a_page_has(read):
    whole = read("items", node="big")
    assert {len(row.payload) for row in whole.collect()} == {
        len('<large xmlns="urn:example:large"></large>') + LARGE
    }
    ranges = read("items", node="big", numPartitions="3")
    assert ranges.rdd.getNumPartitions() == 3
    assert {row.item_id for row in ranges.collect()} == {f"b{n}" for n in range(8)}
    light = read("items", node="big", includePayload="false").select("payload").distinct()
    assert [row.payload for row in light.collect()] == [None]


def test_offsets_are_behind_and_up_to(read):
    seqs = [row.seq for row in read("events").collect()]
    first = read("events", endingOffsets='{"seq":5}')
    then = read("events", startingOffsets='{"seq":5}', endingOffsets='{"seq":7}')
    assert [row.seq for row in first.collect()] == [1, 2, 3, 4, 5]
    assert [row.seq for row in then.collect()] == [6, 7]
    assert read("events", startingOffsets=f'{{"seq":{max(seqs)}}}', node="jobs").count() == 0
    behind = read("items", node="jobs", startingOffsets=f'{{"seq":{10**12}}}')
    assert behind.count() == 0


def test_a_time_to_begin_at(read):
    log = read("events", node="jobs").orderBy("seq").collect()
    middle = log[len(log) // 2]
    since = middle.at.astimezone(UTC)
    found = read("events", node="jobs", startingTimestamp=since.isoformat())
    assert {row.seq for row in found.collect()} == {row.seq for row in log if row.at >= middle.at}
    late = (since + timedelta(days=1)).isoformat()
    assert read("events", startingTimestamp=late).count() == 0
    assert read("deadletters", startingTimestamp=since.isoformat()).count() <= 1
    assert read("deadletters", startingTimestamp="2020-01-01T00:00:00Z").count() == 1


def test_nodes_by_name_and_by_pattern(read):
    def nodes(table, wanted):
        return {row.node for row in read(table, node=wanted).select("node").collect()}

    assert nodes("items", "jobs, big") == {"jobs", "big"}
    assert nodes("items", "[jl]*") == {"jobs", "lots"}
    assert nodes("events", "jobs,b?g") == {"jobs", "big"}
    assert nodes("nodes", "*o*") == {"jobs", "lots"}
    assert nodes("items", "nothing*") == set()


@pytest.mark.parametrize(
    ("table", "wanted"),
    [("items", "jbs"), ("events", "jbs"), ("items", "big*,jbs"), ("nodes", "jbs")],
)
def test_a_node_that_is_not_there_is_an_error(read, table, wanted):
    assert "option node: queue.localhost has no node 'jbs'" in failure(read, table, node=wanted)


def test_columns_are_the_table_s(spark, connection, past):
    source = spark.read.format("pubqueue").options(**connection)
    assert "leave schema(...) out" in failure(source.schema("a long").load)
    assert "option table: 'itms' cannot be used; it takes: items," in failure(
        source.option("table", "itms").load
    )


def test_a_wrong_password_is_one_sentence_without_it(read):
    message = failure(read, "items", password="not-this-one")
    assert "option jid=etl@localhost" in message
    assert "not-this-one" not in message
