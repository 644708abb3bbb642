"""Counts what happens, as metrics for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from pubqueue.engine.observe import Observer
from pubqueue.model.decision import Refused
from pubqueue.model.notices import Deliver
from pubqueue.monitor.event_counters import ItemEvent, Why, operator_events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.engine.observe import Took
    from pubqueue.model.decision import Decision, Reply, Request
    from pubqueue.model.entities import NodeName
    from pubqueue.model.notices import Notice
    from pubqueue.monitor.sampling import Sampling

MAX_NODES: Final = 1_000
"""Maximum number of nodes that are counted under their names; further nodes are counted under OTHERS."""

OTHERS: Final = "(others)"

SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


# fmt: off
COUNTS: Final = {
    ItemEvent.PUBLISHED: ("items_published", "Items published.", "node"),
    ItemEvent.COMPLETED: ("items_completed", "Items retracted by their workers: finished work.", "node"),
    ItemEvent.RETRACTED: ("items_retracted", "Items retracted by owners or publishers, or dropped by a plain node.", "node"),
    ItemEvent.PURGED:    ("items_purged", "Items deleted by purging a node.", "node"),
    ItemEvent.REDRIVEN:  ("items_redriven", "Dead items returned to their queue.", "node"),
    ItemEvent.HELD:      ("items_held", "Items that began to wait for a signal, a time, or other items.", "node"),
    ItemEvent.WOKEN:     ("items_woken", "Held items that a signal, the end of their time, or the last of their members has woken.", "node"),
    ItemEvent.LEFT_OUT:  ("items_left_out", "Items that a queue could not take from the node that feeds it.", "node"),
    ItemEvent.RELEASED:  ("items_released", "Locks that ended without a failure, by reason.", "node", "reason"),
    ItemEvent.FAILED:    ("items_failed", "Locks that ended in a failure, by reason.", "node", "reason"),
    ItemEvent.DEAD:      ("items_died", "Items that died, by reason.", "node", "reason"),
}
# fmt: on
"""By kind: the counter's name, its description, and its labels."""

DELIVERED: Final = ("items_delivered", "Items delivered.", "node")
REFUSED: Final = ("requests_refused", "Requests refused, by condition.", "condition")

WITH_REASON: Final = frozenset(kind for kind, row in COUNTS.items() if "reason" in row)


class Tally(Observer):
    """Observes the batches of a broker. The metrics are in `registry`, which a scrape reads.

    `sampling` gets the same calls, if there is a page to show the samples on.
    """

    def __init__(self, sampling: Sampling | None = None) -> None:
        self.sampling = sampling
        self.registry = CollectorRegistry()
        self._counts = {kind: self._counter(*row) for kind, row in COUNTS.items()}
        self._delivered = self._counter(*DELIVERED)
        self._refused = self._counter(*REFUSED)
        self._requests = self._counter("requests", "Requests decided in batches.")
        self._reads = self._counter("reads", "Reads answered outside the batches.")
        self._size = self._histogram("batch_requests", "Requests in a batch.", SIZES)
        self._deciding = self._histogram(
            "batch_deciding_seconds", "Seconds to load, decide and dispatch a batch.", SECONDS
        )
        self._committing = self._histogram(
            "batch_committing_seconds",
            "Seconds from then to the durable commit: write and sync.",
            SECONDS,
        )
        self._names: dict[str, str] = {}
        # looking up the labels of a counter takes longer than counting
        self._found: dict[tuple[str, ItemEvent, Why], Counter] = {}
        self._handed: dict[NodeName, Counter] = {}

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(name, words, labels, namespace="pubqueue", registry=self.registry)

    def _histogram(self, name: str, words: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, words, namespace="pubqueue", registry=self.registry, buckets=buckets)

    def committed(
        self,
        requests: Sequence[Request],
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],
        took: Took,
    ) -> None:
        """Count a batch."""
        sums: dict[tuple[str, ItemEvent, Why], int] = {}
        asked = list(zip(requests, decisions, strict=True))
        for request, decision in asked:
            if type(decision.reply) is Refused:
                self._refuse(decision.reply)
            for node, kind, why, items in operator_events(request, decision.changes):
                key = node, kind, why
                sums[key] = sums.get(key, 0) + items
        for key, items in sums.items():
            (self._found.get(key) or self._find(key)).inc(items)
        handed = self._deliver(deliveries)
        if self.sampling is not None:
            self.sampling.note(asked, sums, handed)
        self._requests.inc(len(decisions))
        self._size.observe(len(decisions))
        self._deciding.observe(took.deciding)
        self._committing.observe(took.committing)

    def answered(self, reply: Reply) -> None:
        """Count the reply to a request that only reads."""
        self._reads.inc()
        if type(reply) is Refused:
            self._refuse(reply)

    def _refuse(self, reply: Refused) -> None:
        self._refused.labels(reply.refusal.name.lower().replace("_", "-")).inc()

    def _deliver(self, deliveries: Sequence[Notice]) -> dict[NodeName, int]:
        """Count the deliveries, and return how many there are of each node."""
        counts: dict[NodeName, int] = {}
        for one in deliveries:
            if type(one) is Deliver:
                counts[one.item.node] = counts.get(one.item.node, 0) + 1
        for node, items in counts.items():
            (self._handed.get(node) or self._find_handed(node)).inc(items)
        return counts

    def _find(self, key: tuple[str, ItemEvent, Why]) -> Counter:
        """Return the counters of the node; cache them if the node is counted under its name."""
        node, kind, why = key
        counter, name = self._counts[kind], self._name(node)
        found = counter.labels(name, why) if kind in WITH_REASON else counter.labels(name)
        if name is not OTHERS:
            self._found[key] = found
        return found

    def _find_handed(self, node: NodeName) -> Counter:
        name = self._name(node)
        found = self._delivered.labels(name)
        if name is not OTHERS:
            self._handed[node] = found
        return found

    def _name(self, node: str) -> str:
        """Return the name under which a node is counted: only the first nodes are counted under their own names."""
        known = self._names.get(node)
        if known is None:
            if len(self._names) >= MAX_NODES:
                return OTHERS
            known = self._names[node] = node
        return known
