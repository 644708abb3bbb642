"""JSON on several lines, word for word."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.app.management.pretty import DEEPEST, MAX_BYTES, readable

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def carried(text):
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return f"<json xmlns='urn:xmpp:json:0'>{escaped}</json>".encode()


def test_what_was_published_is_kept_word_for_word():
    text = r'{"a":[1,{"b":null,"b":1.50}],"n":12345678901234567890.0,"e":{},"l":[ ],"t":"ä\u00e4: [{,\"<&"}'
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
  "t": "ä\u00e4: [{,\"<&"
}"""
    )


@given(VALUES)
def test_it_means_the_same(value):
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
def test_what_is_no_json_or_too_much_is_left_as_it_is(payload):
    assert readable(payload) is None
