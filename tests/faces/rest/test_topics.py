"""Topics: first, last, next, without a state of the reader."""

import asyncio

import httpx
import pytest
from faces.rest.clients import follow, links
from faces.rest.test_messages import post
from harness.patience import TIMEOUT, until

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
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert answer.headers["Preference-Applied"] == "wait=0.01"


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


async def test_many_readers_of_one_account_are_all_served(rest):  # R15
    etl = await rest.as_()
    async with httpx.AsyncClient(
        auth=etl.auth, limits=httpx.Limits(max_connections=200), timeout=TIMEOUT
    ) as many:
        to = await follow(etl, NEWS, "next")
        waiting = [
            asyncio.create_task(many.get(to, headers={"Accept-Wait": "30"})) for _ in range(150)
        ]
        await until(lambda: rest.face.waiting.count == len(waiting))
        await post(etl, b"new", path=NEWS)
        assert {one.content for one in await asyncio.gather(*waiting)} == {b"new"}
