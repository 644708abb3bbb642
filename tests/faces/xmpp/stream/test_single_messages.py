"""A carried message of one item is read the short way and the ordinary way with the same result, or the short way leaves it alone."""

from xml.sax.saxutils import quoteattr

import pytest
from faces.xmpp.two_ways import JOB, both_ways, ids
from harness.depth import examples
from harness.stanzas.xml_text import element
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pubqueue.faces.xmpp import receiver
from pubqueue.faces.xmpp.parse.iq import Step, read
from pubqueue.faces.xmpp.receiver import MessageReader
from pubqueue.faces.xmpp.stream.single import Single, SingleMessage
from pubqueue.faces.xmpp.xml.refusals import StanzaError
from pubqueue.model.entities import Jid, Principal
from pubqueue.rules.publication import Publish
from pubqueue_xeps.wire import ns

PROSODY = "from='bee@localhost/one' id='p0' xml:lang='en' type='set' to='queue.localhost'"
EJABBERD = 'xml:lang="en" to="queue.localhost" from="bee@localhost/one" type="set" id="p0"'
TEXT = f"<publish node='jobs'><item id='i1'>{JOB}</item></publish>"


def message(inner=TEXT, words=" xmlns='jabber:client' id='m1'", pubsub=f" xmlns='{ns.PUBSUB}'"):
    return f"<message{words}><pubsub{pubsub}>{inner}</pubsub></message>"


def iq(inner, step="acknowledged", words=f" xmlns='{ns.QOS}'", head=PROSODY):
    return f"<iq {head}><{step}{words}>{inner}</{step}></iq>"


def assured(inner=None, words=f" xmlns='{ns.QOS}' msgId='k1'", step="assured", head=PROSODY):
    return iq(message() if inner is None else inner, step, words, head)


def deliver(words=f" xmlns='{ns.QOS}' msgId='k1'", close="/>"):
    return f"<iq {PROSODY}><deliver{words}{close}</iq>"


def understood(stanza):
    """Return all that the service reads of a carried message."""
    iq_facts = stanza.address, stanza.echo(), stanza.raw
    if isinstance(stanza, SingleMessage):
        sender, to, found = stanza.sender.jid, stanza.sender.to, stanza
    else:
        sender, to = Jid(stanza.top.get("from") or ""), stanza.top.get("to") or ""
        found = read(stanza)
    if isinstance(found, StanzaError):
        return sender, to, iq_facts, found
    names = found.step, found.iq_id, found.msg_id, found.message
    if found.step is Step.DELIVER:
        return sender, to, iq_facts, names
    return (
        sender,
        to,
        iq_facts,
        names,
        MessageReader("queue.localhost").asked(found, Principal(sender)),
    )


@pytest.fixture(autouse=True)
def _the_same_ids(monkeypatch):
    """An item without an id gets the same one whichever way it is read."""
    new_ids = {}
    monkeypatch.setattr(receiver, "new_id", lambda: new_ids.setdefault("id", ids()()))


USUAL = [
    *(iq(message(), head=head) for head in (PROSODY, EJABBERD)),
    *(assured(head=head) for head in (PROSODY, EJABBERD)),
    assured(words=f" msgId='k1' xmlns='{ns.QOS}'"),
    assured(words=f' msgId="k1" xmlns="{ns.QOS}"'),
    deliver(),
    deliver(words=f' msgId="k 1" xmlns="{ns.QOS}"'),
    deliver(close="></deliver>"),
    *(iq(message(words=words)) for words in (
        " xmlns='jabber:client'",
        " id='m1' xmlns='jabber:client'",
        " xmlns='jabber:server' id=\"m1\" type='normal'",
        f" xmlns='{ns.QOS}' id='m1'",
        " xml:lang='de' from='eve@localhost' id='m1' to='other.localhost' xmlns='jabber:client'",
    )),
    iq(message(f"<publish node='jobs'><item>{JOB}</item></publish>")),
    iq(message(f"<publish node='jobs' xmlns:q='{ns.PUBQUEUE}' q:answer='short'><item>{JOB}</item></publish>")),
    iq(message(pubsub=f' xmlns="{ns.PUBSUB}"')),
]  # fmt: skip


@pytest.mark.parametrize("text", USUAL)
def test_a_message_as_servers_usually_send_it_is_read_at_once_and_means_the_same(text):
    one, other = both_ways(text)
    assert isinstance(one, SingleMessage)
    assert understood(one) == understood(other)
    if one.step is not Step.DELIVER:
        assert isinstance(understood(one)[-1][0], Publish)


