"""The front of gRPC: it accepts the connections, and counts what the server of gRPC keeps of the calls on them.

The server of gRPC buffers messages that are not whole, shows to no program how many bytes they are, and bounds no connections. So it listens on a socket in
a private folder, and only the front connects to it: once for each client that speaks HTTP/2. The front passes on the frames of HTTP/2
(RFC 9113) as they are, and reads the heads of the frames and of the messages in them. It adds one field to the headers of a call, its
number, by which the handler of the call finds its `Stream`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import struct
import tempfile
from collections import deque
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from grpc import StatusCode
from multidict import CIMultiDict

from pubqueue.engine.connections import Reason
from pubqueue.faces.checks import is_trusted
from pubqueue.faces.grpc.statuses import CallError
from pubqueue.faces.http.host import client_of
from pubqueue.faces.listener import Bounds, CannotListenError, Listener
from pubqueue.faces.listener.budget import KEPT, SMALL, STRANGERS
from pubqueue.faces.listener.connection import HIGH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.faces.checks import Networks
    from pubqueue.faces.listener import ClientConnection, Place
    from pubqueue.faces.listener.budget import Budget


# What is kept of a call: its bytes that have come in and are not done. Pure, but for the budget that it notes them in.

PREFIX: Final = 5
"""Bytes before each message of gRPC: a flag, and the length."""

RATIO: Final = 1_032
"""How many times as large a compressed message may be when it is read: the most that deflate can do."""

MAX_MESSAGE: Final = 12 << 20
"""Bytes of a message in either direction: one that is slightly too large gets an error of ours."""

ENTRY: Final = 32
"""Bytes that one message takes beside its own, so that very small ones count too."""


class Stream:
    """A call as its connection sees it: a stream of HTTP/2. What is kept of it counts for its account."""

    __slots__ = (
        *("_answer", "_done", "_head", "_is_noted", "_is_over", "_messages", "_missing", "_part"),
        *("_waiter", "_whole", "is_begun", "number", "owner", "peer", "relay"),
    )

    def __init__(self, relay: Relay, number: int) -> None:
        self.relay, self.number = relay, number
        self.owner, self.peer = STRANGERS, ""
        self.is_begun = self._is_noted = self._is_over = False
        """Whether it is known whose it is."""
        self._head, self._missing, self._part = b"", 0, 0
        self._messages: deque[tuple[int, int]] = deque()
        """Of each message that has begun and that the handler has not read: its bytes, and how many it may have when it is read."""
        self._whole = self._done = self._answer = 0
        self._waiter: asyncio.Future[None] | None = None

    def came(self, data: bytes, at: int, end: int) -> None:
        """Count the part of a chunk that belongs to its messages."""
        while at < end:
            if not self._part or self._head:
                head = self._head + data[at : min(end, at + PREFIX - len(self._head))]
                at += len(head) - len(self._head)
                self._part = len(head)
                self._head = head if len(head) < PREFIX else b""
                if self._head:
                    break
                self._missing = int.from_bytes(head[1:])
                most = min(RATIO * self._missing, MAX_MESSAGE) if head[0] else self._missing
                self._messages.append((PREFIX + self._missing + ENTRY, most))
                self._wake()
            some = min(self._missing, end - at)
            self._missing -= some
            self._part += some
            at += some
            if not self._missing:
                self._whole += self._part + ENTRY
                self._part = 0
        self._note()

    def over(self) -> None:
        """Note that no other message comes."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def coming(self) -> int:
        """Return how many bytes the next message may have when it is read, as soon as it has begun; 0 if none comes."""
        while not self._messages and not self._is_over:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._messages[0][1] if self._messages else 0

    def read(self, size: int) -> None:
        """Note that the handler has read the next message, and keeps so many bytes of it."""
        if self._messages:
            self._whole -= self._messages.popleft()[0]
        self._done = size
        self._note()

    def done(self) -> None:
        """Note that the handler has done with the message."""
        self._done = 0
        self._note()

    def answers(self, size: int) -> None:
        """Note that an answer of so many bytes waits until its client takes it."""
        self._answer = size
        self._note()

    def belongs(self, account: str) -> None:
        """Note whose call it is."""
        self.owner = account
        if not self.is_begun:
            self.relay.front.begun(self)
        self._note()

    def give_up(self) -> None:
        """End this call alone: the budget has no room for what is kept of it."""
        self.relay.give_up(self)

    def _note(self) -> None:
        size = self._part + self._whole + self._done + self._answer
        if (size > SMALL or self._is_noted) and self.relay.streams.get(self.number) is self:
            self._is_noted = size > SMALL
            self.relay.front.budget.note(self, self.owner, size)


