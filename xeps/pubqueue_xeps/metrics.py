"""What workers do, in the text format of Prometheus: pip install 'pubqueue[metrics]'.

    Worker(..., metrics=9101)                        # served at http://127.0.0.1:9101/metrics
    Worker(..., metrics=Metrics())                   # in the program's own registry

Labels are names of nodes, names of handlers, outcomes and the address of the service: as many as the program declares,
and never anything of an item.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from pubqueue_xeps.errors import ConfigurationError

try:
    from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram, start_http_server
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.registry import Collector
except ModuleNotFoundError:
    raise ImportError("Metrics of workers need pip install 'pubqueue[metrics]'.") from None

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from prometheus_client.metrics_core import Metric

__all__ = ["Metrics"]

PREFIX: Final = "pubqueue_worker"
LOOPBACK: Final = "127.0.0.1"
SECONDS: Final = (0.005, 0.02, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600)
"""The bounds of the histogram of durations: from a lookup to a report."""

ITEMS: Final = "Items that were begun and have ended: done, failed, rejected, released or lost."
DURATION: Final = "Seconds from the begin of an item to the request that ends it."

# fmt: off
OF_NODES: Final[dict[str, str]] = {
    "in_flight": "Items that are begun.",
    "waiting":   "Items that are here and not begun.",
    "window":    "Items that may be here at a time.",
}
CONNECTED: Final = "Workers that are connected and subscribed."
RECONNECTS: Final = "Connections after the first one of each worker."
# fmt: on


class Observed(Protocol):
    """A worker, as its metrics see it: other threads call these."""

    @property
    def service(self) -> str:
        """The address of the service."""

    @property
    def is_up(self) -> bool:
        """Whether it is connected and subscribed."""

    @property
    def reconnects(self) -> int:
        """How often it has connected again."""

    def by_node(self) -> Mapping[str, Mapping[str, int]]:
        """Return the numbers of `OF_NODES`, by node."""


class Metrics(Collector):
    """Counts for one or several workers of this process, in a registry: by default prometheus_client's own.

    A registry takes one Metrics: give the same object to all workers.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._registry = registry
        self._items = Counter(
            f"{PREFIX}_items", ITEMS, ["service", "node", "handler", "outcome"], registry=registry
        )
        self._seconds = Histogram(
            f"{PREFIX}_item_seconds",
            DURATION,
            ["service", "node", "handler"],
            buckets=SECONDS,
            registry=registry,
        )
        self._workers: list[Observed] = []
        self._reconnects: dict[str, int] = {}
        """Those of workers that have ended, by service."""
        registry.register(self)

    def ended(self, service: str, node: str, handler: str, outcome: str, seconds: float) -> None:
        """Count an item."""
        self._items.labels(service, node, handler, outcome).inc()
        self._seconds.labels(service, node, handler).observe(seconds)

    @contextmanager
    def watching(self, worker: Observed) -> Iterator[None]:
        """Show a worker inside the block."""
        self._workers.append(worker)
        self._reconnects.setdefault(worker.service, 0)
        try:
            yield
        finally:
            self._workers.remove(worker)
            self._reconnects[worker.service] += worker.reconnects

    def collect(self) -> Iterator[Metric]:
        """Yield the current numbers of all workers."""
        workers = tuple(self._workers)
        found = [
            ((worker.service, node), numbers)
            for worker in workers
            for node, numbers in worker.by_node().items()
        ]
        for name, about in OF_NODES.items():
            gauge = GaugeMetricFamily(f"{PREFIX}_{name}", about, labels=["service", "node"])
            for place in sorted({place for place, _ in found}):
                gauge.add_metric(place, sum(numbers[name] for at, numbers in found if at == place))
            yield gauge
        connected = GaugeMetricFamily(f"{PREFIX}_connected", CONNECTED, labels=["service"])
        reconnects = CounterMetricFamily(f"{PREFIX}_reconnects", RECONNECTS, labels=["service"])
        for service, before in self._reconnects.items():
            here = [worker for worker in workers if worker.service == service]
            connected.add_metric([service], sum(worker.is_up for worker in here))
            reconnects.add_metric([service], before + sum(worker.reconnects for worker in here))
        yield connected
        yield reconnects

    @contextmanager
    def served(self, port: int) -> Iterator[None]:
        """Serve them at a port of the loopback address inside the block; raise ConfigurationError if it is not free."""
        try:
            server, thread = start_http_server(port, addr=LOOPBACK, registry=self._registry)
        except OSError as error:
            raise ConfigurationError(
                f"Metrics cannot be served at {LOOPBACK}:{port}: {error.strerror}.",
                argument="metrics",
            ) from None
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
