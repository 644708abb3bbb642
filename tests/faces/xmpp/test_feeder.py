"""Expat is fed so that it never waits for more, whether or not it defers what it has tried before."""

from itertools import pairwise
from random import Random
from xml.parsers import expat

import pytest

from pubqueue.faces.xmpp.stream.expat import CHUNK, ExpatFeeder, padding

DOCUMENT = (
    "<?xml version='1.0'?><s xmlns:q='a'> <iq id=\"a>b'/&gt;'>>>\"><x a='\">&lt;/x>'>te&lt;xt&#10;]]</x>"
    '<!-- a > b --><![CDATA[ <a"> ]]]]> <?pi a>b?>😀 \r</iq>\n<m/></s>'
).encode()


class Deferring:
    """What expat does since CVE-2023-52425: an unfinished token is tried again at twice its bytes."""

    def __init__(self):
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._waiting = []
        self._fed = self._tried = 0
        self.events = []
        self._parser.StartElementHandler = lambda *what: self._heard("start", what)
        self._parser.EndElementHandler = lambda *what: self._heard("end", what)

    def _heard(self, kind, what):
        self.events.append((kind, what, self._parser.CurrentByteIndex))

    def __setattr__(self, name, value):
        if name.endswith("SectionHandler"):
            setattr(self._parser, name, value)
        super().__setattr__(name, value)

    @property
    def CurrentByteIndex(self):  # noqa: N802  # expat's own name
        return self._parser.CurrentByteIndex

    def Parse(self, data, final):  # noqa: N802  # expat's own name
        for at in range(0, len(data), CHUNK):
            self._parse(data[at : at + CHUNK], final)

    def _parse(self, data, final):
        self._waiting.append(data)
        size = sum(map(len, self._waiting))
        if size < self._tried:
            return
        before = self.CurrentByteIndex
        for piece in self._waiting:
            self._parser.Parse(piece, final)
        self._fed += size
        self._waiting.clear()
        stuck = before == self.CurrentByteIndex
        self._tried = self._fed - before if stuck else 0


def events(pieces):
    parser = Deferring()
    feeder = ExpatFeeder(parser)
    for piece in pieces:
        feeder.feed(piece)
    return parser.events


def cut(random):
    """Cut the document into pieces, from two to one for each byte."""
    many = random.choice((1, 2, 3, 10, 40, len(DOCUMENT) - 1))
    places = [0, *sorted(random.sample(range(1, len(DOCUMENT)), many)), len(DOCUMENT)]
    return [DOCUMENT[a:b] for a, b in pairwise(places)]


def test_wherever_the_bytes_are_cut_everything_is_reported():
    whole = events([DOCUMENT])
    assert [kind for kind, *_ in whole].count("end") == 4
    random = Random(1)
    for _ in range(1000):
        pieces = cut(random)
        assert events(pieces) == whole, pieces


def test_without_the_feeder_something_waits():
    parser = Deferring()
    for piece in (b"<s><a b='1", b"2345678901234567890", b"'/>"):
        parser.Parse(piece, False)  # noqa: FBT003  # expat's own signature
    assert [what[0] for _, what, _ in parser.events] == ["s"]


@pytest.mark.parametrize("text", [b"x", b'"', b">", b"&quot;"])
def test_a_tag_of_many_pieces_is_reported_with_its_last(text):
    tag = b"<a b='%s'/>" % (text * 60_000)
    pieces = [tag[at : at + 4096] for at in range(0, len(tag), 4096)]
    heard = events([b"<s>", *pieces])
    assert [what[0] for _, what, _ in heard] == ["s", "a", "a"]


@pytest.mark.parametrize("size", [0.9, 1.2, 2.1, 3.1])
def test_a_tag_larger_than_what_python_gives_expat_at_once(size):
    before = b"<a>%s</a>" % (b"<b c='%s'/>" % (b"x" * 389) * 1_000)
    tag = b"<a b='%s'/>" % (b"x" * int(size * CHUNK))
    data = b"<s>" + before + tag
    pieces = [data[at : at + 65_536] for at in range(0, len(data), 65_536)]
    for given in ([data], pieces):
        heard = events(given)
        assert heard[-1][:2] == ("end", ("a",))
        assert sum(what[0] == "a" for _, what, _ in heard) == 4


def test_what_is_not_xml_is_refused_at_once():
    feeder = ExpatFeeder(Deferring())
    with pytest.raises(expat.ExpatError):
        feeder.feed(b"GET / HTTP/1.1\r\n\r\n")


@pytest.mark.parametrize(
    ("stanza", "white"),
    [
        (b"<a/>", 0),
        (b"<a b='%s'/>" % (b"x" * 4000), 0),
        (b"<a b='%s'/>" % (b"x" * 5000), 5009),
        (b'<a b="%s"/>' % (b"'>" * 5000), 10_009),
        (b"<a>%s</a>" % (b"x" * 100_000), 0),
        (b"<a><b c='%s'/></a>" % (b">" * 5000), 5009),
    ],
    ids=range(6),
)
def test_white_space_follows_what_has_a_long_tag(stanza, white):
    assert padding(stanza) == white
    pieces = [stanza[at : at + 4096] for at in range(0, len(stanza), 4096)]
    parser = Deferring()
    for piece in (b"<s>", *pieces, b" " * white):
        parser.Parse(piece, False)  # noqa: FBT003  # expat's own signature
    assert parser.events[-1][:2] == ("end", ("a",))