# A connection: its client, and the server of gRPC behind it.

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_HEAD: Final = struct.Struct(">HBBBL")
HEAD: Final = _HEAD.size
MAX_FRAME: Final = 16_384
"""Bytes of a frame of a client: no server of ours allows more (RFC 9113, section 4.2)."""

MAX_BLOCK: Final = 64 * 1024
"""Bytes of the headers of one call; the server refuses far fewer."""

BETWEEN: Final = 75.0
"""Seconds that a connection without an account may have between two calls, as a load balancer that asks for health has."""

MAX_STREAMS: Final = 1_000
"""Calls that may be open on a connection. A client may begin more before it gets the server's settings."""

DATA, HEADERS, RST_STREAM, GOAWAY, CONTINUATION = 0, 1, 3, 7, 9
END_STREAM, END_HEADERS, PADDED = 1, 4, 8
NO_ERROR, CANCEL, ENHANCE_YOUR_CALM = 0, 8, 11

NUMBER: Final = "x-pubqueue-stream"
"""The field of the headers of a call with its number; the last one counts: it is ours."""


def frame(kind: int, body: bytes = b"", *, stream: int = 0, flags: int = 0) -> bytes:
    """Return a frame of HTTP/2."""
    return _HEAD.pack(len(body) >> 8, len(body) & 0xFF, kind, flags, stream) + body


def _numbered(stream: int) -> bytes:
    """Return the end of the headers of a call: a field that goes into no table of HPACK (RFC 7541, section 6.2.2)."""
    name, value = NUMBER.encode(), str(stream).encode()
    body = b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
    return frame(CONTINUATION, body, stream=stream, flags=END_HEADERS)


CALLS: Final = "calls"
"""The reason not to read that a client has too many calls whose account is not known."""


