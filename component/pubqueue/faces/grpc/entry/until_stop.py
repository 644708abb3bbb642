"""Work that ends with the service, whatever it waits for."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from grpc import StatusCode

from pubqueue.faces.grpc.wire.statuses import STOPPING, CallError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class UntilStop:
    """The work that is under way."""

    def __init__(self) -> None:
        self._limits: set[asyncio.Timeout] = set()
        self._is_over = False

    @asynccontextmanager
    async def within(self, seconds: float) -> AsyncIterator[None]:
        """Let the body last so many seconds, and no longer than the service.

        Raises:
            CallError: it has lasted longer.

        """
        if self._is_over:
            raise STOPPING
        try:
            async with asyncio.timeout(seconds) as limit:
                self._limits.add(limit)
                try:
                    yield
                finally:
                    self._limits.discard(limit)
        except TimeoutError:
            if not limit.expired():
                raise
            if self._is_over:
                raise STOPPING from None
            raise CallError(
                StatusCode.UNAVAILABLE, "There was no answer in time; try again."
            ) from None

    def end(self) -> None:
        """End all work now, and what begins later at once."""
        self._is_over = True
        now = asyncio.get_running_loop().time()
        for limit in self._limits:
            limit.reschedule(now)
