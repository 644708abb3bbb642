"""Clients of STOMP as they are published, unchanged: stomp.py in 1.1 and 1.2, and stompman."""

import asyncio
import queue

import pytest
import stomp
import stompman
from faces.contract import stored
from faces.stomp.serving import serving
from harness.patience import TIMEOUT
from harness.servers.users import RIGHT

from pubqueue.model.entities import State

CONNECTIONS = {"1.1": stomp.Connection11, "1.2": stomp.Connection12}


class Heard(stomp.ConnectionListener):
    """What a client of stomp.py hears, in its own thread."""

    def __init__(self):
        self.messages, self.receipts = queue.Queue(), queue.Queue()

    def on_message(self, frame):
        self.messages.put(frame)

    def on_receipt(self, frame):
        self.receipts.put(frame.headers["receipt-id"])


class OfStompPy:
    """A client of stomp.py, whose calls block."""

    def __init__(self, version, address):
        self.version, self.heard = version, Heard()
        self._connection = CONNECTIONS[version]([address], heartbeats=(10_000, 10_000))
        self._connection.set_listener("", self.heard)

    def connect(self):
        self._connection.connect("etl", RIGHT, wait=True)

    def do(self, call, *given, **more):
        getattr(self._connection, call)(*given, receipt="r", **more)  # a RECEIPT for each
        assert self.heard.receipts.get(timeout=TIMEOUT) == "r"

    def settle(self, call, frame, **more):
        if self.version == "1.2":
            self.do(call, frame.headers["ack"], **more)
        else:
            self.do(call, frame.headers["message-id"], "s", **more)

    def message(self):
        return self.heard.messages.get(timeout=TIMEOUT)

    def work(self):
        self.connect()
        self.do("subscribe", "/queue/jobs", "s", "client-individual")
        self.do("send", "/queue/jobs", "one")
        self.settle("nack", self.message())
        again = self.message()
        assert (again.body, again.headers["redelivered"]) == ("one", "true")
        self._connection.begin("t")
        self._connection.send("/queue/jobs", "two", transaction="t", **{"item-id": "two"})
        self.settle("ack", again, transaction="t")
        self.do("commit", "t")
        assert self.message().body == "two"
        self.do("disconnect")
        self.connect()
        self.do("subscribe", "/queue/jobs", "s", "client-individual")
        again = self.message()
        self.settle("ack", again)
        self.do("disconnect")
        return again.body


@pytest.mark.parametrize("version", CONNECTIONS)
async def test_stomp_py_sends_works_and_connects_again(version):  # N25
    async with serving() as served:
        client = OfStompPy(version, served.face.listener.addresses[0])
        assert await asyncio.to_thread(client.work) == "two"
        assert await stored(served.side, "two") is None


async def test_stompman_sends_works_and_has_transactions():  # N25
    async with serving() as served:
        host, port = served.face.listener.addresses[0]
        login = stompman.ConnectionParameters(host=host, port=port, login="etl", passcode=RIGHT)
        heard = asyncio.Queue()
        async with stompman.Client([login]) as client:
            subscription = await client.subscribe_with_manual_ack("/queue/jobs", heard.put)
            async with client.begin() as transaction:
                await transaction.send(
                    b"one", "/queue/jobs", add_content_length=True, headers={"item-id": "a"}
                )
            frame = await heard.get()
            assert frame.body == b"one"
            assert (await stored(served.side, "a")).state is State.LOCKED
            await frame.ack()
            await subscription.unsubscribe()
        await served.broker.settled()
        assert await stored(served.side, "a") is None
