"""A broker on a SQLite store, and a steady trickle of work in one of its nodes, which records its waits.

Each publish has a planned time, whether or not the one before has been answered, and waits count from that time. So a
pause is measured even if the trickle itself was blocked by it.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from harness.batches.facts import ANN
from harness.batches.queue_requests import publishes, retracts

from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.reaper import Reaper
from pubqueue.model.decision import Refused
from pubqueue.model.entities import Jid, Millis, NodeName
from pubqueue.model.notices import Deliver, SubscriptionChanged, ToEach
from pubqueue.model.records import Quota, Quotas
from pubqueue.rules.access import CreationPolicy
from pubqueue.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pubqueue.engine.ports import Transaction
    from pubqueue.model.decision import Reply, Request
    from pubqueue.model.notices import Notice

T = TypeVar("T")

NODE: Final = NodeName("trickle")
WORKER: Final = ANN
PERIOD: Final = 0.01
"""Seconds between two publishes."""
STEPS: Final = 1000
"""How many instructions of SQLite's virtual machine are counted at once."""


@dataclass(slots=True)
class Effort:
    """The effort of the largest batch: rows written, thousands of SQLite's instructions, seconds of processor time."""

    rows: int = 0
    steps: int = 0
    cpu: float = 0.0


class CountingStore(SqliteStore):
    """Counts the effort of each batch."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.most = Effort()
        self._steps = 0

    def _step(self) -> int:
        self._steps += 1
        return 0

    def transact(self, connection: Any, job: Callable[[Transaction], T], **more: Any) -> T:
        connection.set_progress_handler(self._step, STEPS)
        rows, self._steps, began = connection.total_changes, 0, time.thread_time()
        try:
            return super().transact(connection, job, **more)
        finally:
            self.most.rows = max(self.most.rows, connection.total_changes - rows)
            self.most.steps = max(self.most.steps, self._steps)
            self.most.cpu = max(self.most.cpu, time.thread_time() - began)


class Face:
    """A face that reaches all addresses, and passes the trickle its deliveries."""

    def __init__(self) -> None:
        self.reported: Callable[[Deliver], None] = lambda _notice: None
        self.news = 0
        """Notices to many subscribers, and to those whose subscriptions have changed."""

    largest = 1 << 18

    def claims(self, _address: str) -> bool:
        """Return True."""
        return True

    reaches = claims

    def send_notices(self, notices: Sequence[Notice | ToEach]) -> Sequence[Notice]:
        """Pass on the deliveries of the trickle's worker."""
        for notice in notices:
            if isinstance(notice, Deliver) and notice.to == WORKER:
                self.reported(notice)
            elif isinstance(notice, ToEach):
                self.news += len(notice.to)
            elif isinstance(notice, SubscriptionChanged):
                self.news += 1
        return ()

    def when_sent(self, _node: str, call: Callable[[], None]) -> None:
        """Call at once: everything is sent."""
        call()

    def is_behind(self, _node: str) -> bool:
        """Return False: nothing waits here."""
        return False


@dataclass(slots=True)
class Clock:
    """The machine's clock, plus the time by which a load has moved it forward."""

    ahead: int = 0

    def __call__(self) -> Millis:
        """Return the time."""
        return Millis(time.time_ns() // 1_000_000 + self.ahead)


@dataclass
class Service:
    """A queue without a face of its own."""

    store: CountingStore
    clock: Clock = field(default_factory=Clock)
    face: Face = field(default_factory=Face)
    prepared: Any = None
    """The preparation of a load."""

    def __post_init__(self) -> None:
        self.reaper = Reaper(clock=self.clock)
        self.broker = Broker(
            self.store,
            Terms(CreationPolicy.ANYONE, quotas=Quotas(Quota(nodes=0, items=0, bytes=0))),
            clock=self.clock,
            on_moment=self.reaper.on_moment,
        )

    async def start(self) -> None:
        """Start serving the store."""
        self.broker.outbox.attach(self.face)
        self.broker.start()
        self.broker.outbox.set_up(self.face, up=True)
        await self.broker.settled()
        self.store.most = Effort()

    async def do(self, request: Request) -> Reply:
        """Submit a request, which must succeed."""
        reply = await self.broker.handle(request)
        assert not isinstance(reply, Refused), reply
        return reply

    async def stop(self) -> None:
        """Stop."""
        await self.reaper.stop()
        await self.broker.stop()
        await self.store.close()


class Trickle:
    """Publishes an item each period, retracts delivered items, and records the wait of each step, in seconds."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._asked: dict[str, float] = {}
        self.waits: dict[str, list[float]] = {"publish": [], "delivery": [], "retract": []}
        self._task: asyncio.Task[None] | None = None
        service.face.reported = self._delivered

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="trickle")

    async def stop(self) -> None:
        """Stop, once everything is done."""
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._service.broker.settled()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        moment, number = loop.time(), 0
        while True:
            self._publish(f"t{number}", moment)
            number, moment = number + 1, moment + PERIOD
            await asyncio.sleep(moment - loop.time())

    def _publish(self, name: str, planned: float) -> None:
        self._asked[name] = planned
        self._ask("publish", planned, publishes(name, node=NODE))

    def _ask(self, kind: str, since: float, request: Request) -> None:
        def answer(reply: Reply) -> None:
            assert not isinstance(reply, Refused), reply
            self._note(kind, since)

        self._service.broker.submit(request, answer)

    def _delivered(self, notice: Deliver) -> None:
        self._note("delivery", self._asked.pop(notice.item.id))
        now = asyncio.get_running_loop().time()
        self._ask("retract", now, retracts(Jid(WORKER), notice.item.id, node=NODE))

    def _note(self, kind: str, since: float) -> None:
        self.waits[kind].append(asyncio.get_running_loop().time() - since)
