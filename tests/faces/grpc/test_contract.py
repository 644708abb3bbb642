"""The contract of faces, of gRPC: two instances on one store, and clients of `google.pubsub.v1` at a queue of other protocols.

Publishers choose no ids here, so an item goes by an attribute. What a client has pulled is its account's and no connection's, so one that
leaves gives it back.
"""

import asyncio
import itertools
import json
from base64 import b64encode
from contextlib import suppress
from functools import partial
from urllib.parse import quote

import grpc
import pytest
from faces import contract
from faces.contract import (
    AccountContract,
    BytesContract,
    ConditionContract,
    FaceContract,
    InTurn,
    TakeContract,
    WaitContract,
    make_store,
)
from faces.grpc import clients
from faces.grpc.clients import IAM, PUBLISHER, SUBSCRIBER, Stub, code_of
from faces.sides import SHOPS, two_sides
from harness.batches.queue_requests import a_queue
from harness.patience import TIMEOUT, until
from harness.servers.users import RIGHT, SERVICE

from pubqueue.faces.checks import THIS_HOST
from pubqueue.faces.grpc import subscriptions
from pubqueue.faces.grpc.statuses import problem_of
from pubqueue.faces.grpc.topics import EXACTLY_ONCE
from pubqueue.faces.grpc.wire import WAITED, WOKEN
from pubqueue.faces.grpc.wire import iam as i
from pubqueue.faces.grpc.wire import v1 as m
from pubqueue.model.decision import Refused
from pubqueue.model.entities import Affiliation, ItemId, Jid, NodeName, Principal
from pubqueue.rules import nodeconfig
from pubqueue.rules.nodes import GetAffiliations

__all__ = ["make_store"]
NAME = "name"
TYPE = "content-type"


def basic(name, password):
    return (("authorization", f"Basic {b64encode(f'{name}:{password}'.encode()).decode()}"),)


def topic(node):
    return node if node == SHOPS else f"projects/xmpp/topics/{quote(node, safe='~+')}"


def named(node):
    return f"projects/xmpp/subscriptions/{quote(node, safe='~+')}"


async def alone(request):
    """Yield the only request of a stream that stays open."""
    yield request
    await asyncio.Event().wait()


class GrpcClient:
    """A client as the contract has it. `ids` are those of the items that any client has published, by the names of the test."""

    def __init__(self, channel, name, password, ids, peer=""):
        self.address = f"{name}@{SERVICE}"
        login = (*basic(name, password), ("x-forwarded-for", peer))
        self.publisher, self.iam = Stub(channel, PUBLISHER, login), Stub(channel, IAM, login)
        self._subscriber = Stub(channel, SUBSCRIBER, login)
        self._ids = ids
        self.bodies, self.waits, self._held = {}, {}, {}
        self._items = asyncio.Queue()
        self._streams, self._reading = [], []

    async def publish(self, node, item):
        return await self.send(node, item, b"<a xmlns='urn:x'/>", "application/xml")

    async def send(self, node, item, body, kind):
        typed = {} if kind is None else {TYPE: kind}
        message = m.PubsubMessage(data=body, attributes={NAME: item, **typed})
        try:
            answer = await self.publisher.Publish(topic=topic(node), messages=[message])
        except grpc.aio.AioRpcError as problem:
            return problem.details()
        self._ids[item] = ItemId(answer.message_ids[0])
        return ""

    async def subscribe(self, node, window):
        first = m.StreamingPullRequest(
            subscription=named(node),
            stream_ack_deadline_seconds=600,
            max_outstanding_messages=window,
        )
        stream = self._subscriber.StreamingPull(alone(first))
        self._streams.append(stream)
        self._reading.append(asyncio.create_task(self._read(stream)))
        return ""

    async def _read(self, stream):
        with suppress(grpc.aio.AioRpcError):
            while (answer := await stream.read()) is not grpc.aio.EOF:
                for name in map(self._note, answer.received_messages):
                    self._items.put_nowait(name)

    def _note(self, received):
        found = dict(received.message.attributes)
        name = found[NAME]
        self._held[name] = received.ack_id
        if WAITED in found:
            self.waits[name] = found.get(WOKEN), json.loads(found[WAITED])
        self.bodies[name] = found.get(TYPE), received.message.data
        return name

    async def take(self, node, count, wait):
        try:
            answer = await self._subscriber.Pull(
                subscription=named(node),
                max_messages=count,
                return_immediately=not wait,
                timeout=wait + TIMEOUT if wait else None,  # `early` has what is waited of it
            )
        except grpc.aio.AioRpcError as problem:
            return [], problem.details()
        return [self._note(one) for one in answer.received_messages], ""

    async def retract(self, node, item):
        given = {"subscription": named(node), "ack_ids": [self._held.pop(item, "none")]}
        try:
            await self._subscriber.Acknowledge(**given)
        except grpc.aio.AioRpcError as problem:
            return problem.details()
        return ""

    async def item(self):
        return await self._items.get()

    def items(self):
        return [self._items.get_nowait() for _ in range(self._items.qsize())]

    async def breaks(self):
        for stream in self._streams:
            stream.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)

    async def leave(self):
        await self.breaks()
        await self._subscriber.ModifyAckDeadline(
            subscription=named("jobs"), ack_ids=list(self._held.values())
        )


@pytest.fixture
def ids(monkeypatch):
    """The ids of items by the names of the test, by which it looks for them in the store too."""
    known = {}

    async def stored(side, name, node=contract.JOBS):
        return await contract.by_id(side, known.get(name, name), node)

    monkeypatch.setattr(contract, "stored", stored)
    return known


@pytest.fixture
def early(monkeypatch):
    """Answer this much before a client's deadline: a wait is as long as the contract says, whatever time the call itself takes."""
    monkeypatch.setattr(subscriptions, "EARLY", TIMEOUT)


