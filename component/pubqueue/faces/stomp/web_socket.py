"""STOMP over WebSocket (RFC 6455): a path of the HTTP host, with the subprotocols that STOMP has registered.

A WebSocket is a transport for the same connections as those over TCP, with the same bounds. Frames of STOMP and messages of
WebSocket are independent of each other: a frame may be split over messages.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from aiohttp import WebSocketError, WSCloseCode, WSMsgType, web

from pubqueue.engine.observe import Traffic
from pubqueue.faces.http.host import (
    allow,
    check_one_authorization,
    client,
    connection,
    is_same_origin,
    watch,
)
from pubqueue.faces.stomp.face import StompFace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.faces.listener import ClientConnection

PROTOCOLS: Final = ("v12.stomp", "v11.stomp", "v10.stomp")
"""The subprotocols, the newest first. The version is that of CONNECT."""

MAX_MESSAGE_BYTES: Final = 256 * 1024
"""Maximum size of a message: it is kept in memory until it is complete, also of a client that has not logged in."""

CLOSING: Final = 2.0
"""Seconds for the client to confirm the end of the WebSocket."""

TRY_LATER: Final = 1013

BEFORE: Final = 16 << 10
AFTER: Final = MAX_MESSAGE_BYTES + (64 << 10)
"""Bytes that may come without a whole message, before a login and after it: of fragments, and of pings."""

PACE: Final = 1 << 10
"""Of these, bytes that are forgiven with each second, so that a client that only pings may do so for days."""

MESSAGES: Final = frozenset({WSMsgType.TEXT, WSMsgType.BINARY})

TURN: Final = 32
"""Messages of a client that are handled before others have their turn."""

logging.getLogger("aiohttp.websocket").setLevel(
    logging.ERROR
)  # a warning of it has what a client has sent


class StompDoor:
    """Serves STOMP at a path, for the face that serves at the time.

    Pages of these origins may connect, and of our own; clients that send no origin, or the address that they call. `is_trusted`
    returns whether a client without TLS may send a passcode, by its address.
    """

    def __init__(
        self, path: str, origins: Iterable[str], is_trusted: Callable[[str], bool]
    ) -> None:
        self._path, self._origins, self._is_trusted = path, frozenset(origins), is_trusted
        self._face: StompFace | None = None
        self.traffic = Traffic()

    def lead_to(self, faces: Iterable[object]) -> None:
        """Let clients in to the face of STOMP among these, once it serves."""
        self._face = next((face for face in faces if isinstance(face, StompFace)), None)

    def add_to(self, app: web.Application) -> None:
        """Serve the path."""
        app.router.add_get(self._path, self._handle)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        """Serve a client until its connection ends.

        Raises:
            HTTPException: it may not connect, or does not ask for a WebSocket.
            ProblemError: it has credentials twice.

        """
        check_one_authorization(request)
        face, at = self._face, connection()
        if face is None or not face.is_serving:
            raise web.HTTPServiceUnavailable(
                text="Try again later.\n", headers={"Retry-After": "1"}
            )
        origin = request.headers.get("Origin")
        is_known = origin is None or origin in self._origins
        if not is_known and not is_same_origin(origin or "", request.host):
            raise web.HTTPForbidden(text="Pages of this origin may not connect.\n")
        if not at.is_private and not self._is_trusted(at.peer):
            raise web.HTTPForbidden(text="This needs TLS.\n")
        socket = web.WebSocketResponse(
            protocols=PROTOCOLS,
            max_msg_size=MAX_MESSAGE_BYTES,
            timeout=CLOSING,
            compress=False,
            autoping=False,
            autoclose=False,
        )
        try:
            await socket.prepare(request)
        except ValueError:  # aiohttp assumes that the fields of the handshake are ASCII
            raise web.HTTPBadRequest(text="This is no request for a WebSocket.\n") from None
        allow(None)
        adopted = face.listener.adopt(client())
        if adopted is None:
            await socket.close(code=TRY_LATER, message=b"too many connections")
        else:
            assert request.transport is not None
            await WebSocketTransport(socket, request.transport, adopted, connection()).run()
        return socket


def weight(size: int) -> int:
    """Return how many bytes may come for a message of this size, which may have some fragments."""
    return 2 * size + 128


class WebSocketTransport(asyncio.Transport):
    """Connects a client that has a WebSocket: `under` is the transport of the HTTP connection, which is `http`."""

    def __init__(
        self,
        socket: web.WebSocketResponse,
        under: asyncio.Transport,
        client: ClientConnection,
        http: ClientConnection,
    ) -> None:
        super().__init__()
        self._socket, self._under, self._client, self._http = socket, under, client, http
        self._unused, self._counted = 0.0, 0.0
        """Bytes that have come and are of no whole message that was handled, and when they were counted."""
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._high = 0
        self._is_paused = self._is_ending = False
        self._wanted = asyncio.Event()
        self._may_read = asyncio.Event()
        self._may_read.set()

    async def run(self) -> None:
        """Serve the client until the WebSocket ends."""
        watch(self._count)
        self._client.connection_made(self)
        sending = asyncio.create_task(self._send(), name="web socket")
        try:
            await self._receive()
        finally:
            self._is_ending = True
            sending.cancel()
            self._client.connection_lost(
                None
            )  # before anything that the end of the HTTP connection can cancel
            await asyncio.gather(sending, return_exceptions=True)

    def _count(self, size: int) -> bool:
        """Count bytes that have come; end the WebSocket and return False if too many of them are of no whole message."""
        now = asyncio.get_running_loop().time()
        forgiven = (now - self._counted) * PACE
        self._unused, self._counted = max(self._unused - forgiven, 0.0) + size, now
        self._http.keeps(int(self._unused), self._client.user)
        most = AFTER if self._client.user else BEFORE
        if self._unused <= most:
            return True
        reader = self._socket._reader  # noqa: SLF001  # nothing else knows what is read and not handled yet
        assert reader is not None, "it is made before the first byte"
        waiting = (size for message, size in reader._buffer if message.type in MESSAGES)  # noqa: SLF001
        if self._unused <= most + sum(map(weight, waiting)):
            return True
        if reader.exception() is None:
            words = "too many bytes without a whole message"
            reader.set_exception(WebSocketError(WSCloseCode.POLICY_VIOLATION, words))
        return False

    async def _receive(self) -> None:
        for number in itertools.count(1):
            if not number % TURN:
                await asyncio.sleep(0)
            await self._may_read.wait()
            message = await self._socket.receive()
            if message.type is WSMsgType.PING:
                await self._socket.pong(message.data)
                continue
            if message.type is WSMsgType.PONG:
                continue
            if message.type not in MESSAGES:  # the end, in order or by a fault of the client
                self._client.eof_received()
                return
            if not message.data:  # no client has a reason, and thousands of these are as many bytes
                self.abort()
                return
            is_text = message.type is WSMsgType.TEXT
            data = message.data.encode() if is_text else message.data
            self._unused = max(self._unused - weight(len(data)), 0.0)
            self._http.keeps(int(self._unused), self._client.user)
            self._client.data_received(data)

    async def _send(self) -> None:
        """Send the written data, a message for each write; the end of the WebSocket after that, if it is requested."""
        with suppress(ConnectionError):
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                while self._parts:
                    await self._send_one(self._parts[0])
                    self._size -= len(self._parts.popleft())
                    self._note_room()
                if self._is_ending:
                    await self._socket.close()
                    self._may_read.set()
                    return

    async def _send_one(self, data: bytes) -> None:
        """Send it as text, as browsers expect, unless it is not."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            await self._socket.send_bytes(data)
        else:
            await self._socket.send_str(text)

    def _note_room(self) -> None:
        if self._is_paused and self._size <= self._high // 4:
            self._is_paused = False
            self._client.resume_writing()

    # --- as a transport -------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        """Send the data later, in order."""
        if self._is_ending:
            return
        self._parts.append(bytes(data))
        self._size += len(data)
        self._wanted.set()
        if self._size > self._high and not self._is_paused:
            self._is_paused = True
            self._client.pause_writing()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes wait, here and in the HTTP connection."""
        return self._size + self._under.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:  # noqa: ARG002  # a quarter
        """Set how many bytes may wait before the client counts as one that does not read."""
        self._high = high or 0

    def pause_reading(self) -> None:
        """Take no more messages."""
        self._may_read.clear()

    def resume_reading(self) -> None:
        """Take messages again."""
        self._may_read.set()

    def is_reading(self) -> bool:
        """Return whether messages are taken."""
        return self._may_read.is_set()

    def is_closing(self) -> bool:
        """Return whether nothing more can be sent."""
        return self._is_ending or self._under.is_closing()

    def can_write_eof(self) -> bool:
        """Return true: the end of a WebSocket is a message."""
        return True

    def write_eof(self) -> None:
        """Send the rest, and then the end of the WebSocket."""
        self._is_ending = True
        self._wanted.set()

    def close(self) -> None:
        """Send the rest, and then the end of the WebSocket."""
        self.write_eof()

    def abort(self) -> None:
        """End the connection at once."""
        self._is_ending = True
        self._under.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  # asyncio's
        """Return information about the HTTP connection."""
        return self._under.get_extra_info(name, default)
