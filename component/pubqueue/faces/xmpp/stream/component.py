"""The component stream: what slixmpp does of it, its way out, and input in slices."""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
from collections import deque
from socket import SO_SNDBUF, SOL_SOCKET
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

import structlog
from slixmpp.basexmpp import BaseXMPP
from slixmpp.componentxmpp import ComponentXMPP
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

from pubqueue.engine.face import PlaceTakenError
from pubqueue.engine.observe import Traffic
from pubqueue.faces.xmpp.stream.expat import READ_AT_ONCE, padding
from pubqueue.faces.xmpp.stream.reader import StreamParser
from pubqueue.faces.xmpp.stream.single import Single
from pubqueue.faces.xmpp.xml.stanza import Stanza
from pubqueue.logs import fault
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.xmpp.xml.stanza import Element


# slixmpp's component without TLS, which XEP-0114 does not use.

TRUSTS_NOBODY: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Given to slixmpp so that it does not read the system's certificate authorities, which takes 50 to 100 ms."""


class PlainComponent(ComponentXMPP):
    """A component stream without TLS.

    The constructor of ComponentXMPP does not take a TLS context, so slixmpp makes one for each stream. This class replaces that
    constructor; a test compares the results of both.
    """

    def __init__(self, jid: str, secret: str, server: tuple[str, int]) -> None:
        BaseXMPP.__init__(self, jid, ns.COMPONENT, ssl_context=TRUSTS_NOBODY)  # type: ignore[no-untyped-call]
        self._fix_error_ns()  # type: ignore[no-untyped-call]
        self.enable_starttls = False
        self.enable_plaintext = True
        self.auto_authorize = None
        self.stream_header = (
            f'<stream:stream xmlns="{ns.COMPONENT}" xmlns:stream="{self.stream_ns}" to="{jid}">'
        )
        self.stream_footer = "</stream:stream>"
        self.server_host, self.server_port = server
        self.default_domain = self.server_host
        self.secret = secret
        self.plugin_config = {}
        self.plugin_whitelist = []
        self.is_component = True
        self.sessionstarted = False
        accepted = MatchXPath(f"{{{ns.COMPONENT}}}handshake")
        self.register_handler(Callback("Handshake", accepted, self._handle_handshake))
        self.add_event_handler("presence_probe", self._handle_probe)


# The stream: slixmpp's component with a short way in and out.
#
# slixmpp makes the connection and the handshake. Stanzas come in through our own parser and are passed on without stanza
# objects; only those about the stream itself become such objects. Outgoing bytes are collected during one turn of the
# event loop and written at once.

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


# The way out of the stream: collects the stanzas of one turn of the event loop, writes them at once, and notices a server that does not read.

FLUSH_BYTES: Final = 65_536
"""Bytes that are written before the turn is over, so that a server that does not read is noticed in time."""

HIGH_WATER_BYTES: Final = 262_144
"""Bytes waiting for the socket above which nothing is written that can wait, until a quarter of them is left."""

MAX_UNSENT_BYTES: Final = 2 << 20
"""Bytes waiting for the socket above which no work is accepted: the server does not read."""

LONG: Final = 1.0
"""Seconds without reading after which a warning is logged; shorter pauses are part of every burst."""


