import pytest
from pyspark.sql.types import (
    BinaryType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from pubqueue_spark.errors import SchemaError
from pubqueue_spark.schema import Columns, columns

TYPES = {
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "decimal": DecimalType(10, 2),
    "binary": BinaryType(),
}


def schema(**fields):
    found = StructType()
    for name, kind in fields.items():
        found.add(name, TYPES[kind])
    return found


def refusal(fields, *, node="jobs", ignore_extra=False):
    with pytest.raises(SchemaError) as caught:
        columns(schema(**fields), node=node, ignore_extra=ignore_extra)
    return str(caught.value)


def test_columns_are_found_by_name_wherever_they_stand():
    found = columns(
        schema(ttl="int", PAYLOAD="string", priority="long", Item_Id="string", delay="double"),
        node="jobs",
        ignore_extra=False,
    )
    assert found == Columns(payload=1, item_id=3, priority=2, delay=4, ttl=0)


def test_a_node_column_makes_the_option_needless():
    found = columns(schema(node="string", payload="string"), node=None, ignore_extra=False)
    assert found == Columns(payload=1, node=0)


def test_without_option_and_column_no_queue_is_named():
    assert refusal({"payload": "string"}, node=None) == (
        "no queue is named: set the option node, or add a string column node."
    )


def test_the_payload_is_required():
    assert refusal({"item_id": "string"}).startswith("column payload is missing")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"payload": "binary"}, "column payload is of type binary; cast it to string."),
        (
            {"payload": "string", "item_id": "long"},
            "column item_id is of type bigint; cast it to string.",
        ),
        (
            {"payload": "string", "priority": "double"},
            "column priority is of type double; cast it to int.",
        ),
        (
            {"payload": "string", "delay": "decimal"},
            "column delay is of type decimal(10,2); cast it to double.",
        ),
    ],
)
def test_a_column_of_another_type_is_named_with_the_cast(fields, message):
    assert refusal(fields) == message


def test_an_unknown_column_is_an_error_with_a_hint():
    assert refusal({"payload": "string", "itemid": "string"}) == (
        "column 'itemid' means nothing here (extraColumns=ignore leaves it out);"
        " did you mean item_id?"
    )
    assert "the columns are payload, item_id," in refusal({"payload": "string", "zz": "int"})


def test_unknown_columns_are_left_out_when_asked_for():
    found = columns(schema(zz="int", payload="string"), node="jobs", ignore_extra=True)
    assert found == Columns(payload=1)


def test_a_column_that_is_there_twice_is_refused():
    assert refusal({"payload": "string", "Payload": "string"}) == (
        "column payload is there twice; drop or rename one of the two."
    )
