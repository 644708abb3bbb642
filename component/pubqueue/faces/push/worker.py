"""Works on the registrations of a face, one line of pushes for each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from pubqueue.faces.push.targets import Outcome, Verdict
from pubqueue.logs import fault
from pubqueue.model.decision import Refusal, Refused, Taken
from pubqueue.model.entities import Jid, seconds
from pubqueue.model.records import Registration, Registrations
from pubqueue.model.replies import NewerItems
from pubqueue.rules.registrations import Claim, ListRegistrations, NotePush
from pubqueue.rules.retrieve import ReadNewer
from pubqueue.rules.settle import Outcome as Ending
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.take import Take
from pubqueue.rules.unlock import Touch

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.accounts.credentials import Principals
    from pubqueue.engine.broker import Broker
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Item, Principal


# Works on the registrations of a face: takes items, pushes them, and settles them by the target's answers.
#
# One instance at a time works on a registration: it claims it again and again. The locks are those of an address of the instance,
# so they are released soon after its death.

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


# One line of pushes, one after the other: of a queue, whose items are locked meanwhile, or of a topic, from a number.

WAIT: Final = 30.0
"""Seconds for which a line waits before it looks again."""

TRIES: Final = 3
"""Tries for a message of a topic, which has no locks and no dead letters."""

SOONEST: Final = 0.1
"""Minimum seconds between two touches of a lock."""

ENDINGS: Final = {
    Verdict.BAD: Ending.REJECT,
    Verdict.FAILED: Ending.FAILED,
    Verdict.LATER: Ending.RELEASE,
    Verdict.AGAIN: Ending.RELEASE,
    Verdict.GONE: Ending.RELEASE,
    Verdict.DISABLED: Ending.RELEASE,
}
"""The end of an attempt that did not succeed."""

FINAL: Final = frozenset({Verdict.GONE, Verdict.DISABLED})


class QueueLine:
    """Takes an item, pushes it, and settles it."""

    def __init__(self, work: Work, number: int) -> None:
        self._work, self._number = work, number
        self._submit = work.broker.submit

    async def run(self) -> None:
        """Push items as they arrive."""
        work = self._work
        while not work.is_over.is_set():
            await work.turn(self._number)
            reply = await self._taken()
            if isinstance(reply, Taken) and reply.items:
                await self._one(*reply.items[0])
            elif isinstance(reply, Refused):
                await asyncio.sleep(PAUSE)

    async def _taken(self) -> Reply:
        """Wait for an item; if the line ends in the meantime, an item that arrives is released."""
        work = self._work
        found: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def answer(reply: Reply) -> None:
            if not found.done():
                found.set_result(reply)
            elif isinstance(reply, Taken):
                for item, _ in reply.items:
                    self._release(item)

        withdraw = work.broker.take(Take(work.by, work.row.node, 1, seconds(WAIT)), answer)
        work.takes[self._number] = withdraw
        try:
            return await asyncio.shield(found)
        except asyncio.CancelledError:
            withdraw()
            if found.done():
                answer(found.result())
            found.cancel()
            raise
        finally:
            work.takes.pop(self._number, None)

    async def _one(self, item: Item, payload: bytes) -> None:
        work = self._work
        touching = asyncio.create_task(self._touch(item), name="touching")
        try:
            outcome = await work.pusher.push(work, item, payload)
        except BaseException:
            self._release(item)
            raise
        finally:
            touching.cancel()
        await asyncio.shield(self._settled(item, outcome))

    async def _settled(self, item: Item, outcome: Outcome) -> None:
        work = self._work
        work.brace(outcome)
        settle = self._settle(item, outcome)
        while True:
            reply = await work.broker.handle(settle)
            if not isinstance(reply, Refused) or reply.refusal is not Refusal.STORE_FAILED:
                break
            await asyncio.sleep(PAUSE)
        await work.judged(outcome)

    def _settle(self, item: Item, outcome: Outcome) -> Settle:
        by, node = self._work.by, self._work.row.node
        if outcome.verdict is Verdict.DONE:
            return Settle(by, node, (item.id,), Verb.RETRACT, token=item.token, late=True)
        delays = outcome.verdict in {Verdict.LATER, Verdict.AGAIN}
        delay = seconds(outcome.wait) if delays else None
        return Settle(
            *(by, node, (item.id,), Verb.UNLOCK),
            outcome=ENDINGS[outcome.verdict],
            delay=delay,
            reason=f"push: {outcome.reason}",
            token=item.token,
        )

    def _release(self, item: Item) -> None:
        by, node = self._work.by, self._work.row.node
        settle = Settle(by, node, (item.id,), Verb.UNLOCK, token=item.token)
        self._submit(settle, lambda _reply: None)

    async def _touch(self, item: Item) -> None:
        """Extend the lock while the push lasts."""
        work = self._work
        span = ((item.deadline or 0) - work.broker.now()) / 1000
        while True:
            await asyncio.sleep(max(SOONEST, span / 3))
            touch = Touch(work.by, work.row.node, (item.id,), token=item.token)
            self._submit(touch, lambda _reply: None)


class TopicLine:
    """Pushes the messages of a plain node, in order, from the registration's position on."""

    def __init__(self, work: Work) -> None:
        self._work = work

    async def run(self) -> None:
        """Push messages as they arrive."""
        work = self._work
        while not work.is_over.is_set():
            news = asyncio.Event()
            stop = work.broker.new_items.wait(work.row.node, news.set)
            try:
                if not await self._round():
                    async with asyncio.timeout(WAIT):
                        await news.wait()
            except TimeoutError:
                continue
            finally:
                stop()

    async def _round(self) -> bool:
        """Push the existing messages, and return whether there may be more."""
        work = self._work
        read = ReadNewer(work.by, work.row.node, work.row.position, most=10)
        reply = await work.broker.handle(read)
        if not isinstance(reply, NewerItems):
            await asyncio.sleep(PAUSE)
            return True
        for item, payload in reply.items:
            if not await self._one(item, payload):
                return True
        return reply.more

    async def _one(self, item: Item, payload: bytes) -> bool:
        """Push a message, and return whether the next one may follow."""
        work = self._work
        tries = 0
        while tries < TRIES:
            await work.turn(0)
            outcome = await work.pusher.push(work, item, payload)
            work.brace(outcome)
            tries += outcome.verdict is not Verdict.LATER
            is_last = tries >= TRIES or outcome.verdict in {Verdict.DONE, Verdict.BAD}
            await work.judged(outcome, item.seq if is_last else 0)
            if outcome.verdict in FINAL or work.is_over.is_set():
                return False
            if is_last:
                return True
        return True


