"""What is a frame and what is none, wherever the bytes are cut; what is written is what was meant; and the tables, stated again as the texts of the three versions have them."""

import pytest
from faces.stomp.streams import SMALL, byte_by_byte, events_of, read
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.faces.stomp.codec import (
    COMMANDS,
    UNAGREED,
    V10,
    V11,
    V12,
    VERSIONS,
    Cause,
    Fault,
    Frame,
    FrameBounds,
    FrameReader,
    HeartBeats,
    Side,
    best_of,
    commands_of,
    heart_beats_of,
    write,
)

CLIENTS = {
    V10: "CONNECT STOMP SEND SUBSCRIBE UNSUBSCRIBE ACK TOUCH BEGIN COMMIT ABORT DISCONNECT",
    V11: "CONNECT STOMP SEND SUBSCRIBE UNSUBSCRIBE ACK NACK TOUCH BEGIN COMMIT ABORT DISCONNECT",
    V12: "CONNECT STOMP SEND SUBSCRIBE UNSUBSCRIBE ACK NACK TOUCH BEGIN COMMIT ABORT DISCONNECT",
}
SERVERS = "CONNECTED MESSAGE RECEIPT ERROR"


def test_each_version_has_its_commands():
    for version, names in CLIENTS.items():
        assert set(commands_of(Side.CLIENT, version)) == set(names.split())
        assert set(commands_of(Side.SERVER, version)) == set(SERVERS.split())
    assert commands_of(Side.CLIENT, UNAGREED) == commands_of(Side.CLIENT, V12)


def test_send_message_and_error_alone_have_a_body():  # S10
    assert {name for name, row in COMMANDS.items() if row.has_body} == {"SEND", "MESSAGE", "ERROR"}


def test_connect_and_connected_alone_are_written_without_escapes():
    raw = {name for name, row in COMMANDS.items() if not row.is_escaped}
    assert raw == {"CONNECT", "STOMP", "CONNECTED"}


@pytest.mark.parametrize(
    ("command", "v10", "v11", "v12"),
    [
        ("CONNECT", "", "", ""),
        ("STOMP", "", "", ""),
        ("SEND", "destination", "destination", "destination"),
        ("SUBSCRIBE", "destination", "destination id", "destination id"),
        ("UNSUBSCRIBE", "", "id", "id"),
        ("ACK", "message-id", "message-id subscription", "id"),
        ("NACK", None, "message-id subscription", "id"),
        ("TOUCH", "message-id", "message-id subscription", "id"),
        ("BEGIN", "transaction", "transaction", "transaction"),
        ("COMMIT", "transaction", "transaction", "transaction"),
        ("ABORT", "transaction", "transaction", "transaction"),
        ("DISCONNECT", "", "", ""),
        ("CONNECTED", "", "version", "version"),
        (
            *("MESSAGE", "destination message-id"),
            *("destination message-id subscription", "destination message-id subscription"),
        ),
        ("RECEIPT", "receipt-id", "receipt-id", "receipt-id"),
        ("ERROR", "", "", ""),
    ],
)
def test_each_command_needs_its_headers(command, v10, v11, v12):  # S13
    for version, needed in ((V10, v10), (V11, v11), (V12, v12)):
        found = commands_of(COMMANDS[command].side, version).get(command)
        assert (None if found is None else " ".join(found.needs)) == needed


def test_the_table_of_commands_has_no_other_row():
    assert len(COMMANDS) == 16


def test_versions_differ_as_their_texts_say():
    assert list(VERSIONS) == ["1.0", "1.1", "1.2"]
    assert V12.escapes == {"\\": "\\\\", "\n": "\\n", "\r": "\\r", ":": "\\c"}
    assert V11.escapes == {"\\": "\\\\", "\n": "\\n", ":": "\\c"}
    assert V10.escapes == UNAGREED.escapes == {}
    assert (V10.has_crlf, V11.has_crlf, V12.has_crlf) == (False, False, True)
    assert (V10.is_padded, V11.is_padded, V12.is_padded) == (True, False, False)


