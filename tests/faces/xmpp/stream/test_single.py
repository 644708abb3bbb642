"""The short way of reading and the ordinary one give the same, or the short way leaves a stanza alone."""

from xml.etree.ElementTree import ParseError
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

import pytest
from faces.xmpp.stream.test_reader import grows_by_less
from faces.xmpp.two_ways import HEADER, JOB, both_ways, ids, read
from harness.depth import examples
from harness.stanzas.xml_text import element
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pubqueue.faces.xmpp.parse.iq import Iq
from pubqueue.faces.xmpp.parse.queue import answer_wanted
from pubqueue.faces.xmpp.requests import PUBLISH, RETRACT, VERBS, find
from pubqueue.faces.xmpp.stream import single
from pubqueue.faces.xmpp.stream.reader import StreamParser
from pubqueue.faces.xmpp.stream.single import (
    COPIES,
    ENTRY,
    RENEWED_AFTER,
    Remembered,
    Single,
    SingleReader,
    remembered,
)
from pubqueue.faces.xmpp.xml.payload import DEEPEST
from pubqueue.faces.xmpp.xml.refusals import StanzaError
from pubqueue.model.entities import Principal
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle
from pubqueue_xeps.wire import ns

PROSODY = "from='bee@localhost/one' id='p0' xml:lang='en' type='set' to='queue.localhost'"
EJABBERD = "xml:lang='en' to='queue.localhost' from='bee@localhost/one' type='set' id='p0'"
OPENFIRE = 'type="set" id="p0" to="queue.localhost" from="bee@localhost/one"'
SHORT = "node='jobs' xmlns:ns1='urn:x-pubqueue:0' ns1:answer='short'"


def iq(inner, words=PROSODY):
    return f"<iq {words}><pubsub xmlns='{ns.PUBSUB}'>{inner}</pubsub></iq>"


def publish(payload=JOB, item="id='i1'", node="node='jobs'"):
    return iq(f"<publish {node}><item {item}>{payload}</item></publish>".replace("item >", "item>"))


def retract(words="node='jobs'", item="id='i1'"):
    return iq(f"<retract {words}><item {item}/></retract>")


def understood(stanza):
    """Return all that the service makes of a request."""
    new_id = ids()
    if isinstance(stanza, Single):
        by, to = Principal(stanza.sender.jid), stanza.sender.to
        verb = RETRACT if stanza.payload is None else PUBLISH
        request, answer = stanza.request(by, new_id), stanza.answer
    else:
        top = stanza.top
        by, to = Principal(top.get("from")), top.get("to") or ""
        verb = find(VERBS, top.get("type"), top.children[0])
        asked = Iq(stanza, by, new_id)
        request, answer = verb.read(asked), answer_wanted(asked) if verb.briefly else ""
    return request, answer, to, verb, stanza.address, stanza.echo(), stanza.raw


