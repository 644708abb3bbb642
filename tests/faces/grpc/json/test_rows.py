"""The table of methods beside the discovery document that Google's client has, and the codes of HTTP."""

from __future__ import annotations

import json
from importlib import resources

import grpc
import pytest

from pubqueue.faces.grpc import transcoding
from pubqueue.faces.grpc.transcoding import HTTP, ROWS, error
from pubqueue.faces.grpc.wire import tech as m

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
