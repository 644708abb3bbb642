"""Destinations and the messages at their URLs: links are found there, looking changes nothing, and a topic is read without a state of the reader."""

import asyncio

import httpx
import pytest
from faces.rest.clients import follow, links, served
from faces.rest.star.steps import post, settle, take
from harness.http.clients import PLAIN
from harness.patience import until

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


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/queues/none", "no such queue: none"),
        ("/queues/n%C3%A4%2Fme", "no such queue: nä/me"),
        ("/topics/jobs", "no such topic: jobs"),
        ("/queues/news", "no such queue: news"),
        ("/queues/none/messages/a", "no such queue: none"),
        ("/topics/jobs/messages/a", "no such topic: jobs"),
        ("/none", "there is no such resource"),
        ("/%FF", "there is no such resource"),
    ],
)
async def test_there_is_nothing_elsewhere(rest, path, detail):  # R01
    etl = await rest.as_()
    await etl.post("/queues/jobs/messages", content=b"x", headers={"Message-Id": "a"})
    answer = await etl.get(path)
    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert (answer.json()["title"], answer.json()["detail"]) == ("Not found", detail)


@pytest.mark.parametrize(
    "path", ["/queues/none/consumer", "/queues/none/messages", "/topics/no/first"]
)
async def test_a_request_to_nothing_names_it(rest, path):  # R01
    etl = await rest.as_()
    way = etl.get if path.endswith("first") else etl.post
    answer = await way(path)
    kind, name = ("topic", "no") if path.endswith("first") else ("queue", "none")
    assert (answer.status_code, answer.json()["detail"]) == (404, f"no such {kind}: {name}")


async def test_a_destination_is_created_once_and_deleted(rest):  # R34
    etl, path = await rest.as_(), "/queues/new%2Fone%3B"
    form = {"x-queueing#lock_timeout": "30"}
    made = await etl.put(path, json=form)
    assert (made.status_code, made.headers["Location"]) == (201, rest.root + path)
    assert (await etl.put(path, json=form)).status_code == 200
    assert (await etl.put(path)).status_code == 200
    only_new = {"If-None-Match": "*"}
    assert (await etl.put(path, json=form, headers=only_new)).status_code == 412
    assert (await etl.put(f"{path}-2", json=form, headers=only_new)).status_code == 201
    assert (await etl.put(path, json=form, headers={"If-Match": "*"})).status_code == 400
    assert (await etl.put(f"{path}?durable=false", json=form)).status_code == 400
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


async def test_owners_and_the_holder_look_at_a_message(rest):  # R13, W19
    etl, bee, ann = await rest.as_(), await rest.as_("bee"), await rest.as_("ann")
    where = (await post(etl, b"a")).headers["Location"]
    for client, status in ((etl, 200), (bee, 404), (ann, 404)):
        assert (await client.get(where)).status_code == status
    message = await take(bee)
    for client, status in ((etl, 200), (bee, 200), (ann, 404)):
        got, head = await client.get(where), await client.head(where)
        assert got.status_code == head.status_code == status
    mine = await bee.get(where)
    assert (mine.content, mine.headers["ETag"]) == (b"a", message.headers["ETag"])
    assert links(mine)["acknowledgement"] == links(message)["acknowledgement"]
    assert "acknowledgement" not in links(await etl.get(where))
    assert mine.headers["Message-Deadline"] == message.headers["Message-Deadline"]
    assert (await settle(bee, message)).status_code == 204
    assert (await etl.get(where)).status_code == 404


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_an_acknowledgement_shows_the_lock_while_it_holds(rest, method):  # R24, W19
    etl, bee, ann = await rest.as_(), await rest.as_("bee"), await rest.as_("ann")
    await post(etl)
    message = await take(bee)
    where = links(message)["acknowledgement"]
    shown = await bee.request(method, where)
    assert shown.status_code == 204
    assert shown.headers["ETag"] == message.headers["ETag"]
    assert shown.headers["Message-Deadline"] == message.headers["Message-Deadline"]
    assert (await etl.request(method, where)).status_code == 403
    assert (await ann.request(method, where)).status_code in {403, 404, 410}
    assert (await settle(bee, message, "acknowledge=false")).status_code == 204
    assert (await bee.request(method, where)).status_code == 410


async def test_a_lock_is_extended(rest):
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    message = await take(bee)
    longer = await settle(bee, message, "touch=300")
    assert longer.status_code == 204
    assert longer.headers["Message-Deadline"] >= message.headers["Message-Deadline"]
    assert (await settle(bee, message)).status_code == 204


async def test_a_message_is_retracted_by_its_url(rest):
    etl, bee, ann = await rest.as_(), await rest.as_("bee"), await rest.as_("ann")
    where = (await post(etl)).headers["Location"]
    assert (await ann.delete(where)).status_code == 403
    message = await take(bee)
    tag = message.headers["ETag"]
    assert (await bee.delete(where, headers={"If-Match": '"999"'})).status_code == 412
    assert (await bee.delete(where, headers={"If-Match": "x"})).status_code == 412
    assert (await bee.delete(where, headers={"If-Match": tag})).status_code == 204
    assert (await bee.delete(where, headers={"If-Match": tag})).status_code == 405
    other = (await post(etl)).headers["Location"]
    assert (await etl.delete(other)).status_code == 204
    assert (await etl.delete(other)).status_code == 404


