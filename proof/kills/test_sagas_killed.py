"""A saga of ten steps goes on where it was, and does each step once, whenever the service is killed between two of its steps or within one."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from faces.kill_contract import Delivery, GoneError, jobs
from faces.xmpp.kill_hands import HOST, XmppHand, XmppService, pubsub
from harness.patience import TIMEOUT
from harness.processes.killed_lives import killed_lives
from harness.servers.stub_server import StubServer

if TYPE_CHECKING:
    from pathlib import Path

STEPS = 10
LIVES = (
    *("begun@Hold", "begun@Signal", "applied@Hold", "applied@Signal", "committed@Hold"),
    *(
        "committed@Signal",
        "answering@Hold",
        "dispatched@Signal",
        "delivered@Signal",
        "answered@Signal",
    ),
)
OURS = "{urn:x-pubqueue:0}"


class Came(NamedTuple):
    """A delivery: the step that the item carries, what has woken it, and the names of the signals."""

    step: int
    woken: str | None
    signals: list[str]


class SagaService(XmppService):
    """The service, whose deliveries are told by what the items carry."""

    def _heard(self, stanza: Any) -> None:
        tree = stanza.tree
        if tree.find(f"{OURS}lock") is None:
            super()._heard(stanza)
            return
        wait = tree.find(f"{OURS}wait")
        came = Came(0, None, [])
        if wait is not None:
            names = [one.get("name") for one in wait.iterfind(f"{OURS}signal")]
            came = Came(int(wait.findtext(f"{OURS}carry") or 0), wait.get("woken"), names)
        self.items(tree.get("to")).put_nowait(came)


class Saga:
    """A worker with a saga of many steps, and whoever answers it."""

    def __init__(self, folder: Path, server: StubServer, store: str) -> None:
        self.service = SagaService(folder, server, jobs(HOST), store)
        self.etl, self.bee = (XmppHand(self.service, f"{n}@{HOST}/x", {}) for n in ("etl", "bee"))
        self.steps: list[int] = []
        self.is_over = False

    async def live(self) -> None:
        """Go on until the service is gone, or the saga is over."""
        with suppress(GoneError):
            await self._go_on()

    async def _go_on(self) -> None:
        await self.bee.come()
        if self.steps:  # whether the last answer has arrived nobody knows
            await self._answer(self.steps[-1] + 1)
        while not self.is_over:
            came = await self.service.items(self.bee.jid).get()
            if came is None:
                raise GoneError
            await self._do(came)

    async def _do(self, came: Any) -> None:
        before = self.steps[-1] if self.steps else 0
        assert came.step - before in {0, 1}, "a step is left out, or done again after the next one"
        self.steps.append(came.step)
        if came.step:
            assert came.woken == "signal"
            assert f"s{came.step}" in came.signals
        if came.step == STEPS:
            self.is_over = await self.bee.settle(Delivery("saga", "saga"))
            return
        wanted = f"<signal name='s{came.step + 1}'/><carry>{came.step + 1}</carry>"
        held = f"<hold xmlns='urn:x-pubqueue:0'>{wanted}</hold>"
        unlock = "<unlock xmlns='urn:xmpp:pubsub:queueing:0' node='jobs'><item id='saga'/></unlock>"
        answer = await self.service.ask(self.bee.jid, f"h{len(self.steps)}", pubsub(unlock + held))
        assert answer.get("type") == "result"
        await self._answer(came.step + 1)

    async def _answer(self, step: int) -> None:
        words = f"node='jobs' item='saga' name='s{step}' id='s{step}'"
        signal = f"<signal xmlns='urn:x-pubqueue:0' {words}>{step}</signal>"
        name = f"a{len(self.steps)}-{step}"
        answer = await self.service.ask(self.etl.jid, name, signal)
        assert answer.get("type") == "result" or step > STEPS


async def test_a_saga_survives_kills_within_each_of_its_steps(tmp_path, kept):
    async with StubServer() as server, asyncio.timeout(2 * TIMEOUT):
        saga = Saga(tmp_path, server, kept.address)
        async with saga.service:
            await saga.etl.publish("saga", "g")
        lives = [(point, 1) for point in LIVES]
        async for _ in killed_lives(saga.service, lives, saga.live):
            assert not saga.is_over
        async with saga.service:
            await saga.live()
        assert saga.is_over
        assert sorted(set(saga.steps)) == list(range(STEPS + 1))
        assert saga.steps == sorted(saga.steps)
