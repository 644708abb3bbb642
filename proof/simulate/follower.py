"""A reader of the event log: page by page it has to be told every event, each once and in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.batches.facts import who

from proof.simulate.client import Client
from pubqueue.model.replies import EventPage
from pubqueue.rules.read import ReadEvents

if TYPE_CHECKING:
    from random import Random

    from proof.judge.history import History
    from proof.simulate.network import Network
    from proof.simulate.oracle import Oracle
    from pubqueue.model.entities import Jid

EVERY: Final = 4.0
"""Seconds between two pages, in the mean."""


class Follower(Client):
    """Follows all nodes, as their administrator. How far it has come survives its death."""

    def __init__(
        self, jid: Jid, network: Network, random: Random, history: History, *, oracle: Oracle
    ) -> None:
        super().__init__(jid, network, random, history)
        self._oracle = oracle
        self._last = 0

    async def live(self) -> None:
        """Read on, for ever."""
        while True:
            await self.pause(EVERY)
            page = await self.ask(ReadEvents(who(self.jid, admin=True), after=self._last))
            if isinstance(page, EventPage):
                self._read(page)

    def _read(self, page: EventPage) -> None:
        numbers = [entry.seq for entry in page.entries]
        if numbers != list(range(self._last + 1, page.through + 1)):
            self._oracle.broken(f"a reader was not told all: behind {self._last} come {numbers}")
        self._last = page.through
