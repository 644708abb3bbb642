"""Bytes to stanzas: whatever the writing and wherever the bytes were cut, lxml is the measure."""

import tracemalloc
from itertools import accumulate, count, pairwise
from xml.etree import ElementTree as ET
from xml.etree.ElementTree import ParseError

import pytest
from harness.depth import examples
from harness.stanzas.xml_text import element
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree

from pubqueue.faces.xmpp.stream.reader import KEPT, RENEWED_AFTER, StreamParser

HEADER = (
    "<?xml version='1.0'?><stream:stream xmlns='{}' id='1' "
    "xmlns:stream='http://etherx.jabber.org/streams' xmlns:top='urn:top'>"
)
ACCEPT = "jabber:component:accept"
NUMBERS = count()
"""Of feeds: none comes twice, so no measurement finds what an earlier one has left."""
PAYLOADS = (
    "<a/>",
    "<a></a>",
    "<a b='/>'></a>",
    "<a b='>'/>",
    '<a b="\'/>" />',
    "<a><!-- c/></a> --></a>",
    "<a><![CDATA[/>]]></a>",
    "<a><![CDATA[]]></a>",
    "<a>/></a>",
    "<a>&#10;</a>",
    "<top:a top:b='&amp;'/>",
    "<stream:a/>",
    "<a xmlns='' b='stream:x'/>",
)


def publish(payload, *, words="xmlns='http://jabber.org/protocol/pubsub'"):
    return f"<iq type='set'><pubsub {words}><publish><item>{payload}</item></publish></pubsub></iq>"


def document(stanzas, namespace):
    """Return what lxml makes of the whole stream."""
    text = HEADER.format(namespace) + "".join(stanzas) + "</stream:stream>"
    return etree.fromstring(text.encode())


def meaning(tree):
    """Return what an element says, whatever the prefixes (lxml's canonical form minds those)."""
    children = [
        (node.tail, meaning(node) if isinstance(node.tag, str) else (node.tag, node.text))
        for node in tree
    ]
    return tree.tag, dict(tree.attrib), tree.text, children


def parsed(stanzas, sizes):
    """Feed the stream in pieces of these sizes, over and over."""
    data = (HEADER.format(ACCEPT) + "".join(stanzas)).encode()
    cuts = [0]
    for end in accumulate(sizes * len(data)):
        cuts.append(min(end, len(data)))
        if end >= len(data):
            break
    parser = StreamParser()
    return [stanza for cut in pairwise(cuts) for stanza in parser.feed(data[slice(*cut)])]


def elements(tree):
    return [child for child in tree if isinstance(child.tag, str)]


def clark(name):
    space, _, local = name.rpartition(" ")
    return f"{{{space}}}{local}" if space else local


def compare(stanza, path, accept, client):
    """Compare an element with lxml's: its name and attributes as sent, its bytes by meaning."""
    ours = path[-1]
    assert clark(ours.tag) == accept.tag
    assert {clark(name): text for name, text in ours.attributes.items()} == dict(accept.attrib)
    assert ours.text == "".join(accept.xpath("text()"))
    assert meaning(etree.fromstring(stanza.cut(path))) == meaning(client)
    if len(path) == KEPT:
        assert ours.children == []
        return
    triples = zip(ours.children, elements(accept), elements(client), strict=True)
    for child, accepted, meant in triples:
        compare(stanza, [*path, child], accepted, meant)


def check(stanzas, sizes):
    found = parsed(stanzas, sizes)
    # the component's own default namespace means the clients' (XEP-0114 3)
    trees = zip(document(stanzas, ACCEPT), document(stanzas, "jabber:client"), strict=True)
    for stanza, (accept, client) in zip(found, trees, strict=True):
        compare(stanza, [stanza.top], accept, client)


@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_payload_is_cut_out_as_it_was_meant(payload, size):
    prefixed = publish(payload, words="xmlns:p='urn:p' xmlns='urn:q'")
    check([publish(payload), prefixed, publish("<p/>")], [size])


@settings(max_examples=examples(12))
@given(st.lists(element(6), min_size=1, max_size=3), st.lists(st.integers(1, 60), min_size=1))
@example(["<x/>"], [1])
def test_stanzas_are_what_lxml_makes_of_them_wherever_the_bytes_are_cut(stanzas, sizes):
    check(stanzas, sizes)


def test_the_default_namespace_of_the_component_stream_never_reaches_a_payload():
    text = (
        f"<iq xmlns='{ACCEPT}'><p:pubsub xmlns:p='urn:p'><p:publish><p:item><job/></p:item>"
        "</p:publish></p:pubsub></iq>"
    )
    assert innermost(text) == b'<job xmlns="jabber:client"/>'


