"""Large requests are read and done a few at a time, so that others do not wait for all of them.

What a client has sent is bytes until then. Small requests do not wait. Accounts take turns.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from google.protobuf.message import Message

LARGE: Final = 256 << 10
"""Bytes of a request that is large."""

ROOM: Final = 16 << 20
"""Bytes of large requests that are done at a time; a larger one is done alone."""


class Unread:
    """A request as it has come. `size` is its bytes."""

    __slots__ = ("_data", "_kind", "size")

    def __init__(self, kind: type[Message], data: bytes) -> None:
        self._kind, self._data, self.size = kind, data, len(data)

    def read(self) -> Any:  # noqa: ANN401  # of any rpc
        """Return the message, and forget the bytes; None if they are no message."""
        data, self._data = self._data, b""
        try:
            return self._kind.FromString(data)
        except DecodeError:
            return None


class Turns:
    """Has large requests wait until there is room for them among so many bytes. Accounts take turns, and no account has more than half of the room.

    So a client that does not finish what it has begun holds up only its own account.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._used, self._size = 0, room
        self._of: dict[str, int] = {}
        """The bytes that each account uses."""
        self._waiting: dict[str, deque[tuple[int, asyncio.Future[None]]]] = {}
        """The requests of each account that wait; the account whose turn is next comes first."""

    @asynccontextmanager
    async def of(self, size: int, account: str) -> AsyncIterator[None]:
        """Wait for the turn of a request of so many bytes; it is over at the end of the body."""
        if size < LARGE:
            yield
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(account, deque()).append((size, turn))
        self._go_on()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(size, account)
            else:
                self._go_on()  # others may have waited for this one
            raise
        try:
            yield
        finally:
            self._leave(size, account)

    def _leave(self, size: int, account: str) -> None:
        self._used -= size
        self._of[account] -= size
        if not self._of[account]:
            del self._of[account]
        self._go_on()

    def _go_on(self) -> None:
        """Let in what there is room for."""
        while (account := self._next()) is not None:
            line = self._waiting.pop(account)
            size, turn = line.popleft()
            self._used += size
            self._of[account] = self._of.get(account, 0) + size
            self._waiting[account] = line  # behind all other accounts
            turn.set_result(None)

    def _next(self) -> str | None:
        """Return the account whose first request may go in. One that has its half is skipped; behind any other one all wait."""
        for account, line in tuple(self._waiting.items()):
            while line and line[0][1].cancelled():
                line.popleft()
            if not line:
                del self._waiting[account]
                continue
            size, mine = line[0][0], self._of.get(account, 0)
            if not mine or mine + size <= self._size // 2:
                has_room = not self._used or self._used + size <= self._size
                return account if has_room else None
        return None
