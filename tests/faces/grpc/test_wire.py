"""Names, ack ids, data and attributes: each is what it was, and none can be feigned."""

from base64 import urlsafe_b64encode
from xml.etree import ElementTree as ET

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.faces.grpc.statuses import CallError
from pubqueue.faces.grpc.wire import (
    MAX_BRIDGED,
    NUMBERS,
    ORDERING,
    BadNameError,
    ResourceKind,
    StoredMessage,
    ack_id,
    draft_of,
    group_of,
    is_bridged,
    lock_of,
    message_of,
    name_of,
    node_of,
    of_tech,
    project_of,
    to_tech,
)
from pubqueue.model.entities import Item, State, account_of
from pubqueue.rules.settle_each import LockName

NODES = st.text(st.characters(exclude_categories=("C",)), min_size=1, max_size=60)
OWN = st.from_regex(
    r"projects/[a-z0-9][a-z0-9.:-]{0,9}/(topics|subscriptions)/[A-Za-z%~+._-]{1,9}\Z"
)


@given(NODES | OWN, st.sampled_from(ResourceKind))
def test_a_node_has_one_name_of_each_kind_and_the_name_leads_back(node, kind):  # G44
    name = name_of(node, kind)
    if len(name.split("/", 3)[3]) <= MAX_BRIDGED:
        assert node_of(name, kind) == node
    assert of_tech(to_tech(name, kind), kind) == name


@pytest.mark.parametrize("kind", ResourceKind)
def test_names_at_their_bounds(kind):  # G2
    for project in ("p", "0", "a" * 63, "p-1.x:y"):
        for own in ("abc", "a" * 255, "Ab0-_.~+%"):
            name = f"projects/{project}/{kind}/{own}"
            assert node_of(name, kind) == name
            assert name_of(name, kind) == name
            assert not is_bridged(name)
            assert project_of(name) == project


@pytest.mark.parametrize("kind", ResourceKind)
@pytest.mark.parametrize(
    "own", ["ab", "a" * 256, "1abc", "googabc", "a/bc", "a bc", "abc\n", "äbc", "", "a#c"]
)
def test_what_is_no_name(kind, own):  # G2
    with pytest.raises(BadNameError):
        node_of(f"projects/shop/{kind}/{own}", kind)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "orders",
        "projects/shop",
        "projects/Shop/topics/orders",
        "projects/-shop/topics/orders",
        f"projects/{'a' * 64}/topics/orders",
        "projects/shop/subscriptions/orders",
        "/topics/shop/orders",
        "projects/xmpp/topics/",
        "projects/xmpp/topics/a b",
        "projects/xmpp/topics/%61",
        "projects/xmpp/topics/%2f",
        "projects/xmpp/topics/%FF",
        f"projects/xmpp/topics/{'a' * 256}",
        "projects/xmpp/topics/projects%2Fshop%2Ftopics%2Forders",
    ],
)
def test_what_is_no_name_of_a_topic(name):  # G2
    with pytest.raises(BadNameError):
        node_of(name, ResourceKind.TOPIC)


def test_the_bridge_has_the_nodes_without_a_name_of_their_own():  # G44
    assert node_of("projects/xmpp/topics/jobs", ResourceKind.TOPIC) == "jobs"
    assert (
        node_of("projects/xmpp/subscriptions/replies%2Fa%40b", ResourceKind.SUBSCRIPTION)
        == "replies/a@b"
    )
    own = "projects/xmpp/topics/a"
    assert name_of(own, ResourceKind.TOPIC) == "projects/xmpp/topics/projects%2Fxmpp%2Ftopics%2Fa"


def test_forms_of_tech():
    assert of_tech("/topics/shop/orders", ResourceKind.TOPIC) == "projects/shop/topics/orders"
    assert of_tech("shop/bill", ResourceKind.SUBSCRIPTION) == "projects/shop/subscriptions/bill"
    assert (
        of_tech("/subscriptions/shop/bill", ResourceKind.SUBSCRIPTION)
        == "projects/shop/subscriptions/bill"
    )
    assert (
        of_tech("projects/shop/topics/orders", ResourceKind.TOPIC) == "projects/shop/topics/orders"
    )
    assert of_tech("shop/orders", ResourceKind.TOPIC) == "shop/orders", "of subscriptions alone"
    assert of_tech("/topics/shop/orders", ResourceKind.SUBSCRIPTION) == "/topics/shop/orders"


NAMES = st.text(st.characters(exclude_categories=("C",)), min_size=1, max_size=20)
HOLDERS = st.builds("etl@queue.x{}".format, st.just("") | NAMES.map("/{}".format))


def item(name, token, holder):
    return Item(1, "jobs", name, State.LOCKED, "etl@queue.x", 0, holder=holder, token=token)


@given(NAMES, st.integers(0, 2**62), HOLDERS)
def test_an_ack_id_leads_back_to_its_lock(name, token, holder):  # G22
    text = ack_id(item(name, token, holder))
    assert text.isascii()
    assert lock_of(text, account_of(holder)) == LockName(name, token, holder)


@given(NAMES, st.integers(0, 2**62), HOLDERS)
def test_to_another_account_it_is_worthless(name, token, holder):  # G22
    assert lock_of(ack_id(item(name, token, holder)), "bee@queue.x") is None


