"""Other processes on the same store: finds the work that they leave.

Each process delivers what its own requests make ready, and knows when the locks of its own batches
end. A process that is killed, or has lost its stream, leaves ready items and locks that no other
process tracks. So each asks the store whether another has written, when it is notified and once a
second, and only then looks at all nodes. A process alone on its store never has to. If a process
dies, another one sends its committed but unsent deliveries.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.app.store.ports import FencedError, StoreError
from pubqueue.app.task import Again, Task, stop_all
from pubqueue.app.tasks.connections import free_connections
from pubqueue.rules.seek import ResumeSeeks

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.broker import Broker
    from pubqueue.app.store.ports import Store

log = structlog.get_logger(__name__)

PERIOD: Final = 1.0
"""The maximum seconds between two looks."""

LATE_AFTER: Final = 60.0
"""Seconds after which one of the two tasks is late."""

LOOK: Final = "other processes"
LEASE: Final = "lease"
"""The names of the tasks in reports."""

GAP: Final = 0.2
"""The minimum seconds from one look to the next: others may write all the time."""


class OtherProcesses:
    """Has the broker look around whenever another process has changed the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.tasks: list[Task] = []
        self._dead: list[int] = []
        self._looked: Callable[[], None] = lambda: None

    def start(self, broker: Broker) -> list[asyncio.Task[None]]:
        """Start the tasks, and return them; FencedError ends them. Starting twice does no harm."""
        if not self.tasks:
            lives = broker.upkeep.begins(LEASE, LATE_AFTER)
            self._looked = broker.upkeep.begins(LOOK, LATE_AFTER)
            again = Again(
                "other_processes.failed", PERIOD, but=(FencedError,), then=broker.others_wrote
            )
            self.tasks = [
                Task(LOOK, partial(self._watch, broker), again),
                Task(LEASE, partial(self._live, lives)),
            ]
            for task in self.tasks:
                task.start()
        return [task.running for task in self.tasks]

    async def stop(self) -> None:
        """Stop watching. Stopping twice does no harm.

        Raises the fault that ended the work before the stop, if there was one.
        """
        tasks, self.tasks = self.tasks, []
        await stop_all(tasks)

    async def _live(self, lives: Callable[[], None]) -> None:
        """Renew the number of this process at intervals, whatever the look at others waits for."""
        logged = False
        while True:
            try:
                await self._store.instances.renew()
                lives()
                logged = True
            except FencedError:
                raise
            except StoreError as problem:
                if logged:
                    log.warning("instance.not_renewed", why=str(problem))
                logged = False
            await asyncio.sleep(PERIOD)

    async def _watch(self, broker: Broker) -> None:
        while True:
            await self._store.instances.wait_for_change(PERIOD)
            try:
                wrote = await self._store.changes()
            except FencedError:
                raise
            except StoreError:
                wrote = True  # the broker's own look reports problems of the store
            if wrote:
                broker.others_wrote()
            if broker.undelivered.flows:
                await self._act_for_the_dead(broker)
            self._looked()
            await asyncio.sleep(GAP)

    async def _act_for_the_dead(self, broker: Broker) -> None:
        try:
            self._dead += await self._store.instances.abandoned()
            while self._dead:
                await free_connections(broker, self._store, self._dead[0])
                await broker.undelivered.act_for(self._dead[0])
                broker.submit(ResumeSeeks(), lambda _reply: None)
                log.info("instance.taken_over", number=self._dead.pop(0))
        except FencedError:
            raise
        except StoreError:
            return  # the next look tries again
