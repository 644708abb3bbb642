"""Bodies of any type: what is stored of them, and that the same bytes come out."""

import base64
import tracemalloc
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from proof.fuzz.bodies import BodyError, bodies, check

from pubqueue_xeps.wire import ns
from pubqueue_xeps.wire.names import is_clean
from pubqueue_xeps.wire.payloads import content_type, wrapper
from pubqueue_xeps.wire.payloads.wrapper import STEP, Body, Wrapped, unwrap, unwrap_in_steps, wrap

DATA = "urn:x-pubqueue:data:0"
TYPES = st.none() | st.sampled_from(
    [
        "application/json",
        "application/json;charset=utf-8",
        "application/xml",
        "text/xml",
        "text/plain",
        "a/b+json",
        "a/b+xml",
        "image/png",
    ]
)
ANY_TYPE = TYPES | st.text(
    st.characters(codec="utf-8") | st.sampled_from(";'\"<>&"), max_size=30
).filter(is_clean)


def data(text, type_=None, encoding=None):
    words = "" if type_ is None else f' type="{type_}"'
    words += "" if encoding is None else f" encoding='{encoding}'"
    return f"<data xmlns='{DATA}'{words}>{text}</data>".encode()


def in_base64(body, type_=None, form=""):
    encoding = f"base64' form='{form}" if form else "base64"
    return data(base64.b64encode(body).decode(), type_, encoding)


# --- both ways ------------------------------------------------------------------------------------


@given(
    body=st.binary() | st.text().map(lambda text: text.encode("utf-8", "surrogatepass")),
    type_=ANY_TYPE,
    is_text=st.booleans(),
)
@example(body=bytes(range(256)), type_="text/plain", is_text=False)
@example(body=b"", type_=None, is_text=True)
@example(body=b"]]>", type_="text/plain", is_text=False)
@example(body=b" \n\t ", type_="text/plain", is_text=False)
@example(body="\ufeff{}".encode(), type_="application/json", is_text=False)
@example(body="{\ufeff\u2028\x85}".encode(), type_="text/plain", is_text=False)
@example(body="\uffff".encode(), type_="text/plain", is_text=False)
@example(body=b"\xed\xa0\x80", type_="text/plain", is_text=False)
@example(body=b"<json xmlns='urn:xmpp:json:0'>1</json>", type_="application/xml", is_text=False)
@example(body=b"<a xmlns='urn:x'>\r</a>", type_="application/xml", is_text=False)
def test_the_same_bytes_and_type_come_out(body, type_, *, is_text):
    check(body, type_, is_text=is_text)


def test_the_same_bytes_come_out_of_bodies_of_pieces_that_matter():
    for number, (body, type_, is_text) in enumerate(bodies(Random(7))):
        check(body, type_, is_text=is_text)
        if number == 2_000:
            break


def test_a_body_that_does_not_come_out_is_found(monkeypatch):
    monkeypatch.setattr(wrapper, "FORBIDDEN", b"")
    monkeypatch.setattr(wrapper, "PLAIN", bytes(set(range(256)) - set(b"&<>")))
    with pytest.raises(BodyError):
        check(b"a\rb", "text/plain", is_text=False)


@given(st.binary(), st.none() | st.text())
@example(b"<json xmlns='urn:xmpp:json:0'>\xff</json>", None)
@example(b"<json xmlns='urn:xmpp:json:0'>", None)
@example(b"<json xmlns='urn:xmpp:json:0'></json>", "\ud800")
@example(b"<data", "a\x00")
def test_whatever_is_stored_comes_out_as_something(stored, header):
    out = unwrap(stored, header)
    assert isinstance(out.data, bytes)
    assert out.form != "xml" or out.data == stored
    assert out.text is None or isinstance(out.text, str)


# --- what is stored -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "type_", ["application/json", "application/json; charset=UTF-8", "APPLICATION/JSON"]
)
@pytest.mark.parametrize("body", ["{}", '{"a": "ä"}', "\n[1]\t", '"\U0001f41d"', "1e999"])
def test_json_is_stored_as_xep_0335_has_it(body, type_):
    header = None if type_ == "application/json" else type_
    stored = f"<json xmlns='urn:xmpp:json:0'>{body}</json>".encode()
    assert wrap(body.encode(), type_) == Wrapped(stored, "urn:xmpp:json:0", header)


