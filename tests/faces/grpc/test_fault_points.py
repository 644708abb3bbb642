"""The service is killed between any two steps of a publish, a delivery, an acknowledgement, a new deadline: its word is kept."""

from __future__ import annotations

import asyncio
import signal
import sys

import grpc
import pytest
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, Stub
from faces.grpc.service import GrpcService
from harness.patience import TIMEOUT
from harness.processes import doomed
from harness.processes.program import PUBQUEUE
from harness.stores.kept import KeptInFile, KeptInPostgres

from pubqueue.faces.grpc.wire.messages import v1 as m

TOPIC, JOBS = "projects/xmpp/topics/jobs", "projects/xmpp/subscriptions/jobs"
KEYS, EACH = ("a", "b"), 5
MESSAGES = [f"{key}{n}".encode() for n in range(EACH) for key in KEYS]
NODE = """
[[node]]
name = "jobs"
queueing = true
owners = ["dev@queue.localhost"]
[node.options]
"x-queueing#lock_timeout" = 2
"x-queueing#lock_longest" = 600
"x-queueing#max_failures" = 1000
"x-queueing#backoff_min" = 0
"""
REQUESTS = {"publish": ("Publish", 4), "delivery": ("Take", 3)} | {
    "deadline": ("SettleEach", 3),
    "acknowledgement": ("SettleEach", 4),
}
"""What is under way at the end: a kind of request, and the number of its batch. A worker sets a deadline, and then acknowledges."""

POINTS = ("written", "committed", "answering")


