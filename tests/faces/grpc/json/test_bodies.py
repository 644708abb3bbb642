"""From a body to a message: what is read, what is refused, and that a refusal shows nothing of what was sent."""

from __future__ import annotations

import json

import grpc
import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.faces.grpc import transcoding
from pubqueue.faces.grpc.statuses import CallError
from pubqueue.faces.grpc.transcoding import (
    MAX_DIGITS,
    MAX_ELEMENTS,
    MAX_VALUES,
    ROWS,
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
        *(b"topic=a", b'{"\\ud800":1}', b'{"a":[{"\\udfff":1}]}'),
    ],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_object_is_refused(body):  # G48, G49
    assert outcome(lambda: fields_of(body)) is INVALID


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


def test_what_has_too_many_values_is_refused_before_it_is_converted():  # G8, G49
    for kind, name, where in (
        (m.PublishBatchRequest, "messages", "messages"),
        (m.AcknowledgeRequest, "ackId", "ack_id"),
    ):
        with pytest.raises(CallError, match=f"{name} has more than {MAX_VALUES[where]}"):
            message_of({name: [{}] * (MAX_VALUES[where] + 1)}, kind)


def test_both_forms_of_base64_and_of_names_are_read():
    fields = {"messages": [{"data": "_-8="}, {"data": "/+8="}, {"data": "_-8"}, {"data": None}]}
    found = message_of({**fields, "color": {"red": [[]]}}, m.PublishBatchRequest)
    assert [one.data for one in found.messages] == [b"\xff\xef"] * 3 + [b""]
    assert list(message_of({"ack_id": ["a"]}, m.AcknowledgeRequest).ack_id) == ["a"]


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
