"""The component is killed between any two steps of a batch, with plain publishes and at both levels of `urn:xmpp:qos`."""

import asyncio
from contextlib import suppress

import pytest
from faces.kill_contract import LATE, Delivery, GoneError, KillContract, jobs
from faces.xmpp.kill_hands import (
    HOST,
    AcknowledgedHand,
    AssuredHand,
    Lock,
    XmppHand,
    XmppService,
)
from harness.patience import TIMEOUT
from harness.processes.killed_lives import killed_itself, start_doomed
from harness.servers.stub_server import StubServer


@pytest.fixture
async def server():
    async with StubServer(validate=lambda _tree: None) as server:
        yield server


class TestXmpp(KillContract):
    connect = staticmethod(XmppHand.connected)

    @pytest.fixture
    async def server(self):
        """One that validates all that it gets."""
        async with StubServer() as server:
            yield server

    @pytest.fixture
    def make_service(self, server):
        return lambda folder, store: XmppService(folder, server, jobs(HOST, LATE), store)

    @pytest.mark.covers("Q-055")
    @pytest.mark.parametrize("point", ["committed", "answered", "delivered"])
    async def test_killed_between_commit_and_send_it_sends_again_under_the_same_token(
        self, point, server, tmp_path, kept
    ):
        """Whether the item's holder got it nobody knows: it gets it again, and nobody else does."""
        service = XmppService(tmp_path, server, jobs(HOST, LATE), kept.address)
        etl, bee, ann = (
            XmppHand(service, f"{name}@{HOST}/x", {}) for name in ("etl", "bee", "ann")
        )
        async with asyncio.timeout(TIMEOUT):
            await start_doomed(service, point, 1)
            await bee.come()
            with suppress(GoneError):
                await etl.publish("g0-00", "g0")
            await killed_itself(service)
            (locked,) = kept.locks()
            assert locked[:3] == ("g0-00", "locked", bee.jid)
            lock = Lock("g0-00", "g0-00", str(locked[3]), "1")
            again = service.items(bee.jid)
            if point == "delivered":
                assert await again.get() == lock
            assert await again.get() is None, "its stream has ended too"
            async with service:
                await ann.come()
                assert await again.get() == lock
                await etl.publish("g1-00", "g1")
                assert (await ann.take()).text == "g1-00"
                assert await bee.settle(Delivery("g0-00", "g0-00"))
        assert [row[0] for row in kept.locks()] == ["g1-00"]


@pytest.mark.covers("QS-024", "QS-031")
class TestAcknowledged(KillContract):
    connect = staticmethod(AcknowledgedHand.connected)

    @pytest.fixture
    def make_service(self, server):
        return lambda folder, store: XmppService(folder, server, jobs(HOST, LATE), store)


@pytest.mark.covers("QS-024", "QS-031")
class TestAssured(TestAcknowledged):
    connect = staticmethod(AssuredHand.connected)
    REQUESTS = ("KeepMessage", "DeliverMessage", "Settle")
