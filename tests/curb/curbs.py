"""`pubqueue curb` as a process, and a client of a few lines that says any bytes."""

from __future__ import annotations

import asyncio
import re
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from harness.patience import TIMEOUT
from harness.processes.program import PUBQUEUE

from pubqueue.faces.stomp.codec import V12, Frame, FrameReader, Side, write

if TYPE_CHECKING:
    from pathlib import Path

OPEN: Final[list[RawClient]] = []
"""Connections of the test that runs, which are ended behind it."""
CONNECT: Final = b"CONNECT\naccept-version:1.2\nhost:whatever\n\n\0"


class Curb:
    """The program on one journal, on a port of its own; leaves nothing behind."""

    def __init__(self, journal: Path, cap: str = "1MiB") -> None:
        self.journal, self.cap = journal, cap
        self.port = 0
        self.process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *problem: object) -> None:
        await (self.stop() if problem[0] is None else self.kill())

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        words = ("curb", "-cap", self.cap, "-addr", "127.0.0.1:0", "-journal", self.journal)
        self.process = await asyncio.create_subprocess_exec(
            PUBQUEUE, *words, stdout=asyncio.subprocess.PIPE
        )
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), TIMEOUT)
        found = re.match(rb"ready: 127\.0\.0\.1:(\d+), ", line)
        assert found, line
        self.port = int(found[1])

    async def stop(self) -> None:
        """End it with SIGTERM; it exits with 0."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(self.process.communicate(), TIMEOUT)
            assert self.process.returncode == 0
            self.process = None

    async def kill(self) -> None:
        """End it with SIGKILL."""
        if self.process is not None:
            self.process.kill()
            await self.process.communicate()
            self.process = None


class RawClient:
    """A connection that says bytes and reads frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self._frames = FrameReader(Side.SERVER)
        self._frames.agree(V12)

    @classmethod
    async def to(cls, port: int, *, connect: bool = True) -> RawClient:
        """Connect, with CONNECT if wanted."""
        line = cls(*await asyncio.open_connection("127.0.0.1", port))
        OPEN.append(line)
        if connect:
            line.say(CONNECT)
            assert (await line.hear()).command == "CONNECTED"
        return line

    def say(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)

    def frame(self, command: str, body: bytes = b"", **headers: str) -> None:
        """Send a frame."""
        self.say(write(Frame(command, headers, body), V12))

    def subscribe(self, identity: str = "0", **more: str) -> None:
        """Send SUBSCRIBE."""
        given = {"id": identity, "destination": ".", "ack": "client-individual"} | more
        self.frame("SUBSCRIBE", **given)

    async def hear(self) -> Frame:
        """Return the next frame; an EOFError if there is none."""
        while (found := self._frames.next_event()) is None:
            data = await asyncio.wait_for(self._reader.read(1 << 16), TIMEOUT)
            if not data:
                raise EOFError
            self._frames.receive(data)
        assert isinstance(found, Frame), found
        return found

    async def receipt(self, command: str, body: bytes = b"", **headers: str) -> None:
        """Send a frame and wait for its RECEIPT."""
        self.frame(command, body, receipt="r", **headers)
        assert await self.hear() == Frame("RECEIPT", {"receipt-id": "r"})

    async def is_over(self) -> bool:
        """Whether nothing comes any more."""
        try:
            await self.hear()
        except (EOFError, ConnectionError):
            return True
        return False

    async def close(self) -> None:
        """End the connection."""
        self.writer.transport.abort()
        with suppress(OSError):
            await self.writer.wait_closed()