def test_a_namespace_that_lxml_would_not_take_is_kept_to_the_letter():
    payload = innermost(publish("<p:a/>", words="xmlns:p='&quot;&lt;&#9;&gt;'"))
    assert ET.fromstring(payload).tag == '{"<\t>}a'


def innermost(text):
    (stanza,) = parsed([text], [10_000])
    path = [stanza.top]
    while path[-1].children:
        path.append(path[-1].children[0])
    return stanza.cut(path)


@pytest.mark.parametrize("levels", [1, 2, 100, 101, 5000])
def test_depth_is_counted_and_costs_nothing(levels):
    deep = publish("<a>" * levels + "</a>" * levels)
    deeper, flat = parsed([deep, publish("<a/>")], [4096])
    assert deeper.depth == 4 + levels if levels > 1 else KEPT
    assert flat.depth == KEPT
    assert deeper.raw == deep.encode()


def test_a_stanza_comes_out_with_its_last_byte():
    parser = StreamParser()
    text = publish("<a/>").encode()
    assert parser.feed(HEADER.format(ACCEPT).encode() + text[:-1]) == []
    assert [stanza.raw for stanza in parser.feed(text[-1:])] == [text]
    assert not parser.closed
    parser.feed(b"</stream:stream>")
    assert parser.closed


@pytest.mark.parametrize(
    "text",
    [
        "<!DOCTYPE s>",
        "<!DOCTYPE s [<!ENTITY a 'b'>]><s>&a;</s>",
        "<!DOCTYPE s SYSTEM 'file:///etc/passwd'>",
        HEADER.format(ACCEPT) + "<iq>&lol;</iq>",
        HEADER.format(ACCEPT) + "<iq></message>",
        HEADER.format(ACCEPT) + "<p:iq/>",
        HEADER.format(ACCEPT) + "<iq a='1' a='2'/>",
        HEADER.format(ACCEPT) + "<iq>\x01</iq>",
        "GET / HTTP/1.1\r\n\r\n",
    ],
)
@pytest.mark.parametrize("size", [1, 10_000])
def test_what_is_no_stream_is_refused(text, size):
    with pytest.raises(ParseError):
        feed_all(StreamParser(), text.encode(), size)


def feed_all(parser, data, size):
    for at in range(0, len(data), size):
        parser.feed(data[at : at + size])


def growth(parser, feed):
    """Return how many bytes more are held after ten thousand feeds than after the first thousand."""
    for _ in range(1000):
        parser.feed(feed(next(NUMBERS)))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(10_000):
            parser.feed(feed(next(NUMBERS)))
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


def grows_by_less(most, parser, feed):
    """Say whether it grows by less. Other threads of the process may take memory meanwhile, but not each time."""
    return any(growth(parser, feed) < most for _ in range(3))


def test_names_that_were_seen_once_are_forgotten():
    """Who may send may choose the names; expat and Python would keep every one of them."""
    parser = StreamParser()
    parser.feed(HEADER.format(ACCEPT).encode())

    def feed(n):
        return publish("".join(f"<n{n}-{m} a{n}-{m}=''/>" for m in range(8))).encode()

    assert grows_by_less(20 * RENEWED_AFTER, parser, feed)  # it would be 33 MB


def test_a_stanza_under_way_while_the_parser_is_renewed_is_whole():
    parser = StreamParser()
    big = publish(f"<top:a>{'x' * RENEWED_AFTER}</top:a>").encode()
    last = publish("<top:a b='/>'>text</top:a>").encode()
    data = HEADER.format(ACCEPT).encode() + big + last
    for at in range(len(last)):
        parser = StreamParser()
        cut = len(data) - at
        stanzas = parser.feed(data[:cut]) + parser.feed(data[cut:])
        assert [stanza.raw for stanza in stanzas] == [big, last]
        assert parser.header["id"] == "1"
        parser.feed(b"</stream:stream>")
        assert parser.closed


@pytest.mark.parametrize("between", ["", " ", "\n"])
def test_ten_thousand_stanzas_leave_nothing_behind(between):
    parser = StreamParser()
    parser.feed(HEADER.format(ACCEPT).encode())
    text = (publish("<a>text</a>") + between).encode()
    assert grows_by_less(100_000, parser, lambda _n: text)  # of 1.5 MB


def test_white_space_that_keeps_the_stream_alive_is_not_kept():
    parser = StreamParser()
    parser.feed(HEADER.format(ACCEPT).encode())
    assert grows_by_less(100_000, parser, lambda _n: b" " * 100)  # of 1 MB
