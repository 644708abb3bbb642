"""Messages of an account on a connection are read a few at a time: what is not read stays with the client, by the flow control of HTTP/2.

gRPC does not report the size of a message before it is read. So a connection begins with few reads at a time. Small messages
raise the number, if others wait; a large one sets it to as many as fit. While large messages of a connection wait or are done,
no others are read on it beyond `HELD` bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

from pubqueue.faces.grpc.entry.turns import LARGE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pubqueue.faces.grpc.entry.turns import Unread

Reader = tuple[str, str]
"""The address of a connection, and the account of a call on it."""

HELD: Final = 8 << 20
"""Bytes of large messages of a connection that wait for their turn, or are done; the last one may exceed it."""

AT_ONCE: Final = 16 << 20
"""Bytes of large messages that are read at a time on a connection, if all are as large as the last one."""

FIRST_READS: Final = 2
MAX_READS: Final = 1_000
"""How many messages are read at a time at first, and at most."""


class _Connection:
    """The reads of a connection. A waiting read is a future, which is done when it may begin."""

    __slots__ = ("allowed", "held", "reading", "waiting")

    def __init__(self) -> None:
        self.reading, self.held, self.allowed = 0, 0, FIRST_READS
        self.waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_idle(self) -> bool:
        return not (self.reading or self.held or self.waiting)

    def may_read(self) -> bool:
        return self.reading < self.allowed and self.held < HELD

    def learn(self, size: int) -> None:
        """Set how many may be read at a time, after a message of this size."""
        if size >= LARGE:
            self.held += size
            self.allowed = max(FIRST_READS, AT_ONCE // size)
        elif self.waiting:
            self.allowed = min(2 * self.allowed, MAX_READS)

    def go_on(self) -> None:
        """Let waiting reads begin, as far as there is room."""
        while self.waiting and self.may_read():
            if not (turn := self.waiting.popleft()).done():
                self.reading += 1
                turn.set_result(None)


class Reading:
    """Reads the messages of unary calls, in the order of the calls on each connection."""

    def __init__(self) -> None:
        self._connections: dict[Reader, _Connection] = {}

    async def read(self, peer: Reader, read: Callable[[], Awaitable[Unread]]) -> Unread:
        """Return the message of a call, as soon as there is room for it; `done` has to be called for it."""
        one = self._connections.get(peer)
        if one is None:
            one = self._connections[peer] = _Connection()
        if one.waiting or not one.may_read():
            await self._wait(peer, one)
        else:
            one.reading += 1
        try:
            request = await read()
            one.learn(request.size)
        finally:
            one.reading -= 1
            self._go_on(peer, one)
        return request

    def done(self, peer: Reader, size: int) -> None:
        """Free the room of a message that was read."""
        if size >= LARGE:
            one = self._connections[peer]
            one.held -= size
            self._go_on(peer, one)

    async def _wait(self, peer: Reader, one: _Connection) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        one.waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                one.reading -= 1
            else:
                turn.cancel()
            self._go_on(peer, one)
            raise

    def _go_on(self, peer: Reader, one: _Connection) -> None:
        one.go_on()
        if one.is_idle:
            self._connections.pop(peer, None)
