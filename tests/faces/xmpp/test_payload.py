"""Two payloads are the same if they mean the same; what cannot be read means only itself."""

import pytest
from harness.stanzas.xml_text import element
from hypothesis import given
from lxml import etree

from pubqueue.faces.xmpp.xml.payload import fingerprint, same

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
