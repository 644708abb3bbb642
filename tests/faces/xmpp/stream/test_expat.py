"""Expat is fed so that it never waits for more; reading costs time in proportion to the bytes, and what is passed over takes nobody's place."""

from itertools import pairwise
from random import Random
from xml.parsers import expat

import pytest

from pubqueue.faces.xmpp.parse.iq import Iq
from pubqueue.faces.xmpp.requests import PUBLISH
from pubqueue.faces.xmpp.stream import reader
from pubqueue.faces.xmpp.stream.expat import (
    CHUNK,
    MAX_BENEATH,
    MAX_NAMESPACE_LENGTH,
    ExpatFeeder,
    long_namespace,
    padding,
)
from pubqueue.faces.xmpp.stream.reader import (
    MAX_DECLARED,
    MAX_OF_A_LEVEL,
    REFUSED,
    TOO_LONG,
    TOO_MANY,
    TOO_MUCH_DECLARED,
    StreamParser,
)
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Jid, Principal
from pubqueue.rules.validity import MAX_NAMED, MAX_PUBLISHED
from pubqueue_xeps.wire import ns

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


HEADER = (
    "<?xml version='1.0'?><stream:stream xmlns='jabber:component:accept' id='1' "
    "xmlns:stream='http://etherx.jabber.org/streams'>"
)
PING = "<iq type='get' id='p' from='bee@localhost/x' to='queue.localhost'><ping xmlns='urn:xmpp:ping'/></iq>"


def iq(inner, words=""):
    head = f"<iq type='set' id='i' from='eve@localhost/x' to='queue.localhost'{words}>"
    return f"{head}<pubsub xmlns='{ns.PUBSUB}'>{inner}</pubsub></iq>"


def publish(items, words=""):
    return iq(f"<publish node='jobs'{words}>{items}</publish>")


def item(payload):
    return f"<item><job xmlns='urn:work'>{payload}</job></item>"


