"""Takes samples: counts what each batch does, and stores the counts once a minute, with the contents of the queues.

Only nodes in which something happened are sampled, so that a thousand idle nodes cost nothing. Levels are read
beside the batches; samples are stored by a request to the broker, once a minute.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct

from pubqueue.engine.task import Again, Task
from pubqueue.model.changes import (
    GiveUp,
    Hold,
    Postpone,
    RemoveItem,
    Revive,
    Ripen,
    TakeSignal,
    Wake,
)
from pubqueue.model.decision import Done
from pubqueue.model.records import SLOT, Sample, slot_of
from pubqueue.model.replies import NodePage
from pubqueue.monitor.event_counters import ItemEvent
from pubqueue.rules.read import ReadNodes
from pubqueue.rules.settle import Settle, finishes
from pubqueue.rules.survey import MAX_SAMPLED, KeepSamples

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from pubqueue.engine.broker import Broker
    from pubqueue.model.decision import Decision, Reply, Request
    from pubqueue.model.entities import Millis, NodeName, Principal
    from pubqueue.model.replies import NodeEntry
    from pubqueue.monitor.event_counters import Why

    Ask = Callable[[Request], Awaitable[Reply]]


log = structlog.get_logger(__name__)

AT_ONCE: Final = 50
"""Nodes that are read in one request; other requests have their turn between."""


class Counts(Struct, gc=False):
    """What this process did in one node since the last sample."""

    published: int = 0
    delivered: int = 0
    completed: int = 0
    failed: int = 0
    waited: int = 0
    longest: int = 0


COUNTED: Final = {
    ItemEvent.PUBLISHED: "published",
    ItemEvent.COMPLETED: "completed",
    ItemEvent.FAILED: "failed",
}
"""The count to which a kind of event adds; all others only show that something happened."""


class Sampling:
    """Counts, and stores samples. `clock` is that of the broker."""

    def __init__(self, by: Principal, clock: Callable[[], Millis]) -> None:
        self._by = by
        self._clock = clock
        self.counts: dict[NodeName, Counts] = {}

    def note(
        self,
        asked: Iterable[tuple[Request, Decision]],
        happened: Mapping[tuple[str, ItemEvent, Why], int],
        delivered: Mapping[NodeName, int],
    ) -> None:
        """Count a batch: its requests, the sums of their effects, and the deliveries of each node."""
        for (node, kind, _), items in happened.items():
            counts = self._of(node)  # type: ignore[arg-type]  # a name, or none
            if counts is not None and (name := COUNTED.get(kind)) is not None:
                setattr(counts, name, getattr(counts, name) + items)
        for node, items in delivered.items():
            if (counts := self._of(node)) is not None:
                counts.delivered += items
        for node, spans in self._look_at(asked, self._clock()).items():
            if (counts := self._of(node)) is not None:
                counts.waited += max(0, sum(spans))
                counts.longest = max(counts.longest, *spans)

    def _look_at(
        self, asked: Iterable[tuple[Request, Decision]], now: Millis
    ) -> dict[NodeName, list[int]]:
        """Return the duration of the work that was done; mark the node if no event shows that something happened."""
        took: dict[NodeName, list[int]] = {}
        for request, decision in asked:
            for change in decision.changes:
                if isinstance(change, RemoveItem):
                    item = change.item
                    if type(request) is Settle and finishes(request, item):
                        took.setdefault(item.node, []).append(now - item.published)
                elif isinstance(change, GiveUp):
                    self._of(change.to or change.item.node)
                elif isinstance(change, Revive | Ripen | Postpone | Hold | TakeSignal | Wake):
                    self._of(change.item.node)
        return took

    def _of(self, node: NodeName) -> Counts | None:
        """Return the counts of a node; None if there are too many nodes, or no node is given."""
        counts = self.counts.get(node)
        if counts is None and node and len(self.counts) < MAX_SAMPLED:
            counts = self.counts[node] = Counts()
        return counts

    def task(self, broker_of: Callable[[], Broker | None]) -> Task:
        """Return a task that stores a sample at the end of each minute; after an error, plots have a gap of a minute."""
        return Task("samples", partial(self._run, broker_of), Again("samples.failed", pause=0))

    async def _run(self, broker_of: Callable[[], Broker | None]) -> None:
        while True:
            now = self._clock()
            await asyncio.sleep((SLOT - now % SLOT) / 1000)
            if (broker := broker_of()) is not None:
                await self.keep(broker.handle, slot_of(now))

    async def keep(self, ask: Ask, at: Millis) -> None:
        """Store the sample of the minute that began then; if it cannot be stored, its counts are added to the next one."""
        counts, self.counts = self.counts, {}
        kept = False
        try:
            kept = not counts or await self._kept(ask, at, counts)
        finally:
            if not kept:
                log.warning("samples.not_kept", nodes=len(counts))
                self._give_back(counts)

    async def _kept(self, ask: Ask, at: Millis, counts: Mapping[NodeName, Counts]) -> bool:
        entries = await self._entries(ask, sorted(counts))
        if entries is None:
            return False
        samples = tuple(
            _sample(entry, at, counts[entry.node.name])
            for entry in entries
            if entry.node.config.queueing
        )
        return isinstance(await ask(KeepSamples(self._by, samples)), Done)

    async def _entries(self, ask: Ask, names: Sequence[NodeName]) -> list[NodeEntry] | None:
        """Return the contents of these nodes, if they exist; None if the store does not respond."""
        found: list[NodeEntry] = []
        after = None
        while True:
            page = await ask(ReadNodes(self._by, after, AT_ONCE, only=tuple(names)))
            if not isinstance(page, NodePage):
                return None
            found += page.entries
            if not page.more:
                return found
            after = page.through

    def _give_back(self, counts: dict[NodeName, Counts]) -> None:
        for node, past in counts.items():
            if (now := self._of(node)) is not None:
                for name in ("published", "delivered", "completed", "failed", "waited"):
                    setattr(now, name, getattr(now, name) + getattr(past, name))
                now.longest = max(now.longest, past.longest)


def _sample(entry: NodeEntry, at: Millis, counts: Counts) -> Sample:
    there = entry.queued, entry.locked, entry.delayed, entry.dead
    happened = counts.published, counts.delivered, counts.completed, counts.failed
    return Sample(entry.node.name, at, *there, *happened, counts.waited, counts.longest)
