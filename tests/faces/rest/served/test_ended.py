"""The service is ended between any two steps: nothing confirmed is lost, and nothing confirmed comes back."""

import asyncio
import signal
import sys

import httpx
import pytest
from faces.rest.clients import follow, links
from faces.rest.served.lives import Lives
from faces.rest.served.service import NODES, RestService, on_port
from harness.patience import TIMEOUT
from harness.processes import doomed
from harness.processes.program import PUBQUEUE
from harness.stores.kept import KeptInFile, KeptInPostgres

from pubqueue_demo.prosody import free_ports

ITEMS = [f"{number}" for number in range(8)]
PASSAGE = 5
STEPS = [
    point
    for point in doomed.POINTS
    if point in {"begun", "decided", "written", "committed", "answering"}
]
MESSAGES = 200


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request, tmp_path):
    """A place without queues."""
    if request.param == "sqlite":
        return KeptInFile(tmp_path / "pubqueue.db")
    return KeptInPostgres(request.getfixturevalue("postgres"))


class Trade:
    """One client posts each item by a one-off link until that is confirmed; another acknowledges what comes until that is confirmed."""

    def __init__(self):
        self.posted, self.acknowledged, self.came_back = set(), set(), set()
        self._links = {}
        self._open = {}

    async def run(self, service):
        """Go on until the service is dead, or all is done."""
        async with service.client() as etl, service.client("bee") as bee:
            await asyncio.gather(self.post(etl), self.work(bee))

    async def post(self, etl):
        try:
            for item in ITEMS:
                if item in self.posted:
                    continue
                if item not in self._links:
                    begun = await etl.post(await follow(etl, "/queues/jobs", "post-message-once"))
                    self._links[item] = links(begun)["create-next"]
                sent = await etl.post(self._links[item], content=item)
                assert sent.status_code in {200, 405}, sent
                self.posted.add(item)
        except httpx.TransportError:
            pass

    async def work(self, bee):
        try:
            while self.acknowledged != set(ITEMS):
                for item, where in list(self._open.items()):
                    done = await bee.post(where, data={"acknowledge": "true"})
                    del self._open[item]
                    if done.status_code == 412:
                        continue  # the lock has timed out: it comes again
                    assert done.status_code in {204, 405}, "the link holds over the kill"
                    self.acknowledged.add(item)
                consumer = await follow(bee, "/queues/jobs", "consumer")
                message = await bee.post(consumer, headers={"Accept-Wait": "0.2"})
                if message.status_code == 200:
                    self.came_back |= {message.text} & self.acknowledged
                    self._open[message.text] = links(message)["acknowledgement"]
        except httpx.TransportError:
            pass


@pytest.mark.parametrize("point", STEPS)
async def test_killed_there_it_keeps_its_word(point, tmp_path, kept):  # R07, R10, R21, W01, W02
    trade = Trade()
    (port,) = free_ports(1)
    soon = NODES.replace('"x-queueing#backoff_min" = 0', '"x-queueing#lock_timeout" = 2')
    service = RestService(tmp_path, on_port(port), soon, store=kept.address)
    service.command = (sys.executable, "-I", doomed.__file__, point, f"{PASSAGE}")
    async with asyncio.timeout(TIMEOUT):
        await service.start()
        await trade.run(service)
        assert await service.ended() == -signal.SIGKILL
        found = kept.recount()
        assert found.wrong == ()
        jobs = found.of("jobs").keys()
        assert len(jobs) >= len(trade.posted) - len(trade.acknowledged) - 1, "lost"
        service.command = (PUBQUEUE,)
        async with service:
            await trade.run(service)
    assert trade.posted == trade.acknowledged == set(ITEMS)
    assert trade.came_back == set()
    assert kept.recount().of("jobs") == {}


async def test_each_message_is_acknowledged_once_though_a_consumer_and_the_service_die(
    tmp_path,
):  # W01, W02, W03
    async with asyncio.timeout(TIMEOUT):
        lives = Lives(tmp_path, MESSAGES, kills=3)
        await lives.run()
    assert lives.wrong() == []
