"""A task in the background, what limits its waits, and how its state is reported."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct

from pubqueue.model.replies import Round

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from pubqueue.model.decision import Reply


# A task in the background: it is started, stopped, and restarted after a fault if that is wanted.

log = structlog.get_logger(__name__)

PAUSE: Final = 1.0
"""Seconds from a fault until the work restarts, so that it is not a hot loop."""


def _nothing() -> None:
    """Do nothing before the work restarts."""


class Again(Struct, frozen=True):
    """Restarts the work after a fault, which is logged as `event`.

    `then` is called after the log line, and the work restarts `pause` seconds later. A fault of the kind `but` ends
    the work nevertheless.
    """

    event: str
    pause: float = PAUSE
    but: tuple[type[Exception], ...] = ()
    then: Callable[[], None] = _nothing


class Task:
    """Runs work from `start` to `stop`; `work` makes the coroutine. Without `again` a fault ends it."""

    def __init__(
        self,
        name: str,
        work: Callable[[], Coroutine[object, object, None]],
        again: Again | None = None,
    ) -> None:
        self.name = name
        self._work, self._again = work, again
        self._running: asyncio.Task[None] | None = None

    @property
    def is_started(self) -> bool:
        """Whether it was started and not stopped since. A fault may have ended it nevertheless."""
        return self._running is not None

    @property
    def running(self) -> asyncio.Task[None]:
        """The running task. It ends by `stop`, or by a fault after which the work does not restart."""
        assert self._running is not None, f"{self.name} has not been started"
        return self._running

    def start(self) -> None:
        """Start the work. Starting twice does no harm; after `stop` it restarts."""
        if self._running is None:
            work = self._work() if self._again is None else self._over_and_over(self._again)
            self._running = asyncio.create_task(work, name=self.name)

    async def stop(self) -> None:
        """Stop the work, and return when it has stopped. Stopping twice does no harm.

        Raises the fault that ended the work before the stop, if there was one.
        """
        task, self._running = self._running, None
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    async def _over_and_over(self, again: Again) -> None:
        while True:
            try:
                return await self._work()
            except again.but:
                raise
            except Exception:  # the outermost loop of the task
                log.exception(again.event)
                again.then()
                await asyncio.sleep(again.pause)


async def stop_all(tasks: list[Task]) -> None:
    """Stop the tasks concurrently; when all have stopped, raise the first fault that had ended one of them."""
    outcomes = await asyncio.gather(*(task.stop() for task in tasks), return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome


# The boundaries between work for different accounts: a fault in one part ends neither the other parts nor the service.


@contextmanager
def apart(event: str) -> Iterator[None]:
    """Log an exception of the body as this event, and continue after the body."""
    try:
        yield
    except Exception:  # a boundary catches everything
        log.exception(event)


def answer_with(answer: Callable[[Reply], None], reply: Reply) -> None:
    """Call `answer`; an exception is logged, so that the other answers are still sent."""
    try:
        answer(reply)
    except Exception:  # a boundary catches everything
        log.exception("answer.failed", reply=type(reply).__name__)


# Limits the wait for work that does not end: a lock held elsewhere, a disk or a database that does not answer.

STALLED_AFTER: Final = 4.0
"""Seconds that requests wait for the work before them. Work that a store refuses because of a lock ends a second later."""

PERIOD: Final = 1.0
"""Seconds between two checks for requests that have come since then."""


@contextmanager
def no_longer_behind(refuse: Callable[[], None]) -> Iterator[None]:
    """Call `refuse` when the body has run for `STALLED_AFTER` seconds, and then every `PERIOD` until it ends."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def look(after: float) -> None:
        nonlocal timer
        timer = loop.call_later(after, again)

    def again() -> None:
        look(PERIOD)
        refuse()

    look(STALLED_AFTER)
    try:
        yield
    finally:
        timer.cancel()


# The state of the background tasks: when each last completed a round, and how many rows could not be ended.
#
# No request waits for them, so a fault would go unnoticed: a reaper that hangs ends no lock, and nothing else
# shows it.


class Upkeep:
    """The tasks by name; `clock` returns seconds that never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tasks: dict[str, tuple[float, float]] = {}
        self.damaged: Callable[[], int] = lambda: 0
        """How many items were found whose stored content is damaged."""
        self.aside: Callable[[], int] = lambda: 0
        """How many overdue rows are set aside now, because they cannot be ended or read."""

    def begins(self, task: str, patience: float) -> Callable[[], None]:
        """Add a task that completes a round within this many seconds; return the function that it calls each time."""

        def done() -> None:
            self._tasks[task] = self._clock(), patience

        done()
        return done

    def ends(self, task: str) -> None:
        """Remove the task: it was stopped."""
        self._tasks.pop(task, None)

    def rounds(self) -> tuple[Round, ...]:
        """Return for each task how long ago it last completed a round, and whether that is too long."""
        now = self._clock()
        return tuple(
            Round(task, now - at, late=now - at > patience)
            for task, (at, patience) in self._tasks.items()
        )
