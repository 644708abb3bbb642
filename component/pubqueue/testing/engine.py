"""The service under test in an event loop of its own, its calendar and its log."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree as ET

import structlog
from msgspec.structs import replace

from pubqueue.config.nodes import read_node
from pubqueue.config.settings import NodeSettings, Settings
from pubqueue.config.users import accounts_of
from pubqueue.faces.xmpp.xml.fields import field_name, sentence
from pubqueue.model.decision import Refused
from pubqueue.model.entities import Jid, Millis, NodeName, Principal, State, later, seconds
from pubqueue.model.replies import Declared, EventPage, ItemPage, NodePage
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodes import Delete
from pubqueue.rules.read import ReadEvents, ReadItems, ReadNodes
from pubqueue.testing.server import ClientStream, ComponentStream, Server, connect, read
from pubqueue.wiring.faces import faces_of
from pubqueue.wiring.serving import queue
from pubqueue_xeps.wire import refusals
from pubqueue_xeps.wire.xml_text import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence

    from pubqueue.engine.broker import Broker
    from pubqueue.model.entities import Item
    from pubqueue.model.records import EventKind
    from pubqueue.model.replies import EventEntry, ItemEntry
    from pubqueue.testing.server import Stanza


# The service under test, in an event loop of its own: the real broker and XMPP face on a store in memory.
#
# All of this runs in that loop. `pubqueue.testing.service` has it called from the test's thread.

DOMAIN: Final = "localhost"
SERVICE: Final = f"queue.{DOMAIN}"
PASSWORD: Final = "secret"  # noqa: S105  nothing outside this process can use it
OPERATOR: Final = f"operator@{DOMAIN}"
"""The owner of the nodes that a test creates, and the publisher of items without another one."""

OPEN: Final = {"pubsub#access_model": "open", "pubsub#publish_model": "open"}
"""Any account may publish to a node and work on it, unless the test sets other options."""

Option = str | int | float | bool


class Loop(asyncio.SelectorEventLoop):
    """An event loop in which there is one address to connect to, whichever is requested: the component's port."""

    def __init__(self) -> None:
        super().__init__()
        self.server: Server | None = None

    async def create_connection(  # type: ignore[override]  # of all its forms, the one that slixmpp uses
        self,
        protocol_factory: Callable[[], asyncio.Protocol],
        *_address: object,
        **_how: object,
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """Connect to the server in memory."""
        assert self.server is not None
        protocol = protocol_factory()
        return connect(self, protocol, self, ComponentStream(self.server)), protocol


class Engine:
    """The service, the server in front of it, and its time. `serve` runs it; the others are for while it runs."""

    def __init__(self, address: str = SERVICE) -> None:
        self.calendar = Calendar()
        self._news = asyncio.Event()
        self._address = address
        self._server = Server(DOMAIN, address, PASSWORD, on_stanza=self._news.set)
        self._loop = asyncio.get_running_loop()
        self._ids = itertools.count(1)
        self._answers: dict[str, asyncio.Future[ET.Element]] = {}
        self._stop = asyncio.Event()
        self._broker: Broker | None = None
        assert isinstance(self._loop, Loop)
        self._loop.server = self._server
        self._server.clients[f"{OPERATOR}/test"] = self

    async def serve(self, on_ready: Callable[[], None]) -> None:
        """Serve until stopped."""
        settings = Settings(
            jid=self._address,
            secret=PASSWORD,
            store="memory:",
            admins=(OPERATOR,),
            server="127.0.0.1:1",
        )
        async with queue(settings, clock=self.calendar.now) as broker:
            self._broker = broker
            (face,) = faces_of(broker, settings, accounts_of(settings), on_ready)
            running = asyncio.create_task(face.run(), name="face")
            stopping = asyncio.create_task(self._stop.wait(), name="stop")
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            await face.stop()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def stop(self) -> None:
        """Make `serve` end. Stopping twice does no harm."""
        self._stop.set()

    async def join(self, other: Engine) -> None:
        """Let the clients of this one reach another service, whose loop is another one."""
        self._server.others[other._address] = other._post
        other._server.home = self._post

    def _post(self, stanza: Stanza) -> None:
        """Route a stanza in the loop of this one; called in any thread."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._server.route, stanza)

    def accept(self, client: asyncio.Protocol) -> None:
        """Accept the connection of a client; called in the client's loop, which may be another one."""
        connect(asyncio.get_running_loop(), client, self._loop, ClientStream(self._server))

    async def create(self, node: str, options: Mapping[str, Option]) -> None:
        """Create a node, or set these options of it.

        Raises:
            ValueError: an option does not exist, or its value does not fit.

        """
        named = {name if "#" in name else field_name(name): v for name, v in options.items()}
        own = {"x-queueing#event_log": True, "x-queueing#backoff_jitter": 0}
        words: dict[str, Option] = {**OPEN, **own, **named}
        asked = read_node(
            NodeSettings(name=node, queueing=True, owners=(OPERATOR,), options=words), _operator()
        )
        reply = await self._at_work.handle(asked)
        if isinstance(reply, Refused):
            why = sentence(reply) or reply.refusal.name.lower()
            raise ValueError(f"node {node!r}: {why}")  # noqa: TRY004  no type is at fault
        assert isinstance(reply, Declared)
        if reply.kept:
            kept = reply.kept[0]
            raise ValueError(f"node {node!r}: {field_name(kept.name)}: {kept.reason}")

    async def clear(self) -> None:
        """Cut off all clients, and delete all nodes."""
        self._server.cut_off()
        await self._at_work.settled()
        more = True
        while more:
            page = await self._at_work.handle(ReadNodes(_operator()))
            assert isinstance(page, NodePage)
            for entry in page.entries:
                reply = await self._at_work.handle(Delete(_operator(), entry.node.name))
                assert not isinstance(reply, Refused), reply
            more = page.more
        await self._at_work.settled()

    async def ask(self, node: str, content: bytes) -> ET.Element:
        """Request a change in a node as a client does; `content` is the child of the IQ. Return the answer.

        Raises:
            pubqueue_xeps.errors.PubqueueError: the request is refused.

        """
        id = str(next(self._ids))  # noqa: A001  the name of the attribute
        answer = self._answers[id] = self._loop.create_future()
        start = f"<iq type='set' id={quote(id)} from={quote(OPERATOR + '/test')} to={quote(self._address)}>"
        self._server.route(read(f"{start}{content.decode()}</iq>"))
        iq: ET.Element = await answer
        if iq.get("type") != "result":
            raise refusals.failure(refusals.read(iq), self._address, node)
        return iq

    def give(self, stanza: bytes) -> None:
        """Accept a stanza from the service to the operator."""
        (iq,) = ET.fromstring(b"<s xmlns='jabber:client'>%b</s>" % stanza)  # noqa: S314  our own service's
        answer = self._answers.pop(iq.get("id", ""), None)
        if answer is not None:
            answer.set_result(iq)

    async def advance(self, count: float) -> None:
        """Let this many seconds pass, and complete all that is due then."""
        self.calendar.advance(count)
        await self._catch_up()

    async def _catch_up(self) -> None:
        broker = self._at_work
        while (moment := broker.moment) is not None and moment <= self.calendar.now():
            await broker.handle(Expire())
        await broker.settled()

    async def settled(self, nodes: Sequence[str]) -> None:
        """Return when only dead and held items are left in the nodes.

        If no work is left before the next delay of an item ends, time passes to that end.
        """
        while True:
            self._news.clear()
            await self._at_work.settled()
            there = [it.item for node in nodes for it in await self.items(node)]
            living = [item for item in there if item.state not in AT_REST]
            if not living:
                return
            moments = [item.due for item in living if item.state is State.DELAYED and item.due]
            if len(moments) == len(living):
                self.calendar.reach(min(moments))
                await self._catch_up()
            else:
                await self._news.wait()

    async def items(self, node: str) -> list[ItemEntry]:
        """Return all items of the node, the oldest first."""
        return await self._entries(ReadItems(_operator(), NodeName(node), 0))

    async def events(self, node: str, kind: EventKind) -> list[EventEntry]:
        """Return the events of this kind in the node, in order."""
        entries = await self._entries(ReadEvents(_operator(), NodeName(node), 0))
        return [entry for entry in entries if entry.event.kind is kind]

    async def _entries(self, request: ReadItems | ReadEvents) -> list[Any]:
        """Return the entries of all pages."""
        found: list[Any] = []
        while True:
            page = await self._at_work.handle(request)
            if isinstance(page, Refused):
                raise LookupError(f"there is no node {request.node!r}")  # noqa: TRY004  no type is at fault
            assert isinstance(page, ItemPage | EventPage)
            found += page.entries
            if not page.more:
                return found
            request = replace(request, after=page.through)

    def due_in(self, item: Item) -> float | None:
        """Return in how many seconds a delayed item may be delivered, or the time of a held one is over."""
        if item.state not in {State.DELAYED, State.HELD} or item.due is None:
            return None
        return (item.due - self.calendar.now()) / 1000

    @property
    def _at_work(self) -> Broker:
        assert self._broker is not None, "the service does not run"
        return self._broker


AT_REST: Final = frozenset({State.DEAD, State.HELD})
"""States of items for which no worker does anything."""


def _operator() -> Principal:
    return Principal(Jid(OPERATOR), admin=True, local=True)


# The time of a service under test: it stands still, except when a test moves it on.


class Calendar:
    """Begins at the time of the machine."""

    def __init__(self) -> None:
        self._now = Millis(time.time_ns() // 1_000_000)

    def now(self) -> Millis:
        """Return the current time."""
        return self._now

    def advance(self, count: float) -> None:
        """Let this many seconds pass.

        Raises:
            ValueError: the number is negative.

        """
        if count < 0:
            raise ValueError(f"time passes by 0 seconds or more, not {count}")
        self._now = later(self._now, seconds(count))

    def reach(self, moment: Millis) -> None:
        """Move on to that time, if it is in the future."""
        self._now = max(self._now, moment)


# The log of the service under test: on the standard logger `pubqueue.service`, where pytest shows it beside a failure.
#
# Otherwise structlog would print it between other output. Logging by other threads is not changed.

_THREADS: Final[set[int]] = set()
_LOCK: Final = threading.Lock()
_logfmt: Final = structlog.processors.LogfmtRenderer(key_order=["event"], bool_as_flag=False)


@contextmanager
def diverted() -> Iterator[None]:
    """Send what this thread logs to the standard logger during the body."""
    thread = threading.get_ident()
    with _LOCK:
        _THREADS.add(thread)
        unset = not structlog.is_configured()
        _put(first=True)
    try:
        yield
    finally:
        with _LOCK:
            _THREADS.discard(thread)
            if not _THREADS:
                _put(first=False)
            if unset and not _THREADS:
                structlog.reset_defaults()


def _put(*, first: bool) -> None:
    """Make `_divert` the first of structlog's processors, or remove it."""
    others = [one for one in structlog.get_config()["processors"] if one is not _divert]
    structlog.configure(processors=[_divert, *others] if first else others)


def _divert(logger: Any, name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:  # noqa: ANN401  structlog's
    if threading.get_ident() not in _THREADS:
        return event
    level = logging.getLevelNamesMapping().get(name.upper(), logging.ERROR)
    trace = event.pop("exc_info", None)
    logging.getLogger("pubqueue.service").log(level, _logfmt(logger, name, event), exc_info=trace)
    raise structlog.DropEvent
