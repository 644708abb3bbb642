"""The output to one client: one write in each turn of the loop, and a bounded amount that waits while the client does not read.

Answers are always sent: as long as a client does not read, no more of its frames are read, so there are few. Messages wait here,
up to `MAX_HELD` bytes; nothing is delivered to a client for which some wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.listener import ClientConnection

MAX_HELD: Final = 1 << 20
"""Bytes of messages that wait for one client. One message alone may be larger."""

AT_ONCE: Final = 1 << 16
"""Bytes of messages that are passed to the socket before it has to report that they were sent."""

LOOK: Final = 0.05
"""Seconds until the next check of what the socket has sent."""


class Wire:
    """Sends to one client. `on_room` is called when messages can be sent again."""

    def __init__(self, connection: ClientConnection, on_room: Callable[[], None]) -> None:
        self._connection, self._on_room = connection, on_room
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes] = []
        self._part_bytes = self._written = self._held_bytes = 0
        self._held: deque[tuple[bytes, Callable[[], None] | None]] = deque()
        self._leaving: deque[tuple[int, Callable[[], None]]] = deque()
        self._is_due = self._is_looking = False
        self.last_written = self._loop.time()
        """When something was last sent."""

    @property
    def has_room(self) -> bool:
        """Whether messages can be sent now."""
        return not self._held and not self._connection.is_full

    def put(self, data: bytes) -> None:
        """Send an answer."""
        self._parts.append(data)
        self._part_bytes += len(data)
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._flush_when_due)

    def offer(self, data: bytes, on_taken: Callable[[], None] | None = None) -> bool:
        """Send a message, or keep it until the client reads; return false if too much is kept already.

        `on_taken` is called when the socket has taken it.
        """
        if self._held or self._connection.is_full or self._part_bytes > AT_ONCE:
            if self._held and self._held_bytes + len(data) > MAX_HELD:
                return False
            self._held.append((data, on_taken))
            self._held_bytes += len(data)
            return True
        self._message(data, on_taken)
        return True

    def flush(self) -> None:
        """Pass the collected bytes to the socket."""
        if not self._parts:
            return
        data = b"".join(self._parts) if len(self._parts) > 1 else self._parts[0]
        self._parts.clear()
        self._part_bytes = 0
        self._written += len(data)
        self.last_written = self._loop.time()
        self._connection.write(data)

    def release(self) -> None:
        """Send waiting messages, as the client reads."""
        if not self._held or self._connection.is_full:
            return
        while self._held and self._part_bytes <= AT_ONCE:
            data, on_taken = self._held.popleft()
            self._held_bytes -= len(data)
            self._message(data, on_taken)
        if not self._held:
            self._on_room()

    def drop(self) -> None:
        """Forget waiting messages: the client is gone, or has got its last frame."""
        self._held.clear()
        self._leaving.clear()
        self._held_bytes = 0

    def _message(self, data: bytes, on_taken: Callable[[], None] | None) -> None:
        self.put(data)
        if on_taken is not None:
            self._leaving.append((self._written + self._part_bytes, on_taken))

    def _flush_when_due(self) -> None:
        self._is_due = False
        self.flush()
        if self._held:
            self._loop.call_soon(self.release)
        if self._leaving and not self._is_looking:
            self._is_looking = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Call for the messages that the socket has taken."""
        self._is_looking = False
        taken = self._written - self._connection.unsent
        while self._leaving and self._leaving[0][0] <= taken:
            self._leaving.popleft()[1]()
        if self._leaving and not self._is_looking and self._connection.is_open:
            self._is_looking = True
            self._loop.call_later(LOOK, self._look)
