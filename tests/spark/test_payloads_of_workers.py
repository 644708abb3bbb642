"""What the Spark sink writes as JSON, a worker reads as what it was."""

from datetime import UTC, date, datetime
from decimal import Decimal
from xml.etree.ElementTree import fromstring

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from pubqueue_spark.write.forms import form
from pubqueue_xeps.wire.payloads import decoding
from pubqueue_xeps.wire.publication import written


class Order(msgspec.Struct):
    name: str
    many: int
    price: Decimal
    weight: float
    paid: bool
    day: date
    at: datetime
    photo: bytes
    tags: list[str | None]
    parts: dict[str, int]
    note: str | None = None


KIND = (
    StructType()
    .add("name", StringType())
    .add("many", LongType())
    .add("price", DecimalType(20, 4))
    .add("weight", DoubleType())
    .add("paid", BooleanType())
    .add("day", DateType())
    .add("at", TimestampType())
    .add("photo", BinaryType())
    .add("tags", ArrayType(StringType()))
    .add("parts", MapType(StringType(), LongType()))
    .add("note", StringType())
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXT, st.integers(-(2**63), 2**63 - 1), st.binary(), st.none() | TEXT)
def test_a_row_is_decoded_as_a_struct(text, number, data, note):
    at = datetime(2026, 11, 22, 12, 30, 1, 7, tzinfo=UTC)
    values = [text, number, Decimal("1.1000"), 0.1, True, date(2026, 11, 22), at, data]
    row = Row(*KIND.names)(*values, [text, None], {text: number}, note)
    payload = fromstring(form(KIND, "auto").element(row))
    assert decoding.decode(payload, Order) == Order(*values, [text, None], {text: number}, note)


@given(st.dictionaries(TEXT, TEXT | st.integers() | st.lists(TEXT)))
def test_a_column_of_json_is_decoded_as_it_is(value):
    text = msgspec.json.encode(value).decode()
    if "\ufffe" in text or "\uffff" in text:
        return  # which a column of text cannot hold; a struct can, and a publisher
    payload = fromstring(form(StringType(), "json").element(text))
    assert decoding.plain(payload) == value
    assert decoding.plain(fromstring(written(value))) == value


def test_a_column_of_text_is_a_string():
    payload = fromstring(form(StringType(), "text").element("rebook <me>"))
    assert decoding.decode(payload, str) == "rebook <me>"
