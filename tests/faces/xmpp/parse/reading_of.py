"""Requests as they are read from an IQ, and the words in which one is refused."""

import itertools

from pubqueue.engine.table import RULES
from pubqueue.faces.xmpp.parse.iq import Iq
from pubqueue.faces.xmpp.requests import VERBS, find
from pubqueue.faces.xmpp.stream.reader import StreamParser
from pubqueue.faces.xmpp.xml.refusals import StanzaError, words
from pubqueue.model.entities import Principal

HEADER = b"<stream:stream xmlns='jabber:component:accept' xmlns:stream='s'>"


def request(kind, namespace, inner):
    text = f"<iq type='{kind}'><pubsub xmlns='{namespace}'>{inner}</pubsub></iq>"
    (stanza,) = StreamParser().feed(HEADER + text.encode())
    ids = itertools.count(1)
    principal = Principal("bee@localhost/one")
    verb = find(VERBS, kind, stanza.top.children[0])
    return verb.ask(Iq(stanza, principal, lambda: f"new-{next(ids)}"))


def says(answer):
    """Return how a request is refused: by its reader, or whatever is stored by the core."""
    if not isinstance(answer, StanzaError):
        answer = words(RULES[type(answer)].fault(answer))
    return (answer.condition, answer.detail or answer.text)
