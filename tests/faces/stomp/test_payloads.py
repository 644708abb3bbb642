"""A body of any bytes and any type comes out of STOMP as it went in, and is one element on the way."""

from faces.stomp.test_words import a_delivery, sending
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from pubqueue.faces.stomp import frames
from pubqueue.faces.stomp.codec import V12, Frame, FrameReader, Side, write
from pubqueue.faces.stomp.refusals import Problem

TYPES = (
    *("application/json", "application/xml", "text/xml", "image/svg+xml", "text/plain"),
    *("text/plain; charset=utf-8", "text/plain; charset=latin-1", "application/octet-stream"),
    *("application/problem+json", "a/b; x=1", "", "nonsense"),
)
WORDS = (b"<a xmlns='x'/>", b"{}", b"\xef\xbb\xbf", b"]]>", b"\r\n", b" ", b"\0", b"&amp;", b"<!--")
BODIES = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(str.encode),
    st.lists(st.sampled_from(WORDS), max_size=5).map(b"".join),
)


@given(BODIES, st.none() | st.sampled_from(TYPES))
@example(bytes(range(256)), None)
@example(b"<json xmlns='urn:xmpp:json:0'>{}</json>", "application/xml")
@example(b"<data xmlns='urn:x-pubqueue:data:0' encoding='base64'>AA==</data>", "application/xml")
def test_what_is_sent_is_what_comes(body, kind):  # N21
    headers = {"destination": "/queue/jobs"} | ({} if kind is None else {"content-type": kind})
    made = sending(headers, body)
    if isinstance(made, Problem):
        assert made.message == "bad header"
        assert kind not in {None, *TYPES[:9]}
        return
    assert etree.fromstring(made.draft.payload).tag.startswith("{")  # one element, in a namespace
    notice = a_delivery(made.draft.payload, headers=made.draft.headers)
    reader = FrameReader(Side.SERVER)
    reader.agree(V12)
    reader.receive(write(frames.of_delivery(notice, "s", "7"), V12))
    found = reader.next_event()
    assert isinstance(found, Frame)
    assert found.body == body
    if kind:
        assert found.headers["content-type"] == kind