USUAL = [
    *(iq(f"<publish node='jobs'><item id='i1'>{JOB}</item></publish>", words)
      for words in (PROSODY, EJABBERD, OPENFIRE)),
    *(iq("<retract node='jobs'><item id='i1'/></retract>", words)
      for words in (PROSODY, EJABBERD, OPENFIRE)),
    iq("<retract xmlns:q='urn:x-pubqueue:0' node='jobs' q:answer='known'><item id='i1'/></retract>"),
    publish(item=""),
    publish(item='id="i1"', node='node="jobs"'),
    publish(node=SHORT),
    publish(node="xmlns:q='urn:x-pubqueue:0' node='jobs' q:answer='short'"),
    publish(node="xmlns:q='urn:x-pubqueue:0' node='jobs' q:answer='long'"),
    publish(node="xmlns:q='urn:x-pubqueue:0' node='jobs' q:answer='known'"),
    publish(node=SHORT, item=""),
    publish(node="node='j&amp;b&#x27;s'"),
    publish(node="node='jöbs'"),
    publish(node="node=''"),  # the core knows the names that nodes can have
    publish(node="node='a&#10;b'"),
    iq(f"<publish node='jobs'><item id='i1'>{JOB}</item></publish>",
       "from='a&amp;b@localhost/ü' to='queue.localhost' type='set' id='p0' odd='' xml:lang='de'"),
    iq(f"<publish node='jobs'><item id='i1'>{JOB}</item></publish>",
       "to='queue.localhost' from=\"bee@localhost/ id='p1'\" type='set' id='p0'"),
    publish("<job xmlns='urn:work'/>"),
    publish("<job xmlns=''/>"),
    publish("<job xmlns='urn:work' a='/'/>"),
    publish("<job xmlns='urn:work'><job/></job>"),
    publish("<p:job xmlns:p='urn:p' xmlns='urn:work'><p:a p:b='c'/></p:job>"),
    publish("<job xmlns='urn:work'>&amp;</job>"),
    publish("<job xmlns='urn:work'>" + "<a></a>" * (DEEPEST - 2) + "</job>"),
    publish("<job xmlns='urn:work'>" + "<a>" * (DEEPEST - 2) + "</a>" * (DEEPEST - 2) + "</job>"),
    publish("<job xmlns='urn:work'>" + "x" * 100_000 + "</job>"),
    retract("node='jobs' notify='1'"),
    retract("node='jobs' notify='true'"),
    retract("node='jobs' notify='0'"),
]  # fmt: skip


@pytest.mark.parametrize("text", USUAL)
def test_what_servers_usually_send_is_read_at_once_and_means_the_same(text):
    one, other = both_ways(text)
    assert isinstance(one, Single)
    assert understood(one) == understood(other)
    assert isinstance(understood(one)[0], Publish | Settle)


