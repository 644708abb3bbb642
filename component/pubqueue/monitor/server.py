"""What monitors the process: the server of metrics and pages, its health, the lag of its loop."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric

from pubqueue.accounts.accounts import Proven
from pubqueue.engine.observe import Phase
from pubqueue.engine.task import Task, stop_all
from pubqueue.model.decision import Refused
from pubqueue.model.entities import Jid, Millis
from pubqueue.monitor import gauges
from pubqueue.monitor.answers import Answers
from pubqueue.monitor.api.service import Api, Callers
from pubqueue.monitor.asking import is_here
from pubqueue.monitor.counters import Tally
from pubqueue.monitor.gauges import of_kept_messages, of_messages
from pubqueue.monitor.page.site import Site
from pubqueue.monitor.process import ProcessObserver
from pubqueue.monitor.sampling import Sampling
from pubqueue.rules.inspect import AskService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Container, Iterable, Iterator, Sequence

    from pubqueue.engine.broker import Broker
    from pubqueue.engine.observe import Took, Traffic
    from pubqueue.faces.checks import Networks
    from pubqueue.model.decision import Decision, Reply, Request
    from pubqueue.model.entities import Principal
    from pubqueue.model.notices import Notice
    from pubqueue.model.replies import Round
    from pubqueue.monitor.page.logins import Logins


# Serves over HTTP: the page, the operations, `/metrics`, `/healthz`, `/readyz`. It reads beside the batches, and delays none.

TIMEOUT: Final = 5.0
"""Seconds that the store has to respond to a scrape or a probe."""


def _now() -> Millis:
    return Millis(time.time_ns() // 1_000_000)


class Monitor(ProcessObserver):
    """Monitors one process: counts for it, and serves HTTP. `own` is the traffic that exists whether a broker works or not."""

    def __init__(
        self,
        by: Principal,
        *,
        version: str,
        logins: Logins | None = None,
        proxies: Networks = (),
        own: Sequence[Traffic] = (),
    ) -> None:
        self._by = by
        is_on = logins is not None and logins.any
        self._sampling = Sampling(by, _now) if is_on else None
        self.tally = Tally(self._sampling)
        self.health = Health()
        self._version = version
        self._broker: Broker | None = None
        self._traffic: Sequence[Traffic] = ()
        self._own = own
        viewer = replace(by, jid=Jid(f"{by.jid}/page"))  # the audit log shows that the page did it
        callers: Callers | None = None
        self._site: Site | None = None
        self._api: Api | None = None
        if logins is not None:
            self._site = Site(
                logins, viewer, lambda: self._broker, version=version, proxies=proxies
            )
            callers = Callers(logins.accounts, by, proxies)
            self._api = Api(callers, lambda: self._broker, version=version)
        self._readers = Readers(callers)
        self._answers = Answers(by, lambda: self._broker)

    def committed(
        self,
        requests: Sequence[Request],
        decisions: Sequence[Decision],
        deliveries: Sequence[Notice],
        took: Took,
    ) -> None:
        """Count a batch."""
        self.tally.committed(requests, decisions, deliveries, took)

    def answered(self, reply: Reply) -> None:
        """Count the reply to a request that only reads."""
        self.tally.answered(reply)

    def at_work(self, broker: Broker, traffic: Sequence[Traffic]) -> None:
        """Note the broker that works from now on, and the traffic of its streams."""
        self._broker, self._traffic = broker, traffic
        self.health.is_connected = lambda: broker.outbox.is_open
        self.health.is_beginning = lambda: broker.outbox.is_beginning
        self.health.rounds = broker.upkeep.rounds
        self.health.phase = Phase.AT_WORK

    def at_rest(self, phase: Phase) -> None:
        """Note that no broker works any more, or not yet."""
        self._broker = None
        self.health.rounds = tuple
        self.health.phase = phase

    @asynccontextmanager
    async def sampling(self) -> AsyncIterator[None]:
        """Measure the event loop, and take the samples of the page, during the body."""
        tasks = [Task("loop lag", Lag(self.tally.registry).run)]
        if self._sampling is not None:
            tasks.append(self._sampling.task(lambda: self._broker))
        async with AsyncExitStack() as ends:
            ends.push_async_callback(stop_all, tasks)
            for task in tasks:
                task.start()
            yield

    def add_to(self, app: web.Application) -> None:
        """Answer at the addresses of the page, of metrics and of health."""
        if self._site is not None:
            self._site.add_to(app)
        if self._api is not None:
            self._api.add_to(app)
        self._answers.add_to(app)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._alive)
        app.router.add_get("/readyz", self._ready)

    async def _alive(self, _request: web.Request) -> web.Response:
        """Return 200 as long as the event loop runs and the work has not ended by an error."""
        broken = self._broker is not None and self._broker.task.done()
        return web.Response(text="broken\n" if broken else "alive\n", status=500 if broken else 200)

    async def _ready(self, _request: web.Request) -> web.Response:
        found = self.health.readiness(await self._store_fault())
        return web.Response(
            body=msgspec.json.encode(found) + b"\n",
            status=200 if found.ready else 503,
            content_type="application/json",
        )

    async def _store_fault(self) -> str | None:
        if self._broker is None:
            return None
        try:
            async with asyncio.timeout(TIMEOUT):
                reply = await self._broker.handle(AskService(self._by, summing=False))
        except TimeoutError:
            return f"no answer in {TIMEOUT:g} seconds"
        return reply.reason or "it cannot be read" if isinstance(reply, Refused) else None

    async def _metrics(self, request: web.Request) -> web.Response:
        """Return the counters and the current gauges; if the store does not respond, its gauges are left out.

        A reader that does not see all names sees those of open nodes, and none that the store has not reported as open.
        """
        sees_all = await self._readers.see_all(request)
        if isinstance(sees_all, web.Response):
            return sees_all
        families: list[Metric] = []
        names: frozenset[str] = frozenset()
        if (broker := self._broker) is not None:
            families += gauges.of_process(broker.waiting, self._traffic)
            families += gauges.of_upkeep(broker.upkeep)
            limit = asyncio.timeout(TIMEOUT)
            try:
                async with limit:
                    of_nodes, names = await gauges.of_nodes(broker.handle, self._by)
                    families += of_nodes
                    families += await of_kept_messages(broker.handle, self._by)
            except (TimeoutError, gauges.SilentStoreError) as problem:
                if isinstance(problem, TimeoutError) and not limit.expired():
                    raise
                families.append(gauges.store_answers(yes=False))
            else:
                families.append(gauges.store_answers(yes=True))
        families += gauges.of_connections((*self._own, *self._traffic))
        families += gauges.of_requests(self._own)
        families += gauges.of_pushes(self._traffic)
        families += gauges.of_calls(self._traffic)
        families += of_messages(self._traffic)
        families += gauges.of_build(self._version, self.health.phase)
        counted = self.tally.registry.collect()
        every = chain(counted, families)
        text = generate_latest(given(every if sees_all else with_names_of(every, names)))
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})


class _Given(CollectorRegistry):
    """Metrics that are read already."""

    def __init__(self, families: Iterable[Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def given(families: Iterable[Metric]) -> CollectorRegistry:
    """Return collected metrics in a form that can be written."""
    return _Given(families)


# Who reads metrics, and the names of which nodes it sees.

CLOSED: Final = "(closed)"
"""The label of all nodes together whose names a reader does not see."""


class Readers:
    """Decides who sees the names of all nodes: programs on this machine, and users with a role. Others see those of open nodes."""

    def __init__(self, callers: Callers | None) -> None:
        self._callers = callers

    async def see_all(self, request: web.Request) -> bool | web.Response:
        """Return whether the sender sees all names; or the response, if it has credentials that are not those of a user."""
        if self._callers is None or "Authorization" not in request.headers:
            return is_here(request)
        proven = await self._callers.prove(request)
        return self._callers.sees_all(proven) if isinstance(proven, Proven) else proven


def with_names_of(families: Iterable[Metric], names: Container[str]) -> Iterator[Metric]:
    """Yield the families with these names of nodes alone. The others have one label: their counts are added up, and their ages are the oldest."""
    for family in families:
        found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for sample in family.samples:
            labels = dict(sample.labels)
            if labels.get("node", "") not in names and "node" in labels:
                labels["node"] = CLOSED
            key = sample.name, tuple(labels.items())
            found[key] = (
                _both(sample.name, found[key], sample.value) if key in found else sample.value
            )
        shown = Metric(family.name, family.documentation, family.type, family.unit)
        for (name, pairs), value in found.items():
            shown.add_sample(name, dict(pairs), value)
        yield shown


def _both(name: str, one: float, other: float) -> float:
    """Return the value of a metric for two nodes together."""
    if name.endswith("_created"):  # since when it is counted
        return min(one, other)
    return max(one, other) if "_age_" in name else one + other


# Whether the process lives, and whether it serves: for container managers and load balancers.


class Health:
    """The state of the process, as set by its parts."""

    def __init__(self) -> None:
        self.phase = Phase.STARTING
        self.is_connected: Callable[[], bool] = lambda: False
        """Whether the server can be reached now."""
        self.is_beginning: Callable[[], bool] = lambda: False
        """Whether a protocol is not served yet that will be in a moment."""
        self.rounds: Callable[[], tuple[Round, ...]] = tuple
        """When the tasks beside the broker last completed a round."""

    def readiness(self, store: str | None) -> Readiness:
        """Return whether the service accepts work; `store` is the store's problem, if it has one."""
        whys: list[str] = []
        if self.phase is not Phase.AT_WORK:
            whys.append(f"phase: {self.phase}")
        elif not self.is_connected():
            whys.append("server: not connected")
        elif self.is_beginning():
            whys.append("protocols: not all are served yet")
        if store is not None:
            whys.append(f"store: {store}")
        late = (one for one in self.rounds() if one.late)
        whys += [f"{one.task}: not come round for {one.ago:.0f} s" for one in late]
        return Readiness(not whys, self.phase, tuple(whys))


class Readiness(Struct, frozen=True):
    """The response of `/readyz`, as JSON."""

    ready: bool
    phase: Phase
    why_not: tuple[str, ...] = ()


# How late the event loop is: a timer that measures its own delay.

EVERY: Final = 0.25
"""Seconds between two measurements."""

BUCKETS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Lag:
    """Measures the loop in which it runs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._late = Histogram(
            "loop_lag_seconds",
            "By how much a timer of the event loop was late.",
            namespace="pubqueue",
            registry=registry,
            buckets=BUCKETS,
        )

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + EVERY
            await asyncio.sleep(EVERY)
            self._late.observe(max(0.0, loop.time() - due))
