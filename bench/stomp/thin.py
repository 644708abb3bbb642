"""Minimal clients: ready-made bytes, input split at one mark, one write for all output.

They must be cheaper than the measured brokers, so they parse only what they have to repeat.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol, Self

from bench.wire import BenchError

if TYPE_CHECKING:
    from collections.abc import Callable

HOST: Final = "127.0.0.1"
ANSWERED: Final = 30.0
"""Seconds for an answer."""


class Client(Protocol):
    """The client of a load, which is a publisher or a worker."""

    on_confirmed: Callable[[], None]
    """Called for each item that the broker has confirmed."""
    on_body: Callable[[bytes], None]
    """Called with each item, which is then acknowledged."""

    async def work(self, prefetch: int) -> None:
        """Subscribe, so that items are delivered."""

    def publish(self, body: bytes) -> None:
        """Publish, at the next `flush` or when the next bytes have arrived."""

    def flush(self) -> None:
        """Send the pending output."""

    async def settled(self) -> None:
        """Wait until all acknowledgements are processed."""

    def beat(self) -> None:
        """Send a heart-beat."""

    async def close(self) -> None:
        """End."""


class Calls:
    """What a load is called for, and how it may use a client that sends at once."""

    def __init__(self) -> None:
        self.on_confirmed: Callable[[], None] = lambda: None
        self.on_body: Callable[[bytes], None] = lambda _body: None

    def flush(self) -> None:
        """Nothing is pending."""

    def beat(self) -> None:
        """It has no heart-beats."""


class Thin(Calls, asyncio.Protocol):
    """A connection whose frames end with `end`."""

    end: bytes

    def __init__(self) -> None:
        super().__init__()
        self.said: list[bytes] = []
        self._rest = b""
        self._answer: asyncio.Future[None] | None = None
        self._problem: BenchError | None = None
        self.transport: asyncio.Transport

    @classmethod
    async def to(cls, port: int, host: str = HOST) -> Self:
        """Connect, from one of the addresses of the loopback interface."""
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(cls, HOST, port, local_addr=(host, 0))
        return client

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport

    def connection_lost(self, _problem: Exception | None) -> None:
        self.fail("the connection has ended")

    def data_received(self, data: bytes) -> None:
        *pieces, self._rest = (self._rest + data).split(self.end)
        for piece in pieces:
            self.hear(piece)
        self.flush()

    def hear(self, piece: bytes) -> None:
        """Read a frame."""
        raise NotImplementedError

    def flush(self) -> None:
        if self.said:
            self.transport.write(b"".join(self.said))
            self.said.clear()

    def beat(self) -> None:
        self.transport.write(b"\n")

    async def close(self) -> None:
        self.transport.close()

    async def ask(self, data: bytes) -> None:
        """Send, and wait until it is answered."""
        if self._problem is not None:
            raise self._problem
        self._answer = asyncio.get_running_loop().create_future()
        self.said.append(data)
        self.flush()
        async with asyncio.timeout(ANSWERED):
            await self._answer

    def answered(self) -> None:
        """Set the awaited answer."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(None)

    def fail(self, why: str) -> None:
        """Fail the waiting task: the connection has ended."""
        self._problem = BenchError(why)
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(self._problem)


class StompClient(Thin):
    """A client of STOMP 1.2: every SEND has a receipt, no ACK has one."""

    end = b"\0"
    more = b""
    """Headers that a SEND has to have for this broker."""

    async def connect(self, login: str, passcode: str, beats: str = "0,0") -> None:
        """Log in."""
        words = f"login:{login}\npasscode:{passcode}\nhost:/\nheart-beat:{beats}"
        await self.ask(f"CONNECT\naccept-version:1.2\n{words}\n\n\0".encode())

    async def work(self, prefetch: int) -> None:
        words = f"destination:/queue/jobs\nack:client-individual\nprefetch-count:{prefetch}"
        await self.ask(f"SUBSCRIBE\nid:0\n{words}\nreceipt:-\n\n\0".encode())

    def publish(self, body: bytes) -> None:
        head = b"SEND\ndestination:/queue/jobs\n%breceipt:s\ncontent-length:%d\n\n"
        self.said.append(head % (self.more, len(body)) + body + b"\0")

    async def settled(self) -> None:
        """Wait until the frame after the last ACK is answered; frames are processed in order."""
        self.said.append(b"BEGIN\ntransaction:end\n\n\0")
        await self.ask(b"ABORT\ntransaction:end\nreceipt:-\n\n\0")

    def hear(self, piece: bytes) -> None:
        frame = piece.lstrip(b"\n")
        if frame.startswith(b"MESSAGE"):
            head, _, body = frame.partition(b"\n\n")
            at = head.index(b"\nack:") + len(b"\nack:")
            name = head[at:].partition(b"\n")[0]
            self.said.append(b"ACK\nid:%b\n\n\0" % name)
            self.on_body(body)
        elif frame.startswith(b"RECEIPT\nreceipt-id:s\n"):
            self.on_confirmed()
        elif frame.startswith((b"RECEIPT", b"CONNECTED")):
            self.answered()
        else:
            self.fail(f"an unexpected frame: {frame.decode(errors='replace')}")


class BeanstalkClient(Thin):
    """A client of beanstalkd. A worker holds one item, and reserves the next one when it deletes that."""

    end = b"\r\n"

    def __init__(self) -> None:
        super().__init__()
        self._is_body = False
        self._held = b""

    async def work(self, prefetch: int) -> None:
        self.said.append(b"reserve\r\n")
        self.flush()

    def publish(self, body: bytes) -> None:
        self.said.append(b"put 0 0 120 %d\r\n%b\r\n" % (len(body), body))

    async def settled(self) -> None:
        if self._held:
            await self.ask(b"")

    def hear(self, piece: bytes) -> None:
        if self._is_body:
            self._is_body = False
            self.said.append(b"delete %b\r\nreserve\r\n" % self._held)
            self.on_body(piece)
        elif piece.startswith(b"RESERVED"):
            self._held, self._is_body = piece.split()[1], True
        elif piece.startswith(b"INSERTED"):
            self.on_confirmed()
        elif piece == b"DELETED":
            self._held = b""
            self.answered()
        else:
            self.fail(f"an unexpected line: {piece.decode(errors='replace')}")
