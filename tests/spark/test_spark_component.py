"""The whole way to the component itself: what its store holds after a job, of each column and format."""

import json
import sqlite3
import xml.etree.ElementTree as ET
from contextlib import closing
from datetime import datetime, timedelta

import pytest
from pyspark.sql import functions as f

from pubqueue_demo.prosody import Prosody
from pubqueue_spark.write.payload import DEEPEST

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


@pytest.fixture
def stored(component):
    """Return item id -> an expression of the item's columns."""

    def stored(column):
        with closing(sqlite3.connect(f"file:{component.store}?mode=ro", uri=True)) as store:
            return dict(store.execute(f"SELECT id, {column} FROM item"))

    return stored


def with_ids(sink, rows):
    data = sink.frame(rows)
    return data.withColumn(
        "item_id", f.concat(f.lit("order-"), f.regexp_extract("payload", r"\d+", 0))
    )


def test_items_have_the_ids_of_the_column_and_their_publisher(sink, settled, stored):
    sink.save(with_ids(sink, 500))
    settled(500)
    assert set(stored("publisher").values()) == {"etl@localhost"}
    assert set(stored("id")) == {f"order-{n}" for n in range(500)}


def test_another_batch_with_the_same_ids_and_payloads_adds_nothing(sink, settled, stored):
    sink.save(with_ids(sink, 50))
    before = stored("seq")
    sink.save(with_ids(sink, 50))
    settled(50, records=2)
    assert stored("seq") == before


def test_generated_ids_name_batch_partition_and_row(sink, stored):
    for _ in range(2):
        sink.save(sink.frame(4), txnAppId="nightly", txnVersion="3")
    batch, *rest = zip(*(item.split("-", 1) for item in stored("id")), strict=True)
    assert len(set(batch)) == 1
    assert sorted(*rest) == ["3-0-0", "3-0-1", "3-1-0", "3-1-1"]


def test_priority_delay_ttl_and_headers_reach_the_item(sink, stored):
    day = timedelta(days=1)
    rows = [
        ("<a/>", "1", 7, timedelta(hours=1), None, None, None),
        ("<a/>", "2", None, None, None, 60.0, {"trace": "a<b", "none": None}),
        ("<a/>", "3", None, None, datetime.now() + day, None, {}),  # noqa: DTZ005 - Spark's
        ("<a/>", "4", None, None, datetime.now() - day, None, None),  # noqa: DTZ005
    ]
    columns = (
        "payload string, item_id string, priority int, delay interval day to second,"
        " not_before timestamp, ttl double, headers map<string,string>"
    )
    sink.save(sink.spark.createDataFrame(rows, columns))
    assert stored("state") == {"1": "delayed", "2": "queued", "3": "delayed", "4": "queued"}
    assert stored("priority") == {"1": 7, "2": 0, "3": 0, "4": 0}
    assert stored("expires - published") == {"1": None, "2": 60_000, "3": None, "4": None}
    due = stored("due - published")
    assert due["1"] == 3_600_000
    assert 80_000_000 < due["3"] <= 86_400_000
    headers = stored("headers")
    assert {item for item, found in headers.items() if found} == {"2"}
    assert "trace" in headers["2"]


def test_a_struct_travels_as_json(sink, stored):
    data = sink.spark.range(2).select(
        f.struct("id", f.lit("a & <b>").alias("text"), f.lit(None).alias("no")).alias("payload"),
        f.col("id").cast("string").alias("item_id"),
    )
    sink.save(data)
    found = {item: ET.fromstring(payload) for item, payload in stored("payload").items()}
    assert {it.tag for it in found.values()} == {"{urn:xmpp:json:0}json"}
    assert {item: json.loads(it.text) for item, it in found.items()} == {
        str(n): {"id": n, "text": "a & <b>"} for n in range(2)
    }


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_text_travels_as_text(sink, stored, kind):
    data = sink.spark.createDataFrame([("two\nlines", "1")], "payload string, item_id string")
    sink.save(data.withColumn("payload", f.col("payload").cast(kind)), payloadFormat="text")
    assert stored("payload") == {"1": b"<text xmlns='urn:x-pubqueue:0'>two\nlines</text>"}


def test_a_namespace_and_its_absence_survive(sink, stored):
    rows = [("<a><b xmlns='urn:x'/></a>", "1")]
    sink.save(sink.spark.createDataFrame(rows, "payload string, item_id string"))
    assert stored("payload") == {"1": b"<a xmlns=''><b xmlns='urn:x'/></a>"}


def test_the_deepest_payload_that_is_let_out_is_let_in(sink, stored):
    deep = "<a>" * DEEPEST + "</a>" * DEEPEST
    sink.save(sink.spark.createDataFrame([(deep, "1")], "payload string, item_id string"))
    assert set(stored("state")) == {"1"}


def test_a_full_queue_is_waited_for_at_once_and_then_named(sink):
    assert "after 2 retries: conflict (node-full), type cancel" in sink.failure(
        sink.frame(20, 1), node="small", visibility="immediate"
    )


class LimitedProsody(Prosody):
    """With the rate limit of Debian's configuration."""

    def _config(self):
        limits = 'limits = { c2s = { rate = "10kb/s"; burst = "2s" } }'
        return super()._config().replace("interfaces =", f"{limits}\ninterfaces =", 1)


@pytest.fixture
def limited(background, serve, tmp_path):
    """A server as Debian ships it, with the component behind it."""
    server = LimitedProsody(modules=("limits",))
    background.run(server.__aenter__())
    background.run(server.account("etl", "hunter2hunter2"))
    (tmp_path / "limited").mkdir()
    with serve(tmp_path / "limited", server) as program:
        yield server, program
    background.run(server.__aexit__(None, None, None))


def test_a_server_with_default_limits_is_slow_and_takes_everything(sink, limited, settled):
    server, program = limited
    sink.save(sink.frame(120), port=str(server.c2s_port))
    settled(120, of=program)
