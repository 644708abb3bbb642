"""Our reader beside the codecs of stomp.py, stompman and CoilMQ: where they differ, and that they understand what we write.

Looked at as well, and not compared: stomper 0.4.3 reads as stomp.py, and stompest 2.3.0 (2017) takes no CR LF.
"""

import pytest
from faces.stomp.other_codecs import READERS, written_by_stomp_py, written_by_stompman
from faces.stomp.streams import read
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.faces.stomp.codec import V12, Frame, write

# fmt: off
CASES = [
    # Each of the others reads the same, another frame, or none; what is fatal by the text is the same if it is not read, or else taken.
    #                                                                                                                                   1.2      stomp.py stompman CoilMQ
    ("a frame"                                     , b"SEND\ndestination:a\n\nb\x00"                                   , "frame", "same  same  same "),
    ("lines end with CR LF"                        , b"SEND\r\ndestination:a\r\n\r\nb\x00"                             , "frame", "same  same  same "),
    ("lines end one way and the other"             , b"SEND\r\ndestination:a\n\r\nb\x00"                               , "frame", "other same  same "),
    ("ends of lines in front"                      , b"\n\r\n\nSEND\ndestination:a\n\nb\x00"                           , "frame", "same  same  none "),
    ("the escapes of 1.2"                          , b"SEND\ndestination:a\\cb\\nc\\\\d\n\ne\x00"                      , "frame", "same  same  other"),
    ("the escape \\r"                              , b"SEND\ndestination:a\\rb\n\ne\x00"                               , "frame", "same  other other"),
    ("an escape behind an escape"                  , b"SEND\ndestination:\\\\\\\\n\n\ne\x00"                           , "frame", "same  same  other"),
    ("an escape in a name"                         , b"SEND\ndestination:a\nb\\cc:d\n\ne\x00"                          , "frame", "same  same  other"),
    ("CONNECT without escapes"                     , b"CONNECT\naccept-version:1.2\nhost:a\\b:c\n\n\x00"               , "frame", "same  other none "),
    ("spaces that are part of a header"            , b"SEND\ndestination: a \n\nb\x00"                                 , "frame", "same  same  other"),
    ("a header twice"                              , b"SEND\ndestination:a\ndestination:b\n\nc\x00"                    , "frame", "same  same  other"),
    ("an empty value"                              , b"SEND\ndestination:a\nb:\n\nc\x00"                               , "frame", "same  same  same "),
    ("a body with NULs"                            , b"SEND\ndestination:a\ncontent-length:3\n\nb\x00c\x00"            , "frame", "same  same  same "),
    ("a body that ends with spaces and line ends"  , b"SEND\ndestination:a\n\n b \n\x00"                               , "frame", "same  same  same "),
    ("an empty body"                               , b"SEND\ndestination:a\n\n\x00"                                    , "frame", "same  same  other"),
    ("an unknown escape"                           , b"SEND\ndestination:a\\tb\n\nc\x00"                               , "fault", "taken taken taken"),
    ("a backslash at the end"                      , b"SEND\ndestination:a\\\n\nc\x00"                                 , "fault", "taken taken taken"),
    ("a colon in a value, as many clients send it" , b"SEND\ndestination:a:b\n\nc\x00"                                 , "frame", "same  other none "),
    ("a line without a colon"                      , b"SEND\ndestination:a\nb\n\nc\x00"                                , "fault", "taken taken same "),
    ("a header without a name"                     , b"SEND\ndestination:a\n:b\n\nc\x00"                               , "fault", "taken taken taken"),
    ("a CR within a line"                          , b"SEND\ndestination:a\rb\n\nc\x00"                                , "fault", "taken taken taken"),
    ("a header that is no UTF-8"                   , b"SEND\ndestination:\xff\n\nc\x00"                                , "fault", "taken taken same "),
    ("content-length is too small"                 , b"SEND\ndestination:a\ncontent-length:1\n\nbc\x00"                , "fault", "taken taken taken"),
    ("content-length is no number"                 , b"SEND\ndestination:a\ncontent-length:x\n\nb\x00"                 , "fault", "taken taken same "),
    ("content-length is negative"                  , b"SEND\ndestination:a\ncontent-length:-1\n\nb\x00"                , "fault", "taken same  taken"),
    ("a body on SUBSCRIBE"                         , b"SUBSCRIBE\ndestination:a\nid:0\n\nb\x00"                        , "fault", "taken taken taken"),
    ("SEND without a destination"                  , b"SEND\n\nb\x00"                                                  , "fault", "taken taken taken"),
    ("an unknown command"                          , b"JUMP\ndestination:a\n\nb\x00"                                   , "fault", "taken same  taken"),
    ("a command in small letters"                  , b"send\ndestination:a\n\nb\x00"                                   , "fault", "taken same  taken"),
]
# fmt: on


def ours(stream):
    (found,) = read([stream], V12)
    return (found.command, found.headers, found.body) if isinstance(found, Frame) else None


def verdict(reader, stream):
    """Say how another reads the stream, beside us."""
    try:
        theirs = reader(stream)
    except Exception:  # each has its own
        theirs = None
    if theirs == ours(stream):
        return "same"
    if theirs is None:
        return "none"
    return "taken" if ours(stream) is None else "other"


@pytest.mark.parametrize(
    ("name", "stream", "by_the_text", "others"), CASES, ids=[case[0] for case in CASES]
)
def test_where_other_codecs_differ_from_ours(name, stream, by_the_text, others):
    assert name
    assert (ours(stream) is None) == (by_the_text == "fault")
    assert [verdict(reader, stream) for reader in READERS.values()] == others.split()


def test_on_each_other_codec_the_text_is_not_what_is_done():
    columns = zip(*[case[-1].split() for case in CASES], strict=True)
    assert all(set(column) > {"same"} for column in columns)


# --- what both can do ---------------------------------------------------------------------------

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=12)
NAMES = WORDS.filter(bool)
HEADERS = st.dictionaries(NAMES.filter(lambda name: name != "content-length"), WORDS, max_size=5)


@given(HEADERS, st.binary(max_size=60))
def test_stomp_py_and_stompman_read_what_we_write(headers, body):
    frame = Frame("SEND", {"destination": "a"} | headers, body)
    written = write(frame, V12)
    expected = ("SEND", frame.headers | {"content-length": str(len(body))}, body)
    assert READERS["stompman"](written) == expected
    if not set("\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029") & set(
        "".join([*headers, *headers.values()])
    ):
        assert READERS["stomp.py"](written) == expected


@given(HEADERS, st.binary(max_size=60))
def test_we_read_what_stomp_py_and_stompman_write(headers, body):
    headers = {"destination": "a", **headers, "content-length": str(len(body))}
    expected = ("SEND", headers, body)
    assert ours(written_by_stompman("SEND", headers, body)) == expected
    escaped = {escape(name): escape(value) for name, value in headers.items()}
    assert ours(written_by_stomp_py("SEND", escaped, body)) == expected


def escape(text):
    """Escape as stomp.py does for 1.2 before it writes."""
    for character, written in (("\\", "\\\\"), ("\n", "\\n"), (":", "\\c")):
        text = text.replace(character, written)
    return text
