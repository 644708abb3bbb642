"""The short way of reading a request and the ordinary one."""

import itertools

from pubqueue.faces.xmpp.stream.reader import StreamParser
from pubqueue.faces.xmpp.stream.single import Single

HEADER = (
    "<?xml version='1.0'?><stream:stream xmlns='jabber:component:accept' id='1' "
    "xmlns:stream='http://etherx.jabber.org/streams'>"
)
JOB = "<job xmlns='urn:work'><a b='c'>1 &lt; 2 &#10; ü</a><d/></job>"


def read(pieces, header=HEADER):
    parser = StreamParser()
    parser.feed(header.encode())
    return [stanza for piece in pieces for stanza in parser.feed(piece)]


def ids():
    numbers = itertools.count(1)
    return lambda: f"new-{next(numbers)}"


def both_ways(text):
    """Read the stanza in one piece, and cut behind its first byte, which is always the ordinary way."""
    data = text.encode()
    (one,), (other,) = read([data]), read([data[:1], data[1:]])
    assert not isinstance(other, Single)
    return one, other
