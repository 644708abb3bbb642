"""From a body in JSON to a message, and the table of methods beside the discovery document that Google's client has."""

from __future__ import annotations

import json
from importlib import resources

import grpc
import pytest
from google.protobuf.message import Message
from grpc import StatusCode
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.faces.grpc import transcoding
from pubqueue.faces.grpc.statuses import CallError
from pubqueue.faces.grpc.transcoding import (
    HTTP,
    IDLE,
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_ELEMENTS,
    MAX_VALUES,
    NOT_SUPPORTED,
    ROWS,
    error,
    fields_of,
    message_of,
)
from pubqueue.faces.grpc.wire import tech as m

INVALID = grpc.StatusCode.INVALID_ARGUMENT


def outcome(read):
    """Return what is read, or the code of its refusal."""
    try:
        return read()
    except CallError as problem:
        return problem.code


@pytest.mark.parametrize(
    "body",
    [
        *(b"[]", b'"a"', b"7", b"null", b"{", b'{"a":1}x', b"NaN", b'{"a":NaN}', b'{"a":Infinity}'),
        *(b"\xff", b"\xef\xbb\xbf{}", '{"a":1}'.encode("utf-16"), b'{"a":1,"a":2}'),
        *(b"[" * 50_000, b'{"a":' * 50_000, b'{"a":' + b"[" * 50_000 + b"]" * 50_000 + b"}"),
        b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}",
        *(b"topic=a", b'{"\\ud800":1}', b'{"a":[{"\\udfff":1}]}'),
    ],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_object_is_refused(body):  # G48, G49
    assert outcome(lambda: fields_of(body)) is INVALID


def test_what_is_as_deep_as_protobuf_has_it_is_read():
    deep = b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1)
    assert list(fields_of(b'{"a":' + deep + b"}")) == ["a"]


@pytest.mark.parametrize("inner", [b"[],", b"{},", b"1,"])
def test_what_would_become_millions_of_objects_is_not_parsed(inner, monkeypatch):  # G48, G49
    monkeypatch.setattr(transcoding.json, "loads", None)
    body = b'{"a":[' + inner * MAX_ELEMENTS + b"[]]}"
    with pytest.raises(CallError, match=f"more than {MAX_ELEMENTS} commas and brackets"):
        fields_of(body)


def test_a_number_that_takes_long_is_not_read():  # G48, G49
    for digits, found in ((MAX_DIGITS, {"a": int("9" * MAX_DIGITS)}), (MAX_DIGITS + 1, INVALID)):
        assert outcome(lambda digits=digits: fields_of(b'{"a":' + b"9" * digits + b"}")) == found


def test_the_largest_batch_has_no_more_elements_than_are_parsed():  # G8, G49
    label = {"key": "a", "numValue": "1"}
    each = {"data": "", "label": [label] * MAX_VALUES["label"], "messageId": ""}
    body = json.dumps({"topic": "", "messages": [each] * MAX_VALUES["messages"]}).encode()
    assert fields_of(body)["messages"][-1] == each


def test_an_empty_body_is_an_empty_object():
    assert fields_of(b"") == fields_of(b" \n") == fields_of(b"{}") == {}


WRONG = [
    ({"topic": 7}, "topic"),
    ({"message": "secret"}, "message"),
    ({"message": ["secret"]}, "message"),
    ({"message": {"data": "secret!"}}, "message.data"),
    ({"message": {"data": "%%%%"}}, "message.data"),
    ({"message": {"data": "se=t"}}, "message.data"),
    ({"message": {"data": "s\u00e9cr"}}, "message.data"),
    ({"message": {"data": 7}}, "message.data"),
    ({"message": {"data": "secre"}}, "message.data"),
    ({"message": {"label": {"key": "secret"}}}, "message.label"),
    ({"message": {"label": ["secret"]}}, "message.label"),
    ({"message": {"label": [None]}}, "message.label"),
    ({"message": {"label": [{"key": "a", "numValue": "secret"}]}}, "message.label.numValue"),
    ({"message": {"label": [{"key": "a", "numValue": 2**63}]}}, "message.label.numValue"),
    ({"message": {"label": [{"key": "a", "numValue": 1.5}]}}, "message.label"),
    ({"message": {"label": [{"key": "a", "numValue": 1, "strValue": "secret"}]}}, "message.label"),
    ({"message": {"messageId": "\ud800secret"}}, "message.messageId"),
]


@pytest.mark.parametrize(("fields", "where"), WRONG, ids=lambda one: str(one)[:40])
def test_a_wrong_value_is_named_and_not_shown(fields, where):  # G45, G49
    with pytest.raises(CallError) as caught:
        message_of(fields, m.PublishRequest)
    assert caught.value.message == f"Invalid value at '{where}'."


def test_a_label_without_a_key_is_refused():
    """Such a message cannot even be measured."""
    with pytest.raises(CallError) as caught:
        message_of({"message": {"label": [{"numValue": "1"}]}}, m.PublishRequest)
    assert caught.value.code is StatusCode.INVALID_ARGUMENT
    assert caught.value.message == "A value is missing at 'message.label[0].key'."


def test_what_has_too_many_values_is_refused_before_it_is_converted():  # G8, G49
    for kind, name, where in (
        (m.PublishBatchRequest, "messages", "messages"),
        (m.AcknowledgeRequest, "ackId", "ack_id"),
    ):
        with pytest.raises(CallError, match=f"{name} has more than {MAX_VALUES[where]}"):
            message_of({name: [{}] * (MAX_VALUES[where] + 1)}, kind)