@pytest.mark.parametrize(
    ("accepted", "offered", "best"),
    [
        ("1.2", VERSIONS.values(), V12),
        ("1.0,1.1,1.2", VERSIONS.values(), V12),
        ("1.2, 1.1", VERSIONS.values(), V12),
        ("1.0,1.1,2.0", VERSIONS.values(), V11),
        (None, VERSIONS.values(), V10),
        (None, [V12], None),
        ("", VERSIONS.values(), None),
        ("2.0", VERSIONS.values(), None),
        ("1.2.0", VERSIONS.values(), None),
        ("1.0,1.1", [V12], None),
        ("1.1,1.2", [V11, V10], V11),
    ],
)
def test_the_highest_common_version_is_agreed_upon(accepted, offered, best):
    assert best_of(accepted, offered) is best


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, HeartBeats()),
        ("0,0", HeartBeats()),
        ("1000,0", HeartBeats(1000, 0)),
        ("999999999,10000", HeartBeats(999_999_999, 10_000)),
        *[
            (value, None)
            for value in (
                "",
                "1000",
                "1,2,3",
                "-1,0",
                "1, 2",
                "a,b",
                "1.5,0",
                "1" * 10 + ",0",
                "\uff11,2",
            )
        ],
    ],
)
def test_a_heart_beat_is_two_numbers(value, found):
    assert heart_beats_of(value) == found


@pytest.mark.parametrize(
    ("ours", "theirs", "agreed"),
    [
        (HeartBeats(10_000, 10_000), HeartBeats(0, 0), HeartBeats(0, 0)),
        (HeartBeats(10_000, 10_000), HeartBeats(4000, 0), HeartBeats(0, 10_000)),
        (HeartBeats(10_000, 10_000), HeartBeats(0, 20_000), HeartBeats(20_000, 0)),
        (HeartBeats(0, 10_000), HeartBeats(15_000, 20_000), HeartBeats(0, 15_000)),
    ],
)
def test_beats_are_as_seldom_as_the_slower_side_wants(ours, theirs, agreed):
    assert ours.agreed_with(theirs) == agreed
    assert theirs.agreed_with(ours) == HeartBeats(agreed.wants, agreed.sends)
    assert heart_beats_of(ours.shown) == ours


def test_each_cause_is_the_message_of_an_error():
    assert {cause.name: cause.value for cause in Cause} == {
        "MALFORMED": "malformed frame",
        "UNKNOWN_COMMAND": "unknown command",
        "HEADER_MISSING": "header missing",
        "TOO_MANY_HEADERS": "too many headers",
        "HEADER_TOO_LONG": "header too long",
        "BODY_TOO_LARGE": "body too large",
    }


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
    # clients that escape nothing: only the first colon ends the name
    *[
        (version, b"DISCONNECT\na:b:c:\nd::\n\n\0", [Frame("DISCONNECT", {"a": "b:c:", "d": ":"})])
        for version in VERSIONS.values()
    ],
    (V12, b"DISCONNECT\na:b:c\\c\\\\\n\n\0", [Frame("DISCONNECT", {"a": "b:c:\\"})]),
    (V11, b"DISCONNECT\na:b:c\\c\\\\\n\n\0", [Frame("DISCONNECT", {"a": "b:c:\\"})]),
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
    # of a frame that has no body, its value does not matter
    *[
        (
            version,
            b"BEGIN\ntransaction:t\ncontent-length:%b\n\n\0DISCONNECT\n\n\0" % length,
            [
                Frame("BEGIN", {"transaction": "t", "content-length": length.decode()}),
                Frame("DISCONNECT", {}),
            ],
        )
        for version in VERSIONS.values()
        for length in (b"1", b"7", b"%b" % (b"9" * 19), b"-1", b"x", b"")
    ],
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


RECEIPT = Frame("RECEIPT", {"receipt-id": "77"})


