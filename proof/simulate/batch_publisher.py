"""A publisher of whole batches, as a Spark job is: it stages a version under an attempt, and commits that attempt.

Whatever is not answered is asked again. One that died stages everything anew, under the next attempt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.batches.transactions import commits, stages

from proof.judge.history import digest
from proof.simulate.client import Client
from proof.simulate.feeds import queue_of
from pubqueue.model.decision import Published
from pubqueue.model.transactions import Committed, Skipped

if TYPE_CHECKING:
    from random import Random

    from proof.judge.history import History, Operation
    from proof.simulate.network import Network
    from proof.simulate.oracle import Oracle
    from pubqueue.model.entities import Jid, NodeName

EVERY: Final = 20.0
"""Seconds between two versions, in the mean."""

MAX_ITEMS: Final = 6
"""Items of a version for one node."""


class BatchPublisher(Client):
    """Commits version after version until it shall `finish`. Which it is at survives its death."""

    def __init__(
        self,
        jid: Jid,
        network: Network,
        random: Random,
        history: History,
        *,
        nodes: tuple[NodeName, ...],
        oracle: Oracle,
    ) -> None:
        super().__init__(jid, network, random, history)
        self._nodes, self._oracle = nodes, oracle
        self._version = self._attempt = 0
        self._items: dict[NodeName, list[str]] = {}
        self._begun: list[Operation] = []
        self._committing: Operation | None = None
        self._finishing = False

    @property
    def is_done(self) -> bool:
        """Whether all versions are confirmed, and no more will come."""
        return self._finishing and not self._items

    def finish(self) -> None:
        """Begin no new version."""
        self._finishing = True

    async def live(self) -> None:
        """Bring versions through, one after the other."""
        self._attempt += 1
        while not self.is_done:
            if not self._items:
                await self.pause(EVERY)
                self._items = {} if self._finishing else self._draw()
            elif await self._stage() and await self._commit():
                self._end()
                for node, names in self._items.items():
                    self._oracle.confirmed.update((queue_of(node), name) for name in names)
                self._items = {}
            else:
                await self.pause(1)

    def _draw(self) -> dict[NodeName, list[str]]:
        self._version, self._attempt = self._version + 1, 0
        counts = [(node, self.random.randint(1, MAX_ITEMS)) for node in self._nodes]
        found = {node: [f"v{self._version}-{n}" for n in range(count)] for node, count in counts}
        facts = {"commit": self._name, "digest": digest(self._payload)}
        self._begun = [
            self.history.begin("publish", queue_of(node), name, **facts)
            for node, names in found.items()
            for name in names
        ]
        self._committing = None
        return found

    def _end(self) -> None:
        """Write that all of the version is there."""
        assert self._committing is not None
        for operation in (*self._begun, self._committing):
            operation.end("ok")

    @property
    def _name(self) -> str:
        return f"version {self._version}"

    @property
    def _payload(self) -> bytes:
        return f"<row>{self._version}</row>".encode()

    async def _stage(self) -> bool:
        """Stage all of the version; what is staged twice is there once."""
        mark: dict[str, Any] = {"version": self._version, "attempt": self._attempt}
        for node, names in self._items.items():
            row = stages(*names, node=node, by=self.jid, payload=self._payload, **mark)
            reply = await self.ask(row)
            if not isinstance(reply, Published | Skipped):
                return False
        return True

    async def _commit(self) -> bool:
        self._committing = self._committing or self.history.begin("commit", commit=self._name)
        count = sum(map(len, self._items.values()))
        won = 0, self._attempt, count
        return isinstance(
            await self.ask(commits(won, version=self._version, by=self.jid)), Committed
        )
