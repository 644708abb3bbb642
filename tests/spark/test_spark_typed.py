"""The whole way of payloads with content types: real tasks, a real server, the component, a worker, and back."""

import json
import random

import pytest
from harness.clients.past_events import Past

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

READING = ("service", "jid", "password", "host", "port", "tls")
TYPES = ("image/png", "text/csv", "application/json", "text/plain; charset=latin-1", None)
COLUMNS = "item_id string, payload binary, content_type string"
PLAIN = "item_id string, payload string"


@pytest.fixture
def rows():
    """Random bytes of many lengths and types; rows without a type are XML."""
    draw = random.Random(7)
    found = []
    for number in range(60):
        type_ = TYPES[number % len(TYPES)]
        body = draw.randbytes(number * 40) if type_ else b"<job xmlns='urn:x'>&lt;</job>"
        found.append((f"i{number}", body, type_))
    return [*found, ("text", "Zürich;1\n".encode(), "text/csv"), ("json", b'{"a": 1}', TYPES[2])]


@pytest.fixture
def read(sink):
    def read(**options):
        where = {name: sink.options[name] for name in READING} | {"node": "jobs"} | options
        found = sink.spark.read.format("pubqueue").options(**where, includeData="true").load()
        return {row.item_id: row for row in found.collect()}

    return read


def expected(rows):
    """Return id -> data and type, as every reader has them."""
    xml = b'<job xmlns="urn:x">&lt;</job>', "application/xml"
    return {name: (body, type_) if type_ else xml for name, body, type_ in rows}


def test_bytes_of_all_types_come_back_byte_for_byte(sink, rows, read):
    sink.save(sink.spark.createDataFrame(rows, COLUMNS))
    found = read()
    assert {name: (bytes(row.data), row.type) for name, row in found.items()} == expected(rows)
    assert "Zürich" in found["text"].payload


def test_json_is_text_in_a_column_of_its_own(sink, read):
    text = '{"to": "Zürich", "n": [1, 2]}'
    sink.save(sink.spark.createDataFrame([("json", text)], PLAIN), payloadFormat="json")
    sink.save(
        sink.spark.createDataFrame([("text", "1"), ("xml", "<a xmlns='urn:a'/>")], PLAIN),
        contentType="text/plain",
    )
    found = {name: row.json for name, row in read().items()}
    assert json.loads(found.pop("json")) == json.loads(text)
    assert found == {"text": None, "xml": None}


def test_what_was_read_can_be_written_to_another_queue(sink, rows, read):
    sink.save(sink.spark.createDataFrame(rows, COLUMNS))
    where = {name: sink.options[name] for name in READING} | {"includeData": "true"}
    again = sink.spark.read.format("pubqueue").options(**where, node="jobs").load()
    again = again.selectExpr("item_id", "data AS payload", "type AS content_type")
    sink.save(again, node="other")
    found = {name: (bytes(row.data), row.type) for name, row in read(node="other").items()}
    assert found == expected(rows)


def test_a_string_has_the_type_of_the_option(sink, read):
    data = sink.spark.createDataFrame(
        [("one", "a;b\r\n"), ("two", "é")], "item_id string, payload string"
    )
    sink.save(data, contentType="text/csv")
    found = {name: (bytes(row.data), row.type) for name, row in read().items()}
    assert found == {"one": (b"a;b\r\n", "text/csv"), "two": ("é".encode(), "text/csv")}


def test_a_worker_reads_what_spark_has_written(sink, prosody, background):
    past = Past(prosody, sink.options["password"])
    body = bytes(range(256))
    sink.save(sink.spark.createDataFrame([("one", body, "image/png")], COLUMNS))

    async def work():
        async with past.worker("etl", "jobs") as worker:
            item = await anext(worker)
            async with item:
                return item.id, item.type, item.data

    assert background.run(work()) == ("one", "image/png", body)


def test_a_row_that_is_too_large_is_a_bad_row(sink, read):
    rows = [("large", b"x" * 250_000, "a/b"), ("small", b"x", "a/b")]
    data = sink.spark.createDataFrame(rows, COLUMNS)
    assert "(its payload has 250000)" in sink.failure(data)
    sink.save(data, onError="deadletter", deadLetterNode="bad")
    assert set(read()) == {"small"}
    assert set(read(node="bad")) != set()