@pytest.mark.parametrize(
    ("frame", "version", "written"),
    [
        (RECEIPT, V12, b"RECEIPT\nreceipt-id:77\n\n\0"),
        (Frame("DISCONNECT", {}), V12, b"DISCONNECT\n\n\0"),
        (
            Frame("MESSAGE", {"subscription": "0", "destination": "."}, b"a\0b"),
            V12,
            b"MESSAGE\nsubscription:0\ndestination:.\ncontent-length:3\n\na\0b\0",
        ),
        (Frame("ERROR", {"message": "a"}), V12, b"ERROR\nmessage:a\ncontent-length:0\n\n\0"),
        # whatever the headers say of the length
        (
            Frame("SEND", {"content-length": "9", "destination": "a"}, b"b"),
            V12,
            b"SEND\ndestination:a\ncontent-length:1\n\nb\0",
        ),
        # each version escapes what it can, and names a header that it cannot write
        (
            Frame("RECEIPT", {"receipt-id": "\\\n\r:"}),
            V12,
            b"RECEIPT\nreceipt-id:\\\\\\n\\r\\c\n\n\0",
        ),
        (Frame("RECEIPT", {"receipt-id": "\\\n:"}), V11, b"RECEIPT\nreceipt-id:\\\\\\n\\c\n\n\0"),
        (Frame("RECEIPT", {"receipt-id": "\\:"}), V10, b"RECEIPT\nreceipt-id:\\:\n\n\0"),
        (
            Frame("MESSAGE", {"a": "\0", "b": "c"}),
            V12,
            b"MESSAGE\nb:c\nnot-carried:a\ncontent-length:0\n\n\0",
        ),
        (
            Frame("MESSAGE", {"a": "\r", "b": "c"}),
            V11,
            b"MESSAGE\nb:c\nnot-carried:a\ncontent-length:0\n\n\0",
        ),
        (
            Frame("MESSAGE", {"a": "\n", "b:": "c"}),
            V10,
            b"MESSAGE\nnot-carried:a,b%3A\ncontent-length:0\n\n\0",
        ),
        (
            Frame("MESSAGE", {"a": " b", "c": "d "}),
            V10,
            b"MESSAGE\nnot-carried:a,c\ncontent-length:0\n\n\0",
        ),
        (
            Frame("MESSAGE", {"a": "\0", "not-carried": "ack", "b": "c"}),
            V12,
            b"MESSAGE\nb:c\nnot-carried:ack,a\ncontent-length:0\n\n\0",
        ),
        (Frame("MESSAGE", {"a": " b"}), V11, b"MESSAGE\na: b\ncontent-length:0\n\n\0"),
        (Frame("MESSAGE", {"a:b\n": "c"}), V12, b"MESSAGE\na\\cb\\n:c\ncontent-length:0\n\n\0"),
        (Frame("CONNECTED", {"server": "a:\\b"}), V12, b"CONNECTED\nserver:a:\\b\n\n\0"),
    ],
)
def test_a_frame_is_written_as_its_version_has_it(frame, version, written):
    assert write(frame, version) == written + b"\n"


# --- round trips --------------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
PADDING = " "
WITHOUT = {"1.0": "\n\r", "1.1": "\r", "1.2": ""}
"""Characters that a version cannot write."""


@st.composite
def frames(draw):
    """Frames of a version, with the headers that they need and any others."""
    version = draw(st.sampled_from(list(VERSIONS.values())))
    escaped = [name for name, row in COMMANDS.items() if row.is_escaped]
    column = list(VERSIONS).index(version.name)
    command = draw(
        st.sampled_from([name for name in escaped if COMMANDS[name].needs[column] is not None])
    )
    row = COMMANDS[command]
    clean = TEXT.map(lambda text: "".join(c for c in text if c not in WITHOUT[version.name]))
    if version is V10:
        clean = clean.map(lambda text: text.strip(PADDING))
    names = clean.map(lambda text: text.replace(":", "") if version is V10 else text).filter(bool)
    headers = dict.fromkeys(row.needs[column], "") | draw(st.dictionaries(names, clean, max_size=8))
    headers.pop("content-length", None)
    body = draw(st.binary(max_size=200)) if row.has_body else b""
    return version, Frame(command, headers, body)


@given(frames(), st.integers(1, 50))
def test_what_is_written_is_read_again(made, step):  # S06, S07
    version, frame = made
    written = write(frame, version)
    side = COMMANDS[frame.command].side
    (found,) = read([written], version, side)
    length = found.headers.pop("content-length", None)
    assert length == (str(len(frame.body)) if COMMANDS[frame.command].has_body else None)
    assert (found, list(found.headers)) == (frame, list(frame.headers))
    pieces = [written[at : at + step] for at in range(0, len(written), step)]
    for cut in (pieces, byte_by_byte(written)):
        (again,) = read(cut, version, side)
        again.headers.pop("content-length", None)
        assert again == frame


@given(
    st.sampled_from(list(VERSIONS.values())),
    st.sampled_from(["MESSAGE", "CONNECTED"]),
    st.dictionaries(st.text(min_size=1), st.text()),
    st.binary(),
)
def test_no_value_makes_a_frame_or_a_header_of_its_own(version, command, headers, body):
    whole = Frame(
        command, {"version": "1", "destination": "a", "message-id": "b", "subscription": "c"}
    )
    whole.headers |= {n: v for n, v in headers.items() if n != "content-length"}
    whole.body = body if command == "MESSAGE" else b""
    written = write(whole, version)
    (found,) = read([written], version, Side.SERVER, FrameBounds(line=1 << 20, head=1 << 20))
    assert isinstance(found, Frame)
    assert len(found.headers) <= len(whole.headers) + 1
    assert found.body == whole.body