UNUSUAL = [
    publish("<job/>"),  # its default namespace is that of pubsub
    publish("<p:job xmlns:p='urn:p'/>"),
    publish("<job xmlns='urn:work' a='stream:x'/>"),
    publish("<stream:job xmlns='urn:work'/>"),
    publish("<job xmlns='urn:work' ns1:a='b'/>", node=SHORT),
    publish("<job xmlns='urn:work'>ns1:a</job>", node=SHORT),
    publish("<job xmlns='urn:work'><!-- c --></job>"),
    publish("<job xmlns='urn:work'><?p i?></job>"),
    publish("<job xmlns='urn:work'><![CDATA[x]]></job>"),
    publish("<job xmlns='urn:work'><![CDATA[</job></item></publish></pubsub></iq>]]></job>"),
    publish("<job xmlns='urn:work'><!--</job></item></publish></pubsub></iq>--></job>"),
    publish("<job xmlns='urn:work'><?p </job></item></publish></pubsub></iq>?></job>"),
    publish("<job xmlns='urn:work'><iq><pubsub><publish><item></item></publish></pubsub></iq></job>"),
    publish("<job xmlns='urn:work'><job></job></job>"),
    publish("<job xmlns='urn:work'></job >"),
    publish("<job xmlns='urn:work' a='>'></job>"),
    publish("<job xmlns='urn:work'>" + "<a>" * DEEPEST + "</a>" * DEEPEST + "</job>"),
    publish("<job xmlns='urn:work'>" + "<a></a>" * DEEPEST + "</job>"),
    publish("<job xmlns='urn:work'>" + "x" * (1 << 18) + "</job>"),
    publish("<job xmlns='urn:work'/><job xmlns='urn:work'/>"),
    publish("<job xmlns='urn:work'></job><job xmlns='urn:work'></job>"),
    publish("<job xmlns='urn:work'/></item><item id='i2'><job xmlns='urn:work'/>"),
    publish("<job xmlns='urn:work'></job></item><item id='i2'><job xmlns='urn:work'></job>"),
    publish("<job xmlns='urn:work'/><!-- -->"),
    publish("text<job xmlns='urn:work'/>"),
    publish(" <job xmlns='urn:work'/>"),
    publish("<job xmlns='urn:work'/>text"),
    publish("text"),
    publish(""),
    publish("<iq xmlns='urn:work'></iq>"),
    publish(item="id='i1' publisher='me'"),
    publish(item="id='i&amp;1'"),
    publish(item="id='ï'"),
    publish(item="id=''"),
    publish(item="id='a&#10;b'"),
    publish(item=f"id='{'i' * 1024}'"),
    publish(item="odd='i1'"),
    publish(node="node='jobs' answer='short'"),
    publish(node="node='jobs' odd='word'"),
    retract("notify='yes' node='jobs'"),
    publish(node=""),
    publish(node=f"node='{'n' * 1024}'"),
    publish(node="node='jobs' xmlns='urn:other'"),
    publish(node=f"node='jobs' xmlns='{ns.PUBSUB}'"),
    *(iq(f"<publish node='jobs'><item id='i1'>{JOB}</item></publish>", words) for words in (
        "to='queue.localhost' from='bee@localhost' id='p0' type='get'",
        "to='queue.localhost' from='bee@localhost' type='set'",
        "to='queue.localhost' from='bee@localhost' id='p&amp;0' type='set'",
        "to='queue.localhost' from='bee@localhost' id='' type='set'",
        f"to='queue.localhost' from='bee@localhost' id='{'p' * 1024}' type='set'",
        f"to='queue.localhost' from='bee@localhost' id='p0' type='set' odd='{'o' * 600}'",
        "to='queue.localhost' from='bee@localhost' id='p0' type='set' xmlns:q='urn:q'",
        "to='queue.localhost'\nfrom='bee@localhost' id='p0'\ntype='set' ",
        "xmlns='jabber:component:accept' to='queue.localhost' from='b@c' id='p0' type='set'",
    )),
    iq(f"<publish node='jobs'><item id='i1'>{JOB}</item></publish><txn xmlns='{ns.PUBQUEUE}'/>"),
    iq(f"<publish node='jobs'><item id='i1'>{JOB}</item></publish>") .replace("<item", "<item "),
    iq(f"<publish node='jobs'>{f'<item>{JOB}</item>' * 2}</publish>"),
    iq("<publish node='jobs'><item id='i1'/></publish>"),
    iq("<publish node='jobs'/>"),
    iq("<retract node='jobs'/>"),
    iq("<retract node='jobs'><item/></retract>"),
    iq("<retract node='jobs'><item id='i1'/><item id='i2'/></retract>"),
    iq("<retract node='jobs'><item id='i1'></item></retract>"),
    iq(f"<retract node='jobs'><item id='i1'/></retract><lock xmlns='{ns.PUBQUEUE}' token='1'/>"),
    iq("<retract node='jobs'><item id='i1'/></retract>", "from='b@c' id='1' type='get' to='q'"),
]  # fmt: skip


@pytest.mark.parametrize("text", UNUSUAL)
def test_what_leaves_a_doubt_is_read_the_ordinary_way(text):
    one, other = both_ways(text)
    assert not isinstance(one, Single)
    assert understood(one) == understood(other)


# What no server relays: both ways end the stream.
BROKEN = [
    publish("<job xmlns='urn:work'><a></job>"),
    publish("<job xmlns='urn:work'>&lol;</job>"),
    publish("<job xmlns='urn:work'>\x01</job>"),
    publish("<job xmlns='urn:work' a='1' a='2'/>"),
    publish("<job xmlns='urn:work'><p:a/></job>"),
    publish("<job xmlns='urn:work'></jobs>"),
    publish(node="node='jobs' node='jobs'"),
    publish(item="id='i1' id='i2'"),
    *(iq(f"<publish node='jobs'><item id='i1'>{JOB}</item></publish>", words) for words in (
        PROSODY + " type='set'",
        PROSODY + " id='p1'",
        PROSODY.replace("id='p0' ", "id='p0'"),
        PROSODY + " q:a='b'",
    )),
    publish("<job xmlns='urn:work'><!DOCTYPE a></job>"),
    publish().replace("</publish>", "</retract>"),
]  # fmt: skip


@pytest.mark.parametrize("text", BROKEN)
@pytest.mark.parametrize("cut", [0, 1])
def test_what_is_not_well_formed_is_no_request_either_way(text, cut):
    data = text.encode()
    with pytest.raises(ParseError):
        read([data[:cut], data[cut:]])


