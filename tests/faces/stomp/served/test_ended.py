"""The service is ended in the middle of frames: nothing confirmed is lost, and nothing confirmed comes back."""

import asyncio
import signal
import sys
from contextlib import suppress

import pytest
from faces.stomp.served.service import NODES, StompService
from harness.patience import TIMEOUT
from harness.processes import doomed
from harness.processes.program import PUBQUEUE
from harness.stores.recount import recount

ITEMS = [f"{number}" for number in range(48)]
"""So many that there are PASSAGE deliveries although each may have as many items as the worker takes at a time."""
REMEMBERED = NODES.replace("{ ", '{ "x-queueing#dedup_window" = 3600, ')
"""An item that is sent again, for its RECEIPT was not heard, is a duplicate although it was done meanwhile."""
PASSAGE = 7
HELD = 1000
AT_ONCE, BEFORE = 50, 400


def has_result(item):
    """Whether the item is acknowledged in a transaction with a result, and not alone."""
    return int(item) % 2 == 1


class Trade:
    """One client sends each item until that is confirmed; another acknowledges what comes, and notes what is confirmed."""

    def __init__(self):
        self.sent, self.acked = set(), set()
        self.seen, self.came_back = set(), set()

    async def run(self, service):
        """Go on until the service is dead, or all is done."""
        parts = [asyncio.create_task(part(service)) for part in (self.send, self.work)]
        await asyncio.gather(*parts)

    async def send(self, service):
        with suppress(ConnectionError):
            connection = await service.log_in("etl")
            for item in ITEMS:
                if item not in self.sent:
                    answer = await connection.do(
                        "SEND", b"work", destination="/queue/jobs", item_id=item
                    )
                    if answer is None:
                        return
                    assert answer.command == "RECEIPT", answer
                    self.sent.add(item)

    async def work(self, service):
        with suppress(ConnectionError):
            connection = await service.log_in("bee")
            connection.say(
                "SUBSCRIBE",
                destination="/queue/jobs",
                id="s",
                ack="client-individual",
                prefetch_count=3,
            )
            while self.acked != set(ITEMS) and (frame := await connection.hear()) is not None:
                if frame.command == "RECEIPT":
                    self.acked.add(frame.headers["receipt-id"])
                else:
                    self._settle(connection, frame)

    def _settle(self, connection, frame):
        assert frame.command == "MESSAGE", frame
        item, ack = frame.headers["item-id"], frame.headers["ack"]
        self.came_back |= {item} & self.acked
        self.seen.add(item)
        if not has_result(item):
            connection.say("ACK", id=ack, receipt=item)
            return
        connection.say("BEGIN", transaction=item)
        connection.say(
            "SEND", b"done", destination="/queue/results", item_id=item, transaction=item
        )
        connection.say("ACK", id=ack, transaction=item)
        connection.say("COMMIT", transaction=item, receipt=item)

    def compare(self, found):
        """See that what is stored is what was confirmed."""
        jobs, results = found.of("jobs").keys(), found.of("results").keys()
        assert found.wrong == ()
        assert self.sent - self.seen <= jobs, "lost"
        assert not self.acked & jobs
        assert self.came_back == set()
        for item in filter(has_result, self.sent):
            assert (item in jobs) != (item in results), "a part of a transaction is done"


@pytest.mark.parametrize("point", doomed.POINTS)
async def test_killed_there_it_keeps_its_word(point, tmp_path, kept):  # N12, N16
    trade = Trade()
    service = StompService(tmp_path, nodes=REMEMBERED, store=kept.address)
    service.command = (sys.executable, "-I", doomed.__file__, point, f"{PASSAGE}")
    async with asyncio.timeout(TIMEOUT):
        await service.start()
        await trade.run(service)
        assert await service.ended() == -signal.SIGKILL
        killed = kept.recount()
        trade.compare(killed)
        trade.acked |= trade.seen - killed.of("jobs").keys()  # done, and the RECEIPT not heard
        service.command = (PUBQUEUE,)
        async with service:
            await trade.run(service)
    assert trade.sent == trade.acked == set(ITEMS)
    found = kept.recount()
    trade.compare(found)
    assert found.of("jobs") == {}
    assert found.of("results").keys() == set(filter(has_result, ITEMS))


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
        """Send without end, and stop when there is an ERROR."""
        connection, sent, heard = await service.log_in(), 0, 0
        while True:
            while sent < heard + AT_ONCE:
                item, sent = f"{name}-{sent}", sent + 1
                connection.say("SEND", b"x", destination="/queue/jobs", item_id=item, receipt=item)
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