DEEP = 1_000_000
"""Levels that no version of Python reads: some bound them by their number, some by the stack of the thread."""


@pytest.mark.parametrize(
    "body", ["{", "NaN", '{"a":1}{', "'a'", '"\\ud800"', "[" * DEEP + "]" * DEEP]
)
def test_what_json_has_not_is_text_of_that_type(body):
    assert wrap(body.encode(), "application/json").xml == data(body, "application/json")


@pytest.mark.parametrize(
    "type_",
    [
        *("text/plain", "text/csv;charset=utf-8", 'text/a; charset="UTF-8"', "a/b+json", "a/b+xml"),
        *("application/x-www-form-urlencoded", "text/xml", "application/xml"),
    ],
)
def test_text_is_stored_as_text(type_):
    written = type_.replace('"', "&quot;")
    stored = wrap(b"a<b>&'\"\n]]>", type_)
    text = "a&lt;b&gt;&amp;'\"\n]]&gt;"
    assert stored.xml in (
        data(text, written),
        data(text, type_).replace(f'"{type_}"'.encode(), f"'{type_}'".encode()),
    )
    assert (stored.space, stored.header) == (DATA, None)


@pytest.mark.parametrize(
    "body",
    [
        "a\rb",
        "\x00",
        "\x1b",
        "\ufeffa",
        "\ufffe",
        "a\uffff",
    ],
)
@pytest.mark.parametrize("type_", ["text/plain", "application/json", "application/xml"])
def test_text_that_is_not_safe_is_stored_in_base64_and_comes_out_as_text(body, type_):
    raw = body.encode()
    assert wrap(raw, type_) == Wrapped(in_base64(raw, type_, "text"), DATA)
    assert unwrap(wrap(raw, type_).xml) == Body(raw, type_, "text")


@pytest.mark.parametrize("raw", [b"", b"\xff", b"\xed\xa0\x80", b"\xc0\x80"])
@pytest.mark.parametrize("type_", ["text/plain", "application/json", "application/xml"])
def test_what_is_not_in_utf_8_is_stored_in_base64(raw, type_):
    assert wrap(raw, type_) == Wrapped(in_base64(raw, type_), DATA)
    assert unwrap(wrap(raw, type_).xml) == Body(raw, type_, "bytes")


@pytest.mark.parametrize("type_", ["text/plain", "a/b+json", "application/xml", None])
def test_text_whose_escapes_are_longer_than_base64_is_stored_in_base64(type_):
    body = b"&<" * 30_000
    stored = wrap(body, type_, is_text=True)
    assert stored == Wrapped(in_base64(body, type_, "text"), DATA)
    assert unwrap(stored.xml) == Body(body, type_, "text")
    assert wrap(b"a < b && c", "text/plain").xml == data("a &lt; b &amp;&amp; c", "text/plain")


@given(st.text(st.sampled_from("a&<>\r\x00\ufffeä"), max_size=300), st.booleans())
def test_no_text_grows_by_more_than_a_third_and_the_tags(body, is_text):
    type_ = None if is_text else "text/plain"
    raw = body.encode()
    most = len(in_base64(raw, type_, "text"))
    stored = wrap(raw, type_, is_text=True).xml
    assert len(stored) <= most
    assert unwrap(stored).data == raw


@pytest.mark.parametrize("payload", ["{}", "<"])
def test_json_stays_in_its_element_however_long_its_escapes_are(payload):
    assert wrap(f'"{payload * 900}"'.encode(), "application/json").space == "urn:xmpp:json:0"


@pytest.mark.parametrize(
    "type_", [None, "", "image/png", "application/octet-stream", "text", "video/xml+"]
)
def test_what_is_no_text_by_its_type_is_stored_in_base64(type_):
    assert wrap(b"text", type_).xml == in_base64(b"text", type_)


@pytest.mark.parametrize("media", ["text/plain", "application/json", "text/xml", "a/b+json"])
@pytest.mark.parametrize("charset", ["latin-1", '"utf-16"', "US-ASCII", "utf-8; charset=latin-1"])
def test_what_is_in_another_charset_is_bytes(media, charset):
    type_ = f"{media}; Charset={charset}"
    assert unwrap(wrap(b"1", type_).xml) == Body(b"1", type_, "bytes")


def test_a_body_without_a_type_is_text_if_the_protocol_defines_it_so():
    assert wrap(b"text", is_text=True).xml == data("text")
    assert wrap(b"\x00", is_text=True).xml == in_base64(b"\x00", None, "text")
    assert wrap(b"\xff", is_text=True).xml == in_base64(b"\xff")
    assert wrap(b"1", "image/png", is_text=True).xml == in_base64(b"1", "image/png")


# --- XML ------------------------------------------------------------------------------------------

DEEP = "<a xmlns='urn:x'>" + "<b>" * (wrapper.DEEPEST - 1) + "</b>" * (wrapper.DEEPEST - 1) + "</a>"
LONG = "u" * wrapper.MAX_NAMESPACE_LENGTH


@pytest.mark.parametrize(
    "body",
    [
        "<a xmlns='urn:x'/>",
        "<a xmlns='urn:x' ><b  c = \"d\"/>\r\n&lt;&#228;&#x20ac;</a >",
        "<p:a xmlns:p='urn:x'><p:b/></p:a>",
        "<p:a xmlns:p='urn:x' xmlns=''><b/></p:a>",
        "<a xmlns='urn:x'><b xmlns=''/></a>",
        "<a xmlns='urn:x' xml:lang='de'>ü</a>",
        "<json xmlns='urn:x'/>",
        "<data xmlns='urn:x-pubqueue:0'/>",
        "<other xmlns='urn:x-pubqueue:data:0'/>",
        DEEP,
        f"<a xmlns='{LONG}'/>",
    ],
)
def test_one_element_is_stored_as_it_is(body):
    stored = wrap(body.encode(), "text/xml")
    assert (stored.xml, stored.header) == (body.encode(), "text/xml")
    assert wrap(body.encode(), "application/xml").header is None
    assert unwrap(stored.xml, stored.header) == Body(body.encode(), "text/xml", "xml")


@pytest.mark.parametrize(
    "body",
    [
        "<a/>",
        "<a xmlns=''/>",
        " <a xmlns='urn:x'/>",
        "<a xmlns='urn:x'/>\n",
        "<a xmlns='urn:x'/><a xmlns='urn:x'/>",
        "<?xml version='1.0'?><a xmlns='urn:x'/>",
        "<!DOCTYPE a><a xmlns='urn:x'/>",
        "<!-- a --><a xmlns='urn:x'/>",
        "<a xmlns='urn:x'/><!-- a -->",
        "<a xmlns='urn:x'><!-- a --></a>",
        "<a xmlns='urn:x'><?a?></a>",
        "<a xmlns='urn:x'><![CDATA[a]]></a>",
        "<a xmlns='urn:x'>&nbsp;</a>",
        "<a xmlns='urn:x'>&#0;</a>",
        "<a xmlns='urn:x'>]]></a>",
        "<a xmlns='urn:x'><b></a></b>",
        "<a xmlns='urn:x'><p:b/></a>",
        "<a xmlns='urn:x' b='1' b='2'/>",
        "<a xmlns='urn:x' xmlns='urn:y'/>",
        "<p:a xmlns:p='urn:x'><b/></p:a>",
        "<json xmlns='urn:xmpp:json:0'>1</json>",
        "<j:json xmlns:j='urn:xmpp:json:0'/>",
        "<data xmlns='urn:x-pubqueue:data:0'/>",
        "<text xmlns='urn:x-pubqueue:0'>a</text>",
        DEEP.replace("<b>", "<b><b>", 1).replace("</b>", "</b></b>", 1),
        f"<a xmlns='{LONG}u'/>",
        f"<a xmlns='urn:x'>{'<b/>' * wrapper.MAX_ELEMENTS}</a>",
    ],
)
def test_other_xml_is_stored_as_text_and_comes_out_as_it_was(body):
    stored = wrap(body.encode(), "application/xml")
    assert stored.space == DATA
    assert unwrap(stored.xml) == Body(body.encode(), "application/xml", "text")