def test_both_forms_of_base64_and_of_names_are_read():
    fields = {"messages": [{"data": "_-8="}, {"data": "/+8="}, {"data": "_-8"}, {"data": None}]}
    found = message_of(fields, m.PublishBatchRequest)
    assert [one.data for one in found.messages] == [b"\xff\xef"] * 3 + [b""]
    assert list(message_of({"ack_id": ["a"]}, m.AcknowledgeRequest).ack_id) == ["a"]


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"color": {"red": [[]]}}, "Unknown name 'color'."),
        ({"message": {"attributes": {}}}, "Unknown name 'message.attributes'."),
        ({"message": {"messageId": "a", "message_id": "b"}}, "'message.messageId' occurs twice."),
    ],
)
def test_what_would_be_ignored_is_named(fields, where):  # G49
    with pytest.raises(CallError) as caught:
        message_of(fields, m.PublishRequest)
    assert (caught.value.code, caught.value.message) == (StatusCode.INVALID_ARGUMENT, where)


WORDS = st.sampled_from(
    [
        *sorted({field.json_name for row in ROWS.values() for field in row.kind.DESCRIPTOR.fields}),
        *("data", "label", "key", "numValue", "strValue", "messageId", "maxBytes", "pushEndpoint"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(WORDS, inner),
    max_leaves=10,
)


@given(st.sampled_from(list(ROWS.values())), st.dictionaries(WORDS, JSON))
def test_anything_is_a_message_or_invalid(row, fields):  # G48, G49
    found = outcome(lambda: message_of(fields, row.kind))
    assert found is INVALID or isinstance(found, Message)


@given(st.binary())
def test_any_body_is_an_object_or_invalid(body):  # G48, G49
    found = outcome(lambda: fields_of(body))
    assert found is INVALID or isinstance(found, dict)


DOCUMENT = json.loads(
    resources.files("googleapiclient.discovery_cache.documents")
    .joinpath("pubsub.v1beta1a.json")
    .read_text()
)
METHODS = {
    f"{resource}.{name}": method
    for resource, part in DOCUMENT["resources"].items()
    for name, method in part["methods"].items()
}
ADDED = {("ModifyAckDeadlineRequest", "ackIds"), ("PubsubMessage", "publishTime")}
OTHERS = {"PubsubClientTelemetry", "PublishOperation", "Empty"}
"""Schemas of the document that no method has."""


def test_each_parameter_of_all_methods_is_refused_or_cannot_matter():  # G49
    assert not IDLE & set(NOT_SUPPORTED)
    assert set(DOCUMENT["parameters"]) <= IDLE | set(NOT_SUPPORTED)


def test_the_methods_are_those_of_the_document():  # G49
    documented = {
        (
            method["httpMethod"],
            method["path"]
            .removeprefix("v1beta1a/")
            .replace("{+topic}", "{name}")
            .replace("{+subscription}", "{name}"),
        ): name
        for name, method in METHODS.items()
    }
    assert {key: row.word for key, row in ROWS.items()} == documented
    assert len(ROWS) == 15


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.word)
def test_requests_are_those_of_the_document(row):  # G49
    method = METHODS[row.word]
    if "request" in method:
        assert row.kind.DESCRIPTOR.name == method["request"]["$ref"]
    fields = {field.json_name for field in row.kind.DESCRIPTOR.fields}
    assert set(method.get("parameters", {})) <= fields
    assert ([row.field] if row.field else []) == method.get("parameterOrder", [])


@pytest.mark.parametrize("name", sorted(set(DOCUMENT["schemas"]) - OTHERS))
def test_fields_are_those_of_the_document(name):  # G49
    kind = getattr(m, name)
    fields = {field.json_name: field for field in kind.DESCRIPTOR.fields}
    for wanted, schema in DOCUMENT["schemas"][name].get("properties", {}).items():
        if (name, wanted) not in ADDED:
            assert fields[wanted].is_repeated == (schema.get("type") == "array")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/topics//topics/shop/orders", "topics/shop/orders"),
        ("/topics/topics/shop/orders", "topics/shop/orders"),
        ("//topics///topics/shop/orders/", "topics/shop/orders"),
        ("/topics/projects/shop/topics/orders", "projects/shop/topics/orders"),
        ("/topics/%2Ftopics%2Fshop%2Forders", "topics/shop/orders"),
        ("/topics/topics/example.com%3Ashop/orders", "topics/example.com:shop/orders"),
        ("/topics/topics/xmpp/a%2Fb", "topics/xmpp/a%2Fb"),
        ("/topics/topics/shop/a%41b", "topics/shop/a%41b"),
        ("/topics/%ff", "\ufffd"),
    ],
)
def test_a_name_in_a_path(path, name):  # G2, G49
    row, named = transcoding.find("GET", path)
    assert (row.word, named) == ("topics.get", {"topic": name})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/"),
        ("GET", "/snapshots"),
        ("PUT", "/topics"),
        ("HEAD", "/topics"),
        ("POST", "/topics/nonsense"),
        ("POST", "/topics/topics/shop/orders"),
        ("DELETE", "/topics"),
        ("GET", "/{name}"),
    ],
)
def test_what_is_no_method(method, path):  # G49
    assert transcoding.find(method, path) is None


def test_a_word_of_a_method_is_a_name_where_names_are():
    row, named = transcoding.find("GET", "/topics/publish")
    assert (row.word, named) == ("topics.get", {"topic": "publish"})


def test_each_code_has_one_of_http():  # G45, G49
    assert HTTP.keys() == set(grpc.StatusCode)
    assert error(grpc.StatusCode.NOT_FOUND, "a") == {
        "error": {"code": 404, "message": "a", "status": "NOT_FOUND"}
    }
