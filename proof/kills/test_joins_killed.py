"""A join of a thousand members wakes once, and when all of them are done, whenever the service is killed while they are published and done."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from faces.kill_contract import Delivery, GoneError, jobs
from faces.xmpp.kill_hands import HOST, XmppHand, XmppService, pubsub
from harness.patience import TIMEOUT
from harness.processes.killed_lives import killed_lives
from harness.servers.stub_server import StubServer

if TYPE_CHECKING:
    from pathlib import Path

MEMBERS, SLICE = 1_000, 100
# a publish may deliver nothing while the worker is full, and then has no point after its answer
LIVES = (
    *(("begun@Publish", 3), ("committed@Publish", 3), ("answering@Publish", 3)),
    *(("applied@Settle", 40), ("committed@Settle", 40), ("dispatched@Settle", 40)),
    ("answered@Settle", 40),
)
OURS = "{urn:x-pubqueue:0}"
JOIN = "the-join"
MADE = "<item id='{0}'><job xmlns='urn:example:work'>{0}</job></item>"


class Came(NamedTuple):
    """A delivery: the item, what has woken it, and how many members it had."""

    id: str
    woken: str | None = None
    total: int = 0


class JoinService(XmppService):
    """The service, whose deliveries are told by their ids."""

    def _heard(self, stanza: Any) -> None:
        tree = stanza.tree
        if tree.find(f"{OURS}lock") is None:
            super()._heard(stanza)
            return
        (item,) = [one.get("id") for one in tree.iter() if one.tag.endswith("#event}item")]
        came = Came(item)
        if (wait := tree.find(f"{OURS}wait")) is not None:
            came = Came(item, wait.get("woken"), int(wait.find(f"{OURS}join").get("total")))
        self.items(tree.get("to")).put_nowait(came)


class Work:
    """A publisher of the members, and a worker for them and for the join."""

    def __init__(self, folder: Path, server: StubServer, store: str) -> None:
        self.service = JoinService(folder, server, jobs(HOST), store)
        self.etl, self.bee = (XmppHand(self.service, f"{n}@{HOST}/x", {}) for n in ("etl", "bee"))
        self.published = 0
        self.done: set[str] = set()
        self.is_over = False
        self._asked = 0

    async def live(self) -> None:
        """Go on until the service is gone, or the join is done."""
        await self.bee.come()
        both = self._publish(), self._work()
        for found in await asyncio.gather(*both, return_exceptions=True):
            if found is not None and not isinstance(found, GoneError):
                raise found

    async def _publish(self) -> None:
        """Publish again what is not confirmed, in slices; with the last one the join is closed."""
        held = "<hold xmlns='urn:x-pubqueue:0'><join/></hold>"
        await self._ask(f"<publish node='jobs'>{MADE.format(JOIN)}</publish>{held}")
        while self.published < MEMBERS:
            names = range(self.published, self.published + SLICE)
            last = "true" if self.published + SLICE == MEMBERS else "false"
            items = "".join(MADE.format(f"m{number}") for number in names)
            joins = f"<joins xmlns='urn:x-pubqueue:0' node='jobs' item='{JOIN}' last='{last}'/>"
            await self._ask(f"<publish node='jobs'>{items}</publish>{joins}")
            self.published += SLICE

    async def _ask(self, inner: str) -> None:
        self._asked += 1
        answer = await self.service.ask(self.etl.jid, f"p{self._asked}", pubsub(inner))
        assert answer.get("type") == "result", answer

    async def _work(self) -> None:
        while not self.is_over:
            came = await self.service.items(self.bee.jid).get()
            if came is None:
                raise GoneError
            if came.id == JOIN:
                self._see_that_all_are_done(came)
                self.is_over = await self.bee.settle(Delivery(JOIN, JOIN))
                continue
            try:
                is_done = await self.bee.settle(Delivery(came.id, came.id))
            except GoneError:
                self.done.add(came.id)  # perhaps: then it does not come again
                raise
            self.done.update([came.id] if is_done else [])

    def _see_that_all_are_done(self, came: Any) -> None:
        assert came == Came(JOIN, "count", MEMBERS)
        assert len(self.done) == MEMBERS, "it has come before all of its members were done"


async def test_a_join_survives_kills_while_its_members_come_and_go(tmp_path, kept):
    async with StubServer() as server, asyncio.timeout(4 * TIMEOUT):
        work = Work(tmp_path, server, kept.address)
        async for _ in killed_lives(work.service, LIVES, work.live):
            assert not work.is_over
        async with work.service:
            await work.live()
        assert work.is_over
