"""The descriptors and types are those of the `.proto` files, and stand beside those that other programs have."""

import subprocess
import sys

from google.pubsub_v1.types import PubsubMessage
from harness.documents.conformance import ROOT

from pubqueue.faces.grpc import tech, v1
from pubqueue.faces.grpc.wire import service
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