async def test_selectors_are_not_supported(rest):  # R36
    etl, bee = await rest.as_(), await rest.as_("bee")
    await post(etl)
    refused = await bee.post("/queues/jobs/consumer?selector=a%3D1")
    assert refused.status_code == 501
    assert refused.json()["type"].endswith(":selector-unsupported")
    assert (await take(bee)).status_code == 200


NEWS = "/topics/news"


async def read(client, rel, **headers):
    """Follow a link of the topic."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await client.get(await follow(client, NEWS, rel), headers=named)


async def test_a_reader_goes_from_the_first_to_the_last(rest):  # R15
    etl = await rest.as_()
    for body in (b"1", b"2", b"3"):
        posted = await post(etl, body, path=NEWS)
    seen, answer = [], await read(etl, "first")
    while answer.status_code == 200:
        seen.append(answer.content)
        latest = answer
        answer = await etl.get(links(answer)["next"])
    assert seen == [b"1", b"2", b"3"]
    assert answer.status_code == 503
    assert latest.headers["Content-Location"] == posted.headers["Location"]
    assert (await read(etl, "last")).content == b"3"
    assert (await read(etl, "next")).status_code == 503
    assert latest.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("rel", ["first", "last", "next"])
async def test_all_readers_that_wait_get_the_same_message(rest, rel):  # R15, R26
    etl = await rest.as_()
    readers = [await rest.as_(name) for name in ("bee", "ann", "eva")]
    waiting = [asyncio.create_task(read(one, rel, Accept_Wait="30")) for one in readers]
    await until(lambda: rest.face.waiting.count == len(readers))
    posted = await post(etl, b"new", path=NEWS)
    for answer in await asyncio.gather(*waiting):
        assert answer.status_code == 200
        assert answer.headers["Content-Location"] == posted.headers["Location"]


async def test_a_client_that_stops_waiting_gets_an_answer(rest):  # R25
    etl = await rest.as_()
    answer = await read(etl, "next", Prefer="wait=0.01")
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["Preference-Applied"] == "wait=0.01"
    answer = await read(etl, "next", Accept_Wait="0.01")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


async def test_a_reader_learns_that_messages_may_be_missing(rest):  # R15
    await rest.make("short", queueing=False, max_items=2)
    etl = await rest.as_()
    await post(etl, b"0", path="/topics/short")
    first = await etl.get(await follow(etl, "/topics/short", "first"))
    onward = links(first)["next"]
    await post(etl, b"1", path="/topics/short")
    near = await etl.get(onward)
    assert (near.content, "Message-Gap" in near.headers) == (b"1", False)
    for body in (b"2", b"3"):
        await post(etl, body, path="/topics/short")
    far = await etl.get(onward)
    assert (far.content, far.headers["Message-Gap"]) == (b"2", "possible")


async def test_a_topic_that_keeps_nothing_has_what_is_next(rest):  # R15
    await rest.make("flow", queueing=False, persist_items=False)
    etl = await rest.as_()
    to = await follow(etl, "/topics/flow", "next")
    waiting = asyncio.create_task(etl.get(to, headers={"Accept-Wait": "30"}))
    await until(lambda: rest.face.waiting.count)
    await post(etl, b"now", path="/topics/flow")
    assert (await waiting).content == b"now"


async def test_a_message_of_a_topic_is_read_and_deleted(rest):  # R13
    etl, bee = await rest.as_(), await rest.as_("bee")
    where = (await post(etl, b"1", path=NEWS)).headers["Location"]
    got, head = await bee.get(where), await bee.head(where)
    assert (got.content, got.status_code, head.status_code) == (b"1", 200, 200)
    assert links(got).keys() == {"self", "generator", "next"}
    assert (await bee.delete(where)).status_code == 403
    assert (await etl.delete(where, headers={"If-Match": '"0"'})).status_code == 412
    assert (await etl.delete(where, headers={"If-Match": got.headers["ETag"]})).status_code == 204
    assert (await etl.get(where)).status_code == 404


@pytest.mark.parametrize(
    "path", ["/topics/jobs/first", "/topics/none/next", "/topics/news/after/x"]
)
async def test_there_is_nothing_to_read_elsewhere(rest, path):
    assert (await (await rest.as_()).get(path)).status_code == 404


async def test_many_readers_of_one_account_are_all_served(patient):  # R15
    async with served(longest_wait=3600) as rest:  # none is answered before all of them wait
        await rest.make("news", queueing=False)
        etl = await rest.as_()
        to = await follow(etl, NEWS, "next")
        wait, limits = {"Accept-Wait": "3600"}, httpx.Limits(max_connections=200)
        async with httpx.AsyncClient(**PLAIN, auth=etl.auth, limits=limits) as many:
            waiting = [asyncio.create_task(many.get(to, headers=wait)) for _ in range(150)]
            await until(lambda: rest.face.waiting.count == len(waiting))
            await post(etl, b"new", path=NEWS)
            assert {one.content for one in await asyncio.gather(*waiting)} == {b"new"}
