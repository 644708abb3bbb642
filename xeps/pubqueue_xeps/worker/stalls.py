"""Detects a blocked event loop, and names the handler that blocks it: a thread watches the loop.

While the loop is blocked, no lock is extended, no answer is read and no other handler runs, so a blocking call in an
async handler is logged before locks are lost.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from pubqueue_xeps.log import log
from pubqueue_xeps.worker.tracebacks import is_ours, is_theirs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_AT_WORK: Final[WeakKeyDictionary[asyncio.Task[object], str]] = WeakKeyDictionary()
"""The handler that each task is running."""

WATCHES: Final[dict[asyncio.AbstractEventLoop, LoopWatch]] = {}


def at_work(handler: str) -> None:
    """Note that the current task runs in a handler from now on."""
    task = asyncio.current_task()
    if task is not None:
        _AT_WORK[task] = handler


@contextmanager
def watched(seconds: float) -> Iterator[None]:
    """Log when this event loop is blocked for `seconds`, once for all its workers."""
    loop = asyncio.get_running_loop()
    watch = WATCHES.get(loop)
    if watch is None:
        watch = WATCHES[loop] = LoopWatch(loop, seconds)
        watch.start()
    watch.users += 1
    try:
        yield
    finally:
        watch.users -= 1
        if not watch.users:
            del WATCHES[loop]
            watch.stop()


class LoopWatch:
    """A heartbeat in the event loop, and a thread that waits for it, up to `seconds`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.users = 0
        self._loop = loop
        self._ident = threading.get_ident()
        self._seconds = seconds
        self._pause = max(seconds / 4, 0.01)
        self.beaten = monotonic()
        """When the loop last ran our callback."""
        self._logged = 0.0
        """How long it had been blocked when that was last logged; 0 while it runs."""
        self._where = ""
        self._over = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._run, name="pubqueue watch", daemon=True)

    def start(self) -> None:
        """Start watching."""
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._over.set()
        if self._timer is not None:
            self._timer.cancel()
        self._thread.join()

    def look(self, now: float) -> None:
        """Log where the loop is blocked, and again each time the duration has doubled; called by the thread."""
        stood = now - self.beaten - self._pause
        if stood < max(self._seconds, 2 * self._logged):
            return
        where = self._find()
        if where is not None:
            self._logged, self._where = stood, where
            log.warning("loop.stands_still", seconds=round(stood, 1), where=where)

    def _run(self) -> None:
        while not self._over.wait(self._pause):
            self.look(monotonic())

    def _beat(self) -> None:
        now = monotonic()
        if self._logged:
            stood, self._logged = now - self.beaten, 0.0
            log.warning("loop.stood_still", seconds=round(stood, 1), where=self._where)
        self.beaten = now
        self._timer = self._loop.call_later(self._pause, self._beat)

    def _find(self) -> str | None:
        """Return the handler and line at which the loop is; None if it is idle, because then the whole process was stopped."""
        frame = sys._current_frames().get(self._ident)  # noqa: SLF001 - documented, despite its name
        line = _line(frame)
        if line is None:
            return None
        task = asyncio.current_task(self._loop)
        handler = None if task is None else _AT_WORK.get(task)
        return line if handler is None else f"the handler {handler}, {line}"


def _line(frame: FrameType | None) -> str | None:
    """Return the outermost line of the user's program, which is the handler's; None if there is none."""
    found: str | None = None
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_run_once" and is_theirs(code.co_filename):
            return found  # frames further out have started the loop
        if not is_ours(code.co_filename) and not is_theirs(code.co_filename):
            found = f"{code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None
