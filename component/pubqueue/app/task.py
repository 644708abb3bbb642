"""A task in the background: it is started, stopped, and restarted after a fault if that is wanted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

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
