"""The owner of the queues: pauses and resumes them, purges them, and leads one back or on; each wish is repeated until it is confirmed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from harness.batches.facts import who

from proof.simulate.client import Client
from proof.simulate.feeds import kept_for
from proof.simulate.ticks import true_time
from pubqueue.model.decision import Refused
from pubqueue.model.entities import Millis
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Purge
from pubqueue.rules.seek import Seek

if TYPE_CHECKING:
    from random import Random

    from proof.judge.history import History
    from proof.simulate.network import Network
    from proof.simulate.oracle import Oracle
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Jid, NodeName


class Owner(Client):
    """Does what the plan of the run has it do. What it has not had confirmed survives its death."""

    def __init__(
        self, jid: Jid, network: Network, random: Random, history: History, *, oracle: Oracle
    ) -> None:
        super().__init__(jid, network, random, history)
        self._oracle = oracle
        self._paused: dict[NodeName, bool] = {}
        """How queues shall be; not yet confirmed."""
        self._purges: set[NodeName] = set()
        self._seeks: dict[NodeName, Millis] = {}
        self._known: set[NodeName] = set()
        self._due = asyncio.Event()

    def hold(self, node: NodeName) -> None:
        """Wish that the queue hands out nothing."""
        self._known.add(node)
        self._wish(node, paused=True)

    def resume(self, node: NodeName) -> None:
        """Wish that it goes on."""
        self._wish(node, paused=False)

    def purge(self, node: NodeName) -> None:
        """Wish that it is empty."""
        self._purges.add(node)
        self._due.set()

    def seek(self, node: NodeName, ago: float) -> None:
        """Wish that the queue is led to the moment so many seconds ago."""
        self._seeks[node] = Millis(round(true_time() - ago * 1000))
        self._due.set()

    def finish(self) -> None:
        """Have all queues go on, and wish nothing else."""
        self._purges.clear()
        self._seeks.clear()
        for node in sorted(self._known):
            self.resume(node)

    async def live(self) -> None:
        """Ask for what is wished, until there is nothing left."""
        self._due.set()
        while True:
            await self._due.wait()
            self._due.clear()
            for node, paused in list(self._paused.items()):
                await self._configure(node, paused=paused)
            for node in sorted(self._purges):
                await self._purge(node)
            for node, since in list(self._seeks.items()):
                await self._seek(node, since)
            if self._paused or self._purges or self._seeks:
                await asyncio.sleep(1)
                self._due.set()

    def _wish(self, node: NodeName, *, paused: bool) -> None:
        self._paused[node] = paused
        self._due.set()

    async def _configure(self, node: NodeName, *, paused: bool) -> None:
        reply = await self.ask(Configure(who(self.jid), node, Settings({"paused": paused})))
        confirmed = reply is not None and not isinstance(reply, Refused)
        if confirmed and self._paused.get(node) is paused:
            del self._paused[node]

    async def _purge(self, node: NodeName) -> None:
        known = self._oracle.purges(node)
        reply = await self._sweep(Purge(who(self.jid), node))
        if reply is not None and not isinstance(reply, Refused) and node in self._purges:
            self._purges.discard(node)
            self._oracle.purged(node, known)

    async def _sweep(self, request: Purge | Seek) -> Reply | None:
        """Ask for what ends or brings back items, and write that it was asked for."""
        swept = self.history.begin("sweep", kept_for(request.node))
        reply = await self.ask(request)
        if reply is not None:
            swept.end("fail" if isinstance(reply, Refused) else "ok")
        return reply

    async def _seek(self, node: NodeName, since: Millis) -> None:
        self._oracle.seeks(node)
        reply = await self._sweep(Seek(who(self.jid), node, since))
        confirmed = reply is not None and not isinstance(reply, Refused)
        if confirmed and self._seeks.get(node) == since:
            del self._seeks[node]
