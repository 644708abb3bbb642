"""The contract of faces, of REST: two instances on one store, and clients that know links alone."""

import asyncio
import json
from contextlib import AsyncExitStack, suppress
from urllib.parse import quote, unquote

import httpx
import pytest
from faces.contract import (
    AccountContract,
    BytesContract,
    ConditionContract,
    FaceContract,
    InTurn,
    WaitContract,
    make_store,
    sides,
    stored,
)
from faces.rest.clients import a_face, client, follow, hosted, links
from faces.rest.hornetq.steps import consumer, create, lead, msg
from faces.sides import NEWS, SHOPS, InTurnTransport
from harness.batches.queue_requests import a_queue

from pubqueue.faces.checks import THIS_HOST
from pubqueue.faces.http.problems import TITLES, refused
from pubqueue.model.decision import Refused

__all__ = ["make_store", "sides"]
WAIT = {"Accept-Wait": "30"}
NEW = {"If-None-Match": "*"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def queue(node):
    return f"/queues/{quote(node, safe='')}"


class RestClient:
    """A client as the contract has it: a subscription is a poller that takes as many as its window allows."""

    def __init__(self, http, name):
        self.http = http
        self.address = f"{name}@queue.localhost"
        self.bodies, self.waits = {}, {}
        self._items = asyncio.Queue()
        self.held, self._room = {}, asyncio.Condition()
        self.polling = []
        self._posts = {}

    async def _post(self, node, body, headers):
        if node not in self._posts:
            kind = "topics" if node in {NEWS, SHOPS} else "queues"
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
        return await self._post(node, body, {"Message-Id": quote(item), **typed})

    async def subscribe(self, node, window):
        poller = await follow(self.http, queue(node), "poller")
        self.polling.append(asyncio.create_task(self._poll(poller, window)))
        return ""

    async def _poll(self, poller, window):
        while True:
            async with self._room:
                await self._room.wait_for(lambda: len(self.held) < window)
            message = await self.http.post(poller, headers={"Accept-Wait": "50"})
            if message.status_code == 200:
                name = unquote(message.headers["Message-Id"])
                await self._note_wait(name, message, links(message))
                self.held[name] = links(message)["acknowledgement"]
                kind = message.headers["Content-Type"]
                self.bodies[name] = (
                    (None if kind == "application/octet-stream" else kind),
                    message.content,
                )
                self._items.put_nowait(name)

    async def _note_wait(self, name, message, to):
        """Note what came, by the header and by the link, which say the same."""
        if "Message-Waited" in message.headers:
            came = json.loads(message.headers["Message-Waited"])
            assert (await self.http.get(to["waited"])).json() == came
            self.waits[name] = message.headers.get("Message-Woken"), came

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
        poller = await follow(self.http, queue(node), "poller")
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
                roots[side] = await ends.enter_async_context(
                    hosted(side.face, proxies=lambda: THIS_HOST)
                )
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


class TestRest(WaitContract, ConditionContract, FaceContract):  # W22
    test_a_wrong_password_and_an_unknown_name_get_the_same_answer = (
        AccountContract.test_a_wrong_password_and_an_unknown_name_get_the_same_answer
    )
    test_a_node_of_a_project_that_does_not_exist_for_an_account_is_not_there = (
        AccountContract.test_a_node_of_a_project_that_does_not_exist_for_an_account_is_not_there
    )
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
    def rivals(self):
        async def make(clients, number):
            made = await asyncio.gather(
                *(one.http.put(f"/topics/made{number}", headers=NEW) for one in clients)
            )
            return ["" if one.status_code == 201 else one.text for one in made]

        return make

    test_a_peer_that_is_often_wrong_has_to_wait_and_no_other = (
        AccountContract.test_a_peer_that_is_often_wrong_has_to_wait_and_no_other
    )

    @pytest.fixture
    def logs_in(self, connected):
        async def log_in(side, name, password, peer="192.0.2.9"):
            user = await connected(side, name)
            user.http.headers["X-Forwarded-For"] = peer
            user.http.headers.pop("Authorization", None)  # a token
            user.http.auth = httpx.BasicAuth(name, password)
            answer = await user.http.get("/queues/jobs")
            return user if answer.status_code == 200 else f"{answer.status_code} {answer.text}"

        return log_in

    @pytest.fixture
    def words_for(self):
        def words(reply: Refused) -> str:
            return TITLES[refused(reply).name]

        return words

    @pytest.fixture
    def face_of(self):
        return a_face


@pytest.fixture
async def in_turn(sides):
    """How to make a client whose requests go to the two instances in turn."""
    async with AsyncExitStack() as ends:
        roots = [
            await ends.enter_async_context(hosted(side.face, proxies=lambda: THIS_HOST))
            for side in sides
        ]

        async def make(name, profile="rest"):
            root = f"{roots[0].removesuffix('/rest')}/{profile}"
            return await ends.enter_async_context(
                client(root, name, transport=InTurnTransport(roots))
            )

        yield make


@pytest.fixture
async def stopping():
    """Clients whose polls end with the test."""
    clients = []
    yield clients
    for one in clients:
        for task in one.polling:
            task.cancel()
        with suppress(httpx.HTTPError):
            await asyncio.gather(*one.polling, return_exceptions=True)


class TestRestInTurn(InTurn, TestRest):  # W22
    test_a_list_goes_on_at_the_next_instance = None  # it goes on after a name, which is in its link
    test_locks_outlive_their_instance = None
    test_links_of_one_instance_hold_at_the_other = None

    @pytest.fixture
    def connected(self, in_turn, stopping):
        async def connect(_side, name):
            stopping.append(RestClient(await in_turn(name), name))
            return stopping[-1]

        return connect

    async def test_links_for_one_use_hold_in_turn(self, sides, connected):
        etl = await connected(sides[0], "etl")
        http = etl.http
        begun = await http.post(await follow(http, "/queues/jobs", "post-message-once"))
        first = links(begun)["create-next"]
        assert [(await http.post(first, content=b"a")).status_code for _ in range(4)] == [
            200,
            405,
            405,
            405,
        ]
        message = await http.post(await follow(http, "/queues/jobs", "consumer"))
        where = links(message)["acknowledgement"]
        verdict = {"acknowledge": "true"}
        assert [(await http.post(where, data=verdict)).status_code for _ in range(4)] == [
            204,
            405,
            405,
            405,
        ]

    async def test_a_topic_is_followed_in_turn(self, sides, connected):
        await sides[0].broker.handle(a_queue(NEWS, queueing=False, publish_model="open"))
        http = (await connected(sides[0], "etl")).http
        posting = await follow(http, "/topics/news", "post-message")
        for number in range(6):
            assert (await http.post(posting, content=f"{number}")).status_code == 201
        message = await http.get(await follow(http, "/topics/news", "first"))
        bodies = [message.text]
        while len(bodies) < 6:
            message = await http.get(links(message)["next"])
            bodies.append(message.text)
        assert bodies == [f"{number}" for number in range(6)]


class HornetqClient(RestClient):
    """A client of `hornetq` as the contract has it: a subscription is as many manual consumers as its window allows."""

    async def _post(self, node, body, headers):
        if node not in self._posts:
            kind = "topics" if node in {NEWS, SHOPS} else "queues"
            head = await self.http.head(f"/{kind}/{quote(node, safe='')}")
            if head.status_code != 200:
                return f"{head.status_code}"
            self._posts[node] = links(head)["create"]
        answer = await self.http.post(self._posts[node], content=body, headers=headers)
        return "" if answer.status_code == 201 else answer.text

    async def subscribe(self, node, window):
        for _ in range(window):
            made = await consumer(self.http, queue(node), autoAck="false")
            following = msg(made)["acknowledge-next"]
            self.polling.append(asyncio.create_task(self._work(following)))
        return ""

    async def _work(self, following):
        while True:
            message = await self.http.post(following, headers={"Accept-Wait": "50"})
            if message.status_code == 200:
                name = unquote(message.headers["Message-Id"])
                await self._note_wait(name, message, msg(message))
                kind = message.headers["Content-Type"]
                self.bodies[name] = (
                    None if kind == "application/octet-stream" else kind,
                    message.content,
                )
                self.held[name] = msg(message)["acknowledgement"]
                self._items.put_nowait(name)
                async with self._room:
                    await self._room.wait_for(lambda: name not in self.held)  # noqa: B023

    async def retract(self, node, item):
        where = self.held.get(item)
        if where is None:
            made = await consumer(self.http, f"/queues/{node}", autoAck="false")
            where = f"{made.headers['Location']}/acknowledgement/{item}/1"
        answer = await self.http.post(where, content="acknowledge=true", headers=FORM)
        async with self._room:
            self.held.pop(item, None)
            self._room.notify_all()
        return "" if answer.status_code == 204 else answer.text


class TestHornetqInTurn(InTurn, TestRest):  # W22
    test_of_two_changes_at_once_under_one_condition_one_is_made = None

    test_a_list_goes_on_at_the_next_instance = None  # nor has it lists
    test_locks_outlive_their_instance = None
    test_links_of_one_instance_hold_at_the_other = None

    @pytest.fixture
    def connected(self, in_turn, stopping):
        async def connect(_side, name):
            stopping.append(HornetqClient(await in_turn(name, "hornetq"), name))
            return stopping[-1]

        return connect

    async def test_a_consumer_has_one_message_until_it_is_settled(self, sides, connected):
        etl = await connected(sides[0], "etl")
        for name in "abc":
            assert await etl.publish("jobs", name) == ""
        made = await consumer(etl.http, autoAck="false")
        place, following = made.headers["Location"], msg(made)["acknowledge-next"]
        for name in "abc":
            for _ in range(3):
                message = await etl.http.post(following)
                assert message.headers["Message-Id"] == name
                where = msg(message)["acknowledgement"]
                assert msg(await etl.http.get(place))["acknowledgement"] == where
            for _ in range(3):
                done = await etl.http.post(where, content="acknowledge=true", headers=FORM)
                assert done.status_code == 204
            assert await stored(sides[0], name) is None
            following = msg(done)["acknowledge-next"]
            assert msg(await etl.http.get(place))["acknowledge-next"] == following
        assert (await etl.http.post(following)).status_code == 503

    async def test_two_requests_of_a_consumer_at_once_get_one_message(self, sides, connected):
        etl = await connected(sides[0], "etl")
        made = await consumer(etl.http, autoAck="false")
        following = msg(made)["acknowledge-next"]
        for name in "abcdefgh":
            assert await etl.publish("jobs", name) == ""
        messages = await asyncio.gather(*(etl.http.post(following) for _ in range(4)))
        first = min(message.headers["Message-Id"] for message in messages)
        again = await etl.http.post(following)
        assert again.headers["Message-Id"] == first
        for message in messages:
            if message.headers["Message-Id"] == first:
                where = msg(message)["acknowledgement"]
        stale = [one for one in messages if one.headers["Message-Id"] != first]
        for message in stale:  # it went back when the other instance had the first
            refused = await etl.http.post(
                msg(message)["acknowledgement"], content="acknowledge=true", headers=FORM
            )
            assert refused.status_code == 412
        assert (
            await etl.http.post(where, content="acknowledge=true", headers=FORM)
        ).status_code == 204

    async def test_an_automatic_consumer_gets_each_message_once(self, sides, connected):
        etl = await connected(sides[0], "etl")
        names = [f"{number}" for number in range(9)]
        for name in names:
            assert await etl.publish("jobs", name) == ""
        made = await consumer(etl.http)
        used, following, found = [], msg(made)["consume-next"], []
        for _ in names:
            message = await etl.http.post(following)
            assert message.status_code == 200
            found.append(message.headers["Message-Id"])
            used, following = [*used, following], msg(message)["consume-next"]
            assert msg(await etl.http.get(made.headers["Location"]))["consume-next"] == following
        assert found == names
        for link in used[:-1]:
            old = await etl.http.post(link)
            assert (old.status_code, msg(old)["consume-next"]) == (412, following)
        assert (await etl.http.post(following)).status_code == 503

    @pytest.mark.parametrize("durable", [{}, {"durable": "true", "name": "mine"}])
    async def test_a_subscription_of_a_topic_gets_each_message_once(
        self, sides, connected, durable
    ):
        await sides[0].broker.handle(a_queue(NEWS, queueing=False, publish_model="open"))
        http = (await connected(sides[0], "etl")).http
        where = await lead(http, "/topics/news", "pull-subscriptions")
        made = [
            await http.post(where, data={"autoAck": auto, **durable, **named})
            for auto, named in (("true", {}), ("false", {"name": "other"} if durable else {}))
        ]
        following = msg(made[0])["consume-next"]
        manual = msg(made[1])["acknowledge-next"]
        bodies = [f"{number}".encode() for number in range(6)]
        for body in bodies:
            assert (await create(http, body, "/topics/news")).status_code == 201
        for body in bodies:
            for _ in range(3):
                message = await http.post(following)
                assert (message.status_code, message.content) == (200, body)
            following = msg(message)["consume-next"]
            assert msg(await http.get(made[0].headers["Location"]))["consume-next"] == following
            for _ in range(3):
                message = await http.post(manual)
                assert (message.status_code, message.content) == (200, body)
            for _ in range(3):
                done = await http.post(
                    msg(message)["acknowledgement"], content="acknowledge=true", headers=FORM
                )
                assert done.status_code == 204
            manual = msg(done)["acknowledge-next"]
        assert (await http.post(following)).status_code == 503
        assert (await http.post(manual)).status_code == 503

    async def test_a_consumer_that_was_deleted_is_gone_and_holds_nothing(self, sides, connected):
        etl = await connected(sides[0], "etl")
        await etl.publish("jobs", "a")
        for _ in range(3):
            made = await consumer(etl.http, autoAck="false")
            message = await etl.http.post(msg(made)["acknowledge-next"], headers=WAIT)
            assert message.headers["Message-Id"] == "a"
            place = made.headers["Location"]
            assert (await etl.http.delete(place)).status_code == 204
            assert (await stored(sides[0], "a")).holder is None, "it is released with the answer"
            answers = [await etl.http.delete(place), await etl.http.delete(place)]
            answers += [await etl.http.get(place), await etl.http.get(place)]
            assert {one.status_code for one in answers} == {404}
