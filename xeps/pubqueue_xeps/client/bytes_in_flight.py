"""Limits the bytes that one publisher has in flight, to stay below the service's limit for an account."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_BYTES: Final = 1 << 20
"""The maximum bytes in flight; a larger request is sent alone."""


class BytesInFlight:
    """Limits the bytes in flight; waiting requests are admitted in order."""

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._most = most
        self._used = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def of(self, size: int, timeout: float | None) -> AsyncIterator[None]:  # noqa: ASYNC109 - a promise
        """Wait for room and reserve it in the block; raise TimeoutError if there is none within `timeout` seconds."""
        if self._waiting or not self._has(size):
            await self._wait(size, timeout)
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
