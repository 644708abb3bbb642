"""The wire between a store and PostgreSQL: its round trips are counted, and it can be cut at a commit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

COMMIT: Final = b"COMMIT\0"
WAITED: Final = (b"H", b"S")
"""Flush and Sync: now an answer is waited for; psycopg sends a Flush behind the last Sync, for the same answers."""


class PostgresWire:
    """Carries every connection to its port on to the server, byte for byte.

    `cut` decides about the next commit: "before" it reaches the server the wire is cut, or "after" the server has made
    it and before its answer comes back. `left` is how many messages of the store it still carries, over all
    connections: each that sends another is cut. `trips` counts how often an answer was waited for.
    """

    host = "127.0.0.1"

    def __init__(self, port: int) -> None:
        self.beyond = port
        self.cut: str | None = None
        self.left: int | None = None
        self.was_cut = asyncio.Event()
        self.trips = 0
        self._carrying: set[asyncio.Task[None]] = set()
        self._pumps: set[asyncio.Task[None]] = set()

    def address(self, address: str) -> str:
        """Return the address of a store, over this wire; in plain text, so that it can be read."""
        there = address.replace(f":{self.beyond}/", f":{self.port}/")
        return f"{there}?sslmode=disable&gssencmode=disable"

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
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._carrying)
        await self._listener.wait_closed()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._carrying.add(task)
        try:
            there, beyond = await asyncio.open_connection(self.host, self.beyond)
        except OSError:
            writer.transport.abort()
        else:
            ways = self._ask(reader, beyond), self._report(there, writer)
            pumps = {asyncio.create_task(way) for way in ways}
            self._pumps |= pumps
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._pumps -= pumps
            for end in (writer, beyond):
                end.transport.abort()
        self._carrying.discard(task)

    async def _ask(self, reader: asyncio.StreamReader, beyond: asyncio.StreamWriter) -> None:
        """Carry the store's messages; its first message is the only one without a kind."""
        head = await reader.readexactly(4)
        beyond.write(head + await reader.readexactly(int.from_bytes(head) - 4))
        before = b""
        while True:
            head = await reader.readexactly(5)
            body = await reader.readexactly(int.from_bytes(head[1:]) - 4)
            if COMMIT in body and self.cut == "before":
                self._cut()
                return
            if self.left == 0:
                return
            self.left = self.left and self.left - 1
            self.trips += head[:1] in WAITED and before not in WAITED
            before = head[:1]
            beyond.write(head + body)
            await beyond.drain()

    async def _report(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await there.read(65536):
            if COMMIT in data and self.cut == "after":
                self._cut()
                return
            writer.write(data)
            await writer.drain()

    def _cut(self) -> None:
        self.cut = None
        self.was_cut.set()
