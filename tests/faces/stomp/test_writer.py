"""What is written is what was meant, and no value of a header becomes a header of its own."""

import pytest
from faces.stomp.streams import byte_by_byte, read
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.faces.stomp.codec import (
    COMMANDS,
    V10,
    V11,
    V12,
    VERSIONS,
    Frame,
    FrameBounds,
    Side,
    write,
)

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
        # each version escapes what it can, and what it cannot is a space
        (
            Frame("RECEIPT", {"receipt-id": "\\\n\r:\0"}),
            V12,
            b"RECEIPT\nreceipt-id:\\\\\\n\\r\\c \n\n\0",
        ),
        (
            Frame("RECEIPT", {"receipt-id": "\\\n\r:\0"}),
            V11,
            b"RECEIPT\nreceipt-id:\\\\\\n \\c \n\n\0",
        ),
        (Frame("RECEIPT", {"receipt-id": "\\\n\r:\0"}), V10, b"RECEIPT\nreceipt-id:\\  : \n\n\0"),
        (Frame("MESSAGE", {"a:b\n": "c"}), V12, b"MESSAGE\na\\cb\\n:c\ncontent-length:0\n\n\0"),
        (Frame("MESSAGE", {"a:b\n": "c"}), V10, b"MESSAGE\na b :c\ncontent-length:0\n\n\0"),
        (Frame("CONNECTED", {"server": "a:\\\nb"}), V12, b"CONNECTED\nserver:a:\\ b\n\n\0"),
    ],
)
def test_a_frame_is_written_as_its_version_has_it(frame, version, written):
    assert write(frame, version) == written


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
