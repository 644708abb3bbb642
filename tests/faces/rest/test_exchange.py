"""Answers: to pages of other origins, of which only those of the closed list may send requests and read them; and of a fault of ours."""

import asyncio
import os
from contextlib import suppress

import httpx
import pytest
from faces.decoding import decoded_in_turns, is_in_steps
from faces.rest.clients import served
from faces.rest.hornetq.steps import consumer, msg

from pubqueue.faces.http import host
from pubqueue.faces.rest import exchange
from pubqueue_xeps.wire.payloads.wrapper import STEP

PAGE = "https://app.example.org"
ASKED = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization, content-type, prefer",
}


@pytest.fixture
async def shared():
    async with served(cors_origins=(PAGE,)) as one:
        await one.make("jobs")
        yield one


async def test_a_browser_is_answered_what_a_listed_page_may_send(shared):
    stranger = await shared.as_("")
    answer = await stranger.request(
        "OPTIONS", "/queues/jobs/consumer", headers={"Origin": PAGE, **ASKED}
    )
    assert answer.status_code == 204
    allowed = {
        name: value
        for name, value in answer.headers.items()
        if name.startswith("access-control") and name != "access-control-max-age"
    }
    assert allowed == {
        "access-control-allow-origin": PAGE,
        "access-control-allow-methods": "OPTIONS, POST",
        "access-control-allow-headers": "authorization, content-type, prefer",
    }
    assert answer.headers["Vary"] == "Origin"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", PAGE + ":444", "*"])
async def test_pages_of_other_origins_are_allowed_nothing(shared, origin):
    stranger, etl = await shared.as_(""), await shared.as_()
    asked = await stranger.request(
        "OPTIONS", "/queues/jobs/consumer", headers={"Origin": origin, **ASKED}
    )
    read = await etl.get("/queues/jobs", headers={"Origin": origin})
    for answer in (asked, read):
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert answer.headers["Vary"] == "Origin"
    sent = await etl.post("/queues/jobs/messages", content=b"x", headers={"Origin": origin})
    assert sent.status_code == 403
    assert (await etl.get("/queues/jobs")).json()["counts"]["messages"] == 0


async def test_a_listed_page_reads_the_headers_of_messages(shared):
    etl, origin = await shared.as_(), {"Origin": PAGE}
    await etl.post(
        "/queues/jobs/messages", content=b"x", headers={**origin, "Message-Header-Colour": "red"}
    )
    taken = await etl.post("/queues/jobs/consumer", headers=origin)
    assert taken.headers["Access-Control-Allow-Origin"] == PAGE
    assert "Access-Control-Allow-Credentials" not in taken.headers
    exposed = set(taken.headers["Access-Control-Expose-Headers"].split(", "))
    assert {"ETag", "Link", "Message-Id", "Message-Header-Colour", "msg-acknowledgement"} <= exposed
    assert {"Server", "Date", "Content-Type"}.isdisjoint(exposed)


async def test_a_listed_page_reads_errors_too(shared):
    stranger = await shared.as_("")
    answer = await stranger.get("/queues/jobs", headers={"Origin": PAGE})
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (401, PAGE)


@pytest.mark.parametrize("names", ["a b", "x" * 5000, "a\u00e9", ""])
async def test_names_of_headers_that_are_none_are_not_allowed(shared, names):
    stranger = await shared.as_("")
    headers = {"Origin": PAGE, **ASKED, "Access-Control-Request-Headers": names.encode()}
    answer = await stranger.request("OPTIONS", "/queues/jobs", headers=headers)
    assert "Access-Control-Allow-Headers" not in answer.headers


async def test_without_a_list_answers_have_no_origins(rest):
    etl = await rest.as_()
    answer = await etl.get("/queues/jobs", headers={"Origin": PAGE})
    assert "Vary" not in answer.headers
    assert "Access-Control-Allow-Origin" not in answer.headers


async def test_a_fault_of_ours_shows_nothing(rest, monkeypatch):  # W08
    etl = await rest.as_()

    def fails(*_given):
        raise ValueError("/etc/secret")

    monkeypatch.setattr(rest.face, "submit", fails)
    answer = await etl.get("/queues/jobs")
    assert (answer.status_code, answer.json()["type"].endswith(":fault")) == (500, True)
    assert "secret" not in answer.text


