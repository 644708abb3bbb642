"""Subscribers of a destination: registered, listed, ended; and server-sent events, from where a client was, for whom, and for how long."""

import asyncio
import base64
import json
import socket
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import pytest
from faces.rest.clients import follow, hosted, links, served
from faces.rest.push.hooks import Hook, atom, counted, gone, pushing, register, state
from faces.rest.star.steps import post
from harness.patience import TIMEOUT, until
from harness.servers.users import RIGHT, SERVICE

from pubqueue.faces.listener import Bounds
from pubqueue.faces.listener.budget import Budget
from pubqueue.faces.rest.star import subscribers
from pubqueue_xeps.wire.payloads.wrapper import is_utf8


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("body", "media"),
    [
        ('<atom:link rel="post-message" href="{}"/>', "application/atom+xml"),
        ('<atom:link rel="post-message" href="{}"/>', "applicatin/atom+xml"),
        (
            '<link xmlns="http://www.w3.org/2005/Atom" rel="post-message" href="{}"/>',
            "application/xml",
        ),
        ("subscriber={}", "application/x-www-form-urlencoded"),
    ],
)
async def test_a_target_is_registered_shown_and_ended(body, media):  # R27, R28, R33
    hook = Hook()
    async with pushing(hook) as rest:
        etl, bee = await rest.as_(), await rest.as_("bee")
        where = await follow(bee, "/queues/jobs", "subscribers")
        content = body.format(hook.url)
        made = await bee.post(where, content=content, headers={"Content-Type": media})
        assert made.status_code == 201, made.text
        assert made.json()["secret"].startswith("whsec_")
        place = made.headers["Location"]
        shown = await state(bee, place)
        assert shown["href"] == hook.url
        assert (shown["rel"], shown["state"]) == ("post-message", "active")
        for client in (bee, etl):  # the account, and an owner
            assert hook.url in (await client.get(where)).text
            assert "whsec" not in (await client.get(where)).text
        ann = await rest.as_("ann")
        assert hook.url not in (await ann.get(where)).text
        assert (await ann.get(place)).status_code == 404
        assert (await ann.delete(place)).status_code == 404
        assert (await bee.delete(place)).status_code == 204
        assert (await bee.get(place)).status_code == 404
        assert (await bee.delete(place)).status_code == 404


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (atom("http://127.0.0.1:1/", "other"), 400),
        ('<atom:link rel="post-message"/>', 400),
        ("<feed><link/><link/></feed>", 400),
        ("<link", 400),
        ('<!DOCTYPE a [<!ENTITY b "c">]><link rel="post-message" href="&b;"/>', 400),
        (atom("http://127.1/"), 400),
        (atom("http://127.0.0.1:1/"), 403),
        (atom("http://example.org/"), 403),
    ],
)
async def test_other_registrations_are_refused(body, status):  # R27, W10, W14
    async with pushing(Hook()) as rest:
        bee = await rest.as_("bee")
        media = {"Content-Type": "application/atom+xml"}
        no = await bee.post("/queues/jobs/subscribers", content=body, headers=media)
        assert no.status_code == status, no.text
        wrong = {"Content-Type": "text/plain"}
        assert (
            await bee.post("/queues/jobs/subscribers", content=body, headers=wrong)
        ).status_code == 415


@pytest.mark.usefixtures("patient")
async def test_a_registration_is_disabled_and_enabled_by_its_account():
    hook = Hook()
    async with pushing(hook) as rest:
        etl, bee, ann = [await rest.as_(name) for name in ("etl", "bee", "ann")]
        place = (await register(bee, hook.url)).headers["Location"]
        for wrong in ("state=on", "state=", "x=1", ""):
            form = {"Content-Type": "application/x-www-form-urlencoded"}
            assert (await bee.post(place, content=wrong, headers=form)).status_code == 400
        assert (await bee.post(place, content=b"{}")).status_code == 415
        assert (await ann.post(place, data={"state": "disabled"})).status_code == 404
        assert (await bee.post(place, data={"state": "disabled"})).status_code == 204
        assert (await state(bee, place))["state"] == "disabled"
        await until(lambda: not rest.face.pushing.working)
        await post(etl, b"a")
        assert await counted(etl, "queued")
        assert (await bee.post(place, data={"state": "active"})).status_code == 204
        assert (await hook.next())[1] == b"a"
        await gone(rest)


