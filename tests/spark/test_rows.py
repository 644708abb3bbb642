import xml.etree.ElementTree as ET

import pytest

from pubqueue_spark.errors import RowError
from pubqueue_spark.rows import Publish, Rows
from pubqueue_spark.schema import Columns

ALL = Columns(payload=0, item_id=1, node=2, priority=3, delay=4, ttl=5)
PUBSUB = "{http://jabber.org/protocol/pubsub}"


def publish(payload="<job/>", *rest, columns=ALL, node="jobs"):
    row = (payload, *rest, *[None] * (5 - len(rest)))
    return Rows(columns, node, "run", 3).publish(17, row)


def read(found):
    return ET.fromstring(b"<iq>" + found.body)


def refusal(*row, **settings):
    with pytest.raises(RowError) as caught:
        publish(*row, **settings)
    return str(caught.value)


def test_a_row_becomes_the_publish_of_xep_0060():
    assert publish("<job xmlns='urn:x'/>", "order-1") == Publish(
        17,
        "jobs",
        "order-1",
        b"<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node=\"jobs\">"
        b"<item id=\"order-1\"><job xmlns='urn:x'/></item></publish></pubsub></iq>",
    )


def test_a_row_without_id_gets_one_from_job_partition_and_number():
    assert publish().item_id == "run-3-17"
    assert publish(columns=Columns(payload=0)).item_id == "run-3-17"


def test_the_node_of_the_row_outranks_the_option():
    assert publish("<a/>", None, "other").node == "other"
    assert publish("<a/>", None, None).node == "jobs"


def test_priority_delay_and_ttl_travel_beside_the_publish():
    meta = read(publish("<a/>", None, None, 5, 1.5, 60.0)).find(
        f"{PUBSUB}pubsub/{{urn:x-pubqueue:0}}meta"
    )
    assert meta.attrib == {"priority": "5", "delay": "1.5", "ttl": "60"}


def test_without_them_there_is_no_meta():
    assert b"meta" not in publish().body


@pytest.mark.parametrize("name", ["a'b\"<c>&d", "tab\there", "line\nend", "é€😀"])
def test_names_survive_quoting(name):
    found = read(publish("<a/>", name, name))
    assert found.find(f".//{PUBSUB}publish").get("node") == name
    assert found.find(f".//{PUBSUB}item").get("id") == name


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ((None,), "payload is null; leave such rows out, or give them one XML element"),
        (("<a>\x02</a>",), "the payload has the character U+0002 at position 3"),
        (("<a>",), "the payload is not one well-formed XML element: no element found"),
        (("<a/>", ""), "item_id is empty; null means: not given"),
        (("<a/>", "x\x00"), "item_id has the character U+0000 at position 1"),
        (("<a/>", None, "x\x00"), "node has the character U+0000 at position 1"),
        (("<a/>", None, None, None, -1.0), "delay is -1.0; it takes seconds, 0 or more"),
        (("<a/>", None, None, None, float("nan")), "delay is nan; it takes seconds"),
        (("<a/>", None, None, None, None, float("inf")), "ttl is inf; it takes seconds"),
        ((f"<a>{'x' * 262000}</a>",), "it makes a stanza of 262"),
        ((f"<a>{'é' * 200000}</a>",), "and XMPP servers refuse more than 262144"),
    ],
)
def test_a_row_that_cannot_become_an_item_is_named_with_the_reason(row, reason):
    message = refusal(*row)
    assert message.startswith("row 17 of partition 3 cannot become an item: ")
    assert reason in message


def test_a_null_node_without_the_option_is_refused():
    assert "node is null, and there is no option node" in refusal("<a/>", None, None, node=None)


def test_no_message_repeats_the_payload():
    assert "hunter2" not in refusal("<a>hunter2")
    assert "hunter2" not in refusal("<a>hunter2\x01</a>")