class Trade:
    """A publisher that repeats what was not confirmed, and a worker that repeats acknowledgements until they are."""

    def __init__(self):
        self.published, self.acknowledged = set(), set()
        self.order = []
        self._open, self._done = {}, set()

    async def run(self, address):
        """Go on until the service is dead, or all is done."""
        async with grpc.aio.insecure_channel(
            address, [("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            publisher, subscriber = Stub(channel, PUBLISHER), Stub(channel, SUBSCRIBER)
            await asyncio.gather(
                *(self._while_up(self._publish(publisher, key)) for key in KEYS),
                self._while_up(self._work(subscriber)),
            )

    @staticmethod
    async def _while_up(doing):
        try:
            await doing
        except grpc.aio.AioRpcError as problem:
            if problem.code() is not grpc.StatusCode.UNAVAILABLE:
                raise

    async def _publish(self, publisher, key):
        for data in MESSAGES:
            if data[:1] == key.encode() and data not in self.published:
                one = m.PubsubMessage(data=data, ordering_key=key)
                await publisher.Publish(topic=TOPIC, messages=[one])
                self.published.add(data)

    async def _work(self, subscriber):
        while self.acknowledged != set(MESSAGES) or self._open:
            for data, (name, ack_id) in list(self._open.items()):
                named = {"subscription": JOBS, "ack_ids": [ack_id]}
                await subscriber.ModifyAckDeadline(**named, ack_deadline_seconds=3)
                await subscriber.Acknowledge(**named)
                self.acknowledged.add(data)
                self._done.add(name)
                del self._open[data]
            for one in await self._pulled(subscriber):
                self._note(one)

    @staticmethod
    async def _pulled(subscriber):
        """Return what is there, if anything comes in time."""
        try:
            answer = await subscriber.Pull(subscription=JOBS, max_messages=1, timeout=0.3)
        except grpc.aio.AioRpcError as problem:
            if problem.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
                raise
            return ()
        return answer.received_messages

    def _note(self, one):
        data, name = one.message.data, one.message.message_id
        assert name not in self._done, "what was acknowledged has come again"
        self.order.append(data)
        self._open[data] = name, one.ack_id

    def check(self):
        """Check what is known of all messages at the end."""
        assert self.published == self.acknowledged == set(MESSAGES)
        for key in KEYS:
            firsts = [data for data in dict.fromkeys(self.order) if data[:1] == key.encode()]
            assert firsts == sorted(firsts)


def doomed_at(what, point):
    """Return the command of a service that kills itself there."""
    request, passage = REQUESTS[what]
    return (sys.executable, "-I", doomed.__file__, f"{point}@{request}", f"{passage}")


async def killed(service, trade):
    """Let it work until it is dead."""
    async with asyncio.timeout(TIMEOUT):
        await service.start()
        await trade.run(service.address)
        assert await service.ended() == -signal.SIGKILL


@pytest.fixture
def in_file(tmp_path):
    return KeptInFile(tmp_path / "pubqueue.db")


@pytest.fixture
def in_postgres(postgres):
    return KeptInPostgres(postgres)


async def kept_word(kept, folder, what, point):
    """Have the service killed and started again, and check that its word is kept."""
    trade = Trade()
    service = GrpcService(folder, more=NODE, store=kept.address)
    service.command = doomed_at(what, point)
    await killed(service, trade)
    found = kept.recount()
    assert found.wrong == ()
    least = len(trade.published - trade.acknowledged) - 1  # the answer of one may have been lost
    assert len(found.of("jobs")) >= least, "lost"
    service.command = (PUBQUEUE,)
    async with asyncio.timeout(TIMEOUT), service:
        await trade.run(service.address)
    trade.check()
    return kept.recount()


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("what", REQUESTS)
async def test_killed_there_nothing_confirmed_is_lost_or_comes_back(
    tmp_path, in_file, what, point
):  # G6, G20, G33, G46
    left = await kept_word(in_file, tmp_path, what, point)
    assert left.wrong == ()


@pytest.mark.parametrize("what", ["publish", "delivery", "acknowledgement"])
async def test_killed_after_a_commit_on_postgresql(tmp_path, in_postgres, what):  # G46
    left = await kept_word(in_postgres, tmp_path, what, "committed")
    assert left.wrong == ()


@pytest.mark.parametrize("what", ["delivery", "acknowledgement"])
async def test_another_instance_goes_on_where_one_was_killed(tmp_path, in_postgres, what):  # G51
    folders = [tmp_path / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    one, other = (GrpcService(folder, more=NODE, store=in_postgres.address) for folder in folders)
    one.command = doomed_at(what, "committed")
    trade = Trade()
    async with other:
        await killed(one, trade)
        async with asyncio.timeout(TIMEOUT):
            await trade.run(other.address)
    trade.check()
    assert in_postgres.recount().wrong == ()


@pytest.mark.parametrize("point", ["committed", "answering"])
async def test_what_a_stream_was_about_to_get_comes_again_after_its_deadline(
    tmp_path, in_file, point
):  # G30, G46
    service = GrpcService(tmp_path, more=NODE, store=in_file.address)
    service.command = (sys.executable, "-I", doomed.__file__, f"{point}@Publish", "2")
    service_died = None
    async with asyncio.timeout(TIMEOUT):
        await service.start()
        service.stay()
        async with grpc.aio.insecure_channel(service.address) as channel:
            publisher, subscriber = Stub(channel, PUBLISHER), Stub(channel, SUBSCRIBER)
            stream = subscriber.StreamingPull(_first())
            for data in (b"1", b"2"):
                try:
                    await publisher.Publish(topic=TOPIC, messages=[m.PubsubMessage(data=data)])
                except grpc.aio.AioRpcError as problem:
                    service_died = problem.code()
                    break  # in a batch with a request of the stream, the first publish is the second passage
            stream.cancel()
        assert service_died is grpc.StatusCode.UNAVAILABLE
        assert await service.ended() == -signal.SIGKILL
        service.command = (PUBQUEUE,)
        own = [("grpc.use_local_subchannel_pool", 1)]  # not the connection that was refused
        async with service, grpc.aio.insecure_channel(service.address, own) as channel:
            stream, heard = Stub(channel, SUBSCRIBER).StreamingPull(_first()), set()
            while data not in heard:
                answer = await stream.read()
                heard |= {one.message.data for one in answer.received_messages}
            stream.cancel()


async def _first():
    yield m.StreamingPullRequest(subscription=JOBS, stream_ack_deadline_seconds=10)
    await asyncio.Event().wait()
