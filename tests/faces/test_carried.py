"""Whatever a name, a header or a payload is: each protocol, the library and Spark carry it as it is, or refuse it. None changes it.

What the library and Spark send passes through a server here as Prosody passes it on: it reads references, and writes only `&<>'"` as such.
"""

import itertools
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from faces.stomp.streams import read as stomp_frames
from faces.xmpp.parse.reading_of import HEADER
from harness.batches.facts import NOW
from harness.depth import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import MapType, StringType, StructField, StructType

from pubqueue.engine.table import RULES
from pubqueue.faces.grpc.statuses import CallError
from pubqueue.faces.grpc.wire import StoredMessage, draft_of, message_of
from pubqueue.faces.http.problems import ProblemError
from pubqueue.faces.rest import items as rest
from pubqueue.faces.stomp import frames
from pubqueue.faces.stomp.codec import V10, V11, V12, VERSIONS, Frame, Side, write
from pubqueue.faces.stomp.refusals import Problem
from pubqueue.faces.xmpp.parse.iq import Iq
from pubqueue.faces.xmpp.requests import VERBS, find
from pubqueue.faces.xmpp.stream.reader import StreamParser
from pubqueue.faces.xmpp.xml.payload import render
from pubqueue.faces.xmpp.xml.refusals import StanzaError
from pubqueue.model.entities import Draft, Item, ItemId, Jid, NodeName, Principal, State
from pubqueue.model.notices import Deliver
from pubqueue.rules.publication import Publish
from pubqueue_spark.write.forms import form
from pubqueue_spark.write.rows import Rows, Unfit
from pubqueue_spark.write.schema import Columns
from pubqueue_xeps.client.publications import request
from pubqueue_xeps.wire.names import ILLEGAL, NOT_CARRIED, is_clean
from pubqueue_xeps.wire.payloads.decoding import decode, header_of, of_element
from pubqueue_xeps.wire.publication import NewItem

