"""Reports what a worker does on standard error, if the program has not set up logging.

It prints one line when it connects, waits, loses the connection, finishes and ends; one for each failure
(`pubqueue_xeps.sentences`); and once a minute how much it has done, if that has changed. It reports only failures, and as log
lines, if the program has set up structlog, or PUBQUEUE_QUIET is in its environment; nothing, if it has set up `logging`.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from pubqueue_xeps.log import is_ours, is_theirs, log
from pubqueue_xeps.sentences import show

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import FrameType

    from pubqueue_xeps.item import Item
    from pubqueue_xeps.metrics import Metrics
    from pubqueue_xeps.worker.held_items import HeldItems
    from pubqueue_xeps.worker.queue_session import QueueSession
    from pubqueue_xeps.worker.worker_items import WorkerItems


MINUTE: Final = 60.0
COUNTED: Final = {
    "done": "done",
    "failed": "failed",
    "reject": "rejected",
    "release": "released",
    "hold": "held",
    "lost": "lost",
}
"""The outcomes of an item that was begun, and the word for each."""


class Minutes:
    """Counts what was done, minute by minute."""

    def __init__(self, items: WorkerItems) -> None:
        self._items = items
        self._before = items.tally.copy()
        self._in_hand = 0

    def line(self) -> str | None:
        """Return what was done since the last call; None if nothing was, and as many items are in hand."""
        tally, in_hand = self._items.tally, self._items.in_hand
        now, before = tally.copy(), self._before
        counts = {word: now[kind] - before[kind] for kind, word in COUNTED.items()}
        quiet = now == before and in_hand == self._in_hand
        self._before, self._in_hand = now, in_hand
        if quiet:
            return None
        parts = [f"{count:,} {word}" for word, count in counts.items() if count or word == "done"]
        return f"{self._items.name}: {', '.join(parts)} in the last minute, {in_hand:,} in hand"


async def report_minutes(items: WorkerItems) -> None:
    """Write once a minute what was done, until cancelled."""
    minutes = Minutes(items)
    while True:
        await asyncio.sleep(MINUTE)
        if (line := minutes.line()) is not None:
            show(line)


# What metrics see of a worker.


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """A worker at one of its services as `pubqueue_xeps.metrics` sees it, from another thread."""

    session: QueueSession
    held_items: HeldItems
    windows: Mapping[str, int]

    @property
    def service(self) -> str:
        """The address of the service."""
        return self.held_items.service

    @property
    def is_up(self) -> bool:
        """Whether it is connected and subscribed."""
        return self.session.is_up

    @property
    def reconnects(self) -> int:
        """How often it has connected again."""
        return max(0, self.session.connections - 1)

    def by_node(self) -> dict[str, dict[str, int]]:
        """Return how many items are in flight and waiting, and how many may be here, by node."""
        begun, waiting = self.held_items.begun_by_node(), self.held_items.waiting_by_node()
        return {
            node: {"in_flight": begun[node], "waiting": waiting[node], "window": window}
            for node, window in self.windows.items()
        }


@contextmanager
def observed(metrics: Metrics, observation: Observation) -> Iterator[None]:
    """Count what a worker does inside the block."""

    def ended(item: Item, how: str, seconds: float) -> None:
        metrics.ended(item.service, item.node, item.handler, COUNTED[how], seconds)

    observation.held_items.on_end = ended
    with metrics.watching(observation):
        yield


# Detects a blocked event loop, and names the handler that blocks it: a thread watches the loop.
#
# While the loop is blocked, no lock is extended, no answer is read and no other handler runs, so a blocking call in an
# async handler is logged before locks are lost.

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
