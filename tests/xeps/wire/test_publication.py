"""From values to payloads and back: what people have is what handlers get."""

import base64
import enum
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID
from xml.etree.ElementTree import Element, fromstring

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from pubqueue.testing import make_item
from pubqueue_xeps.publisher.replies import Reply
from pubqueue_xeps.wire.payloads.decoding import Content, DecodeError, of_element
from pubqueue_xeps.wire.publication import NewItem, json_text, typed, wrapped, written

JSON = "{urn:xmpp:json:0}json"


class Received(Content):
    def __init__(self, payload):
        self._payload = payload

    @property
    def payload(self):
        return self._payload


def received(xml):
    return Received(fromstring(xml))


def sent(value):
    """Send a value, and receive it."""
    got = received(written(value))
    assert got.payload.tag == JSON
    return got


class Colour(enum.Enum):
    LATE = "late"


class Flight(msgspec.Struct):
    number: str
    seats: list[int]
    kind: Colour = Colour.LATE
    left: datetime | None = None


@dataclass
class Person:
    name: str
    born: date
    tags: set[str] = field(default_factory=set)


FLIGHT = Flight("LH 400", [12, 14], left=datetime(2026, 11, 22, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (FLIGHT, Flight),
        (Person("Ann", date(2000, 2, 29), {"a"}), Person),
        ({"a": [1, 2.5, None, True, {"b": "<&>\"'"}]}, dict),
        ({"a": 1}, dict[str, int]),
        ([FLIGHT], list[Flight]),
        ((1, "a"), tuple[int, str]),
        ("<job/>", str),
        ("", str),
        (b"\x00\xff", bytes),
        (bytearray(b"ab"), bytearray),
        (2**70, int),
        (True, bool),
        (None, None),
        (None, int | None),
        (7, int | None),
        (Decimal("1.10"), Decimal),
        (UUID(int=7), UUID),
        (Colour.LATE, Colour),
        (datetime(2026, 11, 22, 12, 30, 1, 7, tzinfo=UTC), datetime),
    ],
    ids=repr,
)
def test_a_value_is_decoded_as_it_was_sent(value, kind):
    assert sent(value).decode(kind) == value


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN)
def test_every_json_value_comes_back(value):
    assert sent(value).data == value


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_character_travels_and_no_other_stands_in_the_xml(text):
    assert sent({text: text}).data == {text: text}
    etree.fromstring(written({text: text}))  # which takes nothing that XML forbids


@given(st.binary())
def test_bytes_are_a_string_in_base64(value):
    assert sent(value).data == base64.b64encode(value).decode()
    assert sent(value).decode(bytes) == value


def test_equal_payloads_are_written_the_same():
    assert written({"b": {"d": 1, "c": 2}, "a": 3}) == written({"a": 3, "b": {"c": 2, "d": 1}})
    names = [f"name {n}" for n in range(100)]
    assert written(set(names)) == written(set(names)) == written(frozenset(names))
    assert json_text({"b": {2, 1}, "a": None}) == '{"a":null,"b":[1,2]}'


def test_an_element_stays_as_it_is():
    job = Element("{urn:example:job}job", nr="1")
    job.text = "rebook me"
    assert written(job) == '<job xmlns="urn:example:job" nr="1">rebook me</job>'
    assert written(etree.fromstring("<job nr='1'>a</job>")) == '<job xmlns="" nr="1">a</job>'


def test_what_has_a_tag_is_no_element_for_that():
    @dataclass
    class Luggage:
        tag: str

    assert sent(Luggage("LH1")).data == {"tag": "LH1"}


def test_json_that_is_written_already_goes_as_it_is():
    assert sent(msgspec.Raw(b'{"a": 1}')).data == {"a": 1}


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (
            object(),
            TypeError("has no form in JSON: Encoding objects of type object is unsupported"),
        ),
        ("\ud800", ValueError("has half a surrogate pair, which is not a character")),
    ],
)
def test_what_has_no_form_is_one_sentence(value, error):
    with pytest.raises(type(error)) as caught:
        written(value)
    assert str(caught.value) == str(error)


def test_what_holds_itself_has_no_form():
    circle = []
    circle.append(circle)
    with pytest.raises(ValueError, match="is nested too deeply, or contains itself"):
        json_text(circle)


def test_what_does_not_fit_is_named_and_its_value_is_not():
    for wanted, sentence in [
        (Flight, "The field 'seats[0]' of the payload cannot be read: it is no `int`."),
        (list[int], "The payload cannot be read as a list."),
        (int | None, "The payload cannot be read as a int | None."),
    ]:
        with pytest.raises(DecodeError) as caught:
            sent({"number": "1", "seats": ["secret"]}).decode(wanted)
        assert str(caught.value) == sentence


@pytest.mark.parametrize("text", ["", "{", "secret", "[1] 2"])
def test_what_is_no_json_is_rejected_without_its_text(text):
    with pytest.raises(DecodeError) as caught:
        _ = received(f"<json xmlns='urn:xmpp:json:0'>{text}</json>").data
    assert str(caught.value) == "The payload is not valid JSON."


def test_json_with_elements_in_it_is_rejected():
    with pytest.raises(DecodeError, match="elements where its text should be"):
        received("<json xmlns='urn:xmpp:json:0'>1<b/></json>").decode(int)


def test_a_string_in_json_is_no_number():
    with pytest.raises(DecodeError):
        sent("7").decode(int)


def test_other_xml_is_read_as_a_struct_alone():
    flight = received("<flight xmlns='x' number='LH 400'><seats>12</seats></flight>")
    assert flight.decode(Flight) == Flight("LH 400", [12])
    with pytest.raises(TypeError, match="dict is not a msgspec struct"):
        flight.decode(dict[str, int])
    with pytest.raises(DecodeError, match="neither JSON nor text"):
        _ = flight.data


def test_text_of_sparks_is_a_string():
    text = received("<text xmlns='urn:x-pubqueue:0'>rebook me</text>")
    assert (text.decode(str), text.data) == ("rebook me", "rebook me")


def test_without_a_payload_there_is_nothing_to_read():
    nothing = Received(None)
    assert nothing.bytes == b""
    for read in (lambda: nothing.data, lambda: nothing.decode(Flight)):
        with pytest.raises(DecodeError, match="no payload"):
            read()


# Payloads with a content type: as they are sent, and as a worker reads them.


PNG = b"\x89PNG\r\n\x1a\n"
DATA = "urn:x-pubqueue:data:0"


class Numbered(msgspec.Struct):
    number: str


@pytest.mark.parametrize(
    ("payload", "type_", "data"),
    [
        ("a,b\n", "text/csv", "a,b\n"),
        (b"a,b\n", "text/csv", "a,b\n"),
        ("a\r\n", "text/csv", "a\r\n"),
        ("&<" * 900, "text/csv", "&<" * 900),
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
    assert make_item('\ufeff{"number": "LH"}', type="application/json").decode(
        Numbered
    ) == Numbered("LH")
    assert make_item('{"number": "LH"}', type="a/b+json").decode(Numbered) == Numbered("LH")
    assert make_item("a\r\n", type="text/csv").decode(str) == "a\r\n"
    for payload, type_, wanted in (
        (PNG, "image/png", str),
        ("LH", "text/plain", Numbered),
        ("{", "a/b+json", Numbered),
        ('{"number": 1}', "a/b+json", Numbered),
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