# --- large messages -------------------------------------------------------------------------------


async def test_large_messages_of_a_topic_are_rendered_one_after_the_other_in_many_turns(
    monkeypatch,
):
    """Others have their turn after each step, and only one message is in memory both as it is stored and as it is sent."""
    body_in_steps, done = exchange.body_in_steps, []
    turns, under_way = 0, 0

    def watched(item, payload):
        nonlocal under_way
        under_way += 1
        began, at_once = turns, under_way
        content = yield from body_in_steps(item, payload)
        done.append((turns - began, at_once))
        under_way -= 1
        return content

    loop, is_over = asyncio.get_running_loop(), False

    def others():
        nonlocal turns
        turns += 1
        if not is_over:
            loop.call_soon(others)

    monkeypatch.setattr(exchange, "body_in_steps", watched)
    body = os.urandom(3 * STEP)  # is four steps long in base64
    async with served(max_body=10 * STEP) as one:
        etl = await one.as_()
        options = {"pubsub#max_items": "3", "pubsub#max_payload_size": f"{10 * STEP}"}
        assert (await etl.put("/topics/news", json=options)).status_code == 201
        assert (await etl.post("/topics/news/messages", content=body)).status_code == 201
        others()
        try:
            both = await asyncio.gather(*(etl.get("/topics/news/last") for _ in range(2)))
        finally:
            is_over = True
    assert [one.content == body for one in both] == [True, True]
    assert [at_once for _, at_once in done] == [1, 1]
    assert all(took >= 3 for took, _ in done)


async def looked_at(etl, _star):
    return await etl.get("/queues/jobs/messages/a")


async def taken(etl, _star):
    return await etl.post("/queues/jobs/consumer")


async def pulled(_etl, other):
    made = await consumer(other, autoAck="false")
    return await other.post(msg(made)["acknowledge-next"])


async def consumed(_etl, other):
    made = await consumer(other)
    return await other.post(msg(made)["consume-next"])


@pytest.mark.parametrize("get", [looked_at, taken, pulled, consumed])
async def test_a_large_message_of_a_queue_counts_before_it_is_decoded_in_many_turns(
    get, monkeypatch
):
    """Others have their turn after each step, over either profile, whether the message is taken or looked at."""
    body, counted, expect = os.urandom(3 * STEP), [], host.expect

    async def watched(size):
        counted.append((size > len(body), len(sizes)))
        await expect(size)

    monkeypatch.setattr(host, "expect", watched)
    async with served(max_body=10 * STEP) as one:
        etl, other = await one.as_(), await one.as_(profile="hornetq")
        await one.make("jobs", max_payload_size=10 * STEP)
        named = {"Message-Id": "a"}
        posted = await etl.post("/queues/jobs/messages", content=body, headers=named)
        assert posted.status_code == 201, posted.text
        with decoded_in_turns(monkeypatch) as sizes:
            answer = await get(etl, other)
        assert answer.content == body
    assert is_in_steps(sizes)
    assert counted == [(True, 0)]


async def gone(*_given):
    raise ConnectionResetError


@pytest.mark.parametrize("get", [taken, consumed])
async def test_a_message_whose_client_goes_while_it_is_decoded_is_released(get, monkeypatch):
    async with served() as one:
        etl, other = await one.as_(), await one.as_(profile="hornetq")
        await one.make("jobs")
        await etl.post("/queues/jobs/messages", content=b"x", headers={"Message-Id": "a"})
        rendered = exchange.Exchange.rendered
        monkeypatch.setattr(exchange.Exchange, "rendered", gone)
        with suppress(httpx.HTTPError):
            await get(etl, other)
        monkeypatch.setattr(exchange.Exchange, "rendered", rendered)
        again = await etl.post("/queues/jobs/consumer", headers={"Accept-Wait": "30"})
        assert (again.status_code, again.content) == (200, b"x")
        assert "Message-Failed" not in again.headers
