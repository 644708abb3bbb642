"""The requests of one task that are in flight.

Theory of operation. `put` sends requests until the window is full, then waits; `drain` waits for
the rest. All waiting happens in `_step`, in the task's own coroutine, so nothing here runs by
itself:

- An answer frees a place, and goes to its handler. A refusal of type wait postpones its request and halves the window;
  every accepted request widens it by one again, up to `size`. The handler decides about any other refusal: a failure,
  other requests, or nothing.
- When the stream is lost, it is unknown whether the requests in flight were accepted. The stream is restored and all of
  them are sent again under the same request and item ids; the service ignores items that it already has.
- There is no timeout for a single request, because with a rate limit the 256th publish waits long for its answer
  although all is well. Only when no answer at all comes for `progress_timeout` does the stream count as lost.
- Unanswered requests are limited in bytes as well as in number. Bytes in the socket's send buffer are unanswered, so
  that buffer is limited too.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol
from xml.sax.saxutils import quoteattr

from pubqueue_spark.client.refusals import Verdict, judge
from pubqueue_spark.errors import PubqueueSparkError, ServiceError
from pubqueue_xeps.errors import LoginFailed, LoginRefused
from pubqueue_xeps.wire.refusals import read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from xml.etree.ElementTree import Element

    from pubqueue_spark.client.option import Backoff
    from pubqueue_spark.client.request import AnswerHandler, Request
    from pubqueue_xeps.wire.refusals import Refusal

MAX_BYTES: Final = 512 * 1024
LOST: Final = "the stream was lost"
SLOW: Final = 100
"""Rows per second; if a full window yields less, something other than work delays it."""

log = logging.getLogger(__name__)


class Stream(Protocol):
    """The stream that a window uses."""

    @property
    def up(self) -> bool:
        """Whether the stream is connected."""

    def send(self, data: bytes) -> None:
        """Send bytes; do nothing if the stream is down."""

    def drop(self) -> None:
        """Give up the stream."""

    async def restore(self) -> None:
        """Restore the stream; raise LoginFailed with one sentence."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a window: size, times, retries."""

    size: int
    progress_timeout: float
    retries: int
    backoff: Backoff
    slow_after: float = 5.0
    """How many seconds a full window may be slow before this is logged."""


@dataclass(slots=True)
class WindowCounts:
    """What one task has done."""

    done: int = 0
    """Accepted requests."""
    rows: int = 0
    """Rows of these requests."""
    bytes: int = 0
    retries: int = 0
    reconnects: int = 0


@dataclass(slots=True)
class _Sent:
    request: Request
    number: int
    id: str
    data: bytes
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """The addresses and the form of requests and messages."""

    service: str
    who: str
    """A partition, or the driver."""
    prefix: str = ""
    """The prefix of request ids, unique on the stream."""


@dataclass(slots=True)
class _Pace:
    """Watches how many rows a full window yields."""

    since: float | None = None
    rows: int = 0
    reported: bool = False

    def slow(self, now: float, rows: int, after: float) -> float | None:
        """Return the rows per second, once, when the window has been full and slow for `after` seconds."""
        if self.since is None:
            self.since, self.rows = now, rows
        elapsed = now - self.since
        if self.reported or elapsed < after or rows == self.rows:
            return None
        rate = (rows - self.rows) / elapsed
        if rate >= SLOW:
            self.since = None
            return None
        self.reported = True
        return rate


