"""Compares passwords outside the event loop: four at a time, in order, and the same pair of one peer once.

scrypt takes memory and time on purpose, and strangers decide how often it runs. So the number of waiting comparisons is bounded,
and a peer that has to wait because of other wrong attempts meanwhile is not compared.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.accounts.passwords import Scrypt

log = structlog.get_logger(__name__)

AT_ONCE: Final = 4
"""Comparisons at a time; each needs the memory of its scrypt string, usually 16 MiB."""

NICENESS: Final = 10
"""The niceness of these threads: strangers decide how much work they have."""

MAX_WAITING: Final = 256
"""The maximum number of comparisons that wait or run; more are refused."""


def _give_way() -> None:
    """Lower the priority of this thread below that of the event loop."""
    if sys.platform == "linux":  # only Linux has a priority for each thread
        this = os.PRIO_PROCESS, threading.get_native_id()
        with suppress(OSError):
            os.setpriority(*this, os.getpriority(*this) + NICENESS)


class Attempt(Struct, frozen=True):
    """An attempt to log in: the given name, the peer and the face."""

    scheme: str
    name: str
    face: str
    peer: str


class Comparison(Struct, eq=False):
    """A password to compare. `expected` is a decoy if the user has no password or does not exist."""

    key: bytes
    attempt: Attempt
    password: str
    expected: Scrypt
    answer: asyncio.Future[bool | None]


class Comparing:
    """Makes comparisons. `is_wanted` is asked before each; `judged` is called with the result, even if the caller is gone."""

    def __init__(
        self,
        is_wanted: Callable[[Attempt], bool],
        judged: Callable[[Attempt, bool], None],
    ) -> None:
        self._is_wanted, self._judged = is_wanted, judged
        self._threads = ThreadPoolExecutor(
            AT_ONCE, thread_name_prefix="password", initializer=_give_way
        )
        self._known: dict[bytes, Comparison] = {}
        self._waiting: deque[Comparison] = deque()
        self._running = 0

    async def compare(
        self, key: bytes, attempt: Attempt, password: str, expected: Scrypt
    ) -> bool | None:
        """Return whether it is the password; None if it was not compared. Comparisons with the same `key` are made once."""
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MAX_WAITING:
                return None
            answer = asyncio.get_running_loop().create_future()
            known = self._known[key] = Comparison(key, attempt, password, expected, answer)
            self._waiting.append(known)
            self._go_on()
        # a caller that goes meanwhile neither ends it for others nor escapes being counted
        return await asyncio.shield(known.answer)

    def close(self) -> None:
        """Start no more comparisons; those under way end by themselves."""
        while self._waiting:
            self._end(self._waiting.popleft(), None)
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _go_on(self) -> None:
        while self._waiting and self._running < AT_ONCE:
            one = self._waiting.popleft()
            if self._is_wanted(one.attempt):
                self._begin(one)
            else:
                self._end(one, None)

    def _begin(self, one: Comparison) -> None:
        self._running += 1
        loop = asyncio.get_running_loop()
        found = loop.run_in_executor(self._threads, one.expected.matches, one.password)
        found.add_done_callback(lambda found: self._done(one, found))

    def _done(self, one: Comparison, found: asyncio.Future[bool]) -> None:
        self._running -= 1
        right = None
        if not found.cancelled():
            if (problem := found.exception()) is None:
                right = found.result()
                self._judged(one.attempt, right)
            else:  # there was no memory for it
                log.error("login.failed", why=type(problem).__name__)
        self._end(one, right)
        self._go_on()

    def _end(self, one: Comparison, right: bool | None) -> None:  # noqa: FBT001  # an answer
        del self._known[one.key]
        if not one.answer.done():
            one.answer.set_result(right)
