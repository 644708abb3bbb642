"""The stream: slixmpp's component with a short way in and out.

slixmpp makes the connection and the handshake. Stanzas come in through our own parser and are passed on without stanza
objects; only those about the stream itself become such objects. Outgoing bytes are collected during one turn of the
event loop and written at once.
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

from pubqueue.engine.face import PlaceTakenError
from pubqueue.engine.observe import Traffic
from pubqueue.faces.faults import fault
from pubqueue.faces.xmpp.stream.outgoing import HIGH_WATER_BYTES, Outgoing
from pubqueue.faces.xmpp.stream.plain_component import PlainComponent
from pubqueue.faces.xmpp.stream.reader import StreamParser
from pubqueue.faces.xmpp.stream.single import Single
from pubqueue.faces.xmpp.stream.slices import Slices
from pubqueue.faces.xmpp.xml.stanza import Stanza
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.xmpp.xml.stanza import Element

log = structlog.get_logger(__name__)

FIRST_PAUSE: Final = 0.2
MAX_PAUSE: Final = 15.0
"""The maximum seconds between two attempts to connect; the time doubles with each attempt, with jitter."""

RETRY_INTERVAL: Final = 0.5
"""Seconds between two checks whether the place of another component is free."""

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
"""Stream errors after which a retry is useless."""

HANDSHAKE_TIMEOUT: Final = 10.0
"""Seconds for the server to accept the stream; after that the component reconnects."""


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
        on_stanza: Callable[[Stanza], None],
        on_up: Callable[[], None],
        on_down: Callable[[], None],
        on_room: Callable[[], None] = lambda: None,
        on_fault: Callable[[Stanza | Single, Exception], None] = lambda _stanza, problem: log.error(
            "stanza.failed", **fault(problem)
        ),
    ) -> None:
        super().__init__(jid, secret, server)
        self.admits: Callable[[Element], bool] = lambda _head: True
        """Returns, given the head of a stanza, whether it is read any further."""
        self._server = server
        self._name = f"{server[0]}:{server[1]}"
        self._on_stanza, self._on_fault = on_stanza, on_fault
        self.on_single: Callable[[Single], None] = lambda _single: None
        """Handles requests for a single item."""
        self._on_up = on_up
        self._on_down = on_down
        self._on_room = on_room
        self.stanzas: deque[Stanza | Single] = deque()
        self._slices = Slices(self.loop, self._read)
        self.pauses: set[str] = set()
        self.is_reading = True
        self._stream: StreamParser | None = None
        self._up = asyncio.Event()
        self._down = asyncio.Event()
        self.last_error: str | None = None
        self._leaving = asyncio.Event()
        self._taking = True
        self._lost = self.loop.time()
        self._accepted = False
        self.ready = False
        self.traffic = Traffic()
        self._out = Outgoing(
            self.loop, self.traffic, on_stalled=self._stall, on_reads=self._end_stall
        )
        self.write, self.flush = self._out.write, self._out.flush
        self.use_aiodns = False
        self.add_event_handler("session_start", self._on_session)
        self.add_event_handler("connection_failed", self._on_failure)
        self.add_event_handler("disconnected", self._on_disconnected)
        self.add_event_handler("stream_error", self._on_stream_error)

    # --- keeping the stream up ---

    async def run(self) -> None:
        """Stay connected until `leave` is called or the task is cancelled.

        Raises:
            RefusedByServerError: the server refuses us, and a retry is useless.
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
        """Connect; if another component has the place, wait until it is gone. No stanza is handled until ENTERING is over.

        `on_waiting` is called once if another component has the place.

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
        """Wait about so long before the next attempt, and return how long to wait after that."""
        log.info("stream.retrying", server=self._name, again_in=seconds)
        await asyncio.sleep(seconds * random.uniform(0.5, 1.0))  # noqa: S311  # jitter, no secret
        return min(MAX_PAUSE, seconds * 2)

    async def attempt(self, *, patience: float = HANDSHAKE_TIMEOUT) -> bool:
        """Connect once and return whether the server accepted us.

        Raises:
            RefusedByServerError: it refuses us for good. If it accepted us before, this returns false instead: while
                a server starts it may not know its components yet.

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
        self._out.transport = self.transport
        self.traffic.sessions += 1
        if self.pauses:
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
        if self.ready:
            self.ready = False
            self._lost = self.loop.time()
            if not self._leaving.is_set():
                log.warning("stream.down", server=self._name)
            self._on_down()
        self.is_reading = True
        self.pauses.discard(STALLED)
        self._take_last_words()
        self._down.set()

    @property
    def has_unread(self) -> bool:
        """Whether bytes from the server are not parsed yet."""
        return bool(self._slices)

    def _feed_last(self) -> None:
        """Parse the bytes that came before the end of the connection."""
        unread = self._slices.take_out()
        if unread and self._stream is not None:
            with contextlib.suppress(Exception):  # the connection is gone anyway
                self.stanzas.extend(self._stream.feed(unread))

    def _take_last_words(self) -> None:
        """Pass on stanzas that are sent only once; requests that were not handled cannot be answered any more."""
        left, self.stanzas = self.stanzas, deque()
        for stanza in left:
            if not isinstance(stanza, Single) and stanza.top.tag in SPOKEN_KINDS:
                try:
                    self._on_stanza(stanza)
                except Exception as problem:  # likewise
                    self._on_fault(stanza, problem)

    def _on_stream_error(self, error: object) -> None:
        condition = error["condition"] if hasattr(error, "__getitem__") else "unknown"
        if condition != CONFLICT:  # that is logged once, and occurs twice a second
            log.warning("stream.error", condition=condition)
        self.last_error = condition

    def stop_taking(self) -> None:
        """Handle no more stanzas, and do not reconnect; earlier requests can still be answered."""
        self._leaving.set()
        self._taking = False
        self.pause_reading()

    async def leave(self, *, patience: float = 1.0) -> None:
        """Write the remaining bytes, close the stream in order, and wait up to `patience` seconds for its end.

        Until then it is read, but no stanza is handled: the end of the server's stream shows that it has read all of
        ours, and closing a connection with unread bytes could discard our last ones.
        """
        self.stop_taking()
        self.flush()
        self.pauses.clear()
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
        """Return whether to read the rest of the stanza; a fault in `admits` affects only this stanza."""
        try:
            return head.tag not in STANZAS or self.admits(head)
        except Exception as problem:  # the boundary between stanzas
            log.error("stanza.failed", **fault(problem))  # noqa: TRY400  # no payload
            return True

    def data_received(self, data: bytes | str) -> None:
        """Handle bytes from the server. Bytes that are not a stream only end the connection."""
        if self._stream is not None and not isinstance(data, str):
            self.traffic.bytes_in += len(data)
            self._slices.take(data)

    def _read(self, data: bytes) -> bool:
        """Read a slice, pass on the stanzas it completes, and return whether the next slice may follow."""
        stream = self._stream
        if stream is None or not self._feed(stream, data):
            return False
        self._hand_on()
        if stream.closed:
            self.abort()
        return not self._is_held

    def _feed(self, stream: StreamParser, data: bytes) -> bool:
        """Parse bytes, and return whether that succeeded; if not, the connection is closed."""
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
        self.stanzas.extend(stanzas)
        return True

    @property
    def _is_held(self) -> bool:
        """Return whether stanzas are held back; a new stream is greeted first."""
        return bool(self.pauses) and self.ready

    def _hand_on(self) -> None:
        """Pass on the parsed stanzas, as long as more work may be accepted; when none is left, continue to read."""
        while self.stanzas and not (self.pauses and self.ready):
            stanza = self.stanzas.popleft()
            try:
                if type(stanza) is not Stanza:
                    if self._taking:
                        self.on_single(stanza)
                elif stanza.top.tag not in STANZAS:
                    self._hand_over(stanza)  # the handshake, errors of the stream
                elif self._taking:
                    self._on_stanza(stanza)
            except Exception as problem:  # the boundary between stanzas: the next one is handled
                self._on_fault(stanza, problem)
        if self._slices:
            self._stop_reading()
        elif not self.pauses and not self.is_reading and self.transport is not None:
            self.is_reading = True
            self.transport.resume_reading()

    def _go_on(self) -> None:
        """Pass on the waiting stanzas, then continue to read."""
        self._hand_on()
        if not self._is_held:
            self._slices.go_on()

    def pause_reading(self, why: str = ASKED) -> None:
        """Handle no more stanzas, not even those already read, until every reason to pause has ended."""
        self.pauses.add(why)
        if self.ready:  # a new stream is greeted first
            self._stop_reading()

    def resume_reading(self, why: str = ASKED) -> None:
        """End this reason to pause; continue if there is no other."""
        self.pauses.discard(why)
        if not self.pauses:
            self.loop.call_soon(self._go_on)

    def _stop_reading(self) -> None:
        if self.is_reading and self.transport is not None:
            self.is_reading = False
            self.transport.pause_reading()

    def _hand_over(self, stanza: Stanza) -> None:
        """Pass stanzas about the stream to slixmpp."""
        xml = f'<s xmlns="{ns.COMPONENT}" xmlns:stream="{self.stream_ns}">'.encode()
        self._spawn_event(ET.fromstring(xml + stanza.raw + b"</s>")[0])  # noqa: S314  # parsed before

    # --- out ---

    @property
    def is_leaving(self) -> bool:
        """Whether the stream is being closed in order, for good."""
        return self._leaving.is_set()

    @property
    def has_room(self) -> bool:
        """Whether data that can wait may be written."""
        return self.ready and not self._out.is_clogged

    def pause_writing(self) -> None:
        """Hold back data that can wait, while the server does not read (asyncio calls it)."""
        self._out.clog()

    def resume_writing(self) -> None:
        """Continue: the server reads again (asyncio calls it)."""
        self._out.unclog()
        self._on_room()

    def _stall(self) -> None:
        """Accept no more work: the server does not read."""
        self.pause_reading(STALLED)
        self._on_down()

    def _end_stall(self) -> None:
        self.resume_reading(STALLED)
        if self.ready and self._taking:
            self._on_up()
