"""What faces count: connections and why they end, calls of gRPC, requests of HTTP; and calls for thousands of clients, in turns."""

from __future__ import annotations

import asyncio
import math
import time
from bisect import bisect_left
from collections import deque
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

log = structlog.get_logger(__name__)


# The connections of the clients of one face: how many are open, and how many were refused or cut, by reason.


@unique
class Reason(StrEnum):
    """The reason why a connection is refused or closed."""

    CONNECTIONS = "connections"
    """The face has the maximum number."""
    PEER = "peer"
    """The address has the maximum number."""
    USER = "user"
    """The user has the maximum number."""
    DESCRIPTORS = "descriptors"
    """The process has hardly any file descriptors left."""
    HANDSHAKE = "handshake"
    """TLS was not negotiated, or not in time."""
    LOGIN = "login"
    """No user has logged in in time."""
    REQUEST = "request"
    """A request did not arrive completely in time."""
    IDLE = "idle"
    """It was silent for too long."""
    UNREAD = "unread"
    """Its client has not read its messages in time, or too many wait."""
    MEMORY = "memory"
    """All clients together had too many bytes kept here, its owner the most, and those of this one began first."""
    FAULT = "fault"
    """Serving it met a fault of ours, which the log shows."""


REFUSED = frozenset(
    {
        *(Reason.CONNECTIONS, Reason.PEER, Reason.USER),
        *(Reason.DESCRIPTORS, Reason.HANDSHAKE, Reason.LOGIN),
    }
)
"""Reasons for which a connection is refused before anything is done for it; for the others it is closed."""


class Connections(Struct, gc=False):
    """Counts the connections of a face, which is a word of the program: `http`, `stomp`."""

    face: str
    open: int = 0
    ended: dict[Reason, int] = field(default_factory=lambda: dict.fromkeys(Reason, 0))
    """Those that we have refused or closed, by reason."""
    certificate_ends: float | None = None
    """When the certificate that new clients get expires, in seconds since 1970; None: there is none."""


# Calls of gRPC: how many have ended, by method and code, how long they took, and how many are open.

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
"""The bounds of the buckets in which durations are counted."""

Method = tuple[str, str]
"""The name of a service, and the name of an rpc of it."""


class Durations(Struct, gc=False):
    """How long calls took: how many per bucket, the last one for those above all bounds; and the sum in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        """Count a call."""
        self.counts[bisect_left(SECONDS, seconds)] += 1
        self.total += seconds


class GrpcCalls(Struct, gc=False):
    """Counts calls. Methods are those that are served, and codes those of gRPC, so the labels are bounded."""

    ended: dict[tuple[Method, str], int] = field(default_factory=dict)
    """By method and code."""
    durations: dict[Method, Durations] = field(default_factory=dict)
    """Of calls that are one request and one answer."""
    open: dict[Method, int] = field(default_factory=dict)
    outstanding: Callable[[], int] = lambda: 0
    """Returns how many messages streams have delivered without getting them back."""

    def begin(self, method: Method) -> None:
        """Count a call that begins."""
        self.open[method] = self.open.get(method, 0) + 1

    def end(self, method: Method, code: str, seconds: float | None) -> None:
        """Count a call that has ended, with its duration unless it was a stream."""
        self.open[method] -= 1
        self.ended[method, code] = self.ended.get((method, code), 0) + 1
        if seconds is not None:
            self.durations.setdefault(method, Durations()).add(seconds)


# Requests of HTTP that were answered, by route and status, and how many wait for a message.


class HttpRequests(Struct, gc=False):
    """Counts answers. Profiles and routes are words of the program, so the labels are bounded."""

    answered: dict[tuple[str, str, int], int] = field(default_factory=dict)
    """By profile, route and status."""
    waiting: int = 0

    def count(self, profile: str, route: str, status: int) -> None:
        """Count an answer."""
        key = profile, route, status
        self.answered[key] = self.answered.get(key, 0) + 1


# Calls that would come all at once, because one thing has happened to thousands of clients: in turns, so that others have theirs.


class InTurns:
    """Makes up to `most` calls in a turn of the loop, and the others in the next ones: one of each `whose` after the other, in its order.

    Who has none comes before those who have had one and want more, and is new again only when all these have had their turn
    (RFC 8290, section 4.2): the wait of a newcomer depends on how many others there are, not on how much they want. Calls
    that take more than `seconds` together, by the `clock`, end the turn. `fault` is the event of a call that fails.
    """

    def __init__(
        self,
        most: int,
        fault: str,
        seconds: float = math.inf,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._most, self._fault, self._seconds, self._clock = most, fault, seconds, clock
        self._left, self._spent = most, 0.0
        self._waiting: dict[Hashable, deque[Callable[[], None]]] = {}
        """The calls of each; none of who has just had the last one."""
        self._new: deque[Hashable] = deque()
        self._again: deque[Hashable] = deque()
        self._is_next = False

    def enters(self) -> bool:
        """Return whether one call that takes hardly any time can be made now, without `call`, and count it."""
        if self._waiting or self._left <= 0:
            return False
        self._left -= 1
        if self._left <= self._most // 2 and not self._is_next:  # not for each: most turns have few
            self._is_next = True
            asyncio.get_running_loop().call_soon(self._go_on)
        return True

    def call(self, function: Callable[[], None], whose: Hashable = "") -> None:
        """Call the function now, or when it is its turn."""
        if not self._is_next:
            self._is_next = True
            asyncio.get_running_loop().call_soon(self._go_on)
        if not (self._waiting or self._left <= 0):
            self._make(function)
        elif whose in self._waiting:
            self._waiting[whose].append(function)
        else:
            self._waiting[whose] = deque([function])
            self._new.append(whose)

    def _make(self, function: Callable[[], None]) -> None:
        self._left -= 1
        began = self._clock()
        try:
            function()
        except Exception:  # the boundary between those who are called
            log.exception(self._fault)
        self._spent += self._clock() - began
        if self._spent >= self._seconds:
            self._left = 0

    def _go_on(self) -> None:
        """Begin a turn."""
        self._left, self._spent, self._is_next = self._most, 0.0, False
        while self._waiting and self._left > 0:
            is_new = bool(self._new)
            whose = self._new.popleft() if is_new else self._again.popleft()
            calls = self._waiting[whose]
            if calls:
                self._make(calls.popleft())
            if calls or (is_new and self._again):
                self._again.append(whose)
            else:
                del self._waiting[whose]
        if self._left < self._most and not self._is_next:
            self._is_next = True
            asyncio.get_running_loop().call_soon(self._go_on)