def test_bytes_that_are_no_utf_8_are_refused_either_way():
    for name in ("jobs", "i1", "bee", "p0", "urn:work", "1 &lt; 2"):
        data = publish().encode().replace(name.encode(), b"\xed\xa0\x80", 1)
        for cut in (0, 1):
            with pytest.raises(ParseError):
                read([data[:cut], data[cut:]])


quotes = st.sampled_from("'\"")
texts = st.text(st.sampled_from("ab1 &<>'\"\tü/:="), max_size=6)
payloads = st.one_of(
    element(3),
    element(3).map(lambda inner: f"<job xmlns='urn:work'>{inner}</job>"),
    st.sampled_from(USUAL).map(lambda _: JOB),
)


@st.composite
def requests(draw):
    """Draw a request as a server may write it, or nearly so."""

    def tag(name, words):
        some = draw(st.permutations(words))
        return f"<{name}" + "".join(f" {key}={quoteattr(value)}" for key, value in some)

    sender, node, item = (draw(st.one_of(st.just("x"), texts)) for _ in range(3))
    words = [("type", "set"), ("id", draw(texts)), ("from", sender), ("to", "q"), ("xml:lang", "e")]
    head = tag("iq", words[: draw(st.integers(3, 5))]) + f"><pubsub xmlns='{ns.PUBSUB}'>"
    verb = draw(st.sampled_from(["publish", "retract"]))
    own = [("node", node), ("xmlns:p", ns.PUBQUEUE), ("p:answer", "short")][
        : draw(st.integers(1, 3))
    ]
    inner = draw(st.lists(payloads, min_size=1, max_size=draw(st.integers(1, 2))))
    close = f">{''.join(inner)}</item>" if verb == "publish" else "/>"
    return f"{head}{tag(verb, own)}>{tag('item', [('id', item)])}{close}</{verb}></pubsub></iq>"


@settings(max_examples=examples(60))
@given(requests())
@example(publish())
def test_both_ways_give_the_same_whatever_is_sent(text):
    one, other = both_ways(text)
    if other.top.get("from") is not None:
        assert understood(one) == understood(other)


def test_a_stanza_of_each_kind_comes_out_in_its_place_wherever_the_bytes_are_cut():
    texts = [publish(), retract(), publish("<job/>"), "<presence/>", publish(item=""), retract()]
    data = "".join(texts).encode()
    raws = [text.encode() for text in texts]
    for size in (1, 7, 100, 400, 10_000):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        assert [stanza.raw for stanza in read(pieces)] == raws
    (single, *_rest) = read([data])
    assert isinstance(single, Single)


def test_one_stanza_of_another_kind_keeps_no_other_from_the_short_way():
    data = (publish("<job/>") + publish() + "<presence/>" + retract() + publish() * 3).encode()
    kinds = [isinstance(stanza, Single) for stanza in read([data[:10], data[10:]])]
    assert kinds == [False, True, False, False, True, True, True]


def test_white_space_between_stanzas_is_passed_over():
    data = (publish() + " \n" + publish() + " " + retract()).encode()
    assert len(read([data, b" ", data])) == 6


def test_on_a_stream_of_another_namespace_nothing_is_read_at_once():
    (one,) = read([publish().encode()], HEADER.replace("jabber:component:accept", "jabber:client"))
    assert not isinstance(one, Single)


def test_the_stream_goes_on_after_what_its_expat_has_not_seen():
    parser = StreamParser()
    parser.feed(HEADER.encode())
    parser.feed((publish() + retract()).encode())
    (after,) = parser.feed(publish("<job/>").encode())
    assert not isinstance(after, Single)
    assert after.raw == publish("<job/>").encode()
    parser.feed(publish().encode() + b"</stream:stream>")
    assert parser.closed


@pytest.mark.parametrize("inside", ["<![CDATA[{}]]>", "<!--{}-->", "{}"])
def test_many_ends_in_one_stanza_cost_no_more_than_one(inside):
    ends = "</iq>" if inside != "{}" else "<iq></iq>"
    text = publish(f"<a xmlns='urn:work'>{inside.format(ends * 50_000)}</a>")
    (stanza,) = read([text.encode()])
    assert stanza.raw == text.encode()


