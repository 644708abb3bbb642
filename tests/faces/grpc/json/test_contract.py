"""The contract of faces, of v1beta1a: two instances on one store, and clients that poll a queue of other protocols in JSON.

Publishers choose no ids here, so an item goes by a label. What a client has pulled is its account's and no connection's, so one that
leaves gives it back.
"""

import asyncio
import json
from base64 import b64decode, b64encode
from contextlib import AsyncExitStack
from unittest import mock
from urllib.parse import quote

import httpx
import pytest
from faces.contract import (
    AccountContract,
    BytesContract,
    ConditionContract,
    FaceContract,
    InTurn,
    TakeContract,
    WaitContract,
    make_store,
    sides,
)
from faces.grpc import clients
from faces.grpc.json.clients import hosted, plain
from faces.grpc.test_contract import NAME, TYPE, ids
from faces.sides import SHOPS, InTurnTransport
from harness.patience import until
from harness.servers.users import SERVICE

from pubqueue.faces.checks import THIS_HOST
from pubqueue.faces.grpc import transcoding
from pubqueue.faces.grpc.statuses import problem_of
from pubqueue.faces.grpc.subscriptions import EARLY
from pubqueue.faces.grpc.wire import WAITED, WOKEN
from pubqueue.model.entities import ItemId

__all__ = ["ids", "make_store", "sides"]


def named(node):
    return f"/subscriptions/xmpp/{quote(node, safe='~+')}"


class JsonClient:
    """A client as the contract has it: who subscribes pulls as many as its window allows."""

    def __init__(self, http, name, ids):
        self.http, self._ids = http, ids
        self.address = f"{name}@{SERVICE}"
        self.bodies, self.waits, self._held = {}, {}, {}
        self._items, self._room = asyncio.Queue(), asyncio.Condition()
        self._polling = []

    async def post(self, path, **fields):
        """Return the answer, and what is said of a refusal."""
        answer = await self.http.post(path, json=fields)
        found = answer.json()
        return (
            (found, "") if answer.status_code == httpx.codes.OK else ({}, found["error"]["message"])
        )

    async def publish(self, node, item):
        return await self.send(node, item, b"<a xmlns='urn:x'/>", "application/xml")

    async def send(self, node, item, body, kind):
        labels = [{"key": NAME, "strValue": item}]
        labels += [] if kind is None else [{"key": TYPE, "strValue": kind}]
        message = {"data": b64encode(body).decode(), "label": labels}
        topic = "/topics/shop/orders" if node == SHOPS else f"/topics/xmpp/{quote(node, safe='~+')}"
        found, why = await self.post("/topics/publishBatch", topic=topic, messages=[message])
        if not why:
            self._ids[item] = ItemId(found["messageIds"][0])
        return why

    async def subscribe(self, node, window):
        self._polling.append(asyncio.create_task(self._poll(node, window)))
        return ""

    async def _poll(self, node, window):
        while True:
            async with self._room:
                await self._room.wait_for(lambda: len(self._held) < window)
            names, _ = await self._pull(node, window - len(self._held))
            for name in names:
                self._items.put_nowait(name)

    async def _pull(self, node, count, **fields):
        given = {"subscription": named(node), "maxEvents": count, **fields}
        found, why = await self.post("/subscriptions/pullBatch", **given)
        return [self._note(one) for one in found.get("pullResponses", ())], why

    def _note(self, pulled):
        message = pulled["pubsubEvent"]["message"]
        found = {label["key"]: label["strValue"] for label in message["label"]}
        name = found[NAME]
        self._held[name] = pulled["ackId"]
        if WAITED in found:
            self.waits[name] = found.get(WOKEN), json.loads(found[WAITED])
        self.bodies[name] = found.get(TYPE), b64decode(message["data"], validate=True)
        return name

    async def take(self, node, count, wait):
        if not wait:
            return await self._pull(node, count, returnImmediately=True)
        with mock.patch.object(
            transcoding, "MAX_WAIT", wait + EARLY
        ):  # of all polls of this process
            return await self._pull(node, count)

    async def retract(self, node, item):
        given = {"subscription": named(node), "ackId": [self._held.get(item, "a")]}
        _, why = await self.post("/subscriptions/acknowledge", **given)
        async with self._room:
            self._held.pop(item, None)
            self._room.notify_all()
        return why

    async def item(self):
        return await self._items.get()

    def items(self):
        return [self._items.get_nowait() for _ in range(self._items.qsize())]

    async def breaks(self):
        for polling in self._polling:
            polling.cancel()
        await asyncio.gather(*self._polling, return_exceptions=True)

    async def leave(self):
        await self.breaks()
        _, why = await self.post(
            "/subscriptions/modifyAckDeadline",
            subscription=named("jobs"),
            ackIds=list(self._held.values()),
            ackDeadlineSeconds=0,
        )
        assert not why


