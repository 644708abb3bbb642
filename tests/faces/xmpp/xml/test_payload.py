"""Two payloads are the same if they mean the same; and payloads as people write them, XML or JSON, there and back."""

import pytest
from harness.stanzas.xml_text import element
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from pubqueue.faces.xmpp.xml.payload import (
    UnfitPayloadError,
    fingerprint,
    from_json,
    from_text,
    from_xml,
    same,
    to_text,
    tree,
)

LONG_NAME = "n" * 60_000


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("<a/>", "<a></a>"),
        ("<a/>", "<a ></a >"),
        ("<a b='1' c=\"2\"/>", "<a c='2' b='1'/>"),
        ("<a xmlns='urn:x' b='1'/>", "<a b='1' xmlns='urn:x' xmlns:y='urn:y'/>"),
        ("<a xmlns='jobs' b='1'/>", "<a b='1' xmlns='jobs'/>"),
        ("<a>&lt;&#62;é</a>", "<a><![CDATA[<>]]>&#233;</a>"),
        ("<a>1<!-- one -->2</a>", "<a>1<?two?>2</a>"),
        ("<a xmlns='urn:x'><b/></a>", "<p:a xmlns:p='urn:x'><p:b/></p:a>"),
        (f"<{LONG_NAME}/>", f"<{LONG_NAME}/>"),
    ],
)
def test_the_same_in_other_letters(first, second):
    assert same(first.encode(), second.encode())
    assert fingerprint(first.encode()) == fingerprint(second.encode())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("<a/>", "<b/>"),
        ("<a/>", "<a xmlns='urn:x'/>"),
        ("<a b='1'/>", "<a b='2'/>"),
        ("<a>1</a>", "<a> 1</a>"),
        ("<a><b/><c/></a>", "<a><c/><b/></a>"),
        ("<a><b><c/></b></a>", "<a><b/><c/></a>"),
        ("<a><b/>t</a>", "<a><b>t</b></a>"),
        (f"<{LONG_NAME}/>", f"<{LONG_NAME}></{LONG_NAME}>"),
        ("<a/>", "<a xmlns:p='&quot;'/>"),
    ],
)
def test_other(first, second):
    assert not same(first.encode(), second.encode())
    assert fingerprint(first.encode()) != fingerprint(second.encode())


@given(element(4))
def test_what_another_serialiser_writes_of_it_is_the_same(text):
    again = etree.tostring(etree.fromstring(text), encoding="utf-8")
    assert same(text.encode(), again)


@given(element(3))
def test_an_attribute_more_makes_another(text):
    tree = etree.fromstring(text)
    tree.set("more", "1")
    assert not same(text.encode(), etree.tostring(tree, encoding="utf-8"))


JSON = "urn:xmpp:json:0"


def test_an_element_is_the_payload():
    assert from_text(" <a:job xmlns:a='urn:x'>1 &lt; 2</a:job>\n") == (
        b'<a:job xmlns:a="urn:x">1 &lt; 2</a:job>',
        "urn:x",
    )


def test_comments_and_instructions_are_left_out():
    payload, _ = from_xml("<?xml version='1.0'?><!-- a --><job xmlns='urn:x'>a<!-- b -->c</job>")
    assert payload == b'<job xmlns="urn:x">ac</job>'


def test_what_is_no_element_is_json():
    assert from_text('{"a": [1, "<&"]}') == (
        b'<json xmlns="urn:xmpp:json:0">{"a":[1,"&lt;&amp;"]}</json>',
        JSON,
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the payload is neither an XML element nor JSON"),
        ("cleanup", "the payload is neither an XML element nor JSON"),
        pytest.param("[" * 1_000_000, "the payload is neither an XML element nor JSON", id="deep"),
        ("<job", "the payload is not an XML element"),
        ("<a xmlns='urn:x'/><b xmlns='urn:x'/>", "the payload is not an XML element"),
        ("<job/>", "the payload's element needs a namespace"),
        (
            "<!DOCTYPE a [<!ENTITY b 'c'>]><a xmlns='urn:x'>&b;</a>",
            "the payload has a document type",
        ),
    ],
)
def test_an_invalid_payload_is_reported(text, words):
    with pytest.raises(UnfitPayloadError, match=words):
        from_text(text)


def test_what_xml_has_no_character_for_is_no_payload():
    with pytest.raises(UnfitPayloadError, match="cannot be JSON in XML"):
        from_json({"a": "\uffff"})


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufffe\uffff")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("abc<&'\""), inner),
)


@given(VALUES)
def test_json_comes_back_as_it_was_written(value):
    payload, space = from_json(value)
    assert space == JSON
    assert tree(payload).tag == f"{{{JSON}}}json"
    assert from_text(to_text(payload)) == (payload, JSON)


def test_xml_comes_back_as_it_was_written():
    for text in ("<job xmlns='urn:x'>ä</job>", "<json xmlns='urn:xmpp:json:0' a='b'/>"):
        payload, space = from_text(text)
        assert from_text(to_text(payload)) == (payload, space)