# A registration that this instance works on: when its lines may push, and the record of its results.

MAX_PAUSE: Final = 60.0


class Pusher(Protocol):
    """The interface to a face: how an item is pushed, and how many at a time."""

    def window(self, row: Registration) -> int:
        """Return how many items are pushed at a time; 0: the registration is not pushed."""

    def retries(self, row: Registration) -> int:
        """Return after how many failures in a row a registration is disabled, 0 for never."""

    def may(self, account: Jid) -> bool:
        """Return whether the account may still have items pushed."""

    async def push(self, work: Work, item: Item, payload: bytes) -> Outcome:
        """Push an item, and return the result."""


class Work:
    """A registration that this instance works on."""

    def __init__(  # noqa: PLR0917  # what a line needs
        self,
        broker: Broker,
        pusher: Pusher,
        service: Principal,
        runner: str,
        row: Registration,
        by: Principal,
    ) -> None:
        self.broker, self.pusher, self.row, self.by = broker, pusher, row, by
        self._service, self._runner = service, runner
        self._healthy = asyncio.Event()
        self._healthy.set()
        self._resumes = 0.0
        self.is_over = asyncio.Event()
        self.is_closing = False
        """Whether pushing has ended."""
        self.takes: dict[int, Callable[[], None]] = {}
        """Ends the wait of each line that waits for an item."""

    def brace(self, outcome: Outcome) -> None:
        """Have no other line take an item that is about to be released."""
        verdict = outcome.verdict
        if verdict in {Verdict.DONE, Verdict.BAD}:
            return
        self.is_closing = self.is_closing or verdict in {Verdict.DISABLED, Verdict.GONE}
        failures = self.row.failures + (verdict is not Verdict.LATER)
        most = self.pusher.retries(self.row)
        self.is_closing = self.is_closing or bool(most and failures >= most)
        if verdict in {Verdict.FAILED, Verdict.AGAIN}:
            self._healthy.clear()
        pause = outcome.wait or min(PAUSE * 2 ** min(failures, 10) / 2, MAX_PAUSE)
        self._resumes = asyncio.get_running_loop().time() + pause
        for withdraw in tuple(self.takes.values()):
            withdraw()

    async def turn(self, line: int) -> None:
        """Return when the line may push: after a failure only the first one does, and after a while."""
        if self.is_closing:
            await self.is_over.wait()
        if line:
            await self._healthy.wait()
        delay = self._resumes - asyncio.get_running_loop().time()
        if delay > 0:
            await asyncio.sleep(delay)

    async def note(self, *, position: int = 0, following: str | None = None) -> None:
        """Store the position of the registration, and the URL for the next message."""
        await self._note(
            failures=self.row.failures,
            error=self.row.error,
            position=position,
            following=self.row.following if following is None else following,
        )

    async def judged(self, outcome: Outcome, position: int = 0) -> None:
        """Store the result of a push, and its effect on the registration."""
        row, verdict = self.row, outcome.verdict
        if verdict in {Verdict.DONE, Verdict.BAD}:
            self._healthy.set()
            if row.failures or row.following != outcome.following or position:
                await self._note(failures=0, following=outcome.following, position=position)
            return
        failures = row.failures + (verdict is not Verdict.LATER)
        most = self.pusher.retries(row)
        disabled = verdict is Verdict.DISABLED or bool(most and failures >= most)
        await self._note(
            failures=failures,
            error=outcome.reason,
            disabled=disabled,
            ended=verdict is Verdict.GONE,
            position=position,
            following=row.following,
        )
        if disabled or verdict is Verdict.GONE:
            event = "push.disabled" if disabled else "push.ended"
            log.warning(event, registration=row.name, node=row.node, reason=outcome.reason)
            self.is_over.set()

    async def _note(self, **values: object) -> None:
        note = NotePush(self._service, self.row.name, self._runner, **values)  # type: ignore[arg-type]  # fields by name
        reply = await self.broker.handle(note)
        if isinstance(reply, Registrations):
            self.row = reply.entries[0]
        elif isinstance(reply, Refused) and reply.refusal is not Refusal.STORE_FAILED:
            self.is_over.set()