class Relay(asyncio.Protocol):
    """Passes on the frames of a client and of the server to each other."""

    def __init__(self, front: Front, connection: ClientConnection) -> None:
        self.front, self.connection = front, connection
        self.streams: dict[int, Stream] = {}
        """The calls that are open."""
        self.not_begun = 0
        """Those whose account is not known."""
        self.asked = 0
        """Calls of it that need no account: of health, and of reflection."""
        self.name = ""
        self._server: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._came = b""
        """What is not a whole frame of the client yet."""
        self._last = self._block = 0
        """The last call, and the bytes of the headers that are not whole."""
        self._is_passing = self._is_noted = self._ends = False
        self._for_server: list[bytes] = []
        self._for_client: list[bytes] = []
        """Frames of ours that wait for the end of one that is passed on."""
        self._sent_head, self._sent_left, self._sent_block = b"", 0, False
        """What has come of the frame of the server, how much is missing, and whether headers are not whole."""
        self._pauses: set[str] = set()
        connection.last_words = self._last_words

    # --- from the client ----------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Pass on the whole frames of a client."""
        if self._came:
            data = self._came + data
            self._came = b""
        if self._server is None:
            self._greet(data)
        else:
            self._pass_on(data)
        self._note()

    def _greet(self, data: bytes) -> None:
        """Connect to the server when the client has said that it speaks HTTP/2."""
        if not PREFACE.startswith(data[: len(PREFACE)]):
            self.connection.close()
            return
        self._came = data
        if len(data) >= len(PREFACE) and self._connecting is None:
            self.pause("server")
            self._connecting = asyncio.create_task(self._connect(), name="connecting")
            self.front.connecting.add(self._connecting)
            self._connecting.add_done_callback(self.front.connecting.discard)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:  # it is not cancelled: see below
            made, self.name = self.front.connected()
            transport, _ = await loop.create_unix_connection(lambda: _Server(self), sock=made)
        except Exception as problem:  # the boundary between connections
            self.connection.fail(problem)
            return
        if transport.is_closing() and not isinstance(loop, asyncio.BaseEventLoop):
            # uvloop has closed the number of the socket, and knows the object only from now on. To close that would close the number again,
            # which another socket may have by then.
            made.detach()

    def server_made(self, transport: asyncio.Transport) -> None:
        """Begin to pass on frames, unless the client has gone."""
        if not self.connection.is_open:
            transport.abort()
            return
        self._server = transport
        transport.set_write_buffer_limits(high=HIGH)
        self.front.enter(self)
        data, self._came = self._came, b""
        transport.write(PREFACE)
        self._pass_on(data[len(PREFACE) :])
        self.go_on("server")

    def _pass_on(self, data: bytes) -> None:
        at, begun, end = 0, 0, len(data)
        out: list[bytes] = []
        self._is_passing = True
        while end - at >= HEAD and CALLS not in self._pauses:
            high, low, kind, flags, number = _HEAD.unpack_from(data, at)
            after = at + HEAD + (high << 8 | low)
            if after - at > HEAD + MAX_FRAME or self._block > MAX_BLOCK:
                self.connection.cut(Reason.MEMORY)
                return
            if after > end:
                break
            if kind == DATA:
                self._came_data(data, at + HEAD, after, flags, number)
            elif kind == RST_STREAM:
                self.end(number)
            elif kind in (HEADERS, CONTINUATION):
                if kind == HEADERS:
                    self._ends = bool(flags & END_STREAM)
                self._block = 0 if flags & END_HEADERS else self._block + after - at
                if not self._block and self._begins(number, ends=self._ends):
                    less = bytes([flags & ~END_HEADERS])
                    out += (data[begun : at + 4], less, data[at + 5 : after], _numbered(number))
                    begun = after
            at = after
        self._is_passing = False
        self._came = data[at:]
        if at and self._server is not None:
            self._server.write(b"".join((*out, data[begun:at])) if out or at < end else data)
        self._flush()

    def _came_data(self, data: bytes, at: int, end: int, flags: int, number: int) -> None:
        """Count the messages in a frame, without its padding."""
        if (stream := self.streams.get(number)) is not None:
            if flags & PADDED and at < end:
                at, end = at + 1, end - data[at]
            stream.came(data, at, end)
            if flags & END_STREAM:
                stream.over()

    def _begins(self, number: int, *, ends: bool) -> bool:
        """Note a call that begins, and return whether one does; the server ignores headers with other numbers."""
        if number <= self._last or not number % 2:
            if ends and number in self.streams:
                self.streams[number].over()
            return False
        self._last = number
        stream = self.streams[number] = Stream(self, number)
        if ends:
            stream.over()
        if len(self.streams) > 2 * MAX_STREAMS:
            self.connection.cut(Reason.MEMORY)
        self.front.begins(self)
        return True

    def _flush(self) -> None:
        if self._for_server and self._server is not None and not (self._is_passing or self._block):
            self._server.write(b"".join(self._for_server))
            self._for_server.clear()

    # --- from the server ----------------------------------------------------------------------------

    def sent(self, data: bytes) -> None:
        """Pass on what the server sends, and put frames of ours between its own."""
        if self._sent_head:
            data, self._sent_head = self._sent_head + data, b""
        at, begun, end = 0, 0, len(data)
        while True:
            some = min(self._sent_left, end - at)
            self._sent_left -= some
            at += some
            if self._sent_left or at == end:
                break
            if self._for_client and not self._sent_block:
                self._write(data[begun:at])
                begun = at
                self._flush_client()
            if end - at < HEAD:
                self._sent_head, end = data[at:], at
                break
            high, low, kind, flags, number = _HEAD.unpack_from(data, at)
            self._sent_left = high << 8 | low
            at += HEAD
            if kind in (HEADERS, CONTINUATION):
                self._sent_block = not flags & END_HEADERS
            if kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
                self.end(number & 0x7FFFFFFF)
        self._write(data[begun:end] if begun or end < len(data) else data)
        if self._for_client:
            self._flush_client()

    def _flush_client(self) -> None:
        if self._for_client and not (self._sent_left or self._sent_block):
            self._write(b"".join(self._for_client))
            self._for_client.clear()

    def _write(self, data: bytes) -> None:
        if data:
            self.connection.write(data)

    def server_lost(self) -> None:
        """End the connection with the server's."""
        self._server = None
        self.connection.close()

    # --- calls ----------------------------------------------------------------------------------------

    def end(self, number: int) -> None:
        """Forget a call that has ended."""
        stream = self.streams.pop(number, None)
        if stream is None:
            return
        stream.over()
        self.front.budget.forget(stream)
        if not stream.is_begun:
            self.front.begun(stream)

    def give_up(self, stream: Stream) -> None:
        """End a call, and no other on the connection: with its client, and with the server."""
        number = stream.number
        if self.streams.get(number) is not stream:
            return
        self.end(number)
        self.front.listener.refused(Reason.MEMORY, peer=self.connection.peer)
        calm, cancel = ENHANCE_YOUR_CALM.to_bytes(4), CANCEL.to_bytes(4)
        self._for_client.append(frame(RST_STREAM, calm, stream=number))
        self._for_server.append(frame(RST_STREAM, cancel, stream=number))
        self._flush_client()
        self._flush()

    def _last_words(self, reason: Reason) -> bytes:
        """Return a GOAWAY, after which the client opens another connection for its next call."""
        if self._server is None or self._sent_left or self._sent_block:
            return b""
        code = ENHANCE_YOUR_CALM if reason is Reason.MEMORY else NO_ERROR
        return frame(GOAWAY, self._last.to_bytes(4) + code.to_bytes(4))

    def known(self, account: str) -> bool:
        """Note that a call of an account has come; return false if the account has too many connections."""
        return bool(self.connection.user) or self.connection.log_in(account)

    def asks(self, more: int) -> None:
        """Count calls that need no account. While there are any, and for some time after, the client may stay without one."""
        self.asked += more
        if not self.connection.user and self.connection.is_open:
            self.connection.expect(None if self.asked else BETWEEN, Reason.LOGIN)

    # --- reading --------------------------------------------------------------------------------------

    def pause(self, why: str) -> None:
        """Read nothing more of the client for this reason."""
        if not self._pauses:
            self.connection.pause_reading()
        self._pauses.add(why)

    def go_on(self, why: str) -> None:
        """Read again, if there is no other reason not to."""
        if why in self._pauses:
            self._pauses.discard(why)
            if not self._pauses:
                self.connection.resume_reading()
            if why == CALLS:
                self.connection.data_received(b"")  # what has come before

    def pause_writing(self) -> None:
        """Read nothing more of the server, until the client reads."""
        if self._server is not None:
            self._server.pause_reading()
        self._note()

    def resume_writing(self) -> None:
        """Read the server again."""
        if self._server is not None:
            self._server.resume_reading()
        self._note()

    def _note(self) -> None:
        size = len(self._came) + self._block
        size += self.connection.unsent if self.connection.is_full else 0
        if size or self._is_noted:
            self._is_noted = size > 0
            self.connection.keeps(size)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the calls of the client."""
        del exc
        for number in tuple(self.streams):
            self.end(number)
        self.front.leave(self)
        server, self._server = self._server, None
        if server is not None:
            server.close()


class _Server(asyncio.Protocol):
    """The end of a connection at the server of gRPC."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._relay.front.servers.add(self)
        self._relay.server_made(cast("asyncio.Transport", transport))

    def data_received(self, data: bytes) -> None:
        self._relay.sent(data)

    def pause_writing(self) -> None:
        self._relay.pause("server")

    def resume_writing(self) -> None:
        self._relay.go_on("server")

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._relay.front.server_lost(self)
        self._relay.server_lost()


