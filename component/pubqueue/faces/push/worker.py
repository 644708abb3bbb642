"""The worker that pushes, for all faces: it takes items, pushes them, and settles them by the outcomes."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import structlog

from pubqueue.faces.listener.budget import KEPT, SMALL
from pubqueue.faces.push.targets import Outcome, Verdict
from pubqueue.logs import fault
from pubqueue.model.decision import Refusal, Refused, Taken
from pubqueue.model.entities import seconds
from pubqueue.model.replies import NewerItems
from pubqueue.rules.retrieve import ReadNewer
from pubqueue.rules.settle import Outcome as Ending
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.take import Take
from pubqueue.rules.unlock import Touch

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from pubqueue.engine.broker import Broker
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Item, Jid, Node, NodeName, Principal
    from pubqueue.model.records import Registration


# The interface to a face: which jobs it has, where and how an item of a job is pushed, and what an outcome means for the next ones.

log = structlog.get_logger(__name__)

PAUSE: Final = 1.0
"""Seconds before work continues after a fault."""


E = TypeVar("E", bound="Registration | Node")
"""Where a face keeps its jobs."""


class Job(ABC, Generic[E]):
    """The items of one node that a face has pushed to one target, under the name `label` in the log."""

    queueing: bool = True
    """Whether the node is a queue; of a plain node the items after `position` are pushed, in order."""
    why = ""
    """What the reason of an outcome begins with."""

    def __init__(self, node: NodeName, by: Principal, every: float, /, **label: str) -> None:
        self.node, self.by, self.every, self.label = node, by, every, label

    @property
    def position(self) -> int:
        """The number of the last item that was pushed, of a plain node."""
        return 0

    @property
    def account(self) -> Jid:
        """The account for which what is kept of a message counts while it is pushed."""
        return self.by.account

    def has_changed(self, _entry: E) -> bool:
        """Return whether the entry is no longer as it was when the job was held."""
        return False

    @abstractmethod
    async def hold(self) -> Hashable | None:
        """Return where it pushes to, None if it is not to be worked on any more; asked again after `every` seconds."""

    @abstractmethod
    def window(self) -> int:
        """Return how many items may be under way now."""

    @abstractmethod
    async def push(self, item: Item, payload: bytes) -> Outcome:
        """Push an item, and return the outcome."""

    @abstractmethod
    def brace(self, outcome: Outcome) -> float:
        """Fit the window to an outcome, before the item is settled; return for how many seconds nothing more is pushed."""

    def holds(self) -> bool:
        """Return whether the account for which it pushes may still have items."""
        return True

    async def judged(self, _outcome: Outcome, _position: int) -> bool:
        """Record an outcome, and the position of a plain node if it has one; return whether the job goes on."""
        return True

    async def farewell(self) -> None:  # most targets are not told
        """Notify the target that the job has ended."""


class Pusher(Protocol[E]):
    """The jobs of a face."""

    def every(self) -> float:
        """Return the seconds between two looks for jobs."""

    async def page(self, after: str) -> tuple[Sequence[E], bool] | None:
        """Return the entries after a name and whether there are more, None if they cannot be read."""

    def job(self, entry: E) -> Job[E] | None:
        """Return the job of an entry, None if this instance has nothing to do."""


class Workers(Generic[E]):
    """The workers of a process, by the names of their jobs, and the task that looks for jobs without one."""

    def __init__(self, broker: Broker, pusher: Pusher[E]) -> None:
        self._broker, self._pusher = broker, pusher
        self._workers: dict[str, tuple[Worker[E], asyncio.Task[None]]] = {}
        self._scanning: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    @property
    def working(self) -> frozenset[str]:
        """The jobs that this instance works on."""
        return frozenset(self._workers)

    @property
    def targets(self) -> list[Hashable]:
        """Where their items are pushed to, None for a job that has just begun."""
        return [worker.target for worker, _ in self._workers.values()]

    def start(self) -> None:
        """Look for jobs, from time to time."""
        if self._scanning is None:
            self._scanning = asyncio.create_task(self._scan(), name="push scan")

    async def stop(self) -> None:
        """End all workers; their items are released."""
        tasks = [task for _, task in self._workers.values()]
        if self._scanning is not None:
            tasks.append(self._scanning)
        self._scanning = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._workers.clear()

    def look_soon(self) -> None:
        """Look for jobs: some may have changed."""
        self._news.set()

    def look(self, entry: E) -> None:
        """Begin to work on a job, if no one does; its worker looks at it again if it is not as it was."""
        name = entry.name
        if (found := self._workers.get(name)) is not None:
            if found[0].job.has_changed(entry):
                found[0].look()
        elif (job := self._pusher.job(entry)) is not None:
            worker = Worker(self._broker, job)
            task = asyncio.create_task(worker.run(), name="pushing")
            self._workers[name] = worker, task
            task.add_done_callback(lambda done: self._ended(name, done))

    def end(self, name: str) -> None:
        """Stop working on a job; its items are released at once."""
        if (found := self._workers.get(name)) is not None:
            found[1].cancel()

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        worker, known = self._workers.get(name, (None, None))
        if worker is None or known is not task:
            return
        del self._workers[name]
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("push.failed", **worker.job.label, **fault(problem))
        elif worker.news.is_set():
            self.look_soon()

    async def _scan(self) -> None:
        while True:
            self._news.clear()
            try:
                await self._look_at_all()
            except Exception as problem:  # the next look may succeed
                log.error("push.scan_failed", **fault(problem))  # noqa: TRY400  # no trace of contents
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pusher.every()):
                    await self._news.wait()

    async def _look_at_all(self) -> None:
        """Start the workers that are missing; those whose jobs are out of date, or gone, look at them again."""
        left, after, more = set(self._workers), "", True
        while more:
            if (page := await self._pusher.page(after)) is None:
                return
            entries, more = page
            for entry in entries:
                self.look(entry)
                left.discard(entry.name)
                after = entry.name
        for name in left & self._workers.keys():
            self._workers[name][0].look()


# The worker of one job. Of a queue it has as many items under way as the window allows, each locked meanwhile; of a plain node one
# item after the other, from a position on.

WAIT: Final = 30.0
"""Seconds for which it waits for items before it looks again."""

TRIES: Final = 3
"""Tries for an item of a plain node, which has no locks and no dead letters."""

SOONEST: Final = 0.1
"""Minimum seconds between two touches of a lock."""

ENDINGS: Final = {
    Verdict.BAD: Ending.REJECT,
    Verdict.FAILED: Ending.FAILED,
    Verdict.BUSY: Ending.FAILED,
    Verdict.LATER: Ending.RELEASE,
    Verdict.AGAIN: Ending.RELEASE,
    Verdict.GONE: Ending.RELEASE,
    Verdict.DISABLED: Ending.RELEASE,
}
"""The end of an attempt that did not succeed."""


class UnderWay:
    """Counts a message while it is pushed; it gives up by reaching its time limit."""

    def __init__(self, limit: asyncio.Timeout, owner: str, size: int) -> None:
        self._limit, self._owner, self._size = limit, owner, size

    def __enter__(self) -> None:
        KEPT.note(self, self._owner, self._size)

    def __exit__(self, *_: object) -> None:
        KEPT.forget(self)

    def give_up(self) -> None:
        """End the push."""
        self._limit.reschedule(asyncio.get_running_loop().time())


class Worker(Generic[E]):
    """Works on a job as long as its face holds it."""

    def __init__(self, broker: Broker, job: Job[E]) -> None:
        self._broker, self.job = broker, job
        self.target: Hashable = None
        """Where it pushes to; None before its first look."""
        self.news, self._is_held, self._has_room = (asyncio.Event() for _ in range(3))
        self._resumes = 0.0
        self._end_wait = _nothing
        self._under_way = 0
        self._unsettled: dict[int, Item] = {}
        """Items without an outcome, by their tokens."""

    def look(self) -> None:
        """Look at the job again before anything else is pushed: it may have another target, or none."""
        self._is_held.clear()
        self.news.set()
        self._end_wait()

    async def run(self) -> None:
        """Push items as they arrive, as long as the job is held; whatever has no outcome then is released at once."""
        pushing: asyncio.Task[None] | None = None
        try:
            while (target := await self._hold()) is not None:
                if target != self.target:
                    await _end(pushing)
                    self.target = target
                    pushing = asyncio.create_task(self._push_all(), name="pushing")
                with suppress(TimeoutError):
                    async with asyncio.timeout(self.job.every):
                        await self.news.wait()
        finally:
            await _end(pushing)
        await self.job.farewell()

    async def _hold(self) -> Hashable | None:
        """Look at the job; items are taken unless there is news of it meanwhile."""
        self.news.clear()
        target = await self.job.hold()
        if target is not None and not self.news.is_set():
            self._is_held.set()
        return target

    async def _push_all(self) -> None:
        while True:
            try:
                await (self._push_queue() if self.job.queueing else self._push_topic())
            except Exception as problem:  # the boundary between this worker and all others
                log.error("push.failed", **self.job.label, **fault(_first(problem)))  # noqa: TRY400  # no trace of contents
                await asyncio.sleep(PAUSE)

    async def _push_queue(self) -> None:
        """Push the items of a queue; if one push has a fault, all others are released too."""
        try:
            async with asyncio.TaskGroup() as pushes:
                while True:
                    await self._begin_some(pushes)
        finally:
            self._release(self._unsettled.values())
            self._under_way -= len(self._unsettled)
            self._unsettled.clear()

    async def _turn(self) -> None:
        """Return when the job is held and nothing has to be waited for after a failure."""
        now = asyncio.get_running_loop().time
        while (delay := self._resumes - now()) > 0 or not self._is_held.is_set():
            await (asyncio.sleep(delay) if delay > 0 else self._is_held.wait())

    async def _begin_some(self, pushes: asyncio.TaskGroup) -> None:
        """Take as many items as there is room for, and begin to push them."""
        await self._turn()
        if (room := self.job.window() - self._under_way) <= 0:
            self._has_room.clear()
            await self._has_room.wait()
            return
        reply = await self._taken(room)
        if isinstance(reply, Refused):
            if reply.refusal is Refusal.NODE_NOT_FOUND:
                self.look()
            await asyncio.sleep(PAUSE)
        elif isinstance(reply, Taken) and not self._is_held.is_set():
            self._release(item for item, _ in reply.items)
        elif isinstance(reply, Taken):
            self._under_way += len(reply.items)
            for item, payload in reply.items:
                self._unsettled[item.token] = item
                pushes.create_task(self._one(item, payload), name="pushing")

    async def _taken(self, count: int) -> Reply:
        """Wait for items, or until the wait is ended; items that arrive for no one are released."""
        found: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

        def answer(reply: Reply) -> None:
            if not found.done():
                found.set_result(reply)
            elif isinstance(reply, Taken):
                self._release(item for item, _ in reply.items)

        take = Take(self.job.by, self.job.node, count, seconds(WAIT))
        end_wait = self._end_wait = self._broker.take(take, answer, self.job.holds)
        try:
            return await asyncio.shield(found)
        except asyncio.CancelledError:
            end_wait()
            if found.done():
                answer(found.result())
            found.cancel()
            raise
        finally:
            self._end_wait = _nothing

    async def _one(self, item: Item, payload: bytes) -> None:
        touching = asyncio.create_task(self._touch(item), name="touching")
        try:
            outcome = await self.pushed(item, payload)
        finally:
            touching.cancel()
        del self._unsettled[item.token]
        await asyncio.shield(self._settled(item, outcome))

    async def pushed(self, item: Item, payload: bytes) -> Outcome:
        """Push an item, and count what is kept of it, as it is stored and as it is sent. If there is too much, it comes again later."""
        size = 2 * len(payload)
        if size <= SMALL:
            return await self.job.push(item, payload)
        try:
            async with asyncio.timeout(None) as limit:
                with UnderWay(limit, self.job.account, size):
                    return await self.job.push(item, payload)
        except TimeoutError:
            if not limit.expired():
                raise
            return Outcome(Verdict.LATER, "too much is kept for the account", PAUSE)

    async def _touch(self, item: Item) -> None:
        """Extend the lock while the push lasts."""
        span = ((item.deadline or 0) - self._broker.now()) / 1000
        while True:
            await asyncio.sleep(max(SOONEST, span / 3))
            touch = Touch(self.job.by, self.job.node, (item.id,), token=item.token)
            self._broker.submit(touch, lambda _reply: None)

    async def _settled(self, item: Item, outcome: Outcome) -> None:
        try:
            self._brace(outcome)
            settle = self._settle(item, outcome)
            while True:
                reply = await self._broker.handle(settle)
                if not isinstance(reply, Refused) or reply.refusal is not Refusal.STORE_FAILED:
                    break
                await asyncio.sleep(PAUSE)
            await self._judged(outcome)
        finally:
            self._under_way -= 1
            self._has_room.set()

    def _settle(self, item: Item, outcome: Outcome) -> Settle:
        by, node = self.job.by, self.job.node
        if outcome.verdict is Verdict.DONE:
            return Settle(by, node, (item.id,), Verb.RETRACT, token=item.token, late=True)
        delays = outcome.verdict in {Verdict.LATER, Verdict.AGAIN}
        return Settle(
            *(by, node, (item.id,), Verb.UNLOCK),
            outcome=ENDINGS[outcome.verdict],
            delay=seconds(outcome.wait) if delays else None,
            reason=f"{self.job.why}{outcome.reason}",
            token=item.token,
        )

    def _release(self, items: Iterable[Item]) -> None:
        for item in items:
            by, node = self.job.by, self.job.node
            settle = Settle(by, node, (item.id,), Verb.UNLOCK, token=item.token)
            self._broker.submit(settle, lambda _reply: None)

    def _brace(self, outcome: Outcome) -> None:
        """Take no item that is about to be released."""
        if pause := self.job.brace(outcome):
            self._resumes = asyncio.get_running_loop().time() + pause
            self._end_wait()

    async def _judged(self, outcome: Outcome, position: int = 0) -> None:
        if not await self.job.judged(outcome, position):
            self.look()

    async def _push_topic(self) -> None:
        """Push the items of a plain node as they arrive."""
        while True:
            news = asyncio.Event()
            stop = self._broker.new_items.wait(self.job.node, news.set)
            try:
                if not await self._round():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(WAIT):
                            await news.wait()
            finally:
                stop()

    async def _round(self) -> bool:
        """Push the existing items, and return whether there may be more."""
        read = ReadNewer(self.job.by, self.job.node, self.job.position, most=10)
        reply = await self._broker.handle(read)
        if not isinstance(reply, NewerItems):
            await asyncio.sleep(PAUSE)
            return True
        for item, payload in reply.items:
            await self._try(item, payload)
        return reply.more

    async def _try(self, item: Item, payload: bytes) -> None:
        """Push an item of a plain node; after some tries the next one follows."""
        tries, is_last = 0, False
        while not is_last:
            await self._turn()
            outcome = await self.pushed(item, payload)
            self._brace(outcome)
            tries += outcome.verdict is not Verdict.LATER
            is_last = tries >= TRIES or outcome.verdict in {Verdict.DONE, Verdict.BAD}
            await self._judged(outcome, item.seq if is_last else 0)


def _nothing() -> None:
    """Do nothing: the worker does not wait."""


async def _end(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _first(problem: BaseException) -> BaseException:
    """Return the fault of a push that has ended all others of its group."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem
