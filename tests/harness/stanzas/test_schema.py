from xml.sax.saxutils import quoteattr

import pytest
from harness.servers.stub_server import parse
from harness.stanzas.schema import validate
from lxml import etree

IQ = "<iq type='result' id='1' from='queue.localhost' to='bee@localhost/x'>{}</iq>"
ERROR = "<iq type='error' id='1' from='queue.localhost' to='bee@localhost/x'>{}</iq>"
MESSAGE = "<message id='1' from='queue.localhost' to='bee@localhost/x'>{}</message>"
PUBSUB = "<pubsub xmlns='http://jabber.org/protocol/pubsub'>{}</pubsub>"
EVENT = "<event xmlns='http://jabber.org/protocol/pubsub#event'><items node='n'>{}</items></event>"
FORBIDDEN = (
    "<error type='auth'><forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/>"
    "<text xmlns='urn:ietf:params:xml:ns:xmpp-stanzas' xml:lang='en'>No.</text>{}</error>"
)
LOCK = (
    "<lock xmlns='urn:x-pubqueue:0' token='17' deadline='2026-11-21T03:00:00.000Z' attempt='1' "
    "published='2026-11-21T02:55:00.000Z'/>"
)
PUBLISH = "<publish xmlns:q='urn:x-pubqueue:0' node='n' q:answer='{}'><item id='i'/></publish>"
FORM = "<x xmlns='jabber:x:data' type={}><field var='v' type='text-single'><value>1</value></field></x>"


@pytest.mark.parametrize(
    "text",
    [
        IQ.format(""),
        IQ.format(PUBSUB.format("<publish node='n'><item id='i'/></publish>")),
        IQ.format(PUBSUB.format(PUBLISH.format("short"))),
        IQ.format(
            PUBSUB.format(
                "<subscription jid='a@b' node='n' subid='s' subscription='subscribed'/>"
                f"<options>{FORM.format(quoteattr('result'))}</options>"
            )
        ),
        IQ.format("<query xmlns='http://jabber.org/protocol/disco#items' node='n'/>"),
        IQ.format(
            "<query xmlns='http://jabber.org/protocol/disco#info'>"
            "<identity category='pubsub' type='service'/><feature var='f'/><feature var='g'/>"
            f"{FORM.format(quoteattr('result'))}</query>"
        ),
        ERROR.format(FORBIDDEN.format("")),
        ERROR.format("<rubbish xmlns='urn:unheard-of'/>" + FORBIDDEN.format("")),
        ERROR.format(
            FORBIDDEN.format(
                "<unsupported xmlns='http://jabber.org/protocol/pubsub#errors' feature='publish'/>"
            )
        ),
        MESSAGE.format(EVENT.format("<item id='i'><any xmlns='urn:any' at='all'/></item>") + LOCK),
        MESSAGE.format(EVENT.format("<retract id='i'/><retract id='j'/>")),
        MESSAGE.format(EVENT.format("<unlock xmlns='urn:xmpp:pubsub:queueing:0' id='i'/>")),
        MESSAGE.format("<no-store xmlns='urn:xmpp:hints'/>"),
        MESSAGE.format("<delay xmlns='urn:xmpp:delay' stamp='2026-11-21T02:55:00.000Z'/>"),
        "<presence from='queue.localhost' to='bee@localhost/x'/>",
    ],
)
def test_valid(text):
    validate(parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "<iq type='result' from='queue.localhost' to='bee@localhost/x'/>",
        IQ.format("<rubbish xmlns='urn:unheard-of'/>"),
        IQ.format(PUBSUB.format("<publish/>")),
        IQ.format(PUBSUB.format(PUBLISH.format("shorter"))),
        IQ.format(PUBSUB.format("<subscription jid='a@b' subscription='perhaps'/>")),
        IQ.format(PUBSUB.format(f"<options>{FORM.format(quoteattr('maybe'))}</options>")),
        ERROR.format("<error type='auth'/>"),
        ERROR.format(
            "<error type='rude'><forbidden xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error>"
        ),
        ERROR.format("<error xmlns='jabber:client' type='auth'/>"),
        ERROR.format(
            FORBIDDEN.format("<unheard-of xmlns='http://jabber.org/protocol/pubsub#errors'/>")
        ),
        ERROR.format(
            PUBSUB.format(f"<options>{FORM.format(quoteattr('form'))}<rubbish/></options>")
            + FORBIDDEN.format("")
        ),
        MESSAGE.format(EVENT.format("<item id='i'/><retract id='i'/>")),
        MESSAGE.format(EVENT.format("<unlock xmlns='urn:xmpp:queueing:0' id='i'/>")),
        MESSAGE.format(EVENT.format("<unlock xmlns='urn:xmpp:pubsub:queueing:0' node='n'/>")),
        MESSAGE.format(LOCK.replace("17", "0")),
        MESSAGE.format(LOCK.replace(":00.000Z", ":00+01:00")),
        MESSAGE.format("<delay xmlns='urn:xmpp:delay' stamp='now'/>"),
    ],
)
def test_not_valid(text):
    with pytest.raises(AssertionError, match="not valid"):
        validate(parse(text))


def test_what_is_judged_is_left_as_it_was():
    stanza = parse(ERROR.format("<rubbish xmlns='urn:unheard-of'/>" + FORBIDDEN.format("")))
    before = etree.tostring(stanza)
    validate(stanza)
    assert etree.tostring(stanza) == before