def test_names_that_were_seen_once_are_forgotten():
    parser = StreamParser()
    parser.feed(HEADER.encode())

    def feed(n):
        names = "".join(f"<n{n}-{m} a{n}-{m}=''/>" for m in range(8))
        return publish(f"<job xmlns='urn:work'>{names}</job>").encode()

    (stanza,) = parser.feed(feed("first"))
    assert isinstance(stanza, Single)
    assert grows_by_less(20 * RENEWED_AFTER, parser, feed)


def test_a_refusal_has_the_text_that_it_would_have_had():
    answer = understood(both_ways(publish("text"))[0])[0]
    assert isinstance(answer, StanzaError)


pieces = st.sampled_from([
    *("<a>", "</a>", "<a/>", "<b>", "</b>", "</p>", "<p>", "</payloads>", "text", " ", "<", "&amp;"),
    *("<b c='d'>", "<b c='</a>'>", "<aa>", "</aa>", "]]>", "&lol;", "\x01", "<p:b/>", "</a >"),
])  # fmt: skip


@settings(max_examples=examples(200))
@given(st.lists(pieces, max_size=6).map("".join))
@example("<a>")
@example("</a><a>")
@example("</p><p>")
def test_what_is_proven_is_one_well_formed_element(inner):
    """Expat, reading the payload as a document, is the measure; what is not proven is read the ordinary way."""
    payload = f"<a xmlns='urn:work'>{inner}</a>"
    reader = SingleReader({"": "jabber:component:accept"})
    data = publish(payload).encode()
    single = reader.read(data, 0)
    whole = expat.ParserCreate(namespace_separator=" ")
    try:
        whole.Parse(payload.encode(), True)  # noqa: FBT003  # expat's own signature
    except expat.ExpatError:
        assert single is None
    if single is not None:
        assert single.payload == payload.encode()
    after = reader.read(publish().encode(), 0)
    assert after is not None, "what was not proven leaves nothing behind"


def test_a_payload_that_leaves_an_element_open_is_no_request():
    with pytest.raises(ParseError):
        read([publish("<a xmlns='urn:work'><a></a>").encode()])


@pytest.mark.parametrize("size", [100, 200_000])
def test_a_refused_request_counts_by_its_bytes(size):
    (one,) = read([publish(f"<job xmlns='urn:work'>{'x' * size}</job>").encode()])
    assert isinstance(one, Single)
    assert one.cost == pytest.approx(20e-6 + size * 15e-9, rel=0.3)


def test_what_was_read_is_not_read_again():
    read = []

    @remembered(10_000)
    def length(words):
        read.append(words)
        return len(words)

    assert [length(b"ab"), length(b"ab"), length(b"c")] == [2, 2, 1]
    assert read == [b"ab", b"c"]


def test_the_oldest_go_when_it_is_too_many_bytes_and_are_read_again():
    read = []
    known = Remembered(read.append, 3 * (ENTRY + COPIES * 100))
    for number in range(5):
        known(bytes([number]) * 100)
    assert known.byte_count <= 3 * (ENTRY + COPIES * 100)
    known(bytes([4]) * 100)
    known(bytes([0]) * 100)
    assert [words[0] for words in read] == [0, 1, 2, 3, 4, 0]


def test_words_that_are_too_long_are_read_and_not_kept():
    known = Remembered(len, 1_000)
    assert [known(b"x" * 2_000), known(b"x" * 2_000), known.byte_count] == [2_000, 2_000, 0]


def test_senders_of_the_longest_words_stay_within_their_bytes():
    sender = single.sender_of
    sender.forget()
    for number in range(8_000):
        jid = b"%08d" % number + b"a" * 400 + b"@x/1"
        assert sender(b" type='set' from='%b'" % jid, b"") is not None
    assert 0 < sender.byte_count <= single.SENDERS
    sender.forget()
