"""The service is killed between any two steps: nothing confirmed is lost, and nothing confirmed comes back."""

import asyncio
from contextlib import asynccontextmanager, suppress

import pytest
from faces.kill_contract import LATE, Delivery, GoneError, SharedKillContract, jobs
from faces.stomp.served.service import DOMAIN, StompService
from harness.patience import TIMEOUT
from harness.stores.recount import recount

from pubqueue.faces.stomp.codec import Frame, write

RESULTS = f"""
[[node]]
name = "results"
queueing = true
publishers = ["bee@{DOMAIN}"]
"""
HELD = 1000
AT_ONCE, BEFORE = 50, 400


def has_result(text):
    """Whether the item is acknowledged in a transaction with a result, and not alone."""
    return int(text[-1]) % 2 == 1


class StompHand:
    """Sends with receipts; acknowledges each item, some with a result, both in one transaction."""

    def __init__(self, connection):
        self._connection = connection

    @classmethod
    @asynccontextmanager
    async def connected(cls, service, name, _number, _memory):
        connection = None
        try:
            connection = await service.log_in(name)
            if name == "bee":
                wanted = {"destination": "/queue/jobs", "id": "s", "prefetch_count": 3}
                connection.say("SUBSCRIBE", ack="client-individual", **wanted)
            yield cls(connection)
        except ConnectionError as problem:
            raise GoneError from problem
        finally:
            if connection:
                connection.close()

    async def _do(self, command, body=b"", /, **headers):
        answer = await self._connection.do(command, body, **headers)
        if answer is None:
            raise GoneError
        assert answer.command == "RECEIPT", answer

    async def publish(self, text, group):
        where = {"destination": "/queue/jobs", "item_id": text}
        await self._do("SEND", text.encode(), group=group, **where)

    async def take(self):
        frame = await self._connection.hear()
        if frame is None:
            raise GoneError
        assert frame.command == "MESSAGE", frame
        return Delivery(frame.body.decode(), frame.headers["item-id"], frame.headers["ack"])

    async def settle(self, delivery):
        text, _, ack = delivery
        if not has_result(text):
            await self._do("ACK", id=ack)
            return True
        result = {"destination": "/queue/results", "item_id": text}
        self._connection.say("BEGIN", transaction=text)
        self._connection.say("SEND", b"done", transaction=text, **result)
        self._connection.say("ACK", id=ack, transaction=text)
        await self._do("COMMIT", transaction=text)
        return True


class TestStomp(SharedKillContract):  # N12, N16
    connect = staticmethod(StompHand.connected)
    REQUESTS = ("Publish", "Settle", "Together")

    @pytest.fixture
    def make_service(self):
        nodes = jobs(DOMAIN, LATE) + RESULTS
        return lambda folder, store: StompService(folder, nodes=nodes, store=store)

    def also(self, trade, found):
        waiting, results = found.of("jobs").keys(), found.of("results").keys()
        for item in filter(has_result, trade.published):
            assert (item in waiting) != (item in results), "a part of a transaction is done"


async def test_what_was_held_when_it_was_killed_comes_again_and_has_not_failed(tmp_path):  # N19
    names = {f"{number}" for number in range(HELD)}
    wanted = {"destination": "/queue/jobs", "id": "s", "ack": "client-individual"}
    async with StompService(tmp_path) as service, asyncio.timeout(TIMEOUT):
        etl = await service.log_in("etl")
        for name in names:
            etl.say("SEND", b"work", destination="/queue/jobs", item_id=name, receipt=name)
        assert {(await etl.hear()).headers["receipt-id"] for _ in names} == names
        for attempt in ("1", "2"):
            bee = await service.log_in("bee")
            await bee.do("SUBSCRIBE", prefetch_count=HELD, **wanted)
            heard = [(await bee.hear()).headers for _ in names]
            assert {one["item-id"] for one in heard} == names
            assert {one.get("delivery-attempt", "1") for one in heard} == {attempt}
            assert {one.get("failed", "0") for one in heard} == {"0"}
            await service.kill()
            await service.start()


async def test_ended_under_load_it_has_answered_all_that_it_has_done(tmp_path):  # N20, S23
    confirmed, flowing = set(), asyncio.Event()

    async def flood(name):
        """Send without end, and stop when there is an ERROR: by a socket beside, for a service that has ended takes nothing more."""
        connection, sent, heard = await service.log_in(), 0, 0
        with connection.writer.get_extra_info("socket").dup() as beside:
            while True:
                while sent < heard + AT_ONCE:
                    item, sent = f"{name}-{sent}", sent + 1
                    headers = {"destination": "/queue/jobs", "item-id": item, "receipt": item}
                    data = write(Frame("SEND", headers, b"x"), connection.version)
                    with suppress(ConnectionError):
                        await asyncio.get_running_loop().sock_sendall(beside, data)
                frame = await connection.hear()
                if frame.command == "ERROR":
                    return frame.headers["message"]
                heard += 1
                confirmed.add(frame.headers["receipt-id"])
                if len(confirmed) >= BEFORE:
                    flowing.set()

    async with StompService(tmp_path) as service, asyncio.timeout(TIMEOUT):
        flooding = [asyncio.create_task(flood(name)) for name in "abc"]
        await flowing.wait()
        await service.stop()
        assert await asyncio.gather(*flooding) == ["try again later"] * 3
    found = recount(tmp_path / "pubqueue.db")
    assert found.wrong == ()
    assert found.of("jobs").keys() == confirmed
