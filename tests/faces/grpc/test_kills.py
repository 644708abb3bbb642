"""The service is killed between any two steps, and at any moment: its word is kept over gRPC, in streams, and in JSON."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from contextlib import asynccontextmanager

import grpc
import httpx
import pytest
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, Stub
from faces.grpc.json.clients import plain
from faces.grpc.service import DOMAIN, SERVED, GrpcService
from faces.kill_contract import PASSAGE, Delivery, GoneError, Promise, SharedKillContract, jobs

from pubqueue.faces.grpc import topics
from pubqueue.faces.grpc.wire import v1 as m

TOPIC, JOBS = "projects/xmpp/topics/jobs", "projects/xmpp/subscriptions/jobs"
BILL = "projects/shop/subscriptions/bill"
EXACT = f'"x-pubsub#labels" = "{topics.EXACTLY_ONCE}=1"\n'
"""Without it, an acknowledgement of a lock that has ended is answered as one that counts."""
OWN = [("grpc.use_local_subchannel_pool", 1)]
"""A connection of its own: not the one that was refused."""


class GrpcHand:
    """Pulls; sets a deadline, and then acknowledges, also what it has pulled before the kill."""

    def __init__(self, channel):
        self.publisher, self.subscriber = Stub(channel, PUBLISHER), Stub(channel, SUBSCRIBER)

    @classmethod
    @asynccontextmanager
    async def connected(cls, service, _name, _number, _memory):
        try:
            async with grpc.aio.insecure_channel(service.address, OWN) as channel:
                hand = cls(channel)
                try:
                    yield hand
                finally:
                    hand.leave()
        except grpc.aio.AioRpcError as problem:
            if problem.code() is not grpc.StatusCode.UNAVAILABLE:
                raise
            raise GoneError from problem

    def leave(self):
        """End what is under way."""

    async def publish(self, text, group):
        one = m.PubsubMessage(data=text.encode(), ordering_key=group)
        await self.publisher.Publish(topic=TOPIC, messages=[one])

    async def take(self):
        try:
            answer = await self.subscriber.Pull(subscription=JOBS, max_messages=1, timeout=1)
        except grpc.aio.AioRpcError as problem:
            if problem.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            return None
        return self.delivered(answer)

    @staticmethod
    def delivered(answer):
        """Return what came, if anything did."""
        for one in answer.received_messages:
            return Delivery(one.message.data.decode(), one.message.message_id, one.ack_id)
        return None

    async def settle(self, delivery):
        named = {"subscription": JOBS, "ack_ids": [delivery.handle]}
        try:
            await self.subscriber.ModifyAckDeadline(**named, ack_deadline_seconds=3)
            await self.subscriber.Acknowledge(**named)
        except grpc.aio.AioRpcError as problem:
            if problem.code() is not grpc.StatusCode.FAILED_PRECONDITION:
                raise
            return False
        return True


class StreamHand(GrpcHand):
    """Takes what a stream brings, one at a time."""

    _stream = None

    def leave(self):
        if self._stream is not None:
            self._stream.cancel()

    async def take(self):
        if self._stream is None:
            self._stream = self.subscriber.StreamingPull(self._first())
        answer = await self._stream.read()
        if answer is grpc.aio.EOF:
            raise GoneError
        return self.delivered(answer)

    @staticmethod
    async def _first():
        yield m.StreamingPullRequest(
            subscription=JOBS, stream_ack_deadline_seconds=10, max_outstanding_messages=1
        )
        await asyncio.Event().wait()


class JsonHand:
    """Does the same by requests in JSON, where messages have no groups."""

    def __init__(self, client):
        self._client = client

    @classmethod
    @asynccontextmanager
    async def connected(cls, service, _name, _number, _memory):
        try:
            async with plain(f"http://{service.json}") as client:
                yield cls(client)
        except httpx.TransportError as problem:
            raise GoneError from problem

    async def _do(self, path, **fields):
        answer = await self._client.post(path, json=fields)
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.json()

    async def publish(self, text, _group):
        message = {"data": b64encode(text.encode()).decode()}
        await self._do("/topics/publishBatch", topic="/topics/xmpp/jobs", messages=[message])

    async def take(self):
        pulling = self._do("/subscriptions/pullBatch", **self._where, maxEvents=1)
        try:
            answer = await asyncio.wait_for(pulling, 1)
        except TimeoutError:
            return None
        for one in answer.get("pullResponses", ()):
            message = one["pubsubEvent"]["message"]
            text = b64decode(message["data"]).decode()
            return Delivery(text, message["messageId"], one["ackId"])
        return None

    async def settle(self, delivery):
        fields = {**self._where, "ackId": [delivery.handle]}
        answer = await self._client.post("/subscriptions/acknowledge", json=fields)
        assert answer.status_code in {httpx.codes.OK, httpx.codes.BAD_REQUEST}, answer.text
        return answer.status_code == httpx.codes.OK

    _where = {"subscription": "/subscriptions/xmpp/jobs"}  # noqa: RUF012


class TestGrpc(SharedKillContract):  # G6, G20, G33, G46, G51
    connect = staticmethod(GrpcHand.connected)
    PROMISE = Promise(is_once=False, holds=True)
    REQUESTS = ("Publish", "Take", "SettleEach")

    @pytest.fixture
    def make_service(self):
        table = f'{SERVED}\njson = "127.0.0.1:0"'
        return lambda folder, store: GrpcService(folder, table, jobs(DOMAIN) + EXACT, store=store)


class TestStream(TestGrpc):  # G30, G46
    """What a stream was about to get comes again after its deadline, which is ten seconds at least."""

    connect = staticmethod(StreamHand.connected)
    test_killed_at_any_moment_while_workers_die_it_keeps_its_word = None

    @pytest.mark.parametrize("kept", ["sqlite"], indirect=True)
    @pytest.mark.parametrize("point", ["written", "committed", "answering"])
    async def test_killed_at_each_step_it_keeps_its_word(self, point, serve, tmp_path, kept):
        lives = [(f"{point}@{kind}", PASSAGE) for kind in self.REQUESTS]
        await self.killed_at(lives, serve, tmp_path, kept)


class TestJson(TestGrpc):  # G20, G46, G49, G51
    connect = staticmethod(JsonHand.connected)
    PROMISE = Promise(is_once=False, holds=True, is_in_order=False)
