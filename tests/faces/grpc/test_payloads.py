"""Data and attributes to an item and back: bytes stay what they are, and nobody feigns a header of the service."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.faces.grpc.statuses import CallError
from pubqueue.faces.grpc.wire import (
    NUMBERS,
    ORDERING,
    StoredMessage,
    draft_of,
    group_of,
    message_of,
)

TYPES = st.sampled_from(
    ["application/json", "application/xml", "text/plain", "image/png", "a/b+xml", "", "nonsense"]
)
SAFE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=20)
DATA = st.binary(max_size=200) | st.sampled_from(
    [
        b"",
        b"<a xmlns='b'/>",
        b"<a/>",
        b'{"a": 1}',
        b"a\r\nb",
        bytes(range(256)),
        b"<?xml version='1.0'?><a xmlns='b'/>",
    ]
)


@given(DATA, st.none() | TYPES, st.dictionaries(SAFE, SAFE, max_size=5), SAFE | st.just(""))
def test_what_goes_in_comes_out(data, kind, attributes, key):  # G9, G11
    attributes = {
        name: value for name, value in attributes.items() if not name.startswith("x-pubqueue-")
    }
    if kind is not None:
        attributes["content-type"] = kind
    message = StoredMessage(data, attributes, key)
    draft = draft_of(message, "1")
    assert ET.fromstring(draft.payload).tag.startswith("{")
    assert message_of(draft.payload, draft.headers) == message


@pytest.mark.parametrize(
    ("stored", "data", "kind"),
    [
        (b"<json xmlns='urn:xmpp:json:0'>{\"a\":1}</json>", b'{"a":1}', "application/json"),
        (b"<data xmlns='urn:x-pubqueue:data:0'>a</data>", b"a", None),
        (
            b"<data xmlns='urn:x-pubqueue:data:0' type='a/b' encoding='base64'>AP8=</data>",
            b"\0\xff",
            "a/b",
        ),
        (
            b"<data xmlns='urn:x-pubqueue:data:0' encoding='base64'>!</data>",
            b"<data xmlns='urn:x-pubqueue:data:0' encoding='base64'>!</data>",
            "application/xml",
        ),
        (b"<a xmlns='b'/>", b"<a xmlns='b'/>", "application/xml"),
    ],
)
def test_what_comes_over_xmpp(stored, data, kind):  # G10
    found = message_of(stored, ())
    assert found.data == data
    assert found.attributes.get("content-type") == kind


@pytest.mark.parametrize(
    ("data", "kind", "stored"),
    [
        (b'{"a":1}', "application/json", b"<json xmlns='urn:xmpp:json:0'>{\"a\":1}</json>"),
        (b"<a xmlns='b'/>", "application/xml", b"<a xmlns='b'/>"),
        (b"a", "text/plain", b"<data xmlns='urn:x-pubqueue:data:0' type=\"text/plain\">a</data>"),
        (b"a", None, b"<data xmlns='urn:x-pubqueue:data:0' encoding='base64'>YQ==</data>"),
        (b"", None, b"<data xmlns='urn:x-pubqueue:data:0' encoding='base64'></data>"),
    ],
)
def test_what_is_stored(data, kind, stored):  # G10
    attributes = {} if kind is None else {"content-type": kind}
    assert draft_of(StoredMessage(data, attributes), "1").payload == stored


def test_a_header_that_comes_twice_is_joined():  # G10
    assert message_of(b"", (("a", "1"), ("b", "2"), ("a", "3"))).attributes == {
        "a": "1, 3",
        "b": "2",
    }


def test_headers_of_the_service_are_not_shown():
    found = message_of(
        b"", ((NUMBERS, "n m"), (ORDERING, "k"), ("x-pubqueue-other", "1"), ("a", "b"))
    )
    assert found == StoredMessage(b"", {"a": "b"}, "k", frozenset({"n", "m"}))


@pytest.mark.parametrize(
    "attributes",
    [
        {"x-pubqueue-key": "feigned"},
        {"": "a"},
        {"a": "\0"},
        {"a\0": "b"},
        {"a" * 257: "b"},
        {"a": "b" * 1_025},
        {f"a{n}": "" for n in range(101)},
    ],
)
def test_what_cannot_be_carried_is_refused(attributes):
    with pytest.raises(CallError):
        draft_of(StoredMessage(b"a", attributes), "1")


@pytest.mark.parametrize("key", ["a\0b", "k" * 1_025])
def test_an_ordering_key_that_cannot_be_carried_is_refused(key):
    with pytest.raises(CallError):
        draft_of(StoredMessage(b"a", {}, key), "1")


def test_a_key_is_the_group_or_its_digest():  # G33
    assert group_of("") == ""
    assert group_of("k" * 255) == "k" * 255
    for key in ("k" * 256, "a\tb"):
        assert group_of(key).startswith("sha256:")
    assert group_of("a\tb") != group_of("a\tc")
