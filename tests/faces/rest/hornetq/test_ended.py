"""The service is killed while clients of HornetQ's interface publish and consume: each message is there once, and is done once."""

import asyncio
import signal
import sys

import httpx
import pytest
from faces.rest.hornetq.steps import FORM, lead, msg
from faces.rest.served.service import NODES, RestService, on_port
from harness.patience import TIMEOUT
from harness.processes import doomed
from harness.processes.program import PUBQUEUE
from harness.stores.kept import KeptInFile, KeptInPostgres

from pubqueue_demo.prosody import free_ports

ITEMS = [f"{number}" for number in range(8)]
PASSAGE = 5
STEPS = ["written", "committed"]


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request, tmp_path):
    """A place without queues."""
    if request.param == "sqlite":
        return KeptInFile(tmp_path / "pubqueue.db")
    return KeptInPostgres(request.getfixturevalue("postgres"))


class Trade:
    """One client creates each message under an id until that is confirmed; another acknowledges what comes until that is confirmed."""

    def __init__(self):
        self.posted, self.done, self.came_back = set(), set(), set()
        self._following = self._open = None

    async def run(self, service):
        """Go on until the service is dead, or all is done."""
        root = service.root.replace("/rest", "/hornetq")
        async with (
            service.client("etl", base_url=root) as etl,
            service.client("bee", base_url=root) as bee,
        ):
            await asyncio.gather(self.post(etl), self.work(bee))

    async def post(self, etl):
        try:
            for item in ITEMS:
                if item not in self.posted:
                    template = await lead(etl, "/queues/jobs", "create-with-id")
                    sent = await etl.post(template.replace("{id}", f"id-{item}"), content=item)
                    assert sent.status_code == 201, sent
                    self.posted.add(item)
        except httpx.TransportError:
            pass

    async def work(self, bee):
        try:
            if self._following is None:
                made = await bee.post(
                    await lead(bee, "/queues/jobs", "pull-consumers"), data={"autoAck": "false"}
                )
                self._following = msg(made)["acknowledge-next"]
            while self.done != set(ITEMS):
                await self._settle(bee)
                message = await bee.post(self._following, headers={"Accept-Wait": "0.2"})
                if message.status_code == 200:
                    self.came_back |= {message.text} & self.done
                    self._open = message.text, msg(message)["acknowledgement"]
        except httpx.TransportError:
            pass

    async def _settle(self, bee):
        if self._open is None:
            return
        item, where = self._open
        done = await bee.post(where, content="acknowledge=true", headers=FORM)
        assert done.status_code == 204, "the link holds over the kill"
        self.done.add(item)
        self._open = None


@pytest.mark.parametrize("point", STEPS)
async def test_killed_there_it_keeps_its_word(point, tmp_path, kept):  # H04, H15, W02
    trade = Trade()
    (port,) = free_ports(1)
    service = RestService(tmp_path, on_port(port), NODES, store=kept.address)
    service.command = (sys.executable, "-I", doomed.__file__, point, f"{PASSAGE}")
    async with asyncio.timeout(TIMEOUT):
        await service.start()
        await trade.run(service)
        assert await service.ended() == -signal.SIGKILL
        assert kept.recount().wrong == ()
        service.command = (PUBQUEUE,)
        async with service:
            await trade.run(service)
    assert trade.posted == trade.done == set(ITEMS)
    assert trade.came_back == set()
    assert kept.recount().of("jobs") == {}
