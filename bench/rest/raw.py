"""A raw HTTP/1.1 client: one persistent connection, one request at a time, minimal parsing of answers."""

from __future__ import annotations

import asyncio
import re
from typing import Final, NamedTuple, Self

from bench.stomp.thin import HOST
from bench.wire import BenchError

ANSWERED: Final = 60.0
"""Seconds for an answer."""

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_LINK: Final = re.compile(rb'\r\nlink: *<([^>]*)> *; *rel="?([a-z-]+)', re.IGNORECASE)
_ORIGIN: Final = re.compile(rb"^https?://[^/]*")


class Answer(NamedTuple):
    """A status, the fields as they came, and the body."""

    status: int
    head: bytes
    body: bytes

    def link(self, rel: bytes) -> bytes:
        """Return the path that a link leads to."""
        for target, name in _LINK.findall(self.head):
            if name == rel:
                return _ORIGIN.sub(b"", target)
        raise BenchError(f"an answer {self.status} has no link {rel.decode()}")


class RawClient(asyncio.Protocol):
    """A connection. `head` are the fields of every request."""

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._parts: list[bytes] = []
        self._answer: asyncio.Future[Answer] | None = None
        self.transport: asyncio.Transport

    @classmethod
    async def to(cls, port: int, head: bytes = b"", host: str = HOST) -> Self:
        """Connect, from one of the addresses of the loopback interface."""
        loop = asyncio.get_running_loop()
        more = b"Host: %s:%d\r\n%s" % (HOST.encode(), port, head)
        _, client = await loop.create_connection(
            lambda: cls(more), HOST, port, local_addr=(host, 0)
        )
        return client

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport

    def connection_lost(self, _problem: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(BenchError("the connection has ended"))

    def send(
        self, method: bytes, path: bytes, body: bytes = b"", more: bytes = b""
    ) -> asyncio.Future[Answer]:
        """Send a request; the result comes with its answer."""
        self._answer = asyncio.get_running_loop().create_future()
        length = b"Content-Length: %d\r\n" % len(body)
        line = b"%b %b HTTP/1.1\r\n" % (method, path)
        self.transport.write(line + self._head + more + length + b"\r\n" + body)
        return self._answer

    async def ask(
        self, method: bytes, path: bytes, body: bytes = b"", more: bytes = b"", *, status: int
    ) -> Answer:
        """Send a request and return its answer.

        Raises:
            BenchError: the answer has another status, or does not come.

        """
        async with asyncio.timeout(ANSWERED):
            answer = await self.send(method, path, body, more)
        if answer.status != status:
            shown = answer.head.partition(b"\r\n")[0] + b" " + answer.body[:300]
            raise BenchError(f"{method.decode()} {path.decode()}: {shown.decode(errors='replace')}")
        return answer

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        whole = b"".join(self._parts) if len(self._parts) > 1 else data
        end = whole.find(b"\r\n\r\n")
        if end < 0:
            return
        head = whole[: end + 2]
        length = _LENGTH.search(head)
        body = whole[end + 4 :]
        if len(body) < (int(length[1]) if length else 0):
            return
        self._parts.clear()
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Answer(int(head[9:12]), head, body))

    def close(self) -> None:
        """Close the connection; no task waits for an answer."""
        if self._answer is not None:
            self._answer.cancel()
        self.transport.close()