@given(st.text() | st.binary().map(lambda data: urlsafe_b64encode(data).decode()))
def test_any_text_is_an_ack_id_or_none(text):  # G21
    found = lock_of(text, "etl@queue.x")
    assert found is None or account_of(found.holder) == "etl@queue.x"


def test_a_text_that_is_too_long_is_none():
    long = urlsafe_b64encode(msgspec.msgpack.encode(["a" * 9_000, 1, "etl@queue.x", ""])).decode()
    assert lock_of(long, "etl@queue.x") is None


def test_a_token_that_is_no_number_is_none():
    wrong = urlsafe_b64encode(msgspec.msgpack.encode(["a", -1, "etl@queue.x", ""])).decode()
    assert lock_of(wrong, "etl@queue.x") is None


TYPES = st.sampled_from(
    ["application/json", "application/xml", "text/plain", "image/png", "a/b+xml", "", "nonsense"]
)
SAFE = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=20)
DATA = st.binary(max_size=200) | st.sampled_from(
    [
        b"",
        b"<a xmlns='b'/>",
        b"<a/>",
        b'{"a": 1}',
        b"a\r\nb",
        bytes(range(256)),
        b"<?xml version='1.0'?><a xmlns='b'/>",
    ]
)


@given(DATA, st.none() | TYPES, st.dictionaries(SAFE, SAFE, max_size=5), SAFE | st.just(""))
def test_what_goes_in_comes_out(data, kind, attributes, key):  # G9, G11
    attributes = {
        name: value for name, value in attributes.items() if not name.startswith("x-pubqueue-")
    }
    if kind is not None:
        attributes["content-type"] = kind
    message = StoredMessage(data, attributes, key)
    draft = draft_of(message, "1")
    assert ET.fromstring(draft.payload).tag.startswith("{")
    assert message_of(draft.payload, draft.headers) == message


@pytest.mark.parametrize(
    ("stored", "data", "kind"),
    [
        (b"<json xmlns='urn:xmpp:json:0'>{\"a\":1}</json>", b'{"a":1}', "application/json"),
        (b"<data xmlns='urn:x-pubqueue:data:0'>a</data>", b"a", None),
        (
            b"<data xmlns='urn:x-pubqueue:data:0' type='a/b' encoding='base64'>AP8=</data>",
            b"\0\xff",
            "a/b",
        ),
        (
            b"<data xmlns='urn:x-pubqueue:data:0' encoding='base64'>!</data>",
            b"<data xmlns='urn:x-pubqueue:data:0' encoding='base64'>!</data>",
            "application/xml",
        ),
        (b"<a xmlns='b'/>", b"<a xmlns='b'/>", "application/xml"),
    ],
)
def test_what_comes_over_xmpp(stored, data, kind):  # G10
    found = message_of(stored, ())
    assert found.data == data
    assert found.attributes.get("content-type") == kind


@pytest.mark.parametrize(
    ("data", "kind", "stored"),
    [
        (b'{"a":1}', "application/json", b"<json xmlns='urn:xmpp:json:0'>{\"a\":1}</json>"),
        (b"<a xmlns='b'/>", "application/xml", b"<a xmlns='b'/>"),
        (b"a", "text/plain", b"<data xmlns='urn:x-pubqueue:data:0' type=\"text/plain\">a</data>"),
        (b"a", None, b"<data xmlns='urn:x-pubqueue:data:0' encoding='base64'>YQ==</data>"),
        (b"", None, b"<data xmlns='urn:x-pubqueue:data:0' encoding='base64'></data>"),
    ],
)
def test_what_is_stored(data, kind, stored):  # G10
    attributes = {} if kind is None else {"content-type": kind}
    assert draft_of(StoredMessage(data, attributes), "1").payload == stored


def test_a_header_that_comes_twice_is_joined():  # G10
    assert message_of(b"", (("a", "1"), ("b", "2"), ("a", "3"))).attributes == {
        "a": "1, 3",
        "b": "2",
    }


def test_headers_of_the_service_are_not_shown():
    found = message_of(
        b"", ((NUMBERS, "n m"), (ORDERING, "k"), ("x-pubqueue-other", "1"), ("a", "b"))
    )
    assert found == StoredMessage(b"", {"a": "b"}, "k", frozenset({"n", "m"}))


@pytest.mark.parametrize(
    "attributes",
    [
        {"x-pubqueue-key": "feigned"},
        {"": "a"},
        {"a": "\0"},
        {"a\0": "b"},
        {"a" * 257: "b"},
        {"a": "b" * 1_025},
        {f"a{n}": "" for n in range(101)},
    ],
)
def test_what_cannot_be_carried_is_refused(attributes):
    with pytest.raises(CallError):
        draft_of(StoredMessage(b"a", attributes), "1")


@pytest.mark.parametrize("key", ["a\0b", "k" * 1_025])
def test_an_ordering_key_that_cannot_be_carried_is_refused(key):
    with pytest.raises(CallError):
        draft_of(StoredMessage(b"a", {}, key), "1")


def test_a_key_is_the_group_or_its_digest():  # G33
    assert group_of("") == ""
    assert group_of("k" * 255) == "k" * 255
    for key in ("k" * 256, "a\tb"):
        assert group_of(key).startswith("sha256:")
    assert group_of("a\tb") != group_of("a\tc")