class Stream:
    """The events of an answer, one after the other."""

    def __init__(self, response):
        self.response = response
        self._lines = response.aiter_lines()

    async def event(self):
        """Return name, data and id of the next event; None at the end. Comments are passed over."""
        fields = {}
        async for line in self._lines:
            if line.startswith(":"):
                continue
            if not line and fields:
                return fields["event"], json.loads(fields["data"]), fields.get("id")
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
        return None

    async def comment(self):
        return await anext(line async for line in self._lines if line.startswith(":"))


@asynccontextmanager
async def following(client, path, **headers):
    async with client.stream("GET", path, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["Content-Type"] == "text/event-stream"
        yield Stream(response)


async def publish(client, path, body, **headers):
    answer = await client.post(f"{path}/messages", content=body, headers=headers)
    assert answer.status_code == 201


async def test_messages_of_a_topic_come_as_they_are_published(rest):
    etl, ann = await rest.as_(), await rest.as_("ann")
    await publish(etl, "/topics/news", b"before")
    where = links(await ann.head("/topics/news"))["events"]
    async with following(ann, where) as stream:
        await publish(etl, "/topics/news", b'{"a": 1}', **{"Content-Type": "application/json"})
        await publish(etl, "/topics/news", b"\xff\0")
        name, first, _ = await stream.event()
        assert (name, first["type"], first["text"]) == ("message", "application/json", '{"a": 1}')
        assert (await ann.get(first["message"])).content == b'{"a": 1}'
        _, second, _ = await stream.event()
        assert (second["base64"], "text" in second) == ("/wA=", False)


async def test_a_client_goes_on_behind_the_message_that_it_has(rest):
    etl, ann = await rest.as_(), await rest.as_("ann")
    async with following(ann, "/topics/news/events") as stream:
        for number in range(3):
            await publish(etl, "/topics/news", f"{number}".encode())
        _, document, number = await stream.event()
        assert document["text"] == "0"
    async with following(ann, "/topics/news/events", **{"Last-Event-ID": number}) as stream:
        assert [(await stream.event())[1]["text"] for _ in range(2)] == ["1", "2"]


async def test_more_messages_than_a_page_come_in_order(rest):
    etl = await rest.as_()
    await rest.broker.settled()
    many = subscribers.EVENTS_PAGE + 5
    for number in range(many):
        await publish(etl, "/topics/news", f"{number}".encode())
    async with following(etl, "/topics/news/events", **{"Last-Event-ID": "0"}) as stream:
        texts = [(await stream.event())[1]["text"] for _ in range(many)]
    assert texts == [f"{number}" for number in range(many)]


async def test_a_client_is_notified_of_messages_that_are_no_longer_kept(rest):
    await rest.make("short", queueing=False, max_items=1)
    etl = await rest.as_()
    async with following(etl, "/topics/short/events") as stream:
        await publish(etl, "/topics/short", b"one")
        number = (await stream.event())[2]
    for body in (b"two", b"three"):
        await publish(etl, "/topics/short", body)
    async with following(etl, "/topics/short/events", **{"Last-Event-ID": number}) as stream:
        assert (await stream.event())[0] == "gap"
        assert (await stream.event())[1]["text"] == "three"


async def test_counts_of_a_queue_come_when_they_change(rest, monkeypatch):
    monkeypatch.setattr(subscribers, "EVERY", 0.01)
    etl = await rest.as_()
    where = links(await etl.head("/queues/jobs"))["events"]
    async with following(etl, where) as stream:
        name, counts, _ = await stream.event()
        assert (name, counts["messages"]) == ("counts", 0)
        await publish(etl, "/queues/jobs", b"x")
        assert (await stream.event())[1]["queued"] == 1
        await etl.post("/queues/jobs/consumer")
        assert (await stream.event())[1] == {
            **dict.fromkeys(("queued", "delayed", "held", "dead"), 0),
            "locked": 1,
            "messages": 1,
        }


async def test_counts_are_for_owners_and_publishers(rest):
    ann = await rest.as_("ann")
    assert "events" not in links(await ann.head("/queues/jobs"))
    assert (await ann.get("/queues/jobs/events")).status_code == 403
    assert "counts" not in (await ann.get("/queues/jobs")).json()


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "9" * 30])
async def test_an_id_of_an_event_is_a_number(rest, number):
    etl = await rest.as_()
    answer = await etl.get("/topics/news/events", headers={"Last-Event-ID": number})
    assert answer.status_code == 400


