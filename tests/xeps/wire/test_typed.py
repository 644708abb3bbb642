"""Payloads with a content type: as they are sent, and as a worker reads them."""

from xml.etree.ElementTree import Element, fromstring

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.testing import make_item
from pubqueue_xeps.publisher.replies import Reply
from pubqueue_xeps.wire.payloads.decoding import DecodeError
from pubqueue_xeps.wire.payloads.encoding import typed, written
from pubqueue_xeps.wire.payloads.payload import of_element
from pubqueue_xeps.wire.published import NewItem, wrapped

PNG = b"\x89PNG\r\n\x1a\n"
DATA = "urn:x-pubqueue:data:0"


class Flight(msgspec.Struct):
    number: str


@pytest.mark.parametrize(
    ("payload", "type_", "data"),
    [
        ("a,b\n", "text/csv", "a,b\n"),
        (b"a,b\n", "text/csv", "a,b\n"),
        ("a\r\n", "text/csv", b"a\r\n"),
        (PNG, "image/png", PNG),
        (bytearray(PNG), "image/png", PNG),
        (memoryview(PNG), "image/png", PNG),
        (b"", "text/plain", b""),
        ("{}", "application/json", {}),
        (b'{"a": [1]}', "application/json; charset=utf-8", {"a": [1]}),
        (b'{"a"', "application/json", '{"a"'),
        ('{"a": 1}', "application/vnd.x+json", '{"a": 1}'),
        ("ä".encode("latin-1"), "text/plain; charset=latin-1", b"\xe4"),
    ],
)
def test_a_worker_reads_what_was_published_and_its_type(payload, type_, data):
    item = make_item(payload, type=type_)
    assert (item.data, item.type) == (data, type_)


@given(st.binary())
def test_bytes_come_out_whatever_they_are_called(body):
    for type_ in ("image/png", "text/plain", "a/b+json"):
        assert make_item(body, type=type_).decode(bytes) == body


@pytest.mark.parametrize("type_", ["application/xml", "image/svg+xml"])
@pytest.mark.parametrize(
    "payload", [Element("{urn:x}a"), "<a xmlns='urn:x'/>", b"<a xmlns='urn:x'/>"]
)
def test_xml_is_an_element_of_its_type(payload, type_):
    item = make_item(payload, type=type_)
    assert (item.payload.tag, item.type) == ("{urn:x}a", type_)
    with pytest.raises(DecodeError):
        _ = item.data


def test_what_is_published_without_a_type_has_the_type_of_its_form():
    assert make_item({"a": 1}).type == "application/json"
    assert make_item(Element("{urn:x}a")).type == "application/xml"
    assert make_item(Element("{urn:x-pubqueue:0}text")).type == "text/plain; charset=utf-8"
    assert make_item(b"a").data == "YQ=="
    assert make_item().type is None
    assert make_item(Element(f"{{{DATA}}}data")).type is None


def test_a_payload_is_read_as_a_type_where_that_is_possible():
    assert make_item('\ufeff{"number": "LH"}', type="application/json").decode(Flight) == Flight(
        "LH"
    )
    assert make_item('{"number": "LH"}', type="a/b+json").decode(Flight) == Flight("LH")
    assert make_item("a\r\n", type="text/csv").decode(str) == "a\r\n"
    for payload, type_, wanted in (
        (PNG, "image/png", str),
        ("LH", "text/plain", Flight),
        ("{", "a/b+json", Flight),
        ('{"number": 1}', "a/b+json", Flight),
    ):
        with pytest.raises(DecodeError):
            make_item(payload, type=type_).decode(wanted)


@pytest.mark.parametrize("text", ["<a/>", "%%%"])
def test_data_that_cannot_be_read_is_an_unreadable_payload(text):
    item = make_item(fromstring(f"<data xmlns='{DATA}' encoding='base64'>{text}</data>"))
    assert item.type == "application/xml"
    for read in (lambda: item.data, lambda: item.decode(bytes)):
        with pytest.raises(DecodeError):
            read()


def test_the_type_replaces_a_header_and_is_one_only_where_it_must():
    headers = {"Content-Type": "a/b", "x": "y"}
    assert wrapped(NewItem(payload="a", type="text/csv", headers=headers)).headers == {"x": "y"}
    json = wrapped(NewItem(payload="1", type="Application/JSON", headers=headers))
    assert json.headers == {"x": "y", "content-type": "Application/JSON"}
    assert wrapped(json) is json
    untyped = NewItem(payload="a", headers=headers)
    assert wrapped(untyped) is untyped


def test_a_header_of_another_client_counts_whatever_its_case():
    assert (
        make_item({}, headers={"Content-Type": "application/json;v=1"}).type
        == "application/json;v=1"
    )


def test_a_reply_has_a_type():
    reply = Reply("r", fromstring(written(typed(PNG, "image/png"))), None)
    assert (reply.data, reply.type) == (PNG, "image/png")


@pytest.mark.parametrize(
    ("payload", "type_", "error"),
    [
        ({"a": 1}, "application/json", TypeError),
        (None, "text/plain", TypeError),
        ("a", 7, TypeError),
        ("a", "text/plain\x00", ValueError),
        ("a\ud800", "text/plain", ValueError),
        ("ä", "text/plain; charset=latin-1", ValueError),
        (Element("{urn:x}a"), "text/plain", ValueError),
    ],
)
def test_a_payload_that_does_not_fit_its_type_is_refused(payload, type_, error):
    with pytest.raises(error):
        typed(payload, type_)


def test_an_element_means_the_same_in_any_place():
    job = fromstring("<job xmlns='urn:x'>a</job>")
    assert of_element(job, "text/xml").type == "text/xml"
    assert of_element(job, "image/png").type == "application/xml"
