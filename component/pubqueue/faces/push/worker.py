"""Works on the registrations of a face: takes items, pushes them, and settles them by the target's answers.

One instance at a time works on a registration: it claims it again and again. The locks are those of an address of the instance,
so they are released soon after its death.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.faces.faults import fault
from pubqueue.faces.push.lines import QueueLine, TopicLine
from pubqueue.faces.push.work import Work
from pubqueue.model.entities import Jid, seconds
from pubqueue.model.records import Registration, Registrations
from pubqueue.rules.registrations import Claim, ListRegistrations

if TYPE_CHECKING:
    from pubqueue.accounts.credentials import Principals
    from pubqueue.engine.broker import Broker
    from pubqueue.faces.push.work import Pusher

log = structlog.get_logger(__name__)

LEASE: Final = 3.5
"""Seconds of a claim, which is renewed each `RENEW`; after an instance dies, another takes over within less than 5 s."""

RENEW: Final = 1.2
"""Seconds between two claims, and between two looks for registrations."""

PAGE: Final = 500
PAUSE: Final = 1.0
"""Seconds before work continues after a fault."""


class Workers:
    """The workers of a process, by registration. `runner` is the process, with whose instance the addresses of locks are made."""

    def __init__(
        self, broker: Broker, principals: Principals, pusher: Pusher, runner: str, word: str
    ) -> None:
        self.broker, self.pusher, self.runner = broker, pusher, runner
        self._principals, self._word = principals, word
        self.service = principals.service(broker.service)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._scanning: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look for registrations, from time to time."""
        if self._scanning is None:
            self._scanning = asyncio.create_task(self._scan(), name="push scan")

    async def stop(self) -> None:
        """End all workers; their items are released."""
        tasks = [*self._tasks.values()]
        if self._scanning is not None:
            tasks.append(self._scanning)
        self._scanning = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    @property
    def working(self) -> frozenset[str]:
        """The registrations that this instance works on."""
        return frozenset(self._tasks)

    def look(self, row: Registration) -> None:
        """Begin to work on a registration, if no other instance does."""
        others = row.runner not in {"", self.runner} and row.until > self.broker.now()
        if row.disabled or others or row.name in self._tasks or not self.pusher.may(row.account):
            return
        if not self.pusher.window(row):
            return
        task = asyncio.create_task(self._work(row.name), name="pushing")
        self._tasks[row.name] = task
        task.add_done_callback(lambda done: self._ended(row.name, done))

    def end(self, name: str) -> None:
        """Stop working on a registration; its items are released at once."""
        if (task := self._tasks.get(name)) is not None:
            task.cancel()

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("push.failed", registration=name, **fault(problem))

    async def _scan(self) -> None:
        while True:
            try:
                await self._look_at_all()
            except Exception as problem:  # the next look may succeed
                log.error("push.scan_failed", **fault(problem))  # noqa: TRY400  # no trace of contents
            await asyncio.sleep(RENEW)

    async def _look_at_all(self) -> None:
        after, more = "", True
        while more:
            page = await self.broker.handle(ListRegistrations(self.service, None, after, PAGE))
            if not isinstance(page, Registrations):
                return
            for row in page.entries:
                self.look(row)
                after = row.name
            more = page.more

    async def _claim(self, name: str) -> Registration | None:
        """Claim a registration; None if it is not this instance's."""
        claim = Claim(self.service, name, self.runner, seconds(LEASE))
        reply = await self.broker.handle(claim)
        row = next(iter(reply.entries), None) if isinstance(reply, Registrations) else None
        is_mine = row is not None and row.runner == self.runner and not row.disabled
        return row if row is not None and is_mine and self.pusher.may(row.account) else None

    async def _work(self, name: str) -> None:
        row = await self._claim(name)
        if row is None:
            return
        number = self.broker.instance.number
        address = f"{row.account}/{self._word}.{number}.push-{name}"
        by = self._principals.of(Jid(address))
        work = Work(self.broker, self.pusher, self.service, self.runner, row, by)
        lines = self._lines(work)
        tasks = [asyncio.create_task(line.run(), name="pushing") for line in lines]
        try:
            await self._hold(work, tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _lines(self, work: Work) -> list[QueueLine | TopicLine]:
        if not work.row.queueing:
            return [TopicLine(work)]
        return [QueueLine(work, number) for number in range(self.pusher.window(work.row))]

    async def _hold(self, work: Work, tasks: list[asyncio.Task[None]]) -> None:
        """Claim again and again, until the registration is another's, disabled or gone, or a line ends."""
        while not work.is_over.is_set() and not any(task.done() for task in tasks):
            over = asyncio.ensure_future(work.is_over.wait())
            try:
                await asyncio.wait([over, *tasks], timeout=RENEW, return_when="FIRST_COMPLETED")
            finally:
                over.cancel()
            if work.is_over.is_set():
                return
            if (row := await self._claim(work.row.name)) is None:
                return
            work.row = row
        for task in tasks:
            if task.done() and not task.cancelled() and (problem := task.exception()) is not None:
                log.error("push.failed", registration=work.row.name, **fault(problem))
                await asyncio.sleep(PAUSE)