def declared(byte_count):
    """Return declarations of so many bytes: a prefix of five and a namespace of five each."""
    return "".join(f" xmlns:p{number:04}='urn:x'" for number in range(byte_count // 10))


LONG = "u" * (MAX_NAMESPACE_LENGTH + 1)
EXCESSIVE = {
    "items": (
        publish("<item/>" * (MAX_PUBLISHED + 1)),
        Refused(Refusal.TOO_MANY_ITEMS, limit=MAX_PUBLISHED),
    ),
    "ids": (
        iq(f"<retract node='jobs'>{'<item/>' * (MAX_NAMED + 1)}</retract>"),
        Refused(Refusal.TOO_MANY_ITEMS, limit=MAX_NAMED),
    ),
    "fields": (
        iq(f"<publish><item/></publish><x>{'<field/>' * MAX_OF_A_LEVEL}</x>"),
        TOO_MANY,
    ),
    "children": (iq("<a/>" * (MAX_OF_A_LEVEL + 1)), TOO_MANY),
    "many children": (iq("<a/>" * 60_000), TOO_MANY),
    "children of children": (iq("<a><b/><b/></a>" * (MAX_OF_A_LEVEL // 2 + 1)), TOO_MANY),
    "of the stanza": (
        f"<iq type='set' id='i' from='eve@localhost/x' to='queue.localhost'>{'<a/>' * 60_000}</iq>",
        TOO_MANY,
    ),
    "beneath": (publish(item("<a/>" * (MAX_BENEATH + 1))), TOO_MANY),
    "beneath, with IQs in it": (publish(item("<iq></iq><iq/>" * 30_000)), TOO_MANY),
    "beneath, with a comment": (publish(item("<!-- </iq> -->" + "<a/>" * 60_000)), TOO_MANY),
    "declared": (publish(item(""), declared(MAX_DECLARED + 10)), TOO_MUCH_DECLARED),
    "declared by the stanza": (
        PING.replace("<iq", f"<iq{declared(MAX_DECLARED + 10)}").replace("p'", "i'", 1),
        TOO_MUCH_DECLARED,
    ),
    "declared by all together": (
        iq(
            f"<publish node='jobs'{declared(MAX_DECLARED // 2)}>"
            f"<item{declared(MAX_DECLARED // 2 + 10)}><job xmlns='urn:work'/></item></publish>"
        ),
        TOO_MUCH_DECLARED,
    ),
    "long": (publish(item(f"<a xmlns='{LONG}'/>")), TOO_LONG),
    "long, of the stanza": (PING.replace("<iq", f'<iq xmlns:p="{LONG}"'), TOO_LONG),
    "long, within IQs": (publish(item(f"<iq><b xmlns:p='{LONG}'/></iq>")), TOO_LONG),
}


def read(parser, text, size):
    data = text.encode()
    return [one for at in range(0, len(data), size) for one in parser.feed(data[at : at + size])]


@pytest.mark.parametrize("size", [1000, 4096, 1 << 20])
@pytest.mark.parametrize("kind", EXCESSIVE)
def test_what_is_too_much_comes_out_as_its_head_and_the_next_as_ever(kind, size):
    text, excess = EXCESSIVE[kind]
    parser = StreamParser()
    parser.feed(HEADER.encode())
    stanzas = read(parser, PING + text + PING + " " + text + PING, size)
    assert [bool(one.excess) for one in stanzas] == [False, True, False, True, False]
    assert {one.excess for one in stanzas if one.excess} == {excess}
    for one in stanzas:
        assert one.raw == (text if one.excess else PING).encode()
        assert one.top.tag == f"{ns.COMPONENT} iq"
        assert one.top.get("from").endswith("@localhost/x")
        assert one.top.get("to") == "queue.localhost"
    assert sum(len(one.top.children) for one in stanzas if not one.excess) == 3


def test_up_to_the_bounds_all_is_read():
    items = item("") * MAX_PUBLISHED
    for text in (
        publish(items),
        publish(items).replace(
            "</pubsub>",
            "<publish-options><x xmlns='jabber:x:data' type='submit'/></publish-options></pubsub>",
        ),
        publish(item("<a/>" * (MAX_BENEATH - 10))),
        publish(item(""), declared(MAX_DECLARED - 100)),
        publish(item(f"<a xmlns='{LONG[1:]}'/>")),
        publish(item(f" xmlns='{LONG}'")),  # in a text it declares nothing
        publish(item(f"<a b=\" xmlns='{LONG}'\"/>")),
    ):
        parser = StreamParser()
        parser.feed(HEADER.encode() + text.encode()[:1])
        (one,) = parser.feed(text.encode()[1:])
        assert not one.excess, one.excess
        request = PUBLISH.read(Iq(one, Principal(Jid("eve@localhost/x")), lambda: "new"))
        assert len(request.drafts) == (MAX_PUBLISHED if items in text else 1)


def test_a_head_that_is_refused_has_no_children():
    parser = StreamParser(lambda head: head.get("from") != "eve@localhost/x")
    parser.feed(HEADER.encode())
    for text in (publish("<item/><item/>"), publish("<item/>" * 20_000)):
        refused, other = read(parser, text + PING, 4096)
        assert (refused.excess, refused.top.children, other.excess) == (REFUSED, [], "")
        assert refused.raw == text.encode()


def test_a_piece_is_cut_without_a_look_at_what_it_does_not_use():
    """Each declaration around it was looked for in each piece: the work was their product."""
    looks = []

    class Counted(dict):
        def get(self, key, default=None):
            looks.append(key)
            return super().get(key, default)

        def items(self):
            looks.extend(self)
            return super().items()

    words = declared(MAX_DECLARED - 100)
    parser = StreamParser()
    parser.feed((HEADER + "<iq/>").encode())
    (one,) = parser.feed(publish(item("<p0007:a/>") * 1000, words).encode())
    verb = one.top.children[0].children[0]
    verb.declared = Counted(verb.declared)
    for child in verb.children:
        piece = one.cut([one.top, one.top.children[0], verb, child, child.children[0]])
        assert piece == b"<job xmlns:p0007=\"urn:x\" xmlns='urn:work'><p0007:a/></job>"
    assert len(looks) < 5 * len(verb.children)


def test_texts_between_many_children_are_joined_once():
    """Added to the text one by one, they were copied with each."""
    text = publish(item("x<a/>" * 20_000)).encode()
    parser = StreamParser()
    parser.feed(HEADER.encode() + text[:1])
    parser.feed(text[1:-100])
    assert parser._texts[-1].count("x") > 19_900
    (one,) = parser.feed(text[-100:])
    job = one.top.children[0].children[0].children[0].children[0]
    assert job.text == "x" * 20_000


@pytest.mark.parametrize("size", [100, 1 << 20])
def test_a_stream_that_declares_too_much_is_none(size):
    parser = StreamParser()
    text = HEADER.replace("id=", f"xmlns:long='{LONG}' id=")
    with pytest.raises(reader.ParseError):
        read(parser, text + PING, size)


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        (f"<a/><b c='d' xmlns:p = '{LONG}'/>", 4),
        (f"<a b='>' xmlns=\"{LONG}\">", 0),
        (f"<a>xmlns='{LONG}</a>", None),
        (f'<a b=" xmlns=\'{LONG}"/>', None),
        (f"<a>xmlns='{LONG}<b xmlns='{LONG}'/></a>", 3 + 7 + len(LONG)),
        (f"<a xmlns='{LONG[1:]}'/>", None),
        (f"<axmlns='{LONG}'/>", None),
    ],
)
def test_only_a_tag_declares(text, begins):
    assert long_namespace(text.encode()) == begins
