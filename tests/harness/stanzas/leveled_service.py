"""The face with its broker and a store in a file, on a connection of two lists of bytes, and a clock for repetitions.

`say` passes stanzas to the face, and returns all stanzas that it sends until all is quiet; `wait` lets time pass.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from harness.patience import TIMEOUT, until
from harness.servers.stub_server import ROOT
from harness.stanzas.wire import SERVICE, Wire
from lxml import etree

from pubqueue.accounts.credentials import Principals
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Payloads, Terms
from pubqueue.faces.xmpp import XmppFace
from pubqueue.faces.xmpp import settings as xmpp_terms
from pubqueue.faces.xmpp.xml.payload import same
from pubqueue.model.entities import Jid, Millis
from pubqueue.rules.access import CreationPolicy
from pubqueue.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from lxml.etree import _Element

    from pubqueue.rules.deliveries import Repeating

PUBSUB: Final = "http://jabber.org/protocol/pubsub"
QOS: Final = "urn:xmpp:qos"
BOSS: Final = "boss@localhost/desk"
BEGIN: Final = 1_000_000_000_000


class Timer:
    """A call at a moment of the clock."""

    def __init__(self, moment: float, call: Callable[[], None]) -> None:
        self.moment, self.call = moment, call

    def when(self) -> float:
        return self.moment

    def cancel(self) -> None:
        self.moment = float("inf")


class Clock:
    """Replaces the event loop's clock: it moves only when a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def time(self) -> float:
        return self.now

    def call_at(self, moment: float, call: Callable[[], None]) -> Timer:
        timer = Timer(moment, call)
        self.timers.append(timer)
        return timer

    def due(self, end: float) -> Timer | None:
        """Take the next timer up to then."""
        first = min(self.timers, key=Timer.when, default=None)
        if first is None or first.moment > end:
            return None
        self.timers.remove(first)
        return first


class Leveled:
    """A service that is connected."""

    def __init__(self, broker: Broker, face: XmppFace, wire: Wire, store: SqliteStore) -> None:
        self.broker, self.face, self.store = broker, face, store
        self._wire = wire
        self.raw: list[bytes] = []
        self.greeted: list[bytes] = []
        """What it said as soon as it was connected."""
        self.clock = Clock()
        face.deliveries.loop = lambda: self.clock  # type: ignore[assignment, return-value]

    async def say(self, *stanzas: str) -> list[_Element]:
        self.face.component.data_received("".join(stanzas).encode())
        return await self.said()

    async def said(self) -> list[_Element]:
        """Return what was said since; `raw` has the bytes of the last stanzas."""
        await until(lambda: not self.face.component.has_unread)  # a long piece is read in turns
        await self.broker.settled()
        self.face.component.flush()
        said = bytes(self._wire.said)
        self._wire.said.clear()
        whole = etree.fromstring(ROOT.encode() + said + b"</stream:stream>")
        self.raw = _split(said)
        return [one for one in whole if not one.get("id", "").startswith("told-")]

    async def wait(self, seconds: float) -> list[_Element]:
        """Let time pass, and return the stanzas that are sent meanwhile."""
        end = self.clock.now + seconds
        said: list[_Element] = []
        while (timer := self.clock.due(end)) is not None:
            self.clock.now = timer.moment
            timer.call()
            said += await self.said()
        self.clock.now = end
        return said


def _split(said: bytes) -> list[bytes]:
    return re.split(b"(?=<iq type=|<message from=)", said)[1:]


@asynccontextmanager
async def leveled(folder: Path, repeating: Repeating | None, **more: Any) -> AsyncIterator[Leveled]:
    """Run such a service."""
    store = SqliteStore(folder / "queue.db")
    await store.open()
    broker = Broker(
        store,
        Terms(CreationPolicy.LOCAL),
        clock=lambda: Millis(BEGIN),
        payloads=Payloads(same),
        **more,
    )
    broker.start()
    principals = Principals(admins=[Jid("boss@localhost")], home="localhost")
    face = XmppFace(
        *(broker, xmpp_terms.ServerPlace(SERVICE, "", ("127.0.0.1", 1)), principals),
        xmpp_terms.XmppTerms(repeating=repeating),
    )
    filters = asyncio.create_task(face.component.run_filters())
    wire = Wire()
    try:
        face.component.connection_made(wire)
        up = asyncio.Event()
        face.component.add_event_handler("session_start", lambda _: up.set())
        greeting = f"<?xml version='1.0'?>{ROOT[:-1]} from='{SERVICE}' id='1'><handshake/>"
        face.component.data_received(greeting.encode())
        async with asyncio.timeout(TIMEOUT):
            await up.wait()
        service = Leveled(broker, face, wire, store)
        await broker.settled()
        face.component.flush()
        service.greeted = _split(bytes(wire.said))
        wire.said.clear()
        yield service
    finally:
        filters.cancel()
        await broker.stop()
        await store.close()
