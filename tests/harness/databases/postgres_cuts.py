"""A wire to PostgreSQL that is cut before any action of the store, or at any answer that it waits for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from harness.databases.postgres_wire import PostgresWire

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

WAITED_FOR: Final = (b"H", b"S")
"""Flush and Sync: now an answer is waited for."""

DOES: Final = (b"E", b"Q", *WAITED_FOR)
"""Execute and Query: the messages before them only prepare, and the server forgets them with the connection."""


class CutWire(PostgresWire):
    """Cut once, where `arm` sets it. The server has then done everything up to there, and the store gets no answer.

    So the result depends on the place alone, and on no speed. `at_the_cut` is awaited before the store can notice.
    """

    def __init__(self, port: int, at_the_cut: Callable[[], Awaitable[None]]) -> None:
        super().__init__(port)
        self._at_the_cut = at_the_cut
        self._left = 0
        self._answers = False
        self._deaf = False

    def arm(self, number: int, *, answers: bool) -> None:
        """Cut before this step, counted from now on; or, of answers, while this one is on its way."""
        self.was_cut.clear()
        self._left, self._answers = number, answers

    def disarm(self) -> bool:
        """Cut nothing from now on; return whether it was cut."""
        self._left = 0
        return self.was_cut.is_set()

    async def _ask(self, reader: asyncio.StreamReader, beyond: asyncio.StreamWriter) -> None:
        head = await reader.readexactly(4)
        beyond.write(head + await reader.readexactly(int.from_bytes(head) - 4))
        while True:
            head = await reader.readexactly(5)
            message = head + await reader.readexactly(int.from_bytes(head[1:]) - 4)
            if self._is_the_place(head[:1]):
                self._deaf = True
                if self._answers:
                    beyond.write(message)
                beyond.write_eof()
                await asyncio.Event().wait()  # `_report` is over when the server has ended its part
            beyond.write(message)
            await beyond.drain()

    def _is_the_place(self, kind: bytes) -> bool:
        if not self._left or kind not in (WAITED_FOR if self._answers else DOES):
            return False
        self._left -= 1
        return not self._left

    async def _report(self, there: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await there.read(65536):
            if not self._deaf:
                writer.write(data)
                await writer.drain()
        if self._deaf:
            self._deaf = False
            await self._at_the_cut()
            self.was_cut.set()
