"""The stream: slixmpp's component with a short way in and out.

slixmpp carries the connection and the handshake. Stanzas come in through our own parser and are
handed on without stanza objects; only what concerns the stream itself is turned into one. Bytes out
are gathered during one turn of the event loop and written at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import deque
from socket import SO_SNDBUF, SOL_SOCKET
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import structlog

from pubqueue.app.face import PlaceTakenError
from pubqueue.app.watch.watching import Traffic
from pubqueue.faces.xmpp.stream.expat_feeder import READ_AT_ONCE, padding
from pubqueue.faces.xmpp.stream.faults import fault
from pubqueue.faces.xmpp.stream.plain_component import PlainComponent
from pubqueue.faces.xmpp.stream.reader import StreamParser
from pubqueue.faces.xmpp.stream.single import Single
from pubqueue.faces.xmpp.stream.slices import Slices
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.xmpp.xml.stanza import Element, Stanza

log = structlog.get_logger(__name__)

FIRST_PAUSE: Final = 0.2
MAX_PAUSE: Final = 15.0
"""Seconds between two tries to connect: doubling from the first to the longest, with jitter."""

RETRY_INTERVAL: Final = 0.5
"""Seconds between two looks whether the place of another component is free."""

CONFLICT: Final = "conflict"
"""The stream error of a server that has another component of this name."""

ENTERING: Final = "entering"
ASKED: Final = "asked"
STALLED: Final = "stalled"
"""Reasons to pause reading: the face has not entered yet; the face asked for it; the server does not read."""

SPOKEN_KINDS: Final = frozenset(ns.tag(ns.COMPONENT, kind) for kind in ("message", "presence"))
"""Stanzas that are sent only once and have no answer."""

STANZAS: Final = frozenset(ns.tag(ns.COMPONENT, kind) for kind in ("iq", "message", "presence"))

REFUSALS: Final = frozenset({"not-authorized", "host-unknown", "invalid-namespace"})
"""Stream errors that trying again would not help."""

HANDSHAKE_TIMEOUT: Final = 10.0
"""Seconds for the server to accept the stream; after that the component reconnects."""


FLUSH_BYTES: Final = 65_536
"""Bytes that are written at once even if the turn is not over: so a server that does not read is noticed
before much has gathered."""

HIGH_WATER_BYTES: Final = 262_144
"""Bytes that wait for the socket, from which on nothing is written that can wait; until a quarter of them is left."""

MAX_UNSENT_BYTES: Final = 2 << 20
"""Bytes that wait for the socket, from which on no work is taken: the server does not read."""


LONG: Final = 1.0
"""Seconds without reading after which a warning is logged; shorter pauses are part of every burst."""


class RefusedByServerError(Exception):
    """The server refused the component: the secret or the name is not the one it knows."""


class Component(PlainComponent):
    """A component stream to one server; it reconnects until it is stopped."""

    def __init__(
        self,
        jid: str,
        secret: str,
        server: tuple[str, int],
        *,
        on_stanza: Callable[[Stanza | Single], None],
        on_up: Callable[[], None],
        on_down: Callable[[], None],
        on_room: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(jid, secret, server)
        self.admits: Callable[[Element], bool] = lambda _head: True
        """Says of the head of a stanza whether it is read any further."""
        self._server = server
        self._name = f"{server[0]}:{server[1]}"
        self._on_stanza = on_stanza
        self._on_up = on_up
        self._on_down = on_down
        self._on_room = on_room
        self._stanzas: deque[Stanza | Single] = deque()
        self._slices = Slices(self.loop, self._read)
        self._pauses: set[str] = set()
        self._reading = True
        self._clogged = False
        self._out: list[bytes] = []
        self._gathered = 0
        self._flushing = False
        self._stream: StreamParser | None = None
        self._up = asyncio.Event()
        self._down = asyncio.Event()
        self.last_error: str | None = None
        self._leaving = asyncio.Event()
        self._taking = True
        self._stalled: float | None = None
        self._lost = self.loop.time()
        self._accepted = False
        self.ready = False
        self.traffic = Traffic()
        self.use_aiodns = False
        self.add_event_handler("session_start", self._on_session)
        self.add_event_handler("connection_failed", self._on_failure)
        self.add_event_handler("disconnected", self._on_disconnected)
        self.add_event_handler("stream_error", self._on_stream_error)

    # --- keeping the stream up ---

    async def run(self) -> None:
        """Stay connected until `leave` is called or the task is cancelled.

        Raises:
            RefusedByServerError: the server will not have us, and trying again would not help.
            PlaceTakenError: it has another component of this name.

        """
        pause = FIRST_PAUSE
        while not self._leaving.is_set():
            if self.ready or await self.attempt():
                pause = FIRST_PAUSE
                await self._down.wait()
            if self._leaving.is_set():
                return
            if self.last_error == CONFLICT:
                raise PlaceTakenError
            pause = await self._pause(pause)

    async def enter(self, on_waiting: Callable[[], None]) -> None:
        """Connect, if need be when the component that has the place is gone; nothing is taken in until ENTERING is over.

        `on_waiting` is called once when there is one.

        Raises:
            RefusedByServerError: as `run`.

        """
        self.pause_reading(ENTERING)
        pause, waiting = FIRST_PAUSE, False
        while not await self.attempt():
            if self.last_error != CONFLICT:
                pause = await self._pause(pause)
                continue
            if not waiting:
                waiting = True
                log.info("stream.place_taken", server=self._name)
                on_waiting()
            pause = FIRST_PAUSE
            await asyncio.sleep(RETRY_INTERVAL)

    async def _pause(self, seconds: float) -> float:
        """Wait about so long before the next try, and return how long to wait after that."""
        log.info("stream.waits", server=self._name, again_in=seconds)
        await asyncio.sleep(seconds * random.uniform(0.5, 1.0))  # noqa: S311  # jitter, no secret
        return min(MAX_PAUSE, seconds * 2)

    async def attempt(self, *, patience: float = HANDSHAKE_TIMEOUT) -> bool:
        """Connect once and say whether the server accepted us.

        Raises:
            RefusedByServerError: it will not have us, and never would. One that accepted us before is
                only tried again: while a server starts it may not know its components yet.

        """
        self._begin()
        waits = [asyncio.create_task(event.wait()) for event in (self._up, self._down)]
        try:
            await asyncio.wait(waits, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if not self._up.is_set():
            self.cancel_connection_attempt()
            self.abort()
        if self.last_error in REFUSALS and not self._accepted:
            raise RefusedByServerError(self.last_error)
        return self._up.is_set()

    def _begin(self) -> None:
        self.last_error = None
        self._up.clear()
        self._down.clear()
        self.connect(*self._server)

    def _on_session(self, _event: object) -> None:
        self.ready = self._accepted = True
        self.traffic.sessions += 1
        if self._pauses:
            self._stop_reading()
        self._up.set()
        log.info("stream.up", server=self._name, down_for=round(self.loop.time() - self._lost, 1))
        if self._taking:
            self._on_up()

    def _on_failure(self, problem: object) -> None:
        log.warning("stream.unreachable", server=self._name, why=str(problem))
        self._down.set()

    def _on_disconnected(self, _reason: object) -> None:
        self._feed_last()
        self._stream = None
        self._out.clear()
        self._gathered = 0
        if self.ready:
            self.ready = False
            self._lost = self.loop.time()
            if not self._leaving.is_set():
                log.warning("stream.down", server=self._name)
            self._on_down()
        self._reading, self._clogged, self._stalled = True, False, None
        self._pauses.discard(STALLED)
        self._take_last_words()
        self._down.set()

    @property
    def has_unread(self) -> bool:
        """Whether bytes have come from the server that are not read yet."""
        return bool(self._slices)

    def _feed_last(self) -> None:
        """Have the bytes parsed that had come by the end."""
        unread = self._slices.take_out()
        if unread and self._stream is not None:
            with contextlib.suppress(Exception):  # the connection is gone anyway
                self._stanzas.extend(self._stream.feed(unread))

    def _take_last_words(self) -> None:
        """Pass on stanzas that are sent only once; requests that were not taken cannot be answered any more."""
        left, self._stanzas = self._stanzas, deque()
        for stanza in left:
            if not isinstance(stanza, Single) and stanza.top.tag in SPOKEN_KINDS:
                with contextlib.suppress(Exception):  # `on_stanza` has a boundary of its own
                    self._on_stanza(stanza)

    def _on_stream_error(self, error: object) -> None:
        condition = error["condition"] if hasattr(error, "__getitem__") else "unknown"
        if condition != CONFLICT:  # that is told once, and met twice a second
            log.warning("stream.error", condition=condition)
        self.last_error = condition

    def stop_taking(self) -> None:
        """Take no more stanzas, and connect no more; what was taken can still be answered."""
        self._leaving.set()
        self._taking = False
        self.pause_reading()

    async def leave(self, *, patience: float = 1.0) -> None:
        """Write what is left, close the stream politely, and wait for its end so many seconds.

        Until then it is read, and nothing of it taken: the end of the server's stream says that all of ours was
        read, and a connection that is closed over unread bytes would take our last words with it.
        """
        self.stop_taking()
        self.flush()
        self._pauses.clear()
        self._go_on()
        if self.transport is not None:
            patience = patience if self.ready else min(patience, 1.0)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.disconnect(wait=patience), patience + 0.5)

    # --- in ---

    def init_parser(self) -> None:
        """Begin a stream; called by slixmpp for every new connection."""
        super().init_parser()
        self._stream = StreamParser(self._admits_head)
        if self.transport is not None:
            self.transport.set_write_buffer_limits(high=HIGH_WATER_BYTES, low=HIGH_WATER_BYTES // 4)
            if (socket := self.transport.get_extra_info("socket")) is not None:
                socket.setsockopt(SOL_SOCKET, SO_SNDBUF, HIGH_WATER_BYTES)

    def _admits_head(self, head: Element) -> bool:
        """Ask whether to read on; a fault of ours in the answer is this stanza's."""
        try:
            return head.tag not in STANZAS or self.admits(head)
        except Exception as problem:  # the boundary between stanzas
            log.error("stanza.failed", **fault(problem))  # noqa: TRY400  # no payload
            return True

    def data_received(self, data: bytes | str) -> None:
        """Take bytes from the server. What cannot be a stream costs the connection, nothing else."""
        if self._stream is not None and not isinstance(data, str):
            self.traffic.bytes_in += len(data)
            self._slices.take(data)

    def _read(self, data: bytes) -> bool:
        """Read a slice, hand on what it completes, and say whether the next one may follow."""
        stream = self._stream
        if stream is None or not self._feed(stream, data):
            return False
        self._hand_on()
        if stream.closed:
            self.abort()
        return not self._is_held

    def _feed(self, stream: StreamParser, data: bytes) -> bool:
        """Have bytes parsed, and say whether they could be; if not, the connection is given up."""
        greeted = stream.header is not None
        try:
            stanzas = stream.feed(data)
        except ET.ParseError as problem:
            log.warning("stream.unparsable", why=str(problem))
            self.abort()
            return False
        except Exception as problem:  # a fault of ours: whose stanza it was, nobody knows
            log.error("stream.failed", **fault(problem))  # noqa: TRY400  # no payload
            self.abort()
            return False
        if not greeted and stream.header is not None:
            header = ET.Element("stream", stream.header)
            self.start_stream_handler(header)  # type: ignore[no-untyped-call]
        self._stanzas.extend(stanzas)
        return True

    @property
    def _is_held(self) -> bool:
        """Whether nothing is taken; a new stream is greeted first."""
        return bool(self._pauses) and self.ready

    def _hand_on(self) -> None:
        """Hand on what has come, as long as more work may be taken; the server is read when all of it is."""
        while self._stanzas and not (self._pauses and self.ready):
            stanza = self._stanzas.popleft()
            try:
                if type(stanza) is not Single and stanza.top.tag not in STANZAS:
                    self._hand_over(stanza)  # the handshake, errors of the stream
                elif self._taking:
                    self._on_stanza(stanza)
            except Exception as problem:  # the boundary between stanzas: the next one is taken
                log.error("stanza.failed", **fault(problem))  # noqa: TRY400  # no payload
        if self._slices:
            self._stop_reading()
        elif not self._pauses and not self._reading and self.transport is not None:
            self._reading = True
            self.transport.resume_reading()

    def _go_on(self) -> None:
        """Hand on what waits, then read on."""
        self._hand_on()
        if not self._is_held:
            self._slices.go_on()

    def pause_reading(self, why: str = ASKED) -> None:
        """Take no more stanzas, not even those already read, until every reason to pause has ended."""
        self._pauses.add(why)
        if self.ready:  # a new stream is greeted first
            self._stop_reading()

    def resume_reading(self, why: str = ASKED) -> None:
        """Go on, as far as this reason goes."""
        self._pauses.discard(why)
        if not self._pauses:
            self.loop.call_soon(self._go_on)

    def _stop_reading(self) -> None:
        if self._reading and self.transport is not None:
            self._reading = False
            self.transport.pause_reading()

    def _hand_over(self, stanza: Stanza) -> None:
        """Give slixmpp what is about the stream."""
        xml = f'<s xmlns="{ns.COMPONENT}" xmlns:stream="{self.stream_ns}">'.encode()
        self._spawn_event(ET.fromstring(xml + stanza.raw + b"</s>")[0])  # noqa: S314  # parsed before

    # --- out ---

    @property
    def is_leaving(self) -> bool:
        """Whether the stream is being closed in order, for good."""
        return self._leaving.is_set()

    @property
    def has_room(self) -> bool:
        """Whether what can wait may be written."""
        return self.ready and not self._clogged

    def write(self, stanza: bytes, white: int | None = None) -> bool:
        """Send a stanza after all that was sent before; False if there is no stream to send it on.

        So much white space follows it, if that is known.
        """
        if not self.ready:
            return False
        self._out.append(stanza)
        size = len(stanza)
        if white is None:
            white = padding(stanza) if size > READ_AT_ONCE else 0
        if white:
            self._out.append(b" " * white)
        self._gathered += size + white
        if self._gathered > FLUSH_BYTES:
            self.flush()
        elif not self._flushing:
            self._flushing = True
            self.loop.call_soon(self.flush)
        return True

    def flush(self) -> None:
        """Write what has gathered."""
        self._flushing = False
        if self._out and self.transport is not None:
            self.traffic.bytes_out += self._gathered
            self.transport.write(b"".join(self._out))
            if self._clogged:
                self._see_whether_it_reads()
        self._out.clear()
        self._gathered = 0

    def pause_writing(self) -> None:
        """Let wait what can, while the server does not read what we have to say (asyncio calls it)."""
        self._clogged = True
        self._see_whether_it_reads()

    def _see_whether_it_reads(self) -> None:
        """Take no more work when so much waits that the server does not read."""
        waiting = 0 if self.transport is None else self.transport.get_write_buffer_size()
        if waiting > MAX_UNSENT_BYTES and self._stalled is None:
            self._stalled = self.loop.time()
            self.pause_reading(STALLED)
            self._on_down()

    def resume_writing(self) -> None:
        """Go on: the server reads again (asyncio calls it)."""
        self._clogged = False
        if self._stalled is not None:
            if (seconds := self.loop.time() - self._stalled) > LONG:
                log.warning("stream.stalled", seconds=round(seconds, 1))
            self._stalled = None
            self.resume_reading(STALLED)
            if self.ready and self._taking:
                self._on_up()
        self._on_room()
