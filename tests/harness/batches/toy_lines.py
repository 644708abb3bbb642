"""The toy face over sockets: a listener with TLS, lines of bounded length, and no more requests in progress than a client may have.

The first line is `LOGIN name password`. Nothing else is read before it is answered, nor while too much of a client is in progress
or waits to be read by it: so a flood waits with the client, and costs no memory here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from harness.batches.toy_face import SERVICE, WORD, Connection, LineFace

from pubqueue.engine.observe import Traffic
from pubqueue.faces.listener import Bounds, Listener
from pubqueue.rules.presence import Departure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.accounts.accounts import Accounts
    from pubqueue.engine.broker import Broker
    from pubqueue.faces.listener import ClientConnection, Place
    from pubqueue.model.entities import Jid

MAX_LINE: Final = 1 << 18
"""Bytes of a line."""
UNDER_WAY: Final = 64
"""Requests of a line that are not answered yet."""


class ServedLines(LineFace):
    """Lines that come over sockets."""

    def __init__(
        self,
        broker: Broker,
        accounts: Accounts,
        places: Sequence[Place],
        *,
        on_ready: Callable[[], None] = lambda: None,
        service: Jid = SERVICE,
        bounds: Bounds = Bounds(),  # noqa: B008  # frozen
    ) -> None:
        super().__init__(broker, on_ready, service, accounts)
        self._places = places
        self.is_stopping = False
        self.listener = Listener(WORD, self._begin, bounds, busy=b"NO LATER\n")
        self.traffic = Traffic(connections=self.listener.counts)
        broker.clients.attach(self.listener)
        self.protocols: set[LineProtocol] = set()

    def _begin(self, connection: ClientConnection) -> LineProtocol:
        protocol = LineProtocol(self, connection)
        self.protocols.add(protocol)
        return protocol

    async def enter(self, _on_waiting: Callable[[], None]) -> None:
        await self.listener.open(self._places, accepts=False)

    def go_up(self) -> None:
        super().go_up()
        self.listener.accept()

    async def stop(self) -> None:
        """Stop reading, answer the requests that were read, and close."""
        self.listener.close()
        self.is_stopping = True
        await super().stop()
        await self.listener.stop()


class LineProtocol(asyncio.Protocol):
    """Reads lines of one client, and sends it answers and deliveries."""

    def __init__(self, face: ServedLines, connection: ClientConnection) -> None:
        self.connection = connection
        self._face = face
        self._line: Connection | None = None
        self._unread = bytearray()
        self._under_way = 0
        self._is_proving = self._has_said_bye = False
        self._proving: asyncio.Task[None] | None = None
        connection.last_words = lambda reason: f"NO {reason.value.upper()}\n".encode()

    # --- in ---

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._read()

    def _may_read(self) -> bool:
        is_busy = self._is_proving or self._under_way >= UNDER_WAY or self._face.is_stopping
        return self.connection.is_open and not is_busy and not self.connection.is_full

    def _read(self) -> None:
        """Read the lines that have arrived, as many as this client may have in progress."""
        while self._may_read() and (end := self._unread.find(b"\n")) >= 0:
            words = bytes(self._unread[:end])
            del self._unread[: end + 1]
            self._take(words.decode("utf-8", "replace").rstrip("\r"))
        if not self._may_read():
            self.connection.pause_reading()
        elif len(self._unread) > MAX_LINE:
            self.tell("NO LINE")
            self.connection.close()
        else:
            self.connection.resume_reading()

    def _take(self, words: str) -> None:
        if self._line is not None and words == "BYE":
            self._has_said_bye = True
            self.connection.close()
        elif self._line is not None:
            self._under_way += 1
            self._line.say(words)
        else:
            self._log_in(*words.split(" ", 2))

    def _log_in(self, verb: str, name: str = "", password: str = "") -> None:
        if verb != "LOGIN":
            self.tell("NO LOGIN")
            self.connection.close()
            return
        self._is_proving = True
        self._proving = asyncio.create_task(self._prove(name, password))

    async def _prove(self, name: str, password: str) -> None:
        found = await self._face.log_in(name, password, self.connection.peer)
        self._is_proving = False
        if isinstance(found, str) or not self.connection.is_open:
            if isinstance(found, Connection):
                self._face.hang_up(found)
            self.tell(found if isinstance(found, str) else "BYE")
            self.connection.close()
        elif not self.connection.log_in(found.address):
            self._face.hang_up(found)
            self.tell("NO USER")
            self.connection.close()
        else:
            self._line, found.on_words = found, self._pass_on
            self.connection.address = found.address
            self.tell("OK")
            self._read()

    # --- out ---

    def _pass_on(self, words: str) -> None:
        """Pass on lines of the face; an answer makes room for another request."""
        self.tell(words)
        if words.partition(" ")[0] in {"OK", "NO"}:
            self._under_way -= 1
            if self._unread or not self._under_way:
                self._read()

    def tell(self, words: str) -> None:
        self.connection.write(f"{words}\n".encode())

    def pause_writing(self) -> None:
        self._fill(full=True)

    def resume_writing(self) -> None:
        self._fill(full=False)

    def _fill(self, *, full: bool) -> None:
        if self._line is not None:
            self._face.fill(self._line, full=full)
        self._read()

    def connection_lost(self, _problem: Exception | None) -> None:
        self._face.protocols.discard(self)
        if self._line is not None and self._line in self._face.lines:
            how = Departure.CLOSED if self._has_said_bye else Departure.LOST
            self._face.hang_up(self._line, how)