class Outgoing:
    """The bytes of one stream. `on_stalled` is called if the server does not read, `on_reads` when it reads again."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        traffic: Traffic,
        *,
        on_stalled: Callable[[], None],
        on_reads: Callable[[], None],
    ) -> None:
        self._loop, self._traffic = loop, traffic
        self._on_stalled, self._on_reads = on_stalled, on_reads
        self.transport: asyncio.WriteTransport | None = None
        """The connection, as long as the server has accepted us."""
        self.is_clogged = False
        """Whether data that can wait is held back."""
        self._stalled: float | None = None
        self._out: list[bytes] = []
        self._gathered = 0
        self._flushing = False

    def clear(self) -> None:
        """Drop the collected bytes: the connection is lost."""
        self._out.clear()
        self._gathered = 0
        self.transport, self.is_clogged, self._stalled = None, False, None

    def write(self, stanza: bytes, size: int = 0, white: int | None = None) -> bool:
        """Send a stanza after all earlier ones; return False if there is no stream to send it on.

        `size` is its number of bytes, if it is known; `white` is how much white space follows it, None if that is to
        be computed.
        """
        if self.transport is None:
            return False
        self._out.append(stanza)
        size = size or len(stanza)
        if white is None:
            white = padding(stanza) if size > READ_AT_ONCE else 0
        if white:
            self._out.append(b" " * white)
        self._gathered += size + white
        if self._gathered > FLUSH_BYTES:
            self.flush()
        elif not self._flushing:
            self._flushing = True
            self._loop.call_soon(self.flush)
        return True

    def flush(self) -> None:
        """Write the collected bytes."""
        self._flushing = False
        if self._out and self.transport is not None:
            self._traffic.bytes_out += self._gathered
            self.transport.write(b"".join(self._out))
            if self.is_clogged:
                self._check()
        self._out.clear()
        self._gathered = 0

    def clog(self) -> None:
        """Hold back data that can wait, while the server does not read."""
        self.is_clogged = True
        self._check()

    def _check(self) -> None:
        """Report a server that apparently does not read, because too many bytes wait."""
        waiting = 0 if self.transport is None else self.transport.get_write_buffer_size()
        if waiting > MAX_UNSENT_BYTES and self._stalled is None:
            self._stalled = self._loop.time()
            self._on_stalled()

    def unclog(self) -> None:
        """Continue: the server reads again."""
        self.is_clogged = False
        if self._stalled is not None:
            if (seconds := self._loop.time() - self._stalled) > LONG:
                log.warning("stream.stalled", seconds=round(seconds, 1))
            self._stalled = None
            self._on_reads()


# Reads input in slices, because a stanza of a thousand items takes some milliseconds and other work has to run in between.
#
# After each slice, reading pauses for as long as the slice took. Otherwise the thread that runs the batches would wait for the interpreter:
# 50 ms of work took 350 ms while the loop only read (measured with `make pauses`).

SLICE: Final = 16_384
"""Bytes of a slice. A longer request for a single item is read at once if it is complete, which is fastest."""

TURN: Final = 0.004
"""Seconds of work after which the next slice is postponed; hundreds of small requests take that long."""

_END: Final = b"</iq>"
_ITEM: Final = b"<item"


class Slices:
    """Passes bytes to `read`, which returns whether the next slice may follow; if not, `go_on` continues later."""

    def __init__(self, loop: asyncio.AbstractEventLoop, read: Callable[[bytes], bool]) -> None:
        self._loop, self._read = loop, read
        self._unread = b""
        self._turn: asyncio.TimerHandle | None = None

    def __bool__(self) -> bool:
        """Return whether bytes wait."""
        return bool(self._unread)

    def take(self, data: bytes) -> None:
        """Read a slice at once, unless others wait."""
        waits = bool(self._unread)
        self._unread += data
        if not waits:
            self._read_slice()

    def go_on(self, rest: float = 0.0) -> None:
        """Read the waiting bytes after this many seconds."""
        if self._unread and self._turn is None:
            self._turn = self._loop.call_later(rest, self._read_slice)

    def take_out(self) -> bytes:
        """Remove and return the unread bytes."""
        unread, self._unread = self._unread, b""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        return unread

    def _read_slice(self) -> None:
        self._turn = None
        began = self._loop.time()
        while self._read(self._take_slice()):
            took = self._loop.time() - began
            if not self._unread or took > TURN:
                self.go_on(took)
                return

    def _take_slice(self) -> bytes:
        """Remove and return the next slice, which ends at the end of a request if possible."""
        size = self._size()
        data, self._unread = self._unread[:size], self._unread[size:]
        return data

    def _size(self) -> int:
        if len(self._unread) <= SLICE:
            return len(self._unread)
        end = self._unread.rfind(_END, 0, SLICE)
        if end < 0:
            end = self._unread.find(_END, SLICE)
            if self._unread.count(_ITEM, 0, end) > 1:
                return SLICE
        return SLICE if end < 0 else end + len(_END)
