"""The face with its broker and its store, on a connection that is two lists of bytes."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from contextlib import AsyncExitStack, closing
from typing import TYPE_CHECKING, Any, Final, Self

from harness.patience import turns, until
from harness.servers.stub_server import ACCEPT, ROOT, on_a_stream
from harness.stanzas.wire import SERVICE, Wire
from lxml import etree
from structlog.testing import capture_logs

from pubqueue.accounts.credentials import Principals
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Payloads, Terms
from pubqueue.engine.redelivery import LAG
from pubqueue.faces.xmpp import XmppFace
from pubqueue.faces.xmpp.settings import ServerPlace
from pubqueue.faces.xmpp.xml.payload import same
from pubqueue.model.entities import Jid, Millis, account_of
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.expire import Expire
from pubqueue.stores.sqlite import SqliteStore
from pubqueue_xeps.wire import ns

if TYPE_CHECKING:
    from collections.abc import MutableMapping, Sequence
    from pathlib import Path
    from random import Random

BOSS: Final = "boss@localhost/desk"
HONEST: Final = "honest@localhost/work"
OWN: Final = "own work"
"""The queue of the honest client; no stanza names it."""
EVENT_ITEM: Final = f"{{{ns.EVENT}}}event/{{{ns.EVENT}}}items/{{{ns.EVENT}}}item"
TURNS: Final = 200
"""Of the event loop, for answers of slixmpp's plugins, which go through tasks of its own."""

CONFIG: Final = "http://jabber.org/protocol/pubsub#node_config"
NODES: Final[dict[str, dict[str, str]]] = {
    "dead": {"x-queueing#enabled": "1", "pubsub#access_model": "open"},
    "jobs": {
        "x-queueing#enabled": "1",
        "pubsub#access_model": "open",
        "x-queueing#lock_timeout": "30",
        "x-queueing#max_failures": "3",
        "x-queueing#dead_letter_node": "dead",
        "x-queueing#dedup_window": "60",
    },
    "plain": {"pubsub#max_items": "20"},
    "closed": {"x-queueing#enabled": "1", "pubsub#access_model": "whitelist"},
}


STEP: Final = 1500
"""Milliseconds between two stanzas, at most."""


class LostError(AssertionError):
    """The honest client got something else than what it had published, or no answer."""


