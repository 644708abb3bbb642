"""The contract of faces, of REST: two instances on one store, and clients that know links alone."""

import asyncio
from contextlib import AsyncExitStack, suppress
from urllib.parse import quote

import httpx
import pytest
from faces.contract import BytesContract, FaceContract, make_store, sides, stored
from faces.rest.clients import a_face, client, follow, hosted, links
from faces.sides import NEWS

from pubqueue.faces.http.problems import TITLES, refused
from pubqueue.model.decision import Refused

__all__ = ["make_store", "sides"]
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class RestClient:
    """A client as the contract has it: a subscription is a poller that takes as many as its window allows."""

    def __init__(self, http, name):
        self.http = http
        self.address = f"{name}@queue.localhost"
        self.bodies = {}
        self._items = asyncio.Queue()
        self.held, self._room = {}, asyncio.Condition()
        self.polling = []
        self._posts = {}

    async def _post(self, node, body, headers):
        if node not in self._posts:
            kind = "topics" if node == NEWS else "queues"
            head = await self.http.head(f"/{kind}/{quote(node, safe='')}")
            if head.status_code != 200:
                return f"{head.status_code}"
            self._posts[node] = links(head)["post-message"]
        answer = await self.http.post(self._posts[node], content=body, headers=headers)
        return "" if answer.status_code in {200, 201} else answer.text

    async def publish(self, node, item):
        return await self.send(node, item, b"<a xmlns='urn:x'/>", "application/xml")

    async def send(self, node, item, body, kind):
        typed = {} if kind is None else {"Content-Type": kind}
        return await self._post(node, body, {"Message-Id": item, **typed})

    async def subscribe(self, node, window):
        poller = await follow(self.http, f"/queues/{node}", "poller")
        self.polling.append(asyncio.create_task(self._poll(poller, window)))
        return ""

    async def _poll(self, poller, window):
        while True:
            async with self._room:
                await self._room.wait_for(lambda: len(self.held) < window)
            message = await self.http.post(poller, headers={"Accept-Wait": "50"})
            if message.status_code == 200:
                name = message.headers["Message-Id"]
                self.held[name] = links(message)["acknowledgement"]
                kind = message.headers["Content-Type"]
                self.bodies[name] = (
                    (None if kind == "application/octet-stream" else kind),
                    message.content,
                )
                self._items.put_nowait(name)

    async def retract(self, node, item):
        where = self.held.get(item)
        if where is None:
            where = f"/queues/{node}/messages/{item}/acknowledgement;etag=1"
        answer = await self.http.post(where, content="acknowledge=true", headers=FORM)
        async with self._room:
            self.held.pop(item, None)
            self._room.notify_all()
        return "" if answer.status_code == 204 else answer.text

    async def take(self, node, count, wait):
        poller = await follow(self.http, f"/queues/{node}", "poller")
        found = []
        while len(found) < count:
            answer = await self.http.post(
                poller, headers={"Accept-Wait": "0" if found else f"{wait}"}
            )
            if answer.status_code != 200:
                return found, "" if answer.status_code == 503 else answer.text
            found.append(answer.headers["Message-Id"])
            self.held[found[-1]] = links(answer)["acknowledgement"]
        return found, ""

    async def item(self):
        return await self._items.get()

    def items(self):
        return [self._items.get_nowait() for _ in range(self._items.qsize())]

    async def leave(self):
        """Take no more, and give back what is held: locks are the account's, and no connection's."""
        for task in self.polling:
            task.cancel()
        await asyncio.gather(*self.polling, return_exceptions=True)
        for where in self.held.values():
            await self.http.post(where, content="acknowledge=false", headers=FORM)


@pytest.fixture
async def connected():
    async with AsyncExitStack() as ends:
        roots, clients = {}, []

        async def connect(side, name):
            if side not in roots:
                roots[side] = await ends.enter_async_context(hosted(side.face))
            http = await ends.enter_async_context(client(roots[side], name))
            made = RestClient(http, name)
            clients.append(made)
            return made

        yield connect
        for one in clients:
            for task in one.polling:
                task.cancel()
            with suppress(httpx.HTTPError):
                await asyncio.gather(*one.polling, return_exceptions=True)


class TestRest(FaceContract):  # W22
    test_any_body_comes_out_as_it_went_in = BytesContract.test_any_body_comes_out_as_it_went_in
    test_what_is_stored_of_any_body_is_one_element = (
        BytesContract.test_what_is_stored_of_any_body_is_one_element
    )
    test_a_body_that_is_too_large_is_refused_with_the_bound = (
        BytesContract.test_a_body_that_is_too_large_as_it_is_stored_is_refused_with_the_bound
    )

    async def test_links_of_one_instance_hold_at_the_other(self, sides, connected):  # R10, W22
        one, other = sides
        here, there = await connected(one, "etl"), await connected(other, "etl")
        begun = await here.http.post(await follow(here.http, "/queues/jobs", "post-message-once"))
        root = f"{there.http.base_url}".rstrip("/")

        def moved(url):
            return root + url.partition("/rest")[2]

        first = links(begun)["create-next"]
        posted = await there.http.post(moved(first), content=b"a")
        assert posted.status_code == 200
        assert (await here.http.post(first, content=b"a")).status_code == 405
        message = await here.http.post(await follow(here.http, "/queues/jobs", "consumer"))
        where = links(message)["acknowledgement"]
        verdict = {"acknowledge": "true"}
        assert (await there.http.post(moved(where), data=verdict)).status_code == 204
        assert (await here.http.post(where, data=verdict)).status_code == 405
        assert await stored(one, message.headers["Message-Id"]) is None

    async def test_locks_outlive_their_instance(self, sides, connected):  # W02, W22
        one, other = sides
        etl, bee = await connected(one, "etl"), await connected(other, "bee")
        await etl.publish("jobs", "a")
        assert (await bee.take("jobs", 1, 5)) == (["a"], "")
        where = bee.held["a"]
        await other.kill()
        survivor = await connected(one, "bee")
        root = f"{survivor.http.base_url}".rstrip("/")
        done = await survivor.http.post(
            root + where.partition("/rest")[2], data={"acknowledge": "true"}
        )
        assert done.status_code == 204

    @pytest.fixture
    def words_for(self):
        def words(reply: Refused) -> str:
            return TITLES[refused(reply).name]

        return words

    @pytest.fixture
    def face_of(self):
        return a_face
