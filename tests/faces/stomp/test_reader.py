"""What is a frame and what is none, by the texts of 1.2, 1.1 and 1.0; wherever the bytes are cut."""

import pytest
from faces.stomp.streams import SMALL, byte_by_byte, events_of, read

from pubqueue.faces.stomp.codec import (
    UNAGREED,
    V10,
    V11,
    V12,
    Cause,
    Fault,
    Frame,
    FrameBounds,
    FrameReader,
    Side,
)

SEND = {"destination": "/queue/a"}
M, C, H, N, L, B = (
    *(Cause.MALFORMED, Cause.UNKNOWN_COMMAND, Cause.HEADER_MISSING),
    *(Cause.TOO_MANY_HEADERS, Cause.HEADER_TOO_LONG, Cause.BODY_TOO_LARGE),
)

LEGAL = [
    # line ends and beats (1.2, "STOMP Frames"; "Heart-beating")
    (V12, b"SEND\ndestination:/queue/a\n\nhello\0", [Frame("SEND", SEND, b"hello")]),
    (V12, b"SEND\r\ndestination:/queue/a\r\n\r\nhello\0", [Frame("SEND", SEND, b"hello")]),
    (V12, b"SEND\r\ndestination:/queue/a\n\r\nhello\0", [Frame("SEND", SEND, b"hello")]),
    (V12, b"SEND\ndestination:/queue/a\n\n\r\nhello\0", [Frame("SEND", SEND, b"\r\nhello")]),
    (V12, b"\n\r\n\nDISCONNECT\n\n\0\n\r\n\n", [Frame("DISCONNECT", {})]),
    (V12, b"DISCONNECT\n\n\0DISCONNECT\n\n\0", [Frame("DISCONNECT", {})] * 2),
    (V11, b"\n\nDISCONNECT\n\n\0\n", [Frame("DISCONNECT", {})]),
    (V11, b"DISCONNECT\nx:a\r\n\n\0", [Frame("DISCONNECT", {"x": "a\r"})]),
    # escapes, by "Value Encoding"
    (V12, b"DISCONNECT\n\\ca:\\r\\n\\c\\\\n\n\n\0", [Frame("DISCONNECT", {":a": "\r\n:\\n"})]),
    (V11, b"DISCONNECT\n\\ca:\\n\\c\\\\r\n\n\0", [Frame("DISCONNECT", {":a": "\n:\\r"})]),
    (V10, b"DISCONNECT\na:\\n\\c:\\\\\n\n\0", [Frame("DISCONNECT", {"a": "\\n\\c:\\\\"})]),
    (
        V12,
        b"CONNECT\naccept-version:1.2\nhost:a:\\n\n\n\0",
        [Frame("CONNECT", {"accept-version": "1.2", "host": "a:\\n"})],
    ),
    # spaces are kept, but for the padding of 1.0
    (V12, b"DISCONNECT\n a : b \n\n\0", [Frame("DISCONNECT", {" a ": " b "})]),
    (V11, b"DISCONNECT\n a : b \n\n\0", [Frame("DISCONNECT", {" a ": " b "})]),
    (V10, b"DISCONNECT\na: b \n\n\0", [Frame("DISCONNECT", {"a": "b"})]),
    (
        UNAGREED,
        b"CONNECT\nlogin: me\n\n\0",
        [Frame("CONNECT", {"login": "me"})],
    ),
    (
        UNAGREED,
        b"STOMP\r\naccept-version:1.2\r\nlogin: me\r\n\r\n\0",
        [Frame("STOMP", {"accept-version": "1.2", "login": " me"})],
    ),
    # of repeated headers the first ("Repeated Header Entries"); values may be empty
    (V12, b"DISCONNECT\na:1\nb:2\na:3\n\n\0", [Frame("DISCONNECT", {"a": "1", "b": "2"})]),
    (V12, b"DISCONNECT\na:\n\n\0", [Frame("DISCONNECT", {"a": ""})]),
    (V12, "DISCONNECT\nä:ö🐝\n\n\0".encode(), [Frame("DISCONNECT", {"ä": "ö🐝"})]),
    # bodies, by "Header content-length"
    (
        V12,
        b"SEND\ndestination:a\ncontent-length:3\n\n\0\0\0\0",
        [Frame("SEND", {"destination": "a", "content-length": "3"}, b"\0\0\0")],
    ),
    (
        V12,
        b"SEND\ncontent-length:0\ndestination:a\n\n\0",
        [Frame("SEND", {"content-length": "0", "destination": "a"})],
    ),
    (V12, b"SEND\ndestination:a\n\n\0", [Frame("SEND", {"destination": "a"})]),
    (V12, b"DISCONNECT\ncontent-length:0\n\n\0", [Frame("DISCONNECT", {"content-length": "0"})]),
    # what each version needs
    (
        V11,
        b"ACK\nsubscription:0\nmessage-id:1\n\n\0",
        [Frame("ACK", {"subscription": "0", "message-id": "1"})],
    ),
    (V10, b"UNSUBSCRIBE\ndestination:a\n\n\0", [Frame("UNSUBSCRIBE", {"destination": "a"})]),
    # nothing yet
    (V12, b"", []),
    (V12, b"\r", []),
    (V12, b"DISCONNECT\n\n", []),
    (V12, b"SEND\ndestination:a\ncontent-length:3\n\nabc", []),
]