class Complaints(logging.Handler):
    """Keeps what libraries complain about."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(self.format(record))


class Rig:
    """An async context manager; `feed` it stanzas, and it returns what they have led to."""

    def __init__(self, folder: Path, random: Random) -> None:
        self._path = folder / "fuzz.db"
        self._random = random
        self._clock = 1_000_000_000_000
        self._complaints = Complaints()
        self._log: list[MutableMapping[str, Any]] = []
        self._worked = 0

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._log = stack.enter_context(capture_logs())
            logging.getLogger().addHandler(self._complaints)
            stack.callback(logging.getLogger().removeHandler, self._complaints)
            await self._serve(stack)
            self._look = stack.enter_context(closing(sqlite3.connect(self._path)))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _serve(self, stack: AsyncExitStack) -> None:
        store = SqliteStore(self._path)
        await store.open()
        stack.push_async_callback(store.close)
        # no power is lost here
        await store.connection.run(lambda c: c.execute("PRAGMA synchronous = OFF").fetchall())
        self.broker = Broker(
            store,
            Terms(CreationPolicy.LOCAL),
            clock=lambda: Millis(self._clock),
            payloads=Payloads(same),
        )
        self.broker.start()
        stack.push_async_callback(self.broker.stop)
        address = ("127.0.0.1", 1)
        principals = Principals(admins=[account_of(Jid(BOSS))], home=SERVICE.partition(".")[2])
        self.face = XmppFace(self.broker, ServerPlace(SERVICE, "", address), principals)
        self._component = self.face.component
        filters = asyncio.create_task(self._component.run_filters())
        stack.callback(filters.cancel)
        self._wire = Wire()
        self._component.connection_made(self._wire)
        greeting = f"<?xml version='1.0'?>{ROOT[:-1]} from='{SERVICE}' id='1'><handshake/>"
        self._component.data_received(greeting.encode())
        await self._turn(lambda: self._component.ready)
        await self.broker.settled()
        self._wire.said.clear()

    @property
    def up(self) -> bool:
        """Whether the face still has its connection."""
        return not self._wire.down and self._component.ready

    def version(self) -> int:
        """Return a number that changes with every change of the store (PRAGMA data_version)."""
        (version,) = self._look.execute("PRAGMA data_version").fetchone()
        return int(version)

    def notes_something(self) -> bool:
        """Whether the next batch may write even if it is refused.

        It may note a sign of life and which deliveries have left, and put an item aside for other workers than its last.
        """
        noted = self.broker.undelivered._mark._at
        silent = self._look.execute("SELECT 1 FROM subscription WHERE unanswered").fetchone()
        avoided = self._look.execute("SELECT 1 FROM item WHERE avoid IS NOT NULL").fetchone()
        return bool(silent or avoided) or noted is None or self._clock + STEP - noted >= LAG

    def complaints(self) -> list[str]:
        """Return what has been logged since the last call above the level of a mere message."""
        said = [str(entry) for entry in self._log if entry["log_level"] not in {"debug", "info"}]
        said += [str(e) for e in self._log if e["event"] == "batch.divided"]  # something has raised
        said += self._complaints.said
        self._log.clear()
        self._complaints.said.clear()
        return said

    async def feed(self, stanzas: Sequence[etree._Element], answers: int) -> list[etree._Element]:
        """Hand over the stanzas in pieces of any size; return what is sent until all is quiet."""
        data = "".join(map(on_a_stream, stanzas)).encode()
        cut = self._random.randrange(len(data))
        self._clock += self._random.randrange(STEP)
        for piece in (data[:cut], data[cut:]):
            if piece:
                self._component.data_received(piece)
        await until(lambda: not self._component.has_unread)
        await self.broker.settled()
        await self._turn(lambda: self._wire.said.count(b"<iq ") >= answers)
        return self._take()

    async def wait(self, seconds: int) -> list[etree._Element]:
        """Let time pass."""
        self._clock += seconds * 1000
        await self.broker.handle(Expire())
        await self._turn(lambda: False, most=3)
        return self._take()

    def _take(self) -> list[etree._Element]:
        said = bytes(self._wire.said)
        self._wire.said.clear()
        heard = etree.fromstring(ROOT.encode() + said + b"</stream:stream>")
        return [one for one in heard if not one.get("id", "").startswith("told-")]  # no echoes

    async def _turn(self, reached: Any, most: int = TURNS) -> None:
        """Let the event loop turn until it is reached, and twice more: there may be too many."""
        for _ in range(most):
            if reached():
                break
            await turns()
        await turns(2)

    async def work(self) -> float:
        """Publish, take and settle an item of somebody whom the others do not know, and return the seconds that this took.

        Raises:
            LostError: it was not delivered as it was, or something was not answered.

        """
        self._worked += 1
        begun = time.monotonic()
        if self._worked == 1:
            config = _form({"x-queueing#enabled": "1", "pubsub#access_model": "whitelist"})
            await self._ask(f"<create node='{OWN}'/><configure>{config}</configure>")
        options = _form({"pubsub#queue_requests": "1"}, "pubsub#subscribe_options")
        await self._ask(f"<subscribe node='{OWN}' jid='{HONEST}'/><options>{options}</options>")
        payload = f"<work xmlns='urn:honest'>item {self._worked} &lt;&amp; ä</work>"
        item = f"<item id='i{self._worked}'>{payload}</item>"
        said = await self._ask(f"<publish node='{OWN}'>{item}</publish>")
        found = [one for message in said for one in message.iterfind(EVENT_ITEM)]
        if [(one.get("id"), one[0].text) for one in found] != [
            (f"i{self._worked}", f"item {self._worked} <& ä")
        ]:
            raise LostError(f"the honest client got {[etree.tostring(one) for one in said]}")
        await self._ask(f"<retract node='{OWN}'><item id='i{self._worked}'/></retract>")
        await self._ask(f"<unsubscribe node='{OWN}' jid='{HONEST}'/>")
        return time.monotonic() - begun

    async def _ask(self, inner: str) -> list[etree._Element]:
        """Send a request of the honest client, and return what it hears; it has to be done."""
        text = (
            f"<iq xmlns='{ACCEPT}' type='set' id='own' from='{HONEST}' to='{SERVICE}'>"
            f"<pubsub xmlns='http://jabber.org/protocol/pubsub'>{inner}</pubsub></iq>"
        )
        said = await self.feed([etree.fromstring(text)], 1)
        own = [one for one in said if one.get("to") == HONEST]
        if [one.get("type") for one in own if one.get("id") == "own"] != ["result"]:
            raise LostError(
                f"the honest client was answered {[etree.tostring(one) for one in own]}"
            )
        return own

    async def renew(self) -> None:
        """Begin again with the same nodes, made over the wire as everything else."""
        nodes = [name for (name,) in self._look.execute("SELECT name FROM node")]
        for name in (one for one in nodes if one != OWN):
            await self._manage("owner", f"<delete node={_quoted(name)}/>")
        for name, config in NODES.items():
            form = f"<configure>{_form(config)}</configure>"
            await self._manage("", f"<create node='{name}'/>{form}")
            people = "".join(
                f"<affiliation jid='{jid}@localhost' affiliation='{affiliation}'/>"
                for jid, affiliation in (("etl", "publisher"), ("bee", "member"))
            )
            await self._manage("owner", f"<affiliations node='{name}'>{people}</affiliations>")

    async def _manage(self, part: str, inner: str) -> None:
        space = f"http://jabber.org/protocol/pubsub{'#' if part else ''}{part}"
        text = (
            f"<iq xmlns='{ACCEPT}' type='set' id='renew' from='{BOSS}' to='{SERVICE}'>"
            f"<pubsub xmlns='{space}'>{inner}</pubsub></iq>"
        )
        said = await self.feed([etree.fromstring(text)], 1)
        assert [one.get("type") for one in said if one.get("id") == "renew"] == ["result"], text


def _form(config: dict[str, str], kind: str = "pubsub#node_config") -> str:
    values = {"FORM_TYPE": f"http://jabber.org/protocol/{kind}"} | config
    fields = "".join(
        f"<field var='{var}'><value>{value}</value></field>" for var, value in values.items()
    )
    return f"<x xmlns='jabber:x:data' type='submit'>{fields}</x>"


def _quoted(text: str) -> str:
    made = etree.Element("x", {"v": text})
    return etree.tostring(made, encoding="unicode").removeprefix("<x v=").removesuffix("/>")
