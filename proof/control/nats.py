"""A client of NATS with JetStream, as small as the proof needs it: requests, and their answers in order."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

STREAM: Final = "jobs"
PATIENCE: Final = 5.0
"""Seconds for an answer."""
NOTHING: Final = 10_037
"""The error of a number without a message."""


class Nats:
    """One connection, one request at a time; a context manager."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._inboxes = 0

    async def __aenter__(self) -> Self:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._reader, self._writer = reader, writer
        await reader.readline()  # INFO
        options = {"verbose": False, "pedantic": False, "protocol": 1}
        writer.write(f"CONNECT {json.dumps(options)}\r\nSUB inbox.* 1\r\n".encode())
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._writer.close()

    async def ask(self, subject: str, body: bytes = b"") -> dict[str, Any]:
        """Publish, and return the answer.

        Raises:
            OSError, TimeoutError: there is none.

        """
        self._inboxes += 1
        head = f"PUB {subject} inbox.{self._inboxes} {len(body)}\r\n"
        self._writer.write(head.encode() + body + b"\r\n")
        async with asyncio.timeout(PATIENCE):
            while True:
                words = (await self._reader.readline()).split()
                if not words:
                    raise ConnectionResetError
                if words[0] == b"PING":
                    self._writer.write(b"PONG\r\n")
                if words[0] == b"MSG":
                    answer = await self._reader.readexactly(int(words[-1]) + 2)
                    if words[1] == f"inbox.{self._inboxes}".encode():
                        found: dict[str, Any] = json.loads(answer)
                        return found

    async def make_stream(self) -> None:
        """Make the stream, which is kept in files."""
        wanted = {"name": STREAM, "subjects": [STREAM], "storage": "file"}
        answer = await self.ask(f"$JS.API.STREAM.CREATE.{STREAM}", json.dumps(wanted).encode())
        assert "error" not in answer, answer

    async def publish(self, body: bytes) -> bool:
        """Publish to the stream; say whether that was confirmed."""
        return "seq" in await self.ask(STREAM, body)

    async def left(self) -> list[bytes]:
        """Return all that is in the stream, or nothing if that is gone."""
        info = await self.ask(f"$JS.API.STREAM.INFO.{STREAM}")
        found = []
        state = info.get("state", {"first_seq": 1, "last_seq": 0})
        for number in range(state["first_seq"], state["last_seq"] + 1):
            asked = json.dumps({"seq": number}).encode()
            answer = await self.ask(f"$JS.API.STREAM.MSG.GET.{STREAM}", asked)
            if "message" in answer:
                found.append(b64decode(answer["message"].get("data", "")))
            else:
                assert answer["error"]["err_code"] == NOTHING, answer
        return found
