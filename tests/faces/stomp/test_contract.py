"""The contract of faces, of STOMP: two instances, and clients over sockets."""

import pytest
from faces.contract import SEPARATORS, AccountContract, FaceContract, make_store, sides, stored
from faces.stomp import clients

from pubqueue.faces.stomp.refusals import problem_of
from pubqueue.model.decision import Resent
from pubqueue.rules.unlock import Resend

__all__ = ["make_store", "sides"]


@pytest.fixture(autouse=True)
async def all_closed():
    yield
    await clients.closed()


async def connect(side, name):
    return await clients.connected(side.face, name)


PEERS = {"192.0.2.1": "127.0.0.21", "192.0.2.2": "127.0.0.22"}
"""Addresses of this machine that stand for peers."""


async def log_in(side, name, passcode, peer="192.0.2.2"):
    return await clients.connected(side.face, name, passcode, PEERS[peer])


class TestNamesOfMessages:
    """In 1.0 and 1.1 an ACK names a message without a word that the service has made for it."""

    test_of_names_that_are_one_when_they_are_joined_each_is_its_own = (
        FaceContract.test_of_names_that_are_one_when_they_are_joined_each_is_its_own
    )
    separators = SEPARATORS

    @pytest.fixture
    def face_of(self):
        return clients.a_face

    @pytest.fixture(params=["1.0", "1.1"])
    def connected(self, request):
        return lambda side, name: clients.connected(side.face, name, version=request.param)


class TestStomp(AccountContract):  # N21, N26
    async def test_what_is_held_without_a_subscription_is_released_when_its_instance_dies(
        self, sides, connected
    ):
        one, other = sides
        etl, bee = await connected(one, "etl"), await connected(other, "bee")
        await bee.subscribe("jobs", 5)
        await etl.publish("jobs", "a")
        assert await bee.item() == "a"
        assert await bee.unsubscribe("jobs") == ""
        assert (await stored(one, "a")).holder == f"{bee.address}.1"
        await other.kill()
        second = await connected(one, "eva")
        await second.subscribe("jobs", 5)
        assert await second.item() == "a"
        assert (await stored(one, "a")).failed == 0

    async def test_a_repeated_delivery_is_not_sent_again_on_the_connection_that_has_it(
        self, sides, connected
    ):
        one, _ = sides
        etl, bee = await connected(one, "etl"), await connected(one, "bee")
        await bee.subscribe("jobs", 5)
        await etl.publish("jobs", "a")
        assert await bee.item() == "a"
        resent = await one.broker.handle(Resend(instance=one.broker.instance.number))
        assert (type(resent), await stored(one, "a") is None) == (Resent, False)
        await etl.publish("jobs", "b")
        assert await bee.item() == "b"

    @pytest.fixture
    def words_for(self):
        return lambda refused: problem_of(refused).message

    @pytest.fixture
    def face_of(self):
        return clients.a_face

    @pytest.fixture
    def connected(self):
        return connect

    @pytest.fixture
    def logs_in(self):
        return log_in
