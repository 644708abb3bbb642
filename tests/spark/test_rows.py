import xml.etree.ElementTree as ET
from base64 import b64decode
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from lxml import etree
from pyspark.sql import Row
from pyspark.sql.types import StringType

from pubqueue_spark.write.forms import form
from pubqueue_spark.write.rows import Item, Rows, Unfit
from pubqueue_spark.write.schema import Columns

TEXT = StringType()
ALL = Columns(0, TEXT, item_id=1, node=2, priority=3, delay=4, ttl=5, not_before=6, headers=7)
MOMENT = datetime(2026, 11, 21)  # noqa: DTZ001 - as Spark hands it over
SCHEMA = etree.XMLSchema(
    etree.parse(Path(__file__).parents[2] / "xeps" / "schemas" / "x-pubqueue.xsd")
)
PUBSUB = "{http://jabber.org/protocol/pubsub}"


def item(payload="<job/>", *rest, columns=ALL, node="jobs"):
    row = (payload, *rest, *[None] * (7 - len(rest)))
    return rows(columns, node).item(17, row)


def publish(*row, **settings):
    return rows().publish([item(*row, **settings)])


def rows(columns=ALL, node="jobs", mark=""):
    return Rows(columns, form(TEXT, "auto"), node, "run", 3, mark)


def now():
    return datetime.now()  # noqa: DTZ005 - as Spark hands it over


def read(found):
    return ET.fromstring(b"<iq>" + found.body)


def refusal(*row, **settings):
    with pytest.raises(Unfit) as caught:
        item(*row, **settings)
    return str(caught.value)


def test_a_row_becomes_the_publish_of_xep_0060():
    made = item("<job xmlns='urn:x'/>", "order-1")
    assert made == Item(
        row=17,
        partition=3,
        node="jobs",
        id="order-1",
        generated=False,
        xml=b"<item id=\"order-1\"><job xmlns='urn:x'/></item>",
        beside="",
        size=20,
        raw="<job xmlns='urn:x'/>",
        key=b"order-1",
    )
    assert str(made) == "row 17 of partition 3 (item 'order-1', node 'jobs')"
    assert rows().publish([made]).body == (
        b"<pubsub xmlns='http://jabber.org/protocol/pubsub'>"
        b"<publish node=\"jobs\" xmlns:q='urn:x-pubqueue:0' q:answer='short'>"
        b"<item id=\"order-1\"><job xmlns='urn:x'/></item></publish></pubsub></iq>"
    )


def test_a_row_without_id_is_placed_by_its_content_which_another_run_does_not_change():
    made = item("<job xmlns='urn:x'/>", columns=Columns(0, TEXT))
    assert made.key == b"<job xmlns='urn:x'/>"
    letters = [rows().letter(number, "no xml", "dead", "bad") for number in (1, 2)]
    assert [letter.key for letter in letters] == [b"no xml", b"no xml"]
    assert letters[0].xml != letters[1].xml


def test_a_row_without_id_gets_one_from_job_partition_and_number():
    assert item().id == "run-3-17"
    assert item(columns=Columns(0, TEXT)).id == "run-3-17"


def test_the_node_of_the_row_outranks_the_option():
    assert item("<a/>", None, "other").node == "other"
    assert item("<a/>", None, None).node == "jobs"


def test_priority_delay_and_ttl_travel_beside_the_publish():
    meta = read(publish("<a/>", None, None, 5, 1.5, 60.0)).find(
        f"{PUBSUB}pubsub/{{urn:x-pubqueue:0}}meta"
    )
    assert meta.attrib == {"priority": "5", "delay": "1.5", "ttl": "60"}


def test_without_them_there_is_no_meta():
    assert b"meta" not in publish().body


@pytest.mark.parametrize(
    "name", ["a'b\"<c>&d", " n b\u00a0sp ", "\u0645\u06cc\u200c\u062e\u0648", "é€😀"]
)
def test_names_survive_quoting(name):
    found = read(publish("<a/>", name, name))
    assert found.find(f".//{PUBSUB}publish").get("node") == name
    assert found.find(f".//{PUBSUB}item").get("id") == name


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ((None,), "payload is null; leave such rows out"),
        (("<a>\x02</a>",), "the payload has the character U+0002 at position 3"),
        (
            ("<a b='&#10;'/>",),
            "an attribute of the payload has the character U+000A at position 0, which XMPP",
        ),
        (
            ("<a>b&#13;</a>",),
            "the text of the payload has the character U+000D at position 0, which XMPP",
        ),
        (
            ("<a/>", "order-17\r"),
            "item_id has the character U+000D at position 8, which no name has",
        ),
        (("<a/>", None, "a\tb"), "node has the character U+0009 at position 1, which no name has"),
        (("<a/>", *[None] * 6, {"a\nb": "c"}), "header 'a\\nb' has the character U+000A"),
        (
            ("<a/>", *[None] * 6, {"a": "b\r"}),
            "header 'a' has the character U+000D at position 1, which XMPP",
        ),
        (("<a>",), "the payload is not one well-formed XML element: no element found"),
        (("<a/>", ""), "item_id is empty; null means: not given"),
        (("<a/>", "x\x00"), "item_id has the character U+0000 at position 1"),
        (("<a/>", None, "x\x00"), "node has the character U+0000 at position 1"),
        (
            ("job",),
            "does not begin with '<', so it is not an XML element; use payloadFormat=json or",
        ),
        (("<a/>", None, None, None, 1.0, None, MOMENT), "it has both delay and not_before"),
        (
            ("<a/>", None, None, None, None, None, None, {"": "x"}),
            "there is a header without a name",
        ),
        (
            ("<a/>", None, None, None, None, None, None, {"a": "\0"}),
            "header 'a' has the character U+",
        ),
        (("<a/>", None, None, None, -1.0), "delay is -1.0; it takes seconds, 0 or more"),
        (("<a/>", None, None, None, float("nan")), "delay is nan; it takes seconds"),
        (("<a/>", None, None, None, None, float("inf")), "ttl is inf; it takes seconds"),
        ((f"<a>{'x' * 262000}</a>",), "it makes a stanza of 262"),
        ((f"<a>{'é' * 200000}</a>",), "and XMPP servers refuse more than 262144"),
    ],
)
def test_a_row_that_cannot_become_an_item_is_named_with_the_reason(row, reason):
    assert reason in refusal(*row)