# The front: where it listens, and the connections that it has.

BOUNDS: Final = Bounds(login=20.0, per_user=1_000)
"""The limits of connections. A user may run many programs, each with a connection of its own."""

DESCRIPTORS: Final = 3
"""Of a connection: that of its client, and both ends of the one to the server of gRPC."""

NOT_BEGUN: Final = 256
FEW: Final = 4
"""Calls whose account is not known yet. Beyond these, a connection with more than a few of them is not read, until half of them are known."""

MAX_PATH: Final = 90
"""Bytes of the name of the folder: the system's bound for the name of a socket in it is 108."""

TOO_MANY_CONNECTIONS: Final = CallError(
    StatusCode.RESOURCE_EXHAUSTED, f"A user may have {BOUNDS.per_user} connections."
)
UNKNOWN_CONNECTION: Final = CallError(StatusCode.PERMISSION_DENIED, "The connection is not known.")


class Front:
    """Accepts the connections of a face, which is a word of the program, and passes them on to its server of gRPC.

    `proxies` are networks of proxies that are trusted to name the client of a call.
    """

    def __init__(self, face: str, budget: Budget = KEPT, proxies: Networks = ()) -> None:
        self.budget, self._proxies = budget, proxies
        self.listener = Listener(
            *(face, lambda one: Relay(self, one), BOUNDS),
            is_shared=lambda peer: is_trusted(peer, proxies, loopback=False),
            budget=budget,
            descriptors=DESCRIPTORS,
        )
        self.folder = ""
        """Where the server listens."""
        self._names = count(1)
        self.connecting: set[asyncio.Task[None]] = set()
        self.servers: set[_Server] = set()
        """The ends at the server that are open."""
        self._none_left = asyncio.Event()
        self.relays: dict[str, Relay] = {}
        """The connections that have come to the server, by the names by which calls know them."""
        self.not_begun = 0
        """Calls whose account is not known."""
        self.waiting: deque[Relay] = deque()
        """Connections that are not read for that."""

    async def open(self, places: Iterable[Place]) -> str:
        """Listen, without accepting any client yet, and return the address for the server of gRPC.

        Raises:
            CannotListenError: an address is taken, or none of this machine.

        """
        await self.listener.open(places, accepts=False)
        parent = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0] or None
        try:
            self.folder = tempfile.mkdtemp(prefix="pubqueue-", dir=parent)
        except OSError as problem:
            self.listener.close()
            raise CannotListenError(
                f"grpc: no folder can be made for the socket of its server ({problem.strerror})"
            ) from None
        if len(os.fsencode(self.folder)) > MAX_PATH:
            self.close()
            raise CannotListenError(
                f"grpc: the name of the folder for temporary files has more than {MAX_PATH} bytes; set TMPDIR"
            )
        return f"unix:{self.folder}/server"

    def connected(self) -> tuple[socket.socket, str]:
        """Return a socket that is connected to the server, and the name by which calls know it."""
        name = str(next(self._names))
        made, own = socket.socket(socket.AF_UNIX), f"{self.folder}/{name}"
        try:
            made.setblocking(False)  # noqa: FBT003  # the socket's own
            made.bind(own)
            made.connect(f"{self.folder}/server")
        except OSError:
            made.close()
            raise
        finally:
            with suppress(OSError):
                Path(own).unlink()  # the name stays, also without a file
        return made, name

    def close(self) -> None:
        """Accept no more clients, and remove the folder."""
        self.listener.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def stop(self, patience: float) -> None:
        """End all connections, and return when their ends at the server are closed; after `patience` seconds do not wait for these."""
        self.close()
        await self.listener.stop(patience)
        await asyncio.gather(*self.connecting, return_exceptions=True)
        if self.servers:
            self._none_left.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._none_left.wait()

    def server_lost(self, server: _Server) -> None:
        """Know an end at the server no more: it is closed."""
        self.servers.discard(server)
        if not self.servers:
            self._none_left.set()

    # --- connections and calls ------------------------------------------------------------------------

    def enter(self, relay: Relay) -> None:
        """Know a connection by its name."""
        self.relays[relay.name] = relay

    def leave(self, relay: Relay) -> None:
        """Know it no more."""
        self.relays.pop(relay.name, None)

    def stream_of(self, peer: str, metadata: Iterable[tuple[str, Any]]) -> Stream:
        """Return the stream of a call that a handler begins with, which has the address of its client.

        Raises:
            CallError: it has not come by the front, or its client has gone.

        """
        relay = self.relays.get(peer.rpartition("/")[2])
        fields = CIMultiDict(metadata)
        number = str(fields.getall(NUMBER, [""])[-1])
        if relay is None or not number.isdecimal():
            raise UNKNOWN_CONNECTION
        stream = relay.streams.get(int(number))
        if stream is None:  # it has ended meanwhile
            stream = Stream(relay, int(number))
            stream.over()
            stream.is_begun = True
        peer = relay.connection.peer
        stream.peer = client_of(peer, fields, self._proxies) if self._proxies else peer
        return stream

    def begins(self, relay: Relay) -> None:
        """Note a call that has come."""
        self.not_begun += 1
        relay.not_begun += 1
        if self.not_begun > NOT_BEGUN and relay.not_begun > FEW and relay not in self.waiting:
            self.waiting.append(relay)
            relay.pause(CALLS)

    def begun(self, stream: Stream) -> None:
        """Note that it is known whose a call is, or that it has ended."""
        stream.is_begun = True
        self.not_begun -= 1
        stream.relay.not_begun -= 1
        while self.waiting and self.not_begun <= NOT_BEGUN // 2:
            self.waiting.popleft().go_on(CALLS)
