"""Loads of accounts without rights, or with many requests at once: a face gets their bytes in addition to the trickle.

The face has no server: `Wire` reads its output and sends its echoes back. The input comes in pieces, as from a socket,
as fast as a server relays, and as long as the face reads.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from proof.fuzz.costs import HEADER, KINDS

from pubqueue.accounts.credentials import Principals
from pubqueue.faces.xmpp import XmppFace
from pubqueue.faces.xmpp.settings import ServerPlace

if TYPE_CHECKING:
    from bench.trickle import Service

PIECE: Final = 64 * 1024
RATE: Final = 20_000_000
"""Bytes per second that a server relays, which parses and routes each stanza itself."""

STANZA: Final = 250_000
SERVICE: Final = "queue.localhost"
QUIET: Final = 0.05


class Wire(asyncio.Transport):
    """The server's end: counts the answers, and sends echoes back."""

    def __init__(self) -> None:
        super().__init__()
        self.face: XmppFace
        self.pieces: list[bytes] = []
        """The pieces to feed; each ends at the end of a stanza."""
        self.is_within = False
        """Whether a stanza has been fed in part; an echo has to wait for the rest of it."""
        self._echoes: list[bytes] = []
        self.answers = 0
        self.messages = 0
        """Messages that were written."""
        self.reading = True

    def write(self, data: Any) -> None:
        """Read the output, and return the stanzas that the face sends to itself."""
        self.answers += data.count(b"<iq type=") - data.count(b'id="told-')
        self.messages += data.count(b"<message ")
        for part in data.split(b'<iq type="result" id="told-')[1:]:
            name = part[: part.index(b'"')].decode()
            me = f"from='{SERVICE}' to='{SERVICE}'"
            self._echoes.append(f"<iq type='result' id='told-{name}' {me}/>".encode())
            asyncio.get_running_loop().call_soon(self.feed_echoes)

    def feed_echoes(self) -> None:
        """Feed the echoes, unless a stanza is incomplete."""
        if not self.is_within:
            echoes, self._echoes = self._echoes, []
            self.face.component.data_received(b"".join(echoes))

    def get_write_buffer_size(self) -> int:
        """Return 0: all output is read."""
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: there is no limit."""

    def abort(self) -> None:
        """Fail: a load must not end the stream."""
        raise AssertionError("the face gave up its stream")

    close = abort

    def is_closing(self) -> bool:
        """Return False."""
        return False

    def pause_reading(self) -> None:
        """Stop feeding."""
        self.reading = False

    def resume_reading(self) -> None:
        """Continue feeding."""
        self.reading = True


async def connected(service: Service) -> Wire:
    """Make a connected face; connecting takes longer than any pause that is measured."""
    wire = Wire()
    wire.face = XmppFace(
        service.broker,
        ServerPlace(SERVICE, "", ("127.0.0.1", 1)),
        Principals(home="localhost"),
    )
    component = wire.face.component
    filters = asyncio.create_task(component.run_filters())
    component.connection_made(wire)
    component.data_received(f"{HEADER[:-1]} from='{SERVICE}'><handshake/>".encode())
    while not component.ready:  # noqa: ASYNC110  # no event to wait for
        await asyncio.sleep(0)
    filters.cancel()
    wire.answers = 0
    return wire


async def feed(service: Service, size: int) -> None:
    """Feed the prepared stanzas, and wait until all are answered."""
    wire: Wire = service.prepared
    for piece in wire.pieces:
        wire.is_within = True
        for at in range(0, len(piece), PIECE):
            while not wire.reading:  # noqa: ASYNC110  # no event to wait for
                await asyncio.sleep(QUIET / 10)
            wire.face.component.data_received(piece[at : at + PIECE])
            await asyncio.sleep(PIECE / RATE)
        wire.is_within = False
        wire.feed_echoes()
    while wire.answers < size:  # noqa: ASYNC110  # no event to wait for
        await asyncio.sleep(QUIET)


def in_pieces(stanzas: list[str]) -> list[bytes]:
    """Join the stanzas to pieces of about the size that a socket returns, or of one larger stanza."""
    pieces, piece = [], ""
    for stanza in stanzas:
        piece += stanza
        if len(piece) >= PIECE:
            pieces.append(piece.encode())
            piece = ""
    return [*pieces, piece.encode()]


async def prepare_dear_stanzas(service: Service, size: int) -> None:
    """Prepare stanzas of all expensive kinds from an account without rights, this many in total."""
    kinds = [make(STANZA) for make in KINDS.values()]
    service.prepared = await connected(service)
    service.prepared.pieces = in_pieces([kinds[number % len(kinds)] for number in range(size)])


async def prepare_pipelined_reads(service: Service, size: int) -> None:
    """Prepare this many requests for large pages from one account."""
    ask = (
        "<iq type='get' id='r{}' from='eve@localhost/x' to='queue.localhost'>"
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='heavy'/></pubsub></iq>"
    )
    service.prepared = await connected(service)
    service.prepared.pieces = in_pieces([ask.format(number) for number in range(size)])