FATAL = [
    (V12, b"DISCONNECT\na\n\n\0", M),
    (V12, b"DISCONNECT\n:a\n\n\0", M),
    (V12, b"DISCONNECT\na:b:c\n\n\0", M),
    (V11, b"DISCONNECT\na:b:c\n\n\0", M),
    (V12, b"DISCONNECT\na:\\t\n\n\0", M),
    (V12, b"DISCONNECT\na:b\\\n\n\0", M),
    (V11, b"DISCONNECT\na:\\r\n\n\0", M),
    (V12, b"DISCONNECT\na:b\rc\n\n\0", M),
    (V12, b"DISCONNECT\na:b\0c\n\n\0", M),
    (V12, b"DISCONNECT\na:\xff\n\n\0", M),
    (V12, b"DISCONNECT\n\xed\xa0\x80:a\n\n\0", M),
    (V12, b"DISCONNECT\nreceipt:77\n\0\n\n\0", M),  # no empty line in front of the NUL
    (V12, b"DISCONNECT\n\nbody\0", M),
    (V12, b"DISCONNECT\ncontent-length:1\n\nb\0", M),
    (V12, b"SEND\ndestination:a\ncontent-length:2\n\nabc\0", M),
    (V12, b"SEND\ndestination:a\ncontent-length:-1\n\n\0", M),
    (V12, b"SEND\ndestination:a\ncontent-length:+1\n\na\0", M),
    (V12, b"SEND\ndestination:a\ncontent-length: 1\n\na\0", M),
    (V12, b"SEND\ndestination:a\ncontent-length:\n\n\0", M),
    (V12, "SEND\ndestination:a\ncontent-length:\uff11\n\na\0".encode(), M),
    (V12, b"SEND\ndestination:a\ncontent-length:%b\n\n\0" % (b"9" * 19), M),
    (V11, b"DISCONNECT\r\n\n\0", C),
    (V12, b"send\ndestination:a\n\n\0", C),
    (V12, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", C),
    (V12, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00\x00", C),
    (V12, b"MESSAGE\ndestination:a\nmessage-id:1\nsubscription:0\n\n\0", C),
    (V12, b" SEND\ndestination:a\n\n\0", C),
    (V10, b"NACK\nmessage-id:1\n\n\0", C),
    (V12, b"SEND\n\n\0", H),
    (V12, b"ACK\nmessage-id:1\nsubscription:0\n\n\0", H),
    (V11, b"ACK\nid:1\n\n\0", H),
    (V11, b"SUBSCRIBE\ndestination:a\n\n\0", H),
]

BROKEN_BOUNDS = [
    (b"DISCONNECT\n" + b"a:b\n" * 5, N),
    (b"DISCONNECT\n" + b"a:b\n" * 5 + b"\n\0", N),
    (b"DISCONNECT\na:" + b"b" * 23, L),
    (b"DISCONNECT\na:" + b"b" * 23 + b"\n\n\0", L),
    (b"DISCONNECT\na\nb:" + b"b" * 23, M),  # the first line that is wrong
    (b"DISCONNECT\n" + (b"a:" + b"b" * 20 + b"\n") * 3, L),
    (b"UNSUBSCRIBE--", C),
    (b"SEND\ndestination:a\n\n" + b"x" * 17, B),
    (b"SEND\ndestination:a\ncontent-length:17\n\n", B),
    (b"SEND\ndestination:a\ncontent-length:99999\n\n", B),
]


@pytest.mark.parametrize(("version", "stream", "events"), LEGAL)
def test_what_is_legal_is_read_wherever_it_is_cut(
    version, stream, events
):  # S05, S06, S07, S08, S09, N24
    assert read([stream], version) == events
    assert read(byte_by_byte(stream), version) == events
    for at in range(len(stream)):
        assert read([stream[:at], stream[at:]], version) == events


@pytest.mark.parametrize(
    ("version", "stream", "cause", "bounds"),
    [
        *[(version, stream, cause, FrameBounds()) for version, stream, cause in FATAL],
        *[(V12, stream, cause, SMALL) for stream, cause in BROKEN_BOUNDS],
    ],
)
def test_what_is_wrong_is_the_last_event_wherever_it_is_cut(
    version, stream, cause, bounds
):  # S06, S09, S10, S11, S22, N05, N24
    before, behind = b"DISCONNECT\n\n\0", b"\0\nDISCONNECT\n\n\0"
    whole = read([before + stream], version, bounds=bounds)
    assert [type(event) for event in whole] == [Frame, Fault]
    assert whole[1].cause is cause
    everything = before + stream
    assert read(byte_by_byte(everything), version, bounds=bounds) == whole
    for at in range(len(everything)):
        assert read([everything[:at], everything[at:], behind], version, bounds=bounds) == whole


def test_a_bound_is_the_last_size_that_is_accepted():
    head = b"SEND\ndestination:" + b"a" * 12 + b"\nb:" + b"c" * 22 + b"\nd:e\nf:"
    at_most = head + b"g" * (SMALL.head - len(head)) + b"\n\n" + b"h" * 16 + b"\0"
    (frame,) = read([at_most], V12, bounds=SMALL)
    assert (len(frame.headers), len(frame.body)) == (4, 16)
    assert read(byte_by_byte(at_most), V12, bounds=SMALL) == [frame]
    (one_more,) = read([at_most.replace(b"f:", b"f:g")], V12, bounds=SMALL)
    assert (one_more.cause, one_more.sentence) == (L, "headers have at most 64 bytes")


def test_a_bound_is_broken_as_soon_as_it_is_known():  # S11
    for stream, cause in BROKEN_BOUNDS:
        found = [at for at in range(len(stream) + 1) if read([stream[:at]], V12, bounds=SMALL)]
        assert found, cause
        first = read([stream[: found[0]]], V12, bounds=SMALL)
        assert all(read([stream[:at]], V12, bounds=SMALL) == first for at in found)


@pytest.mark.parametrize(
    "stream",
    [
        b"SEND\nreceipt:77\n\n\0",
        b"NONE\nreceipt:77\n\n\0",
        b"SEND\ndestination:a\nreceipt:77\ncontent-length:x\n\n\0",
        b"SEND\ndestination:a\nreceipt:77\ncontent-length:9999999\n\n",
        b"SEND\ndestination:a\nreceipt:77\ncontent-length:1\n\nab",
        b"DISCONNECT\nreceipt:77\n\nbody\0",
    ],
)
def test_a_fault_behind_the_headers_has_the_receipt_that_was_asked_for(stream):
    (fault,) = read([stream], V12)
    assert fault.receipt == "77"


def test_no_sentence_repeats_what_was_sent():
    for version, stream, _ in FATAL:
        (fault,) = read([stream.replace(b"a", b"passcode")], version)
        assert "passcode" not in fault.sentence


def test_the_version_may_change_between_two_frames():
    reader = FrameReader()
    reader.receive(b"CONNECT\naccept-version:1.1\n\n\0\nDISCONNECT\na:b\\c\n\n\0")
    assert reader.next_event() == Frame("CONNECT", {"accept-version": "1.1"})
    reader.agree(V11, FrameBounds(headers=1))
    assert reader.next_event() == Frame("DISCONNECT", {"a": "b:"})
    assert reader.next_event() is None
    reader.receive(b"DISCONNECT\na:b\nc:d\n\n\0")
    assert [event.cause for event in events_of(reader)] == [N]


def test_nothing_is_read_before_it_is_asked_for():
    reader = FrameReader()
    reader.agree(V12)
    reader.receive(b"DISCONNECT\n\n\0" * 3)
    assert (reader.next_event(), reader.unread) == (Frame("DISCONNECT", {}), 26)


def test_ends_of_lines_between_frames_are_dropped_at_once():
    reader = FrameReader()
    reader.agree(V12)
    for _ in range(1000):
        reader.receive(b"\n" * 100)
        assert (reader.next_event(), reader.unread) == (None, 0)


def test_the_frames_of_a_server_are_read_by_the_same_reader():
    stream = b"CONNECTED\nversion:1.2\nserver:a/1 b:c\n\n\0MESSAGE\nsubscription:0\nmessage-id:7\ndestination:a\n\nhi\0"
    assert read([stream], V12, Side.SERVER) == [
        Frame("CONNECTED", {"version": "1.2", "server": "a/1 b:c"}),
        Frame("MESSAGE", {"subscription": "0", "message-id": "7", "destination": "a"}, b"hi"),
    ]
