"""Detects that the server throttles this account.

By default, Prosody and ejabberd read only a few kilobytes a second from each client, without reporting it: a busy
publisher or worker is then slow for no visible reason. So a ping is sent after enough bytes. The server answers pings
itself and in order, so the time until the answer is the time it takes to read the bytes before it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import secrets
from collections import deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final

from pubqueue_xeps.log import log
from pubqueue_xeps.wire.ns import PING
from pubqueue_xeps.wire.times import Span, span
from pubqueue_xeps.wire.xml_text import quote

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from xml.etree.ElementTree import Element


OFTEN: Final = 16 * 1024
"""The minimum number of bytes between two pings."""


class Pace:
    """Measures one stream."""

    def __init__(self, timings: Timings) -> None:
        self._timings = timings
        self._ids = (f"pace-{secrets.token_hex(4)}-{n}" for n in itertools.count(1))
        self._asked = ""
        self._at = 0.0
        self._behind = self._sent = 0
        self._late = False
        self._logged_at = -inf
        self._timer: asyncio.TimerHandle | None = None

    def sent(self, byte_count: int, server: str) -> bytes:
        """Count bytes that are being sent; return what to send after them."""
        self._sent += byte_count
        if self._asked or self._sent < OFTEN:
            return b""
        loop = asyncio.get_running_loop()
        self._asked, self._at, self._late = next(self._ids), loop.time(), False
        self._behind, self._sent = self._sent, 0
        self._timer = loop.call_later(self._timings.stall, self._be_late)
        ping = f"<ping xmlns='{PING}'/>"
        return f"<iq type='get' id='{self._asked}' to={quote(server)}>{ping}</iq>".encode()

    def read(self, stanza: Element, jid: str) -> bool:
        """Read the answer to our ping, of any kind; return False for another stanza."""
        if not self._asked or stanza.get("id") != self._asked:
            return False
        now = asyncio.get_running_loop().time()
        if self._late and now >= self._logged_at + self._timings.refresh:
            self._logged_at = now
            log.warning(
                "server.slow", jid=jid, octets=self._behind, seconds=round(now - self._at, 1)
            )
        self.cut()
        return True

    def cut(self) -> None:
        """Drop the ping: it is answered, or the stream is lost."""
        self._asked = ""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _be_late(self) -> None:
        # an answer that has come while the loop stood still is read before any timer
        self._late = True


# Limits the bytes that one publisher has in flight, to stay below the service's limit for an account.

MAX_BYTES: Final = 1 << 20
"""The maximum bytes in flight; a larger request is sent alone."""


class NoRoom(Exception):  # noqa: N818  names what is missing
    """There was none in time."""


class BytesInFlight:
    """Limits the bytes in flight; waiting requests are admitted in order."""

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._most = most
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def of(self, size: int, timeout: float | None) -> AsyncIterator[None]:  # noqa: ASYNC109 - a promise
        """Wait for room and reserve it in the block; raise NoRoom if there is none within `timeout` seconds."""
        if self._waiting or not self._has(size):
            try:
                await self._wait(size, timeout)
            except TimeoutError:
                raise NoRoom from None
        else:
            self._used += size
        try:
            yield
        finally:
            self._used -= size
            self._let_in()

    def _has(self, size: int) -> bool:
        return self._used == 0 or self._used + size <= self._most

    async def _wait(self, size: int, timeout: float | None) -> None:  # noqa: ASYNC109 - a promise
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        place = size, mine
        self._waiting.append(place)
        try:
            async with asyncio.timeout(timeout):
                await mine
        except BaseException:
            if place in self._waiting:
                self._waiting.remove(place)
            elif not mine.cancelled():
                self._used -= size  # room was reserved just as the wait ended
            self._let_in()
            raise

    def _let_in(self) -> None:
        while self._waiting and self._has(self._waiting[0][0]):
            size, one = self._waiting.popleft()
            if not one.cancelled():
                self._used += size
                one.set_result(None)


# The timeouts and intervals of a worker or publisher.


@dataclass(frozen=True, slots=True, init=False)
class Timings:
    """Timeouts and intervals, in seconds or as timedeltas; the defaults suit a queue across a network."""

    login: float
    """How long to wait for a session before the login counts as failed: 30."""

    answer: float
    """How long to wait for an answer and its notification before the request is repeated: 5. This is also the longest
    time between the return of a service and a repeated request."""

    patience: float
    """The limit for one retract or unlock in total, across lost answers and reconnects: 300."""

    refresh: float
    """The silence after which the worker subscribes again, in case the service has lost the subscription: 60. Also the
    interval between two requests for the service's time, while items are in hand."""

    backoff_min: float
    backoff_max: float
    """The pause between two attempts to reconnect, from 0.5 to 30; it doubles, with jitter."""

    parting: float
    """How long releasing the items in hand may take at the end: 5. An error that leaves a handler waits no longer for the
    unlock of its item, which is then repeated beside it."""

    stall: float
    """How long the event loop may be blocked before the worker logs which handler blocks it, and how long the server may
    take to read what was sent before that is logged: 2."""

    gather: float
    """The longest time for which a handler of batches is kept waiting for more items, whatever its `within` is: no limit.
    A test sets it to a moment."""

    def __init__(
        self,
        *,
        login: Span = 30,
        answer: Span = 5,
        patience: Span = 300,
        refresh: Span = 60,
        backoff_min: Span = 0.5,
        backoff_max: Span = 30,
        parting: Span = 5,
        stall: Span = 2,
        gather: Span = inf,
    ) -> None:
        given = locals().copy()
        for name in self.__slots__:
            object.__setattr__(self, name, span(name, given[name]))  # it is frozen

    def backoff(self, attempt: int) -> float:
        """Return the pause after the `attempt`th failure in a row."""
        return self._doubling(attempt, self.backoff_max)

    def pause(self, asked: int) -> float:
        """Return the pause before repeating a request that was sent `asked` times."""
        return self._doubling(asked, min(self.answer, self.backoff_max))

    def _doubling(self, failures: int, longest: float) -> float:
        wait = min(longest, self.backoff_min * float(2 ** min(failures, 16)))
        return wait * random.uniform(0.5, 1)  # noqa: S311 - spreads the workers, hides nothing