UNUSUAL = [
    *(iq(message(words=words)) for words in (
        "",
        " id='m1'",
        " xmlns='urn:other' id='m1'",
        " xmlns='jabber:client' id='m1' type='error'",
        " xmlns='jabber:client' id='m&amp;1'",
        " xmlns='jabber:client' id=''",
        " xmlns='jabber:client' xmlns:q='urn:q' id='m1'",
        f" xmlns='jabber:client' odd='{'o' * 600}'",
    )),
    *(assured(words=words) for words in (
        f" xmlns='{ns.QOS}'",
        f" xmlns='{ns.QOS}' msgId=''",
        f" xmlns='{ns.QOS}' msgId='k&amp;1'",
        f" xmlns='{ns.QOS}' msgId='{'k' * 1024}'",
        f" xmlns='{ns.QOS}' msgId='k1' odd='1'",
        f" xmlns='{ns.QOS}' msgId='k1' xmlns:q='urn:q'",
    )),
    iq(message(), words=f" xmlns='{ns.QOS}' msgId='k1'"),
    iq(message(), "delivered"),
    iq(message(), "deliver", f" xmlns='{ns.QOS}' msgId='k1'"),
    iq("", "assured", f" xmlns='{ns.QOS}' msgId='k1'"),
    iq(message() + message()),
    iq("text" + message()),
    iq(message() + "text"),
    iq(message() + "<!-- -->"),
    iq(message(TEXT + "<publish-options/>")),
    iq(message(f"{TEXT}{TEXT}")),
    iq(message("<publish node='jobs'/>")),
    iq(message("<retract node='jobs'><item id='i1'/></retract>")),
    iq(message("<publish node='jobs'><item id='i1'><job/></item></publish>")),
    iq(message("<publish node='jobs'><item id='i1'>text</item></publish>")),
    iq(message(TEXT.replace("<d/>", "<stream:d/>"))),
    iq(message(TEXT.replace("<d/>", "<![CDATA[</job></item></publish></pubsub></message></acknowledged></iq>]]>"))),
    iq(message().replace("</message>", "<body/></message>")),
    iq(message().replace("<pubsub", "<body>hello</body><pubsub")),
    iq("<message xmlns='jabber:client'><body>hello</body></message>"),
    iq("<message xmlns='jabber:client'/>"),
    assured(head=PROSODY.replace("'set'", "'get'")),
    deliver(words=f" xmlns='{ns.QOS}'"),
    deliver(words=f" xmlns='{ns.QOS}' msgId=''"),
    deliver(close=">text</deliver>"),
]  # fmt: skip


@pytest.mark.parametrize("text", UNUSUAL)
def test_a_message_that_leaves_a_doubt_is_read_the_ordinary_way(text):
    one, other = both_ways(text)
    assert not isinstance(one, Single)
    assert understood(one) == understood(other)


texts = st.text(st.sampled_from("ab1 &<>'\"\tü/:="), max_size=6)
payloads = st.one_of(
    element(3).map(lambda inner: f"<job xmlns='urn:work'>{inner}</job>"), st.just(JOB)
)


@st.composite
def messages(draw):
    """Draw a message as a server may write it, or nearly so."""

    def tag(name, words):
        some = draw(st.permutations(words))
        return f"<{name}" + "".join(f" {key}={quoteattr(value)}" for key, value in some)

    step = draw(st.sampled_from(["acknowledged", "assured", "deliver"]))
    around = tag(step, [("xmlns", ns.QOS), ("msgId", draw(texts))][: 1 + (step != "acknowledged")])
    if step == "deliver":
        return f"<iq {PROSODY}>{around}/></iq>"
    words = [("xmlns", draw(st.sampled_from(["jabber:client", ns.QOS, "urn:other"])))]
    words += [("id", draw(texts)), ("to", "q"), ("type", draw(st.sampled_from(["chat", "error"])))]
    head = tag("message", words[: draw(st.integers(1, 4))])
    publish = tag("publish", [("node", draw(texts))])
    item = tag("item", [("id", draw(texts))][: draw(st.integers(0, 1))])
    inner = f"{publish}>{item}>{draw(payloads)}</item></publish>"
    return iq(
        f"{head}><pubsub xmlns='{ns.PUBSUB}'>{inner}</pubsub></message>",
        step,
        around[len(step) + 1 :],
    )


@settings(max_examples=examples(60))
@given(messages())
@example(assured())
def test_both_ways_give_the_same_message_whatever_is_sent(text):
    one, other = both_ways(text)
    assert understood(one) == understood(other)
