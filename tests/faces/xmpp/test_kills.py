"""The component is killed between any two steps of a batch, with plain publishes and at both levels of `urn:xmpp:qos`."""

import asyncio
import itertools
from contextlib import suppress

import pytest
from faces.kill_contract import LATE, Delivery, GoneError, KillContract, jobs
from faces.xmpp.kill_hands import (
    HOST,
    PUBSUB,
    SERVICE,
    SUBSCRIBE,
    AcknowledgedHand,
    AssuredHand,
    Lock,
    XmppHand,
    XmppService,
    pubsub,
)
from harness.patience import TIMEOUT
from harness.processes.killed_lives import killed_itself, start_doomed
from harness.servers.stub_server import StubServer

BILLS = """
[[node]]
name = "bills"
queueing = true
publishers = ["bee@localhost"]
members = ["ann@localhost"]
"""
ANN = "ann@localhost/x"


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


POINTS = (
    *("begun", "decided", "applied", "dispatched", "written", "committed"),
    *("answering", "answered", "delivered"),
)


async def test_killed_while_an_item_ends_each_follow_up_is_there_once(server, tmp_path, kept):
    """Those of another attempt have other ids, so two that were published would both be seen."""
    nodes = jobs(HOST, LATE) + BILLS
    service = XmppService(tmp_path, server, nodes, kept.address)
    etl, bee = (XmppHand(service, f"{name}@{HOST}/x", {}) for name in ("etl", "bee"))
    attempts = 0

    async def end():
        nonlocal attempts
        wanted = SUBSCRIBE.replace("jobs", "bills").replace(">3<", ">100<").format(ANN)
        await service.say(f"<presence type='unavailable' from='{ANN}' to='{SERVICE}'/>")
        assert (await service.ask(ANN, "bills", pubsub(wanted))).get("type") == "result"
        await service.say(f"<presence from='{ANN}' to='{SERVICE}'/>")
        await bee.come()
        lock = await service.items(bee.jid).get()
        if lock is None:
            raise GoneError
        attempts += 1
        then = "".join(
            f"<then xmlns='urn:x-pubqueue:0' node='bills'><item xmlns='{PUBSUB}' id='{lock.item}/{n}/{attempts}'>"
            f"<job xmlns='urn:example:work'>bill</job></item></then>"
            for n in (1, 2)
        )
        words = f"<retract node='jobs'><item id='{lock.item}'/></retract>"
        words += f"<lock xmlns='urn:x-pubqueue:0' token='{lock.token}'/>{then}"
        answer = await service.ask(bee.jid, f"end {attempts}", pubsub(words))
        assert answer.get("type") == "result"

    async with asyncio.timeout(3 * TIMEOUT):
        for point in POINTS:
            async with service:
                await etl.publish(point, "g")
            await start_doomed(service, f"{point}@Together", 1)
            with suppress(GoneError):
                await end()
            await killed_itself(service)
            await kept.abandoned()
            if point in kept.bodies("jobs"):
                async with service:
                    await end()
    assert kept.bodies("jobs") == {}
    bills = [name.split("/") for name in kept.bodies("bills")]
    wanted = sorted([point, n] for point in POINTS for n in "12")
    assert sorted(bill[:2] for bill in bills) == wanted
    assert all(
        one[2] == other[2] for one, other in itertools.pairwise(sorted(bills)) if one[0] == other[0]
    )
    assert attempts > len(POINTS), "some of the kills came before the commit"


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
