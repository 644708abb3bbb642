"""Values of the column payload, by type and format."""

import json
import xml.etree.ElementTree as ET
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from lxml import etree
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pubqueue_spark.errors import SchemaError
from pubqueue_spark.write.forms import form
from pubqueue_spark.write.payload import MAX_STANZA_BYTES
from pubqueue_xeps.wire.payloads.decoding import decode, plain

TEXT = StringType()
JSON = "{urn:xmpp:json:0}json"
SCHEMA = etree.XMLSchema(
    etree.parse(Path(__file__).parents[2] / "xeps" / "schemas" / "x-pubqueue.xsd")
)


def element(value, kind=TEXT, wanted="auto"):
    return form(kind, wanted).element(value)


def reason(value, kind=TEXT, wanted="auto"):
    with pytest.raises(ValueError, match=r"\w") as caught:
        element(value, kind, wanted)
    return str(caught.value)


def as_json(value, kind):
    found = ET.fromstring(element(value, kind))
    assert found.tag == JSON
    return found.text


@pytest.mark.parametrize("wanted", ["auto", "xml"])
def test_xml_is_sent_as_an_element(wanted):
    assert element("<a xmlns='urn:x'/>", wanted=wanted) == b"<a xmlns='urn:x'/>"
    assert element(b"<a xmlns='urn:x'/>", BinaryType(), wanted) == b"<a xmlns='urn:x'/>"


def test_json_travels_in_the_container_of_xep_0335_as_it_is_written():
    text = '{"a": [1.10, "<&>"]}'
    found = ET.fromstring(element(text, wanted="json"))
    assert (found.tag, found.text) == (JSON, text)


def test_text_travels_in_a_container_of_ours_to_the_character():
    text = "line\nline\t<not xml & all>"
    found = ET.fromstring(element(bytearray(text.encode()), BinaryType(), "text"))
    assert (found.tag, found.text) == ("{urn:x-pubqueue:0}text", text)


def test_text_that_servers_would_change_travels_as_bytes():
    text = "line\r\nline\t<not xml & all>"
    found = ET.fromstring(element(text, wanted="text"))
    assert plain(found) == text.encode()
    assert decode(found, str) == text


def test_auto_does_not_guess():
    assert reason("job") == (
        "the payload does not begin with '<', so it is not an XML element; use payloadFormat=json or"
        " payloadFormat=text"
    )
    assert "empty" in reason(" ")
    assert "not one well-formed" in reason("<a")


@pytest.mark.parametrize(
    ("value", "kind", "wanted", "words"),
    [
        ("{'a': 1}", TEXT, "json", "the payload is not JSON: Expecting property name"),
        ("NaN", TEXT, "json", "the payload is not JSON: NaN is not a number in JSON"),
        ("[" * 100_000, TEXT, "json", "the payload is not JSON: maximum recursion"),
        ("", TEXT, "json", "the payload is not JSON: Expecting value"),
        ("\x00", TEXT, "text", "the payload has the character U+0000 at position 0"),
        ("x" * (MAX_STANZA_BYTES + 1), TEXT, "text", "XMPP servers refuse a stanza of more than"),
        (b"<a>\xff</a>", BinaryType(), "auto", "the payload is not text in UTF-8 (byte 3)"),
        (Row(a=float("nan")), StructType().add("a", DoubleType()), "auto", "not JSON compliant"),
    ],
)
def test_what_cannot_be_written_gives_the_reason(value, kind, wanted, words):
    assert words in reason(value, kind, wanted)


def test_a_struct_is_json_as_spark_writes_it():
    kind = (
        StructType()
        .add("text", TEXT)
        .add("nothing", TEXT)
        .add("void", NullType())
        .add("on", BooleanType())
        .add("n", IntegerType())
        .add("x", DoubleType())
        .add("money", DecimalType(38, 18))
        .add("bytes", BinaryType())
        .add("day", DateType())
        .add("at", TimestampType())
        .add("local", TimestampNTZType())
        .add("list", ArrayType(IntegerType()))
        .add("map", MapType(IntegerType(), TEXT))
        .add("inner", StructType().add("é", TEXT))
    )
    money = Decimal("12345678901234567890.123456789012345678")
    at = datetime(2026, 11, 21, 3, 0, 0, 5000, tzinfo=UTC).astimezone().replace(tzinfo=None)
    local = datetime(2026, 11, 21, 3, 0)  # noqa: DTZ001 - it has none
    row = Row(
        *(
            'say "hi"\n',
            None,
            None,
            True,
            7,
            0.5,
            money,
            b"\xff\x00",
            date(2026, 11, 21),
            at,
            local,
        ),
        *([1, None], {1: "a", 2: None}, Row("<&>")),
    )
    text = as_json(row, kind)
    assert '"money":12345678901234567890.123456789012345678,' in text
    assert json.loads(text, parse_float=Decimal) == {
        "text": 'say "hi"\n',
        "on": True,
        "n": 7,
        "x": Decimal("0.5"),
        "money": money,
        "bytes": "/wA=",
        "day": "2026-11-21",
        "at": "2026-11-21T03:00:00.005000Z",
        "local": "2026-11-21T03:00:00",
        "list": [1, None],
        "map": {"1": "a", "2": None},
        "inner": {"é": "<&>"},
    }


def test_json_can_express_what_xml_cannot():
    assert as_json(["\x00\ufffe"], ArrayType(TEXT)) == '["\\u0000\\ufffe"]'


def test_half_a_surrogate_pair_is_refused_for_no_reader_of_json_would_have_it_again():
    with pytest.raises(ValueError, match="half a surrogate pair"):
        as_json(["\ud800"], ArrayType(TEXT))


@pytest.mark.parametrize("wanted", ["xml", "text"])
def test_a_map_is_no_text(wanted):
    with pytest.raises(
        SchemaError, match=f"of type map, and payloadFormat={wanted} takes a string"
    ):
        form(MapType(TEXT, TEXT), wanted)


def test_text_is_valid():
    SCHEMA.assertValid(etree.fromstring(element("a & b", wanted="text")))
