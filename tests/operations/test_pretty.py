"""JSON on several lines, with unchanged tokens."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.operations.pretty import DEEPEST, DUMPED, MAX_BYTES, Shown, readable, shown
from pubqueue_xeps.wire.names import ILLEGAL
from pubqueue_xeps.wire.payloads.wrapper import wrap

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def carried(text):
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return f"<json xmlns='urn:xmpp:json:0'>{escaped}</json>".encode()


def test_escapes_of_what_can_be_read_are_read():
    text = r'{"a":"\u00c4\ud83d\ude00 \\u00c4 \u0022 \u005c \u0007 \u202e \ud83d \n"}'
    expected = (
        '{\n  "a": "\u00c4\U0001f600 ' + r'\\u00c4 \u0022 \u005c \u0007 \u202e \ud83d \n"' + "\n}"
    )
    assert readable(carried(text)) == expected
    assert json.loads(expected) == json.loads(text)


def test_the_published_content_is_unchanged():
    text = (
        r'{"a":[1,{"b":null,"b":1.50}],"n":12345678901234567890.0,"e":{},"l":[ ],"t":"ä: [{,\"<&"}'
    )
    assert (
        readable(carried(text))
        == r"""{
  "a": [
    1,
    {
      "b": null,
      "b": 1.50
    }
  ],
  "n": 12345678901234567890.0,
  "e": {},
  "l": [],
  "t": "ä: [{,\"<&"
}"""
    )


@given(VALUES)
def test_the_pretty_form_means_the_same(value):
    shown = readable(carried(json.dumps(value)))
    assert shown is not None
    assert json.loads(shown) == value


@pytest.mark.parametrize(
    "payload",
    [
        b"<job xmlns='urn:x'/>",
        b"<json xmlns='urn:xmpp:json:0'>{</json>",
        b"<json xmlns='urn:xmpp:json:0'>1<a/></json>",
        b"<json xmlns='urn:xmpp:json:0'/>",
        b"no XML",
        carried("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1)),
        carried("[" * 20_000 + "]" * 20_000),
        carried(f'"{"a" * MAX_BYTES}"'),
    ],
)
def test_invalid_or_large_json_is_left_unchanged(payload):
    assert readable(payload) is None


def seen(body, type_, most=4_000):
    stored = wrap(body, type_)
    headers = () if stored.header is None else (("Content-Type", stored.header),)
    return shown(stored.xml, headers, most)


def test_the_content_of_a_payload_is_shown():
    assert seen(b'{"a":1}', "application/json") == Shown(
        '{\n  "a": 1\n}', cut=False, words="7 bytes of application/json", json=True
    )
    assert seen(b'{"a":1}', "application/json; v=1").words == "7 bytes of application/json; v=1"
    assert seen(b"[1]\r\n", "a/b+json") == Shown(
        "[\n  1\n]", cut=False, words="5 bytes of a/b+json", json=True
    )
    assert seen(b"a<b>\n", "text/csv") == Shown("a<b>\n", cut=False, words="5 bytes of text/csv")
    assert seen(b"a\r\nb", "text/csv").text == "a\nb"
    assert seen(b"<a xmlns='urn:x'/>", "text/xml") == Shown(
        "<a xmlns='urn:x'/>", cut=False, words=""
    )
    assert seen(b"a", None).words == "1 byte of no type"
    assert seen(b"", "text/csv") == Shown("", cut=False, words="0 bytes of text/csv")


def test_bytes_are_shown_in_hexadecimal_and_no_control_character_is():
    some = seen(b"\x89PNG\r\n\x1b[2J<b>" + bytes(8), "image/png")
    assert some.words == "21 bytes of image/png, in hexadecimal"
    assert some.text.splitlines() == [
        "000000  89 50 4e 47 0d 0a 1b 5b 32 4a 3c 62 3e 00 00 00  .PNG...[2J<b>...",
        "000010  00 00 00 00 00" + " " * 35 + ".....",
    ]
    assert seen(b"\x1b[2J", "text/plain").words.endswith("in hexadecimal")


def test_the_beginning_of_a_large_payload_is_shown():
    assert seen(b"a" * 5_000, "text/plain", 100) == Shown(
        "a" * 100, cut=True, words="5000 bytes of text/plain"
    )
    assert len(seen(bytes(100_000), "image/png").text.splitlines()) == DUMPED / 16
    assert seen(bytes(100_000), "image/png").cut


@given(st.binary(), st.sampled_from([None, "text/plain", "application/json", "image/png"]))
def test_any_payload_is_shown_in_characters_that_xml_has(body, type_):
    assert ILLEGAL.search(seen(body, type_).text) is None