def test_a_null_node_without_the_option_is_refused():
    assert "node is null, and there is no option node" in refusal("<a/>", None, None, node=None)


def test_no_message_repeats_the_payload():
    assert "hunter2" not in refusal("<a>hunter2")
    assert "hunter2" not in refusal("<a>hunter2\x01</a>")


def meta(found):
    return read(found).find(f"{PUBSUB}pubsub/{{urn:x-pubqueue:0}}meta")


def test_a_delay_may_be_an_interval():
    delay = timedelta(minutes=1, milliseconds=250)
    assert meta(publish("<a/>", None, None, None, delay)).attrib == {"delay": "60.25"}


def test_not_before_is_the_delay_until_then():
    began = now()
    then = began + timedelta(hours=1)
    delay = timedelta(seconds=float(meta(publish("<a/>", *[None] * 5, then)).get("delay")))
    assert then - now() <= delay + timedelta(milliseconds=1)
    assert delay <= then - began


def test_a_moment_that_is_past_asks_for_no_delay():
    assert meta(publish("<a/>", *[None] * 5, now() - timedelta(days=1))) is None


def test_headers_travel_beside_the_publish_and_null_ones_do_not():
    given = {"trace": "a<b&c", "no": None, "quote'd\"": "line\nend"}
    headers = read(publish("<a/>", *[None] * 6, given)).find(
        f"{PUBSUB}pubsub/{{http://jabber.org/protocol/shim}}headers"
    )
    assert {it.get("name"): it.text for it in headers} == {
        "trace": "a<b&c",
        "quote'd\"": "line\nend",
    }


def test_no_headers_no_element():
    assert b"headers" not in publish("<a/>", *[None] * 6, {"no": None}).body


def test_the_mark_of_the_transaction_stands_beside_each_publish():
    made = rows(mark="<txn xmlns='urn:x-pubqueue:0' app='a'/>")
    found = made.publish([made.item(n, ("<a/>", *[None] * 7)) for n in range(2)])
    assert [it.get("id") for it in read(found).iter(f"{PUBSUB}item")] == ["run-3-0", "run-3-1"]
    assert read(found).find(f"{PUBSUB}pubsub/{{urn:x-pubqueue:0}}txn").get("app") == "a"


def test_a_dead_letter_has_what_the_row_held_and_what_was_wrong_with_it():
    made = rows(mark="<txn xmlns='urn:x-pubqueue:0'/>")
    found = made.publish([made.letter(7, "<a>\x02 & b", "bad", "it's <a>")])
    letter = read(found).find(f".//{PUBSUB}item/{{urn:x-pubqueue:0}}bad-row")
    facts = {"partition": "3", "row": "7", "reason": "it's <a>", "size": "8"}
    assert letter.attrib == facts | {"encoding": "base64"}
    assert b64decode(letter.text) == b"<a>\x02 & b"
    SCHEMA.assertValid(etree.fromstring(ET.tostring(letter)))
    assert b"txn" in found.body
    assert str(found) == "the dead letter of row 7 of partition 3 (item 'run-3-7', node 'bad')"


@pytest.mark.parametrize("raw", ["&" * 300_000, "é" * 300_000])
def test_a_dead_letter_has_room_in_a_node_as_it_is_made(raw):
    found = rows().letter(7, raw, "bad", "too big")
    letter = read(rows().publish([found])).find(f".//{PUBSUB}item/{{urn:x-pubqueue:0}}bad-row")
    assert letter.get("size") == "300000"
    assert 5000 < len(letter.text) < found.size < 65536
    assert raw.startswith(letter.text)


@pytest.mark.parametrize("raw", [None, b"\xff<a", Row(a=1), ["x"]])
def test_whatever_the_column_holds_can_be_set_aside(raw):
    assert read(rows().publish([rows().letter(7, raw, "bad", "why")])) is not None
