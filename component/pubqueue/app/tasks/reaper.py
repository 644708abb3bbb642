"""The reaper: wakes when the next lock, delay or lifetime ends or a schedule is due, and submits that to the broker."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.app.task import Again, Task
from pubqueue.app.tasks.schedule_runner import fire
from pubqueue.app.tasks.setting_aside import SettingAside
from pubqueue.model.decision import LookedThrough, Refusal, Refused
from pubqueue.model.entities import NO_TIME, NodeName, seconds
from pubqueue.model.replies import Trimmed
from pubqueue.rules.audience import ResumeReviews
from pubqueue.rules.declare import DeleteUnused
from pubqueue.rules.moving import ResumeMoves
from pubqueue.rules.publish import ResumeFeeding
from pubqueue.rules.read import Trim
from pubqueue.rules.seek import DropDone, ResumeSeeks
from pubqueue.rules.trimming import ResumeTrims
from pubqueue.rules.unlock import Recover

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.broker import Broker
    from pubqueue.app.tasks.schedule_runner import Beside
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Millis
    from pubqueue.rules.expire import Expire, ListOverdue
    from pubqueue.rules.schedules import FireSchedule

log = structlog.get_logger(__name__)

MAX_SLEEP: Final = 30.0
"""The maximum seconds of sleep: a clock that was set, forward or back, is noticed within this time."""

USUAL: Final = Trim(kept_for=seconds(7 * 86_400), kept=1_000_000)
"""Default age and size up to which the event log is kept."""

LATE_AFTER: Final = 3 * MAX_SLEEP
"""Seconds after which the reaper is late: it sleeps for a part of that, and many rows that expire together take time."""

TASK: Final = "reaper"
"""The name of the task in reports."""

RETRY: Final = 1.0
"""Seconds until a retry after the store has failed."""


class Reaper:
    """Sleeps until the time that the broker last set; an earlier one wakes it."""

    def __init__(
        self,
        *,
        clock: Callable[[], Millis],
        trim: Trim = USUAL,
        beside: Beside = asyncio.to_thread,
    ) -> None:
        self._clock = clock
        self._trim = trim
        self._trimmed = NO_TIME
        self.expired = NO_TIME
        """When it last looked for expired rows."""
        self._moving = False
        self._looked_at = NodeName("")
        self._dropped_in = NodeName("")
        self._beside = beside
        self._aside = SettingAside(clock)
        self._next: Millis | None = None
        self._changed = asyncio.Event()
        self.task: Task | None = None
        self._round_is_over: Callable[[], None] = lambda: None

    def start(self, broker: Broker) -> None:
        """Begin to watch the clock. Starting twice does no harm."""
        if self.task is None:
            self._round_is_over = broker.upkeep.begins(TASK, LATE_AFTER)
            broker.upkeep.aside = lambda: len(self._aside)
            again = Again("reaper.failed")  # no other task ends locks
            self.task = Task(TASK, partial(self._watch, broker), again)
            self.task.start()

    async def stop(self) -> None:
        """Stop watching. Stopping twice does no harm."""
        task, self.task = self.task, None
        if task is not None:
            await task.stop()

    def adopt(self, trim: Trim) -> None:
        """Keep this much of the event log from now on."""
        self._trim = trim

    def on_moment(self, moment: Millis | None) -> None:
        """Note the next time at which something ends."""
        if moment != self._next:
            self._next = moment
            self._changed.set()

    async def _watch(self, broker: Broker) -> None:
        seen = self._clock()
        self._resume_moves(broker)
        await _do(Recover(), broker)
        self._round_is_over()
        await self._expire(broker)  # what expired while no process was running
        await self._trim_log(broker)
        while True:
            self._changed.clear()
            reported = False
            with contextlib.suppress(TimeoutError):
                # not wait_for: it loses the cancellation if the event has happened by then
                async with asyncio.timeout(self._pause()):
                    await self._changed.wait()
                reported = True
            before, seen = seen, self._clock()
            if seen < before:
                log.warning("clock.set_back", seconds=round((before - seen) / 1000, 1))
                await _do(Recover(), broker)
            # Ids of finished work are dropped at the same time, so that other events do not put that off for longer.
            if not reported:
                self._resume_moves(broker)
            if not reported or self._is_due():
                await self._expire(broker)
                if self._is_long_ago(self._trimmed):
                    await self._trim_log(broker)
            self._round_is_over()

    def _is_due(self) -> bool:
        """Return whether something ends now, or nothing was ended for a long time."""
        now = self._clock()
        return (self._next is not None and self._next <= now) or self._is_long_ago(self.expired)

    def _is_long_ago(self, moment: Millis) -> bool:
        return abs(self._clock() - moment) >= MAX_SLEEP * 1000

    async def _expire(self, broker: Broker) -> None:
        self.expired = self._clock()
        due = await self._aside.end(partial(_try, broker=broker))
        await fire(due, partial(_do, broker=broker), self._beside)

    def _resume_moves(self, broker: Broker) -> None:
        """Continue commits, reviews, trims and seeks that were begun before this process, or failed in the store.

        No requester waits for them.
        """
        if not self._moving:
            self._moving = True
            broker.submit(ResumeMoves(), self._moved)
            broker.submit(ResumeFeeding(), lambda _reply: None)
            broker.submit(ResumeReviews(), lambda _reply: None)
            broker.submit(ResumeTrims(), lambda _reply: None)
            broker.submit(ResumeSeeks(), lambda _reply: None)
            broker.submit(DeleteUnused(self._looked_at), self._looked_through)
            broker.submit(DropDone(self._dropped_in), self._dropped)

    def _looked_through(self, reply: Reply) -> None:
        """Continue after these nodes in the next round: a slice of them in each, however many there are."""
        self._looked_at = reply.up_to if isinstance(reply, LookedThrough) else NodeName("")

    def _dropped(self, reply: Reply) -> None:
        """Likewise of the queues that keep what is done."""
        self._dropped_in = reply.up_to if isinstance(reply, LookedThrough) else NodeName("")

    def _moved(self, _reply: Reply) -> None:
        self._moving = False

    async def _trim_log(self, broker: Broker) -> None:
        """Shorten the event log slice by slice; between two of them others have their batches."""
        self._trimmed = self._clock()
        reply = await broker.handle(self._trim)
        while isinstance(reply, Trimmed) and reply.more:
            self._round_is_over()  # a long log takes long
            reply = await broker.handle(self._trim)

    def _pause(self) -> float:
        if self._next is None:
            return MAX_SLEEP
        soonest = (
            RETRY if self._aside else 0.0
        )  # rows that are set aside are overdue: not in a hot loop
        return min(MAX_SLEEP, max(soonest, (self._next - self._clock()) / 1000))


async def _do(request: Recover | FireSchedule, broker: Broker) -> Reply:
    """Have the request done, and return the reply.

    A request that met a fault of ours yields to everything else that is due; its own turn comes again.
    """
    reply = await _try(request, broker)
    if isinstance(reply, Refused):
        await asyncio.sleep(RETRY)
    return reply


async def _try(request: Recover | FireSchedule | Expire | ListOverdue, broker: Broker) -> Reply:
    """Have the request done, and return the reply. While the store fails, it is retried, not in a hot loop."""
    while isinstance(reply := await broker.handle(request), Refused):
        if reply.refusal is Refusal.INTERNAL_FAULT:
            break
        await asyncio.sleep(RETRY)
    return reply