# --- what comes out -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stored", "body"),
    [
        (
            "<json xmlns='urn:xmpp:json:0'>{&quot;a&quot;: 1}</json>",
            Body(b'{"a": 1}', "application/json", "json"),
        ),
        ('<json xmlns="urn:xmpp:json:0">1</json>', Body(b"1", "application/json", "json")),
        ("<j:json xmlns:j='urn:xmpp:json:0'>1</j:json>", Body(b"1", "application/json", "json")),
        ("<json xmlns='urn:xmpp:json:0'>1\r\n</json>", Body(b"1\n", "application/json", "json")),
        (
            "<json xmlns='urn:xmpp:json:0'><![CDATA[[1]]]></json>",
            Body(b"[1]", "application/json", "json"),
        ),
        (
            "<text xmlns='urn:x-pubqueue:0'>a</text>",
            Body(b"a", "text/plain; charset=utf-8", "text"),
        ),
        (f"<data xmlns='{DATA}'/>", Body(b"", None, "text")),
        (f"<data xmlns='{DATA}' encoding='base64'/>", Body(b"", None, "bytes")),
        (
            f"<data xmlns='{DATA}' encoding='base64' type='a'>\n YW\r\nE= </data>",
            Body(b"aa", "a", "bytes"),
        ),
        (
            f"<data form='text' xmlns='{DATA}' encoding='base64'>DQ==</data>",
            Body(b"\r", None, "text"),
        ),
        (
            f"<data form='a' xmlns='{DATA}' encoding='base64'>DQ==</data>",
            Body(b"\r", None, "bytes"),
        ),
        (
            f"<data xmlns='{DATA}' encoding='base64' form='text'>/w==</data>",
            Body(b"\xff", None, "bytes"),
        ),
        (f"<data form='text' xmlns='{DATA}'>a</data>", Body(b"a", None, "text")),
    ],
)
def test_what_others_write_is_read(stored, body):
    assert unwrap(stored.encode()) == body


@pytest.mark.parametrize(
    "stored",
    [
        data("YQ", encoding="base64"),
        data("YQ==YQ==", encoding="base64"),
        data("Y*Q=", encoding="base64"),
        data("ä", encoding="base64"),
        data("61", encoding="hex"),
        data("61", encoding="BASE64"),
        data("a<b/>"),
        data("<data/>"),
        b"<json xmlns='urn:xmpp:json:0'>1<b/></json>",
        b"<json xmlns='urn:other'>1</json>",
        b"<data>a</data>",
        b"<job xmlns='urn:x'/>",
        b"<!DOCTYPE data [<!ENTITY a 'b'>]><data xmlns='urn:x-pubqueue:data:0'>&a;</data>",
    ],
)
def test_what_cannot_be_decoded_is_given_as_the_xml_that_it_is(stored):
    assert unwrap(stored) == Body(stored, "application/xml", "xml")


@pytest.mark.parametrize(
    ("stored", "header", "type_"),
    [
        (
            b"<json xmlns='urn:xmpp:json:0'>1</json>",
            "application/json; a=b",
            "application/json; a=b",
        ),
        (b"<json xmlns='urn:xmpp:json:0'>1</json>", "image/png", "application/json"),
        (b"<json xmlns='urn:xmpp:json:0'>1</json>", "a\x00", "application/json"),
        (b"<job xmlns='urn:x'/>", "image/svg+xml", "image/svg+xml"),
        (b"<job xmlns='urn:x'/>", "application/json", "application/xml"),
        (b"<text xmlns='urn:x-pubqueue:0'>a</text>", "text/csv", "text/csv"),
        (data("a", "text/csv"), "image/png", "text/csv"),
        (data("a"), "text/csv", "text/csv"),
    ],
)
def test_a_header_counts_where_the_element_leaves_the_type_open(stored, header, type_):
    assert unwrap(stored, header).type == type_


