"""A publisher: it repeats each publish, under the same ids, until it is confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from harness.batches.queue_requests import publishes

from proof.judge.history import digest
from proof.simulate.client import Client
from proof.simulate.feeds import NEWS, queue_of
from pubqueue.model.decision import Published

if TYPE_CHECKING:
    from random import Random

    from proof.judge.history import History, Operation
    from proof.simulate.network import Network
    from proof.simulate.oracle import Oracle
    from pubqueue.model.entities import Jid, NodeName

EVERY: Final = (2.0, 4.0, 10.0, 60.0)
"""Seconds between two publishes, in the mean: one of these in each run."""

MORE: Final[list[dict[str, float]]] = [{}, {}, {}, {"delay": 5.0}, {"priority": 3}]
"""What is said of items beside."""


class Publisher(Client):
    """Publishes to queues until it shall `finish`. What it has not had confirmed survives its death."""

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
        self._every = random.choice(EVERY)
        self._count = 0
        self._unconfirmed: tuple[NodeName, tuple[str, ...], dict[str, Any]] | None = None
        self._begun: list[Operation] = []
        self._finishing = False

    @property
    def is_done(self) -> bool:
        """Whether all that it has published is confirmed, and no more will come."""
        return self._finishing and self._unconfirmed is None

    def finish(self) -> None:
        """Publish nothing new."""
        self._finishing = True

    async def live(self) -> None:
        while not self.is_done:
            if self._unconfirmed is None:
                await self.pause(self._every)
                self._unconfirmed = None if self._finishing else self._draw()
            elif not await self._publish(*self._unconfirmed):
                await self.pause(1)

    def _draw(self) -> tuple[NodeName, tuple[str, ...], dict[str, Any]]:
        """Choose what is published next: one item, or some of them."""
        names = [
            f"{self.jid[-1]}{self._count + n}" for n in range(self.random.choice([1, 1, 1, 4]))
        ]
        self._count += len(names)
        more, node = self.random.choice(MORE), self.random.choice(self._nodes)
        payload = f"<job>{names[0]}</job>".encode()
        self._begun = [
            self.history.begin("publish", queue_of(node), name, digest=digest(payload))
            for name in names
        ]
        return node, tuple(names), {"payload": payload} | ({} if node == NEWS else more)

    async def _publish(self, node: NodeName, names: tuple[str, ...], more: dict[str, Any]) -> bool:
        reply = await self.ask(publishes(*names, by=self.jid, node=node, **more))
        if isinstance(reply, Published):
            for operation in self._begun:
                operation.end("ok")
            self._oracle.confirmed |= {(queue_of(node), name) for name in names}
            self._unconfirmed = None
        return self._unconfirmed is None