async def test_a_stream_ends_for_an_account_that_may_no_longer_read(rest, monkeypatch):
    monkeypatch.setattr(subscribers, "BEAT", 0.01)
    etl, ann = await rest.as_(), await rest.as_("ann")
    async with following(ann, "/topics/news/events") as stream:
        assert (await etl.delete("/topics/news")).status_code == 204
        name, problem, _ = await stream.event()
        assert (name, problem["status"]) == ("ended", 404)
        assert await stream.event() is None


async def test_a_stream_of_a_removed_user_ends(rest, monkeypatch):
    monkeypatch.setattr(subscribers, "BEAT", 0.01)
    ann, accounts = await rest.as_("ann"), rest.face.accounts
    async with following(ann, "/topics/news/events") as stream:
        assert await stream.comment()
        accounts.adopt([user for user in accounts.users if user.name != "ann"])
        name, problem, _ = await stream.event()
        assert (name, problem["status"]) == ("ended", 401)


async def test_streams_count_as_requests_that_wait(tmp_path):
    del tmp_path
    async with asyncio.timeout(TIMEOUT), served(max_waiting_of_account=1) as rest:
        await rest.make("news", queueing=False)
        ann = await rest.as_("ann")
        async with following(ann, "/topics/news/events"):
            assert (await ann.get("/topics/news/events")).status_code == 429
        await until(lambda: not rest.face.waiting.count)
        async with following(ann, "/topics/news/events"):
            pass


async def test_a_stream_ends_when_the_service_stops(rest):
    ann = await rest.as_("ann")
    async with following(ann, "/topics/news/events") as stream:
        rest.face.waiting.end()
        assert (await stream.event())[0] == "ended"


async def deaf(root, ends):
    """Have eva ask for the events of `news`, and read nothing."""
    parts = urlsplit(root)
    slow = ends.enter_context(socket.socket())
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.setblocking(False)  # noqa: FBT003  # the name of the socket module
    await asyncio.get_running_loop().sock_connect(slow, (parts.hostname, parts.port))
    pair = base64.b64encode(f"eva:{RIGHT}".encode()).decode()
    head = f"GET {parts.path}/topics/news/events HTTP/1.1\r\nHost: x\r\nAuthorization: Basic {pair}\r\n\r\n"
    await asyncio.get_running_loop().sock_sendall(slow, head.encode())


async def test_events_that_are_not_read_count_for_the_account(rest):
    budget = Budget()
    async with hosted(rest.face, budget=budget) as root:
        async with AsyncExitStack() as ends:
            await deaf(root, ends)
            await until(lambda: rest.face.waiting.count == 1)
            etl = await rest.as_()
            async with asyncio.timeout(TIMEOUT):
                while budget.of(f"eva@{SERVICE}") < 40_000:
                    await publish(etl, "/topics/news", b"x" * 40_000)
        await until(lambda: budget.size == 0)


async def test_a_client_that_does_not_read_is_cut_and_others_are_served(rest):
    """It takes a little into its socket; the service waits for it so long, and then ends the connection."""
    etl, ann = await rest.as_(), await rest.as_("ann")
    async with (
        hosted(rest.face, bounds=Bounds(login=0, unread=0.5)) as root,
        AsyncExitStack() as ends,
    ):
        await deaf(root, ends)
        await until(lambda: rest.face.waiting.count == 1)
        async with following(ann, "/topics/news/events") as stream:
            for _ in range(120):
                await publish(etl, "/topics/news", b"x" * 40_000)
                assert len((await stream.event())[1]["text"]) == 40_000
            await until(lambda: rest.face.waiting.count == 1)


@pytest.mark.parametrize("media", ["text/plain", "application/octet-stream"])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param('x\U0001f600é\n"'.encode() * 30, id="text-across-pieces"),
        pytest.param(b"\xff\0ab" * 51, id="bytes"),
        pytest.param(b"x" * 18 + b"\xf0\x9f", id="a-letter-that-is-cut-off"),
        pytest.param(b"x" * 6, id="one-piece"),
        pytest.param(b"", id="nothing"),
    ],
)
async def test_a_message_in_pieces_is_shown_byte_for_byte(rest, body, media, monkeypatch):
    monkeypatch.setattr(subscribers, "TEXT", 6)
    etl, ann = await rest.as_(), await rest.as_("ann")
    async with following(ann, "/topics/news/events") as stream:
        await publish(etl, "/topics/news", body, **{"Content-Type": media})
        _, shown, _ = await stream.event()
        text = shown.get("text")
        assert (base64.b64decode(shown["base64"]) if text is None else text.encode()) == body
        assert ("text" in shown) is is_utf8(body)