@pytest.fixture
async def channels():
    opened = {}
    yield opened
    for channel in opened.values():
        await channel.close()


@pytest.fixture
async def connected(ids, channels, early):
    made = []

    async def connect(side, name, password=RIGHT, peer=""):
        if side not in channels:
            await until(lambda: side.face.addresses)
            port = side.face.addresses[0][1]
            channels[side] = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        made.append(GrpcClient(channels[side], name, password, ids, peer))
        return made[-1]

    yield connect
    for client in made:
        await client.breaks()


@pytest.fixture
async def sides(make_store, face_of):
    """Two instances and the queue `jobs`, which says of each acknowledgement what became of it."""
    async with asyncio.timeout(TIMEOUT), two_sides(make_store, face_of) as both:
        exact = nodeconfig.written_labels({EXACTLY_ONCE: "1"})
        made = await both[0].broker.handle(a_queue(publish_model="open", labels=exact))
        assert not isinstance(made, Refused)
        yield both
        for side in both:
            await side.face.stop()  # one that was killed has not closed its sockets


class TestGrpc(WaitContract, ConditionContract, FaceContract):  # G51, G53
    test_a_wrong_password_and_an_unknown_name_get_the_same_answer = (
        AccountContract.test_a_wrong_password_and_an_unknown_name_get_the_same_answer
    )
    test_a_peer_that_is_often_wrong_has_to_wait_and_no_other = (
        AccountContract.test_a_peer_that_is_often_wrong_has_to_wait_and_no_other
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
    test_any_body_that_is_taken_is_as_it_went_in = (
        TakeContract.test_any_body_that_is_taken_is_as_it_went_in
    )

    @pytest.fixture
    def rivals(self, sides):
        """Set two policies under one etag: who has an affiliation afterwards has it by the one that was set."""

        async def set_policies(clients, number):
            name = f"projects/shop/topics/made{number}"
            await clients[0].publisher.CreateTopic(name=name)
            etag = (await clients[0].iam.GetIamPolicy(resource=name)).etag
            wanted = [i.Policy(etag=etag) for _ in clients]
            for policy, member in zip(wanted, "ab", strict=True):
                policy.bindings.add(role="roles/pubsub.publisher", members=[f"user:{member}@x"])
            asked = zip(clients, wanted, strict=True)
            sets = [client.iam.SetIamPolicy(resource=name, policy=one) for client, one in asked]
            codes = await asyncio.gather(*map(code_of, sets))
            assert set(codes) <= {grpc.StatusCode.OK, grpc.StatusCode.ABORTED}
            (binding,) = (await clients[1].iam.GetIamPolicy(resource=name)).bindings
            root = Principal(Jid("root@x"), admin=True)
            found = await sides[1].broker.handle(GetAffiliations(root, NodeName(name)))
            members = [
                f"user:{jid}" for jid, is_a in found.entries if is_a is not Affiliation.OWNER
            ]
            assert [binding] == [wanted[codes.index(grpc.StatusCode.OK)].bindings[0]]
            assert members == binding.members
            return [code is not grpc.StatusCode.OK for code in codes]

        return set_policies

    @pytest.fixture
    def logs_in(self, connected):
        async def log_in(side, name, password, peer="192.0.2.9"):
            user = await connected(side, name, password, peer)
            return (await user.take("jobs", 1, 0))[1] or user

        return log_in

    @pytest.fixture
    def words_for(self):
        return lambda refused: problem_of(refused).message

    @pytest.fixture
    def face_of(self):
        return partial(clients.a_face, proxies=THIS_HOST)


class ChannelsInTurn:
    """Channels to several instances, of which each call takes another than the one before, as behind a load balancer."""

    def __init__(self, channels):
        self._next = itertools.cycle(channels)

    def _in_turn(self, kind, *args, **more):
        def call(*given, **fields):
            return getattr(next(self._next), kind)(*args, **more)(*given, **fields)

        return call

    def __getattr__(self, kind):
        return partial(self._in_turn, kind)


class PollingClient(GrpcClient):
    """A client without streams: who subscribes pulls as many as its window allows."""

    def __init__(self, *given):
        super().__init__(*given)
        self._room = asyncio.Condition()

    async def subscribe(self, node, window):
        self._reading.append(asyncio.create_task(self._poll(node, window)))
        return ""

    async def _poll(self, node, window):
        while True:
            async with self._room:
                await self._room.wait_for(lambda: len(self._held) < window)
            names, _ = await self.take(node, window - len(self._held), 50)
            for name in names:
                self._items.put_nowait(name)

    async def retract(self, node, item):
        why = await super().retract(node, item)
        async with self._room:
            self._room.notify_all()
        return why

    async def breaks(self):
        for polling in self._reading:
            polling.cancel()
        await super().breaks()


class TestGrpcInTurn(InTurn, TestGrpc):  # G51
    @pytest.fixture
    async def connected(self, ids, channels, early, sides):
        made = []
        for side in sides:
            await until(lambda: side.face.addresses)  # noqa: B023
            port = side.face.addresses[0][1]
            channels[side] = grpc.aio.insecure_channel(f"127.0.0.1:{port}")

        async def connect(_side, name, password=RIGHT, peer=""):
            in_turn = ChannelsInTurn([*channels.values()])
            made.append(PollingClient(in_turn, name, password, ids, peer))
            return made[-1]

        yield connect
        for client in made:
            await client.breaks()

    @pytest.fixture
    def page(self):
        async def page(client, token):
            asked = {"project": "projects/xmpp", "page_size": 1, "page_token": token}
            found = await client.publisher.ListTopics(**asked)
            return [one.name.rpartition("/")[2] for one in found.topics], found.next_page_token

        return page