@pytest.fixture
async def connected(ids):
    async with AsyncExitStack() as ends:
        roots = {}

        async def connect(side, name):
            if side not in roots:
                await until(lambda: side.face.is_up)
                roots[side] = await ends.enter_async_context(
                    hosted(side.face, proxies=lambda: THIS_HOST)
                )
            http = await ends.enter_async_context(plain(roots[side], name))
            client = JsonClient(http, name, ids)
            ends.push_async_callback(client.breaks)
            return client

        yield connect


class TestJson(WaitContract, ConditionContract, FaceContract):  # G49, G53
    async def test_a_refusal_is_answered(self, sides, connected):
        etl = await connected(sides[0], "etl")
        assert await etl.publish("nowhere", "a") != ""
        assert await etl.retract("jobs", "nothing") == "", "the seed has no errors of that"
        assert await etl.publish("jobs", "a") == ""

    test_a_wrong_password_and_an_unknown_name_get_the_same_answer = (
        AccountContract.test_a_wrong_password_and_an_unknown_name_get_the_same_answer
    )
    test_any_body_comes_out_as_it_went_in = BytesContract.test_any_body_comes_out_as_it_went_in
    test_what_is_stored_of_any_body_is_one_element = (
        BytesContract.test_what_is_stored_of_any_body_is_one_element
    )
    test_a_body_that_is_too_large_is_refused_with_the_bound = (
        BytesContract.test_a_body_that_is_too_large_as_it_is_stored_is_refused_with_the_bound
    )
    test_where_there_is_nothing_the_answer_is_empty = TakeContract.test_where_there_is_nothing_the_answer_is_empty_and_where_there_is_no_queue_a_refusal
    test_a_client_that_waits_at_one_instance_gets_an_item_published_at_the_other = (
        TakeContract.test_a_client_that_waits_at_one_instance_gets_an_item_published_at_the_other
    )
    test_what_was_taken_returns_when_the_client_goes = (
        TakeContract.test_what_was_taken_returns_when_the_client_goes
    )

    @pytest.fixture
    def rivals(self):
        async def create(clients, number):
            name = f"/topics/shop/made{number}"
            made = await asyncio.gather(*(one.post("/topics", name=name) for one in clients))
            return [why for _, why in made]

        return create

    test_a_peer_that_is_often_wrong_has_to_wait_and_no_other = (
        AccountContract.test_a_peer_that_is_often_wrong_has_to_wait_and_no_other
    )

    @pytest.fixture
    def logs_in(self, connected):
        async def log_in(side, name, password, peer="192.0.2.9"):
            user = await connected(side, name)
            user.http.auth = httpx.BasicAuth(name, password)
            user.http.headers["X-Forwarded-For"] = peer
            return (await user.take("jobs", 1, 0))[1] or user

        return log_in

    @pytest.fixture
    def words_for(self):
        return lambda refused: problem_of(refused).message

    @pytest.fixture
    def face_of(self):
        return clients.a_face


class TestJsonInTurn(InTurn, TestJson):  # G49
    @pytest.fixture
    async def connected(self, ids, sides):
        async with AsyncExitStack() as ends:
            for side in sides:
                await until(lambda: side.face.is_up)  # noqa: B023
            roots = [
                await ends.enter_async_context(hosted(side.face, proxies=lambda: THIS_HOST))
                for side in sides
            ]

            async def connect(_side, name):
                transport = InTurnTransport(roots)
                http = await ends.enter_async_context(plain(roots[0], name, transport=transport))
                client = JsonClient(http, name, ids)
                ends.push_async_callback(client.breaks)
                return client

            yield connect

    @pytest.fixture
    def page(self):
        async def page(client, token):
            query = "cloud.googleapis.com/project in (/projects/xmpp)"
            asked = {"query": query, "maxResults": 1, **({"pageToken": token} if token else {})}
            found = (await client.http.get("/topics", params=asked)).json()
            names = [one["name"].rpartition("/")[2] for one in found.get("topic", ())]
            return names, found.get("nextPageToken", "")

        return page
