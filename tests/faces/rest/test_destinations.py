"""Destinations: links are found there, and nothing else of the service has to be known."""

import pytest
from faces.rest.clients import client, follow, links
from faces.sides import RIGHT

QUEUE = {"post-message", "message-factory", "poller", "consumer"}
TOPIC = {"post-message", "message-factory", "first", "last", "next"}


@pytest.mark.parametrize(("path", "rels"), [("/queues/jobs", QUEUE), ("/topics/news", TOPIC)])
async def test_a_destination_has_absolute_links_by_get_and_head(rest, path, rels):  # R01, R35
    etl = await rest.as_()
    got, head = await etl.get(path), await etl.head(path)
    assert got.status_code == head.status_code == 200
    assert rels <= links(got).keys()
    assert links(got) == links(head) == got.json()["links"]
    assert links(got).pop("service-desc") == rest.root + "/openapi.json"
    others = [url for rel, url in links(got).items() if rel != "service-desc"]
    assert all(url.startswith(rest.root + path) for url in others)
    assert head.content == b""


@pytest.mark.parametrize("path", ["/queues/none", "/topics/jobs", "/queues/news", "/none", "/%FF"])
async def test_there_is_nothing_elsewhere(rest, path):  # R01
    etl = await rest.as_()
    answer = await etl.get(path)
    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "application/problem+json"


async def test_a_destination_is_created_once_and_deleted(rest):  # R34
    etl, path = await rest.as_(), "/queues/new%2Fone%3B"
    form = {"x-queueing#lock_timeout": "30"}
    made = await etl.put(path, json=form)
    assert (made.status_code, made.headers["Location"]) == (201, rest.root + path)
    assert (await etl.put(path, json=form)).status_code == 200
    assert (await etl.put(path)).status_code == 200
    differs = await etl.put(path, json={"x-queueing#lock_timeout": "31"})
    assert (differs.status_code, differs.json()["type"].rpartition(":")[2]) == (409, "differs")
    assert (await etl.put(path.replace("queues", "topics"))).status_code == 409
    assert (await etl.get(path)).json()["name"] == "new/one;"
    assert (await (await rest.as_("bee")).delete(path)).status_code in {403, 404}
    assert (await etl.delete(path)).status_code == 204
    assert (await etl.get(path)).status_code == 404


async def test_a_topic_is_created(rest):  # R34
    etl = await rest.as_()
    assert (await etl.put("/topics/new", json={"pubsub#title": "News"})).status_code == 201
    assert (await etl.get("/topics/new")).json()["kind"] == "topic"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[]", 400),
        (b'{"pubsub#nothing": "1"}', 400),
        (b'{"x-queueing#lock_timeout": "no"}', 400),
        (b'{"a": {}}', 400),
    ],
)
async def test_a_form_with_an_error_makes_nothing(rest, body, status):  # R34
    etl = await rest.as_()
    assert (await etl.put("/queues/new", content=body)).status_code == status
    assert (await etl.get("/queues/new")).status_code == 404


async def test_messages_are_acknowledged_by_consumers_alone(rest):  # R34
    etl = await rest.as_()
    auto = await etl.put("/queues/new", headers={"Message-Ack-Mode": "auto"})
    assert auto.status_code == 501
    single = await etl.put("/queues/new", headers={"Message-Ack-Mode": "single"})
    assert single.status_code == 201


async def test_what_a_resource_does_not_have_is_405_with_what_it_has(rest):
    etl = await rest.as_()
    answer = await etl.post("/queues/jobs")
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "DELETE, GET, HEAD, OPTIONS, PUT"
    options = await etl.request("OPTIONS", "/queues/jobs")
    assert (options.status_code, options.headers["Allow"]) == (204, answer.headers["Allow"])


@pytest.mark.parametrize("path", ["/queues/jobs", "/none"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Basic !"},
        {"Authorization": "Basic ZXRs"},
        {"Authorization": "Bearer nothing-that-anyone-has"},
        {"Authorization": "Digest x"},
    ],
)
async def test_without_credentials_nothing_is_answered(rest, path, headers):  # W06
    async with client(rest.root, "", headers=headers) as stranger:
        answer = await stranger.get(path)
    assert answer.status_code == 401
    assert len(answer.headers.get_list("WWW-Authenticate")) == 2
    assert "Basic" in answer.headers["WWW-Authenticate"]


async def test_users_of_other_faces_and_wrong_passwords_are_strangers(rest):  # W06
    async with client(rest.root, "") as stranger:
        for pair in (("elsewhere", RIGHT), ("etl", "wrong"), ("nobody", RIGHT)):
            assert (await stranger.get("/queues/jobs", auth=pair)).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 201),
    ],
)
async def test_pages_of_other_sites_cannot_post(rest, headers, status):
    etl = await rest.as_()
    to = await follow(etl, "/queues/jobs", "post-message")
    assert (await etl.post(to, headers=headers, content=b"x")).status_code == status