ODD = st.sampled_from(
    "\t\n\r\0\x01\x0b\x1f\x7f\x80\x85\x9f\xa0\u200b\u200c\u200d\u202e\u2028\u2029\u3000\ufeff\ufdd0\ufffe\uffff\U0001fffe"
    "\U0001fae8\ud800\udfff\u0301\u212b\u00c5 &<>'\"%:\\,;=/@#"
)
PIECES = st.sampled_from(["\t", "\n", "\r", " ", "a", ":", "%41", "%", "\\", "&#10;", "é"])
TEXTS = st.lists(PIECES, max_size=4).map("".join) | st.text(st.characters() | ODD, max_size=8)
NAMES = TEXTS.filter(bool)
CLEAN = NAMES.filter(is_clean)
HEADERS = st.dictionaries(NAMES, TEXTS, max_size=3)
TYPES = st.none() | st.sampled_from(
    ["text/plain", "application/json", "application/xml", "image/svg+xml", "text/csv;charset=utf-8"]
)
WELL_FORMED = st.sampled_from(
    [
        b"<a xmlns='x' b='1&#10;2'/>",
        b"<a xmlns='x' b='1&#9;2'>c</a>",
        b"<a xmlns='x'>b&#13;c</a>",
        b"<a xmlns='x' b='1\n2'>c\r\nd</a>",
        b"<a xmlns='x'>b&#x41;</a>",
        b"<a xmlns='x'>b&#xD;</a>",
    ]
)
BODIES = (
    st.binary(max_size=12)
    | TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass"))
    | WELL_FORMED
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
OFTEN = settings(max_examples=examples(80))


def through_a_server(inner):
    """Return the same XML as a server writes it."""

    def written(element):
        space, _, name = element.tag[1:].partition("}")
        attributes = [f"xmlns='{space}'"]
        for number, (key, value) in enumerate(element.items()):
            of, _, own = key[1:].partition("}") if key[0] == "{" else ("", "", key)
            attributes += (
                [f"xmlns:n{number}='{of}' n{number}:{own}='{escaped(value)}'"]
                if of
                else [f"{own}='{escaped(value)}'"]
            )
        text = escaped(element.text or "")
        inside = "".join(written(child) + escaped(child.tail or "") for child in element)
        return f"<{name} {' '.join(attributes)}>{text}{inside}</{name}>"

    return written(ET.fromstring(f"<iq xmlns='jabber:component:accept' type='set'>{inner}</iq>"))


def is_legal(text):
    return ILLEGAL.search(text) is None


def escaped(text):
    for mark, reference in (("&", "amp"), ("<", "lt"), (">", "gt"), ("'", "apos"), ('"', "quot")):
        text = text.replace(mark, f"&{reference};")
    return text


def read_of(inner):
    """Return the request that the service reads, and how it is refused, if it is."""
    (stanza,) = StreamParser().feed(HEADER + through_a_server(inner).encode())
    ids = itertools.count(1)
    read = find(VERBS, "set", stanza.top.children[0]).read(
        Iq(stanza, Principal(Jid("bee@x/one")), lambda: f"new-{next(ids)}")
    )
    assert not isinstance(read, StanzaError), read
    assert isinstance(read, Publish)
    return read, RULES[Publish].fault(read)


def item_of(draft, node="jobs"):
    return Item(
        *(1, NodeName(node), draft.id, State.QUEUED, Jid("etl@x"), NOW),
        headers=draft.headers,
        group=draft.group,
    )


def body_of(draft):
    """Return the body and its type as a worker of the library has them, after another server."""
    inner = through_a_server(draft.payload.decode())
    return of_element(ET.fromstring(inner)[0], header_of(dict(draft.headers)))


def without_type(headers):
    return {name: value for name, value in headers if name.lower() != "content-type"}


# --- the library ----------------------------------------------------------------------------------


@OFTEN
@given(NAMES, NAMES, st.none() | NAMES, HEADERS)
def test_the_library_carries_names_and_headers(node, name, group, headers):
    try:
        _, question = request(
            node, NewItem(payload=1, id=name, group=group, headers=headers), 99_999, ""
        )
    except ValueError:
        return
    read, fault = read_of(question.inner)
    (draft,) = read.drafts
    assert fault is None
    assert (read.node, draft.id, draft.group) == (node, name, group or "")
    assert dict(draft.headers) == headers


@OFTEN
@given(VALUES)
def test_the_library_carries_json(value):
    try:
        _, question = request("jobs", NewItem(payload=value, id="i"), 99_999, "")
    except ValueError:
        return
    (draft,) = read_of(question.inner)[0].drafts
    found = decode(ET.fromstring(through_a_server(draft.payload.decode()))[0], type(value))
    assert repr(found) == repr(value) or found == value


@OFTEN
@given(BODIES, TYPES)
def test_the_library_carries_bodies_and_their_types(body, type_):
    if type_ is None:
        return
    try:
        _, question = request("jobs", NewItem(payload=body, id="i", type=type_), 99_999, "")
    except ValueError:
        return
    (draft,) = read_of(question.inner)[0].drafts
    found = body_of(draft)
    assert found.type == type_
    assert same_body(found, body)


def same_body(found, body):
    """Return whether a body is the same; one that was stored as an element is the same element."""
    return found.data == body or (found.form == "xml" and canonical(found.data) == canonical(body))


def canonical(text):
    return ET.canonicalize(text.decode())


@OFTEN
@given(TEXTS, TEXTS)
def test_the_library_carries_elements(text, attribute):
    element = ET.Element("{x}job", nr=attribute)
    element.text = text
    try:
        _, question = request("jobs", NewItem(payload=element, id="i"), 99_999, "")
    except ValueError:
        return
    (draft,) = read_of(question.inner)[0].drafts
    found = ET.fromstring(through_a_server(draft.payload.decode()))[0]
    assert (found.get("nr"), found.text or "") == (attribute, text)


# --- Spark ----------------------------------------------------------------------------------------

STRUCT = StructType(
    [StructField("a", StringType()), StructField("b", MapType(StringType(), StringType()))]
)
COLUMNS = {"item_id": 1, "node": 2, "headers": 3}


def rows(kind, wanted):
    return Rows(Columns(0, kind, **COLUMNS), form(kind, wanted), None, "run", 3)


@OFTEN
@given(TEXTS, NAMES, NAMES, HEADERS)
def test_spark_carries_rows_of_text(text, name, node, headers):
    made = rows(StringType(), "text")
    try:
        item = made.item(7, (text, name, node, headers))
    except Unfit:
        return
    read, fault = read_of(made.publish([item]).body.decode().removesuffix("</iq>"))
    (draft,) = read.drafts
    assert fault is None
    assert (read.node, draft.id, dict(draft.headers)) == (node, name, headers)
    assert body_of(draft).data.decode() == text


@OFTEN
@given(TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=3))
def test_spark_carries_rows_of_json(text, more):
    made = rows(STRUCT, "auto")
    try:
        item = made.item(7, ((text, more), "i", "jobs", None))
    except Unfit:
        return
    (draft,) = read_of(made.publish([item]).body.decode().removesuffix("</iq>"))[0].drafts
    found = decode(ET.fromstring(through_a_server(draft.payload.decode()))[0], dict)
    assert found == {"a": text, "b": more}


@OFTEN
@given(TEXTS, TEXTS)
def test_spark_carries_rows_of_xml(text, attribute):
    element = ET.Element("{x}job", nr=attribute)
    element.text = text
    try:
        whole = ET.tostring(element, encoding="unicode")
        made = rows(StringType(), "xml")
        item = made.item(7, (whole, "i", "jobs", None))
    except (Unfit, UnicodeEncodeError):
        return
    (draft,) = read_of(made.publish([item]).body.decode().removesuffix("</iq>"))[0].drafts
    found = ET.fromstring(through_a_server(draft.payload.decode()))[0]
    sent = ET.fromstring(whole)
    assert (found.get("nr"), found.text) == (sent.get("nr"), sent.text)


# --- workers over XMPP ----------------------------------------------------------------------------