def _times(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


class Window:
    """Sends the requests of one task over a stream. Only one coroutine may use it."""

    def __init__(
        self,
        stream: Stream,
        task: Task,
        limits: Limits,
        results: AnswerHandler,
        *,
        clock: Callable[[], float] = time.monotonic,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.counts = WindowCounts()
        self._stream = stream
        self._task = task
        self._limits = limits
        self._results = results
        self._clock = clock
        self._jitter = jitter
        self.allowed = limits.size
        self._numbers = itertools.count()
        self._in_flight: dict[str, _Sent] = {}
        self._bytes = 0
        self._aside: list[tuple[float, int, _Sent]] = []
        self._unsent: list[_Sent] = []
        self._news = asyncio.Event()
        self._failure: PubqueueSparkError | None = None
        self._last_answer = clock()
        self._losses = 0
        self._connected = stream.up
        self._why = LOST
        self._pace = _Pace()

    async def put(self, requests: Sequence[Request]) -> None:
        """Send requests, waiting for places; raise the first failure of any request so far."""
        self._check()
        if requests and self._room(requests[0]):
            self._pace.since = None
        for request in requests:
            while not self._room(request):
                await self._step()
            self._enter(request)
        self._flush()

    async def drain(self) -> WindowCounts:
        """Wait until every request is answered; raise the first failure."""
        while self._in_flight or self._aside:
            await self._step()
        self._check()
        return self.counts

    def answer(self, request: str, iq: Element) -> None:
        """Record an answer from the service; ignore one that is not awaited."""
        sent = self._in_flight.pop(request, None)
        if sent is None:
            return
        self._bytes -= len(sent.data)
        self._losses = 0
        self._last_answer = self._clock()
        if iq.get("type") == "result":
            self.counts.done += 1
            self.counts.rows += sent.request.rows
            self.counts.bytes += len(sent.data)
            try:
                self._results.taken(sent.request, iq)
            except PubqueueSparkError as failure:
                self._failure = self._failure or failure
            self.allowed = min(self._limits.size, self.allowed + 1)
        else:
            self._refused(sent, read(iq))
        self._news.set()

    def no_way_in(self, why: str) -> None:
        """Note why there is no stream yet."""
        self._why = why

    def line_lost(self) -> None:
        """Wake up: the stream is down."""
        self._news.set()

    def _room(self, request: Request) -> bool:
        waiting = len(self._in_flight) + len(self._aside)
        return waiting == 0 or (
            waiting < self.allowed and self._bytes + len(request.body) <= MAX_BYTES
        )

    def _enter(self, request: Request) -> None:
        number = next(self._numbers)
        name = f"{self._task.prefix}{number}"
        head = f"<iq type='{request.kind}' id='{name}' to={quoteattr(self._task.service)}>"
        self._fly(_Sent(request, number, name, head.encode() + request.body))

    def _fly(self, sent: _Sent) -> None:
        if not self._in_flight:
            self._last_answer = self._clock()  # nothing was in flight until now
        self._in_flight[sent.id] = sent
        self._bytes += len(sent.data)
        self._unsent.append(sent)

    def _flush(self) -> None:
        """Send the requests that have a place in the window; if the stream is down, `_restore` sends them."""
        if self._unsent and self._stream.up:
            self._stream.send(b"".join(sent.data for sent in self._unsent))
            self._unsent.clear()

    async def _step(self) -> None:
        """Send due requests, then wait for the next event; raise a failure that has arrived."""
        self._news.clear()  # before anything that may cause an event at once
        self._release()
        if self._in_flight and not self._stream.up:
            await self._restore()
        self._flush()
        if self._in_flight or self._aside:
            try:
                async with asyncio.timeout(self._patience()):
                    await self._news.wait()
            except TimeoutError:
                self._drop_if_silent()
        self._check()
        self._watch_pace()

    def _release(self) -> None:
        """Send postponed requests again, as far as the window has room."""
        now = self._clock()
        while self._aside and self._aside[0][0] <= now and len(self._in_flight) < self.allowed:
            self._fly(heapq.heappop(self._aside)[2])

    def _patience(self) -> float:
        """Return the seconds until the next timeout."""
        now = self._clock()
        ends = []
        if self._in_flight:
            ends.append(self._last_answer + self._limits.progress_timeout)
        if self._aside and len(self._in_flight) < self.allowed:
            ends.append(self._aside[0][0])
        return max(0.0, min(ends) - now)

    def _drop_if_silent(self) -> None:
        silent = self._clock() - self._last_answer >= self._limits.progress_timeout
        if self._in_flight and silent:
            log.warning(
                "%s: no answer for %g seconds; reconnecting",
                self._task.who,
                self._limits.progress_timeout,
            )
            self._stream.drop()

    async def _restore(self) -> None:
        """Reconnect, and send all requests in flight again under the same ids."""
        why, self._why = self._why, LOST
        while not self._stream.up:
            self._losses += 1
            if self._losses > self._limits.retries:
                raise ServiceError(self._gave_up(why))
            if self._losses > 1:
                await asyncio.sleep(self._pause(self._losses - 1))
            try:
                await self._stream.restore()
            except LoginRefused as error:  # trying again would not help
                raise ServiceError(f"{self._task.who} found no way in: {error}") from None
            except LoginFailed as error:
                why = str(error)
        self._connected = True
        self.counts.reconnects += 1
        self._last_answer = self._clock()
        self._unsent = list(self._in_flight.values())

    def _gave_up(self, why: str) -> str:
        oldest = next(iter(self._in_flight.values())).request
        tries = self._limits.retries
        if not self._connected:
            return (
                f"{self._task.who} has no connection for {self._task.service}: {why.rstrip('.')}"
                f" ({_times(tries + 1, 'try', 'tries')})."
            )
        return (
            f"no answer from {self._task.service} through {_times(tries, 'new connection', 'new connections')};"
            f" the oldest unanswered request is {oldest}. The last reason: {why.rstrip('.')}."
        )

    def _refused(self, sent: _Sent, refusal: Refusal) -> None:
        if judge(refusal) is not Verdict.RETRY or sent.refused >= self._limits.retries:
            return self._settle(sent, refusal)
        sent.refused += 1
        self.counts.retries += 1
        self.allowed = max(1, self.allowed // 2)
        due = self._clock() + self._pause(sent.refused)
        return heapq.heappush(self._aside, (due, sent.number, sent))

    def _settle(self, sent: _Sent, refusal: Refusal) -> None:
        try:
            instead = self._results.refused(sent.request, refusal, sent.refused)
        except PubqueueSparkError as failure:
            self._failure = self._failure or failure
            return
        for request in instead:
            self._enter(request)

    def _pause(self, failures: int) -> float:
        # Between half and all of it, so that tasks refused together do not come back together.
        return self._limits.backoff.after(failures) * (0.5 + self._jitter() / 2)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _watch_pace(self) -> None:
        rate = self._pace.slow(self._clock(), self.counts.rows, self._limits.slow_after)
        if rate is not None:
            log.warning(
                "%s: only %.0f rows/s with %d publishes in flight. A rate limit of the"
                " XMPP server is the usual cause: Debian's Prosody takes 10 kB/s from a client,"
                ' about 28 items/s (its module "limits": list the account in unlimited_jids,'
                " or raise limits.c2s.rate); ejabberd has the shaper of its ejabberd_c2s listener.",
                self._task.who,
                rate,
                len(self._in_flight),
            )
