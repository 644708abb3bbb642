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

from pubqueue_xeps.wire.payloads.decoding import DecodeError
from pubqueue_xeps.wire.payloads.encoding import json_text, written
from pubqueue_xeps.wire.payloads.payload import Content

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