@example([("h", "a\rb"), ("k", "c\nd"), ("h", "e")])
@example([("a,b", "\r"), (NOT_CARRIED, "mine"), ("a", "x"), ("b", "y")])
@OFTEN
@given(st.lists(st.tuples(CLEAN, TEXTS.filter(is_legal)), max_size=3))
def test_headers_of_other_protocols_reach_workers_over_xmpp(headers):
    (element,) = ET.fromstring(through_a_server(render(tuple(headers)) or "<headers/>"))
    found = [(child.get("name"), child.text or "") for child in element]
    left_out = [name for name, value in headers if "\r" in value or name == NOT_CARRIED]
    if left_out:
        name, value = found.pop()
        assert (name, [unquote(one) for one in value.split(",")]) == (NOT_CARRIED, left_out)
    assert found == [one for one in headers if "\r" not in one[1] and one[0] != NOT_CARRIED]


# --- STOMP, REST and gRPC -------------------------------------------------------------------------


@example(("jobs", "i", "g"), {"h": "a\nb", "k": " x", "n:,%": "y"}, b"x", None, V10)
@example(("jobs", "i", "g"), {"h": "a\nb\rc", "k": " x"}, b"x", None, V11)
@OFTEN
@given(
    st.tuples(CLEAN, CLEAN, CLEAN),
    st.dictionaries(CLEAN, TEXTS, max_size=3),
    BODIES,
    TYPES,
    st.sampled_from([*VERSIONS.values()]),
)
def test_stomp_carries_messages(names, headers, body, type_, version):
    node, name, group = names
    given_ = {n: v for n, v in headers.items() if n not in frames.ROWS and n not in frames.SERVERS}
    own = {"destination": f"/queue/{node}", "item-id": name, "group": group, **given_}
    own |= {} if type_ is None else {"content-type": type_}
    try:
        written = write(Frame("SEND", own, body), V12)
    except UnicodeEncodeError:
        return  # no client can write it
    (frame,) = stomp_frames([written], V12, Side.CLIENT)
    if not isinstance(frame, Frame):
        return
    sent = frames.sent(frame, lambda: "new", NOW)
    if isinstance(sent, Problem) or NOT_CARRIED in frame.headers:
        return
    if RULES[Publish].fault(Publish(Principal(Jid("bee@x")), NodeName(sent.node), (sent.draft,))):
        return
    notice = Deliver(Jid("bee@x/one"), item_of(sent.draft, sent.node), sent.draft.payload)
    (found,) = stomp_frames(
        [write(frames.of_delivery(notice, "1", None), version)], version, Side.SERVER
    )
    left_out = [unquote(one) for one in found.headers.pop(NOT_CARRIED, "").split(",")]
    if version is V10 and node != node.strip():
        del found.headers["destination"]  # it has to be there, and readers of 1.0 cut it
        left_out.append("destination")
    expected = {"destination": f"/queue/{node}", "item-id": name, "group": group, **given_}
    for header, value in expected.items():
        if header in found.headers:
            assert found.headers[header] == value
        else:
            assert header in left_out
    assert found.body == body
    assert found.headers.get("content-type") == type_


@OFTEN
@given(CLEAN, CLEAN, st.dictionaries(CLEAN, TEXTS, max_size=3), BODIES, TYPES)
def test_rest_carries_messages(name, group, headers, body, type_):
    sent = [("Message-Id", name), ("Message-Group", group)]
    try:
        sent = [(n, rest.encoded(v)) for n, v in sent]
        sent += [row for n, v in headers.items() for row in rest.fields_for(f"x{n}", v, str)]
        wishes = rest.wishes_of([*sent, *([] if type_ is None else [("Content-Type", type_)])])
        draft = rest.draft_of(wishes, body, lambda: "new", lambda _: None)
    except (ProblemError, UnicodeEncodeError):
        return
    assert dict(draft.headers).items() >= {f"x{n}": v for n, v in headers.items()}.items()
    assert (draft.id, draft.group) == (name, group)
    if RULES[Publish].fault(Publish(Principal(Jid("bee@x")), NodeName("jobs"), (draft,))):
        return
    item = item_of(draft)
    again = rest.wishes_of(rest.headers_of(item, str))
    assert (again.id, again.group) == (name, group)
    found = {n: v for n, v in again.kept if n.startswith("x")}
    assert found == {f"x{n}": v for n, v in headers.items()}
    kind, data = rest.body_of(item, draft.payload)
    assert (kind, data) == (type_ or rest.UNTYPED, body)


@OFTEN
@given(HEADERS, TEXTS, BODIES, TYPES)
def test_grpc_carries_messages(attributes, key, body, type_):
    attributes = {n: v for n, v in attributes.items() if not n.startswith("x-pubqueue-")}
    attributes |= {} if type_ is None else {"content-type": type_}
    try:
        draft = draft_of(StoredMessage(body, attributes, key), ItemId("i"))
    except CallError:
        return
    found = message_of(draft.payload, draft.headers)
    assert (found.data, found.attributes, found.ordering_key) == (body, attributes, key)
    assert isinstance(draft, Draft)
