import pytest
from pyspark.sql.types import (
    BinaryType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    YearMonthIntervalType,
)

from pubqueue_spark.errors import SchemaError
from pubqueue_spark.write.options import settings
from pubqueue_spark.write.schema import Columns, columns

TYPES = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "smallint": ShortType(),
    "bigint": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "decimal(10,2)": DecimalType(10, 2),
    "interval day to second": DayTimeIntervalType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "map<string,int>": MapType(StringType(), IntegerType()),
    "map<string,string>": MapType(StringType(), StringType()),
    "struct<a:int>": StructType().add("a", IntegerType()),
    "struct<a:interval year>": StructType().add("a", YearMonthIntervalType(0, 0)),
}


def schema(fields):
    found = StructType()
    for name, kind in fields.items():
        found.add(name, TYPES[kind])
    return found


def find(fields, **options):
    given = {"service": "q", "jid": "a@b", "password": "x", "node": "jobs"} | options
    chosen = settings({name: value for name, value in given.items() if value is not None})
    return columns(schema(fields), chosen)


def refusal(fields, **options):
    with pytest.raises(SchemaError) as caught:
        find(fields, **options)
    return str(caught.value)


def test_columns_are_found_by_name_wherever_they_stand():
    found = find(
        {
            "ttl": "int",
            "PAYLOAD": "string",
            "priority": "bigint",
            "Item_Id": "string",
            "delay": "double",
        }
    )
    assert found == Columns(1, StringType(), item_id=3, priority=2, delay=4, ttl=0)


def test_a_node_column_makes_the_option_needless():
    found = find({"node": "string", "payload": "string"}, node=None)
    assert found == Columns(1, StringType(), node=0)


def test_without_option_and_column_no_queue_is_named():
    assert refusal({"payload": "string"}, node=None) == (
        "no queue is named: set the option node, or add a string column node."
    )


def test_the_payload_is_required():
    assert refusal({"item_id": "string"}).startswith("column payload is missing")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"payload": "int"},
            "column payload is of type int; cast it to string, or wrap it in a struct.",
        ),
        (
            {"payload": "string", "not_before": "timestamp_ntz"},
            "column not_before is of type timestamp_ntz; cast it to timestamp.",
        ),
        (
            {"payload": "string", "headers": "map<string,int>"},
            "column headers is of type map<string,int>; cast it to map<string,string>.",
        ),
        (
            {"payload": "string", "node": "map<string,string>"},
            "column node is of type map<string,string>; cast it to string.",
        ),
        (
            {"payload": "string", "item_id": "bigint"},
            "column item_id is of type bigint; cast it to string.",
        ),
        (
            {"payload": "string", "priority": "double"},
            "column priority is of type double; cast it to int.",
        ),
        (
            {"payload": "string", "delay": "decimal(10,2)"},
            "column delay is of type decimal(10,2); cast it to double.",
        ),
    ],
)
def test_a_column_of_another_type_is_named_with_the_cast(fields, message):
    assert refusal(fields) == message


def test_an_unknown_column_is_an_error_with_a_hint():
    assert refusal({"payload": "string", "itemid": "string"}) == (
        "column 'itemid' is unknown (extraColumns=ignore leaves it out); did you mean item_id?"
    )
    assert "the columns are payload, item_id," in refusal({"payload": "string", "zz": "int"})


def test_unknown_columns_are_left_out_when_asked_for():
    found = find({"zz": "int", "payload": "string"}, extraColumns="ignore")
    assert found == Columns(1, StringType())


def test_a_column_that_is_there_twice_is_refused():
    assert refusal({"payload": "string", "Payload": "string"}) == (
        "column payload occurs twice; drop or rename one of them."
    )


def test_every_column_has_its_types():
    fields = {
        "payload": "binary",
        "item_id": "string",
        "node": "string",
        "priority": "smallint",
        "delay": "interval day to second",
        "not_before": "timestamp",
        "ttl": "float",
        "headers": "map<string,string>",
        "content_type": "string",
    }
    found = find(fields)
    assert [getattr(found, name) for name in fields] == list(range(9))


def test_a_payload_must_go_with_its_format():
    assert refusal({"payload": "struct<a:int>"}, payloadFormat="xml").startswith(
        "column payload is of type struct, and payloadFormat=xml takes a string; make one with to_xml"
    )
    assert refusal({"payload": "struct<a:interval year>"}).startswith(
        "column payload holds a value of type interval year, which has no form in JSON"
    )


@pytest.mark.parametrize("given", [{"contentType": "text/csv"}, {}])
def test_a_content_type_goes_with_text_and_bytes(given):
    column = {} if given else {"content_type": "string"}
    for kind in ("string", "binary"):
        assert find({"payload": kind} | column, **given).payload == 0
    assert refusal({"payload": "struct<a:int>"} | column, **given) == (
        "column payload is of type struct, and a content type goes with string or binary;"
        " use to_json(...), or leave the content type out."
    )


def test_a_string_is_sent_in_utf_8():
    latin = "text/plain; charset=latin-1"
    assert find({"payload": "binary"}, contentType=latin).payload == 0
    assert refusal({"payload": "string"}, contentType=latin) == (
        "column payload is a string, which is sent in UTF-8, and option contentType names latin-1;"
        " use encode(...), which makes it binary."
    )
