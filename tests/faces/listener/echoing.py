"""A listener whose face says again what it hears, and clients of it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress

from harness.patience import TIMEOUT, turns

from pubqueue.faces.listener import Bounds, Listener, Place

HOST = "127.0.0.1"
FREE = Bounds(login=0, unread=0)


class Clock:
    """Stands still until a test lets time pass."""

    now = 1000.0

    def __call__(self):
        return self.now


class Repeater(asyncio.Protocol):
    """Says again what it hears; `user NAME` logs in, `fault` is one."""

    def __init__(self, connection):
        self.connection = connection
        self.calls = []
        self.lost = asyncio.Event()
        self.full = asyncio.Event()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        verb, _, rest = data.decode().strip().partition(" ")
        if verb == "fault":
            raise ValueError("secret words of a client")
        if verb == "user":
            data = b"hello\n" if self.connection.log_in(rest) else b"too many\n"
        self.connection.write(data)

    def pause_writing(self):
        self.full.set()

    def connection_lost(self, exc):
        self.lost.set()


class Echoing:
    """The listener, what it made, and its clock."""

    def __init__(self, bounds, busy, **more):
        self.clock = Clock()
        self.made = []
        self.clients = []
        self.listener = Listener("echo", self.make, bounds, busy=busy, clock=self.clock, **more)

    def make(self, connection):
        self.made.append(Repeater(connection))
        return self.made[-1]

    @property
    def counts(self):
        return self.listener.counts

    @property
    def ended(self):
        """How many were ended by us, for the reasons for which there were any."""
        return {str(why): count for why, count in self.counts.ended.items() if count}

    def pass_time(self, seconds):
        self.clock.now += seconds
        self.listener.look()

    async def client(self, **more):
        async with asyncio.timeout(TIMEOUT):
            host, port = self.listener.addresses[0]
            self.clients.append(Client(*await asyncio.open_connection(host, port, **more)))
        return self.clients[-1]

    async def leave(self):
        """Have no client any more."""
        for client in self.clients:
            client.writer.transport.abort()
        await turns(3)


class Client:
    """A connection to it."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def ask(self, words):
        self.writer.write(words.encode() + b"\n")
        return await self.line()

    async def line(self):
        """Return the next line, or "" when the connection has ended."""
        async with asyncio.timeout(TIMEOUT):
            try:
                return (await self.reader.readline()).decode().strip()
            except ConnectionError:
                return ""

    async def rest(self, words):
        """Say this, and return all that comes until the end."""
        self.writer.write(words.encode())
        async with asyncio.timeout(TIMEOUT):
            return await self.reader.read(-1)

    async def close(self):
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


@asynccontextmanager
async def echoing(bounds=FREE, *, tls=None, busy=b"", hosts=(HOST,), **more):
    it = Echoing(bounds, busy, **more)
    await it.listener.open([Place(host, 0, tls) for host in hosts])
    try:
        yield it
    finally:
        await it.listener.stop()
        await it.leave()
