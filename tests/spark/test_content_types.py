"""Rows with a content type: what is sent of them, and what Spark and workers read of that."""

import subprocess
import sys
from datetime import UTC, datetime
from xml.etree.ElementTree import fromstring, tostring

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, StringType

from pubqueue.testing import make_item
from pubqueue_spark import content_types
from pubqueue_spark.errors import OptionError
from pubqueue_spark.write.forms import form
from pubqueue_spark.write.payload import MAX_STANZA_BYTES
from pubqueue_spark.write.rows import Rows, Unfit
from pubqueue_spark.write.schema import Columns
from pubqueue_xeps.wire.payloads.wrapper import JSON_TAG, unwrap
from pubqueue_xeps.wire.requests.pages import ReadItem

TEXT, BINARY = StringType(), BinaryType()
SHIM = "{http://jabber.org/protocol/shim}"
PUBSUB = "{http://jabber.org/protocol/pubsub}"
TYPES = (
    *("image/png", "text/csv", "text/plain; charset=latin-1", "application/json"),
    *("application/vnd.x+json", "application/x-www-form-urlencoded", "x"),
)
XML_TYPES = ("application/xml", "image/svg+xml")
BODIES = st.binary() | st.text().map(lambda text: text.encode(errors="ignore"))


def rows(kind=BINARY, usual=None):
    columns = Columns(0, kind, headers=1, content_type=2)
    return Rows(
        *(columns, form(kind, "auto"), "jobs", "run", 3),
        content_type=usual,
        typed=content_types.writer(),
    )


def sent(payload, type_=None, headers=None, *, kind=BINARY, usual=None):
    """Return element and headers of a row, as the service gets them."""
    writer = rows(kind, usual)
    item = writer.item(17, (payload, headers, type_))
    body = writer.publish([item]).body
    publish = fromstring(b"<iq>" + body)
    (found,) = publish.iter(f"{PUBSUB}item")
    beside = {h.get("name"): h.text or "" for h in publish.iter(f"{SHIM}header")}
    start = item.xml.index(b">") + 1
    return found[0], beside, item.xml[start : -len("</item>")]


def read(element, headers):
    """Return the columns `data` and `type` of an item."""
    now = datetime.now(UTC)
    item = ReadItem(
        "i", "jobs", 1, "queued", 0, now, "p", 0, 0, 1, headers=headers, payload=element
    )
    return content_types.reader()(item)


@given(BODIES, st.sampled_from(TYPES))
def test_bytes_come_out_as_they_were_in_every_reader(body, type_):
    element, headers, stored = sent(bytearray(body), type_)
    assert read(element, headers)[:2] == (body, type_)
    carried = unwrap(stored, headers.get("content-type"))
    assert (carried.data, carried.type) == (body, type_)
    if element.tag != JSON_TAG:  # of which a worker reads the value
        assert make_item(element).decode(bytes) == body


@given(BODIES, st.sampled_from(XML_TYPES))
def test_what_is_called_xml_and_is_none_comes_out_too(body, type_):
    element, headers, stored = sent(body, type_)
    assert unwrap(stored, headers.get("content-type")).data == body
    assert read(element, headers)[1] == type_


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(TYPES[:2]))
def test_a_string_comes_out_in_utf_8(text, type_):
    element, headers, _ = sent(text, type_, kind=TEXT)
    assert read(element, headers)[:2] == (text.encode(), type_)


@given(BODIES, st.sampled_from(TYPES))
def test_what_spark_sends_is_what_a_publisher_sends(body, type_):
    element, headers, _ = sent(body, type_)
    item = make_item(body, type=type_)
    assert tostring(element) == tostring(item.payload)
    assert headers == item.headers


def test_the_type_of_the_row_outranks_the_option():
    assert read(*sent(b"x", "text/csv", usual="image/png")[:2]) == (b"x", "text/csv", None)
    assert read(*sent(b"x", None, usual="image/png")[:2]) == (b"x", "image/png", None)


def test_a_row_without_a_type_is_written_by_its_format():
    element, headers, _ = sent("<job xmlns='urn:x'/>", kind=TEXT)
    assert (element.tag, headers) == ("{urn:x}job", {})
    assert read(element, headers) == (b'<job xmlns="urn:x"/>', "application/xml", None)


def test_the_headers_of_the_row_stay_but_for_one_that_names_another_type():
    given_ = {"trace": "7", "Content-Type": "a/b", "no": None}
    assert sent(b"x", "image/png", given_)[1] == {"trace": "7"}
    svg = b"<svg xmlns='urn:x'/>"
    assert sent(svg, "image/svg+xml", given_)[1] == {"trace": "7", "content-type": "image/svg+xml"}


@pytest.mark.parametrize(
    ("payload", "type_", "kind", "reason"),
    [
        (None, "image/png", BINARY, "payload is null; leave such rows out"),
        (b"x", "", BINARY, "content_type is empty; null means: not given"),
        (b"x", "a\x00", BINARY, "the content type has the character U+0000 at position 1"),
        ("x", "text/plain; charset=latin-1", TEXT, "names another charset; send bytes"),
        (b"x" * (MAX_STANZA_BYTES + 1), "a/b", BINARY, "has 262145 bytes; XMPP servers refuse"),
        (b"x" * 200_000, "a/b", BINARY, "bytes (its payload has 200000), and XMPP servers refuse"),
    ],
)
def test_a_row_that_cannot_be_sent_gives_the_reason(payload, type_, kind, reason):
    with pytest.raises(Unfit) as caught:
        sent(payload, type_, kind=kind)
    assert reason in str(caught.value)


def test_an_item_that_was_read_without_its_payload_has_no_data():
    assert read(None, {"content-type": "a/b"}) == (None, None, None)


@pytest.mark.parametrize("of", ["writer", "reader"])
def test_what_is_missing_here_is_named(monkeypatch, of):
    for name in [name for name in sys.modules if name.startswith("pubqueue_xeps.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "msgspec", None)
    with pytest.raises(OptionError) as caught:
        getattr(content_types, of)()
    assert "needs the Python package msgspec on the driver and on every executor" in str(
        caught.value
    )
    assert str(caught.value).endswith(" has none: pip install msgspec.")


def test_a_job_without_content_types_does_not_import_it():
    modules = (
        "pubqueue_spark.write.open_write, pubqueue_spark.read.open_read, pubqueue_spark.write.task"
    )
    asked = f"import sys, {modules}; print('msgspec' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
