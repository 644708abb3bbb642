"""The wire between component and server, which can be cut."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Self

from harness.patience import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import TracebackType

ACCEPTED: Final = b"<handshake"


class Relay:
    """Carries every connection to its port on to the server's component port, byte for byte."""

    host = "127.0.0.1"

    def __init__(self, host: str, port: int) -> None:
        self._beyond = (host, port)
        self._accepted = asyncio.Event()
        self._carrying: set[asyncio.Task[None]] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._is_down = False
        self._until_stall: float = float("inf")
        self._stall = 0.0

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._carry, self.host, 0)
        self.port: int = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        await self._drop()
        await self._listener.wait_closed()

    async def cut(self) -> None:
        """Cut existing connections; return when the server has accepted the component again."""
        self._accepted.clear()
        await self._drop()
        async with asyncio.timeout(TIMEOUT):
            await self._accepted.wait()

    @asynccontextmanager
    async def down(self) -> AsyncIterator[None]:
        """Cut existing connections, and carry no other one for the block."""
        self._is_down = True
        await self._drop()
        try:
            yield
        finally:
            self._is_down = False

    def stall_after(self, byte_count: int, seconds: float) -> None:
        """When so many bytes have come, carry nothing for a while, and then the bytes that came in that time; connections stay up."""
        self._until_stall, self._stall = byte_count, seconds

    def _came(self, byte_count: int) -> None:
        self._until_stall -= byte_count
        if self._until_stall <= 0:
            self._until_stall = float("inf")
            self._flowing.clear()
            asyncio.get_running_loop().call_later(self._stall, self._flowing.set)

    async def _drop(self) -> None:
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        if self._is_down:
            writer.transport.abort()
            return
        self._carrying.add(task)
        try:
            there, beyond = await asyncio.open_connection(*self._beyond)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._pump(reader, beyond))
                    both.create_task(self._pump(there, writer, watched=True))
            finally:
                beyond.transport.abort()
        except* ConnectionError:
            pass  # one end is gone, and so the other goes
        finally:
            writer.transport.abort()
            self._carrying.discard(task)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, watched: bool = False
    ) -> None:
        head = b""
        while data := await reader.read(65536):
            if not watched:
                self._came(len(data))
            await self._flowing.wait()
            writer.write(data)
            await writer.drain()
            if watched and ACCEPTED not in head:
                head += data
                if ACCEPTED in head:
                    self._accepted.set()
        writer.close()
