"""An event loop whose time stands still, and leaps to the next timer when a test lets it.

The calendar of its process leaps with it. So whatever the program waits for comes at its own moment, neither later on a slow machine
nor after a real wait. Between two leaps the program works at its own pace: with sockets, threads and other processes.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from functools import partial, wraps
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

import uvloop

if TYPE_CHECKING:
    from collections.abc import Callable
    from socket import socket

    from harness.batches.clock import Clock

CALM: Final = 3
"""Turns in which nothing is called, after which the loop has nothing to do."""
LOOK: Final = 0.001
"""Real seconds until threads that are at work are looked at again."""


class Timer(asyncio.TimerHandle):
    """A timer of the loop."""

    def go_off(self) -> None:
        """Call, unless it has been cancelled since it was due."""
        if not self.cancelled():
            self._run()


class LeapingLoop(uvloop.Loop):
    """A loop of uvloop's, except for its timers. Its time runs like the machine's until a test has it `stand`.

    A test writes lines to a socket, and each is answered by a line: `stand`, `run`, and `leap 9.5`, which lets time leap from timer to
    timer for so many seconds, but no further than to the first that makes the program write something.
    """

    def __init__(self, words: socket, calendar: Clock) -> None:
        super().__init__()
        self.wrote = False
        """Whether anything was written since the last leap began."""
        self.busy = 0
        """The jobs of other threads that the loop waits for."""
        self._words, self._calendar = words, calendar
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._calls = 0
        self._behind = 0.0
        self._stands_at: float | None = None
        self._wake: asyncio.TimerHandle | None = None
        words.settimeout(0)
        self.add_reader(words, self._listen)

    def time(self) -> float:
        """Return the seconds of the program's own time."""
        return time.monotonic() - self._behind if self._stands_at is None else self._stands_at

    def call_soon(self, *call: Any, **context: Any) -> asyncio.Handle:
        """Count the calls, which show whether there is something to do."""
        self._calls += 1
        return super().call_soon(*call, **context)

    def call_soon_threadsafe(self, *call: Any, **context: Any) -> asyncio.Handle:
        """Count likewise."""
        self._calls += 1
        return super().call_soon_threadsafe(*call, **context)

    def run_in_executor(self, *job: Any) -> asyncio.Future[Any]:
        """Count the jobs that are not done."""
        self.busy += 1
        done = super().run_in_executor(*job)
        done.add_done_callback(self._note_done)
        return done

    def _note_done(self, _job: asyncio.Future[Any]) -> None:
        self.busy -= 1

    def call_later(self, delay: float, *call: Any, **context: Any) -> asyncio.TimerHandle:
        """Call after so many seconds of the program's own time."""
        return self.call_at(self.time() + delay, *call, **context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Call at a moment of the program's own time."""
        timer = Timer(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._numbers), timer))
        self._call_due()
        return timer

    def _timer_handle_cancelled(self, _timer: asyncio.TimerHandle) -> None:
        """Let a cancelled timer lie; it is dropped when it would be due."""

    def _next(self) -> float:
        """Return when the next timer is due."""
        while self._timers and self._timers[0][2].cancelled():
            heappop(self._timers)
        return self._timers[0][0] if self._timers else float("inf")

    def _call_due(self) -> None:
        while (due := self._next()) <= self.time():
            self.call_soon(heappop(self._timers)[2].go_off)
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if self._stands_at is None and self._timers:
            self._wake = super().call_later(due - self.time(), self._call_due)

    def _listen(self) -> None:
        said = self._words.recv(64).decode().split()
        if not said:
            self.remove_reader(self._words)
        elif said[0] == "leap":
            self.wrote = False
            self._once_quiet(partial(self._leap, self.time() + float(said[1])))
        else:
            now = self.time()
            self._behind = time.monotonic() - now
            self._stands_at = now if said[0] == "stand" else None
            self._call_due()
            self._answer()

    def _answer(self) -> None:
        self._words.send(b"done\n")

    def _leap(self, end: float) -> None:
        now = self.time()
        if self.wrote or now >= end:
            self._answer()
            return
        self._stands_at = min(self._next(), end)
        self._calendar.advance(self._stands_at - now)
        self._call_due()
        self._once_quiet(partial(self._leap, end))

    def _once_quiet(self, then: Callable[[], None], seen: int = -1, calm: int = 0) -> None:
        """Call when there is nothing to do, here and in other threads."""
        if self.busy:
            super().call_later(LOOK, self._once_quiet, then)
        elif (calm := calm + 1 if seen == self._calls else 0) < CALM:
            super().call_soon(self._once_quiet, then, self._calls, calm)
        else:
            then()


def at_work(job: Callable[..., Any]) -> Callable[..., Any]:
    """Return a coroutine function that waits for another thread, as one that counts itself as long."""

    @wraps(job)
    async def counted(*args: Any, **named: Any) -> Any:  # whatever the job returns
        loop: Any = asyncio.get_running_loop()
        loop.busy += 1
        try:
            return await job(*args, **named)
        finally:
            loop.busy -= 1

    return counted


def noted(write: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that writes to the server, as one that notes it in the running loop."""

    @wraps(write)
    def writing(*args: Any, **named: Any) -> Any:  # whatever it returns
        loop: Any = asyncio.get_running_loop()
        loop.wrote = True
        return write(*args, **named)

    return writing
