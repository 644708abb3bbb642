"""The descriptors and types are those of the `.proto` files, and stand beside those that other programs have."""

import subprocess
import sys

import pytest
from google.pubsub_v1.types import PubsubMessage
from grpc import StatusCode
from harness.documents.conformance import ROOT

from pubqueue.faces.grpc import tech, v1
from pubqueue.faces.grpc.statuses import CallError
from pubqueue.faces.grpc.wire import FIELDS, check_fields, class_of, service
from pubqueue.faces.grpc.wire import v1 as ours


def test_the_descriptors_and_types_are_those_of_the_files():
    done = subprocess.run(
        [sys.executable, "-I", ROOT / "tools" / "protos", "--check"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"run .venv/bin/python -I tools/protos: {done.stdout}"


def test_messages_of_googles_package_and_ours_understand_each_other():
    theirs = PubsubMessage(data=b"a", attributes={"k": "v"}, ordering_key="o")
    read = ours.PubsubMessage.FromString(PubsubMessage.serialize(theirs))
    assert (read.data, dict(read.attributes), read.ordering_key) == (b"a", {"k": "v"}, "o")
    assert PubsubMessage.deserialize(read.SerializeToString()) == theirs


def test_each_rpc_has_a_row_and_no_row_is_of_another():
    for one in (*tech.SERVICES, *v1.SERVICES):
        rows = one.unary.keys() | one.streaming.keys()
        assert rows == set(service(one.name).methods_by_name), one.name
        assert not one.unary.keys() & one.streaming.keys()


def requests():
    """Return the descriptors of the requests of all rpcs that are supported."""
    for one in (*tech.SERVICES, *v1.SERVICES):
        methods = service(one.name).methods_by_name
        for name, row in (*one.unary.items(), *one.streaming.items()):
            if not row.__qualname__.startswith("refused."):
                yield methods[name].input_type


def test_each_field_of_each_request_is_honoured_refused_or_cannot_matter():  # G37
    found, waiting = set(), {one.full_name: one for one in requests()}
    resources = {"message", "messages", "topic", "subscription"}  # compared by those who read them
    while waiting:
        name, kind = waiting.popitem()
        found.add(name)
        listed = FIELDS[name]
        tables = (listed.honoured, listed.idle, listed.refused)
        assert sorted(field for table in tables for field in table) == sorted(
            kind.fields_by_name
        ), name
        assert listed.inner <= listed.honoured
        for field in kind.fields:
            inner = field.message_type
            if inner is None or field.name not in listed.honoured:
                continue
            is_listed = inner.full_name in FIELDS
            assert is_listed is (field.name in listed.inner or field.name in resources), field.name
            if is_listed and inner.full_name not in found:
                waiting[inner.full_name] = inner
    assert found == set(FIELDS)


def refused_fields():
    for name, listed in FIELDS.items():
        for field in sorted(listed.refused):
            yield name, field


@pytest.mark.parametrize(("name", "field"), sorted(refused_fields()))
def test_a_refused_field_is_named(name, field):  # G37
    message = class_of(name)()
    one = message.DESCRIPTOR.fields_by_name[field]
    if one.message_type is None:
        setattr(message, field, "x")
    elif one.is_repeated and not one.message_type.GetOptions().map_entry:
        getattr(message, field).add()
    elif one.is_repeated:
        getattr(message, field)["a"] = "b"
    else:
        getattr(message, field).SetInParent()
    with pytest.raises(CallError, match=field) as problem:
        check_fields(message)
    assert problem.value.code is StatusCode.UNIMPLEMENTED