@pytest.mark.parametrize("type_", ["\x00", "a\ud800", "text/plain;\ufffe", "a" * 1000 + "\x01"])
def test_a_type_that_xml_cannot_carry_is_refused(type_):
    with pytest.raises(ValueError, match=r"the content type has the character U\+"):
        wrap(b"a", type_)


def test_long_types_are_not_kept():
    kept = content_type.remembered.cache_info().currsize
    for number in range(50):
        assert content_type.form_of(f"text/{'a' * content_type.KEPT}{number}") == "text"
    assert content_type.remembered.cache_info().currsize == kept


def test_every_wrapper_is_distinguished_from_other_xml():
    for tag in wrapper.WRAPPERS:
        space, _, name = tag[1:].partition("}")
        assert unwrap(f"<x:{name} xmlns:x='{space}'>1</x:{name}>".encode()).form != "xml"


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (b"x" * 3_000_000, None),
        (b"x" * 3_000_000, "text/plain"),
        (b'"%b"' % (b"x" * 3_000_000), "application/json"),
    ],
)
def test_a_large_body_is_unwrapped_without_another_copy(body, media):
    stored = wrap(body, media).xml
    tracemalloc.start()
    try:
        assert unwrap(stored).data == body
        assert tracemalloc.get_traced_memory()[1] < len(body) + 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("end", [b"", "\U0001f600".encode(), "\U0001f600".encode()[:3], b"\xff"])
def test_that_a_large_body_is_text_is_found_without_a_copy_of_it(end):
    body = b"x" * 2_000_000 + "\U0001f600".encode() * 20_000 + end
    tracemalloc.start()
    try:
        assert wrapper.is_utf8(body) is (end in {b"", "\U0001f600".encode()})
        assert tracemalloc.get_traced_memory()[1] < 600_000
    finally:
        tracemalloc.stop()


# --- in steps -------------------------------------------------------------------------------------


def stepped(stored, header=None):
    """Return what comes out in steps, and after how many pauses."""
    steps, pauses = unwrap_in_steps(stored, header), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


@pytest.mark.parametrize("size", [0, 1, STEP // 4 * 3, STEP // 4 * 3 + 1, STEP * 3])
@pytest.mark.parametrize("type_", [None, "image/png", "text/plain"])
def test_in_steps_the_same_comes_out(size, type_, monkeypatch):
    body = Random(size).randbytes(size)
    stored = wrap(body, type_)
    decoded, sizes = wrapper.decoded, []

    def counted(part):
        sizes.append(len(part))
        return decoded(part)

    monkeypatch.setattr(wrapper, "decoded", counted)
    found, pauses = stepped(stored.xml, stored.header)
    assert max(sizes, default=0) <= STEP
    assert pauses == max(0, len(sizes) - 1)
    assert found == unwrap(stored.xml, stored.header)
    assert found.data == body


@pytest.mark.parametrize(
    "text",
    [
        "A" * (STEP - 4) + "QQ==" + "QUJD",
        "A" * (STEP + 3),
        "A" * STEP + "\n" + "A" * 4,
        "A" * STEP + "<x/>",
        "A" * STEP + "&amp;",
    ],
    ids=["padded inside", "cut off", "with a line end", "with a child", "with an entity"],
)
def test_in_steps_what_is_not_base64_is_what_it_is_as_a_whole(text):
    stored = data(text, encoding="base64")
    assert stepped(stored)[0] == unwrap(stored)


@given(body=st.binary() | st.text().map(str.encode), type_=ANY_TYPE)
def test_in_steps_any_small_body_is_the_same(body, type_):
    try:
        stored = wrap(body, type_)
    except ValueError:
        return
    assert stepped(stored.xml, stored.header) == (unwrap(stored.xml, stored.header), 0)


def test_in_steps_what_others_have_written_is_parsed_in_steps():
    """A text with references is as long as its references, and has to be parsed."""
    text = '"' + "&lt;\u00e9" * (STEP // 4) + '"'
    stored = f"<json xmlns='{ns.JSON}'>{text}</json>".encode()
    found, pauses = stepped(stored)
    assert found == unwrap(stored)
    assert found.data == text.replace("&lt;", "<").encode()
    assert pauses == (len(stored) - 1) // STEP
