"""What faces count: connections and why they end, calls of gRPC, requests of HTTP; and calls for thousands of clients, in turns."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final

import structlog
from msgspec import Struct, field

if TYPE_CHECKING:
    from collections.abc import Callable

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
    """Makes up to `most` calls in a turn of the loop, and the others in the next ones, in order. `fault` is the event of one that fails."""

    def __init__(self, most: int, fault: str) -> None:
        self._most, self._fault = most, fault
        self._left = most
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_next = False

    def call(self, function: Callable[[], None]) -> None:
        """Call the function now, or when it is its turn."""
        if not self._is_next:
            self._is_next = True
            asyncio.get_running_loop().call_soon(self._go_on)
        if self._waiting or not self._left:
            self._waiting.append(function)
        else:
            self._make(function)

    def _make(self, function: Callable[[], None]) -> None:
        self._left -= 1
        try:
            function()
        except Exception:  # the boundary between those who are called
            log.exception(self._fault)

    def _go_on(self) -> None:
        """Begin a turn."""
        self._left, self._is_next = self._most, False
        while self._waiting and self._left:
            self._make(self._waiting.popleft())
        if self._waiting or self._left < self._most:
            self._is_next = True
            asyncio.get_running_loop().call_soon(self._go_on)
