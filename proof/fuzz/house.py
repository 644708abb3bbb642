"""The faces in this process, with their broker and a store in a file; connections that are lists of bytes; and an honest client."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import deque
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from curb.curbs import RawClient
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, Stub
from faces.rest.clients import client, follow, links
from faces.sides import Side
from faces.stomp.clients import Connection
from harness.patience import TIMEOUT, until
from harness.servers.users import CHEAP, SERVICE, accounts_of, digest
from structlog.testing import capture_logs

from proof.fuzz.rig import LostError
from pubqueue.accounts.credentials import Role, User
from pubqueue.faces.grpc.face import GrpcFace
from pubqueue.faces.grpc.settings import GrpcSettings
from pubqueue.faces.grpc.transcoding import JsonDoor
from pubqueue.faces.http import HttpHost
from pubqueue.faces.listener import Bounds, Place
from pubqueue.faces.listener.budget import KEPT
from pubqueue.faces.rest.door import RestDoor
from pubqueue.faces.rest.face import RestFace
from pubqueue.faces.rest.hornetq.routes import profile as hornetq
from pubqueue.faces.rest.settings import RestSettings
from pubqueue.faces.rest.star.routes import profile
from pubqueue.faces.stomp.face import StompFace
from pubqueue.faces.stomp.settings import StompSettings
from pubqueue.faces.stomp.web_socket import StompDoor
from pubqueue.faces.xmpp.xml.fields import wanted
from pubqueue.model.decision import Refused
from pubqueue.model.entities import Jid, NodeName, Principal
from pubqueue.monitor.page.logins import Logins
from pubqueue.monitor.server import Monitor
from pubqueue.rules.declare import Declare
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Delete
from pubqueue.rules.read import ReadNodes
from pubqueue.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, MutableMapping
    from pathlib import Path

    import grpc

    from pubqueue.engine.broker import Broker
    from pubqueue.faces.listener import ClientConnection, Listener
    from pubqueue.faces.stomp.codec import Frame

HONEST: Final = "etl"
"""The user whose work nobody may disturb."""
STRANGERS: Final = tuple(f"m{number}" for number in range(64))
"""Users who send what they like. They are many, since each pays for what is refused."""
TOKEN: Final = "a-token-that-is-the-same-for-{}-and-long-enough"
BOUNDS: Final = Bounds(connections=4_000, per_peer=2_000, login=0)
ADMIN: Final = Principal(Jid(f"boss@{SERVICE}"), admin=True)
OWN_PEERS: Final = ("127.0.0.1", "::1")
"""Where the honest client comes from."""
OWN: Final = "honest"
"""The queue of the honest client, which is closed to all others."""
OPEN: Final = {"access_model": "open", "publish_model": "open"}
NODES: Final[dict[str, dict[str, Any]]] = {
    "jobs": {"queueing": True, "max_failures": 3, "dead_letter_node": "dead", **OPEN},
    "dead": {"queueing": True, **OPEN},
    "news": {"persist_items": True, "max_items": 50, **OPEN},
    "closed": {"queueing": True, "access_model": "whitelist"},
    "projects/p/topics/orders": {"persist_items": True, **OPEN},
    "projects/p/subscriptions/orders": {"queueing": True, **OPEN},
}


def token_of(name: str) -> str:
    """Return the token of a user."""
    return TOKEN.format(name)


class Fed(asyncio.Transport):
    """A connection that is fed bytes, and keeps what is said. `under` gets its events, as from a socket."""

    def __init__(self, under: ClientConnection) -> None:
        super().__init__()
        self.said = bytearray()
        self.is_over = asyncio.Event()
        self._under = under
        self._unread: deque[bytes] = deque()
        self._is_reading, self._is_closing = True, False
        under.connection_made(self)

    def feed(self, data: bytes) -> None:
        """Send bytes; they wait as long as the other side does not read."""
        self._unread.append(data)
        self._read()

    def hang_up(self) -> None:
        """End the connection, as a client does that goes."""
        self.abort()

    def _read(self) -> None:
        while self._unread and self._is_reading and not self._is_closing:
            self._under.data_received(self._unread.popleft())

    # --- as a transport -------------------------------------------------------------------------

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self.said += data

    def abort(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().call_soon(self._end)

    close = abort

    def _end(self) -> None:
        self._under.connection_lost(None)
        self.is_over.set()

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        asyncio.get_running_loop().call_soon(self._read)

    def can_write_eof(self) -> bool:
        return True

    write_eof = abort

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Take everything at once."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        place = {"peername": (self._under.peer, 1), "sockname": ("127.0.0.1", 1)}
        return place.get(name, default)


def connect(listener: Listener, peer: str) -> Fed:
    """Return a new connection of a peer."""
    adopted = listener.adopt(peer)
    assert adopted is not None, "there are too many connections"
    return Fed(adopted)


class Complaints(logging.Handler):
    """Keeps what the service reports as a fault of its own, and what libraries complain about."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.log: list[MutableMapping[str, Any]] = []
        self._said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(self.format(record))

    def met(self, _loop: object, context: dict[str, Any]) -> None:
        """Keep what a loop reports."""
        self._said.append(f"{context.get('message')}: {context.get('exception')!r}")

    def all(self) -> list[str]:
        """Return what has come since the last call."""
        found, self._said = self._said, []
        for entry in self.log:
            if entry["log_level"] in {"error", "critical"} or entry["event"] == "batch.divided":
                found.append(str(entry))
        self.log.clear()
        return found


@asynccontextmanager
async def listening() -> AsyncIterator[Complaints]:
    """Keep all complaints of the body."""
    found, loop = Complaints(), asyncio.get_running_loop()
    with capture_logs() as found.log:
        logging.getLogger().addHandler(found)
        loop.set_exception_handler(found.met)
        try:
            yield found
        finally:
            loop.set_exception_handler(None)
            logging.getLogger().removeHandler(found)


class Faces:
    """The faces of an instance as one, as `Side` has it."""

    def __init__(self, broker: Broker) -> None:
        users = [
            User(name, password=CHEAP, tokens=frozenset({digest(token_of(name))}))
            for name in (HONEST, *STRANGERS)
        ]
        users.append(
            User(
                "boss", tokens=frozenset({digest(token_of("boss"))}), roles=frozenset({Role.ADMIN})
            )
        )
        self.accounts = accounts_of(users, welcome=(HONEST, *STRANGERS))
        place = Place("127.0.0.1", 0)
        self.stomp = StompFace(
            broker, self.accounts, [place], StompSettings(heart_beat=600.0), bounds=BOUNDS
        )
        self.rest = RestFace(broker, self.accounts, RestSettings(longest_wait=0.05), wanted)
        self.grpc = GrpcFace(broker, self.accounts, [place], GrpcSettings())
        self.all = (self.stomp, self.rest, self.grpc)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for face in self.all:
                group.create_task(face.run())

    async def stop(self) -> None:
        for face in self.all:
            await face.stop()


class House:
    """A service whose parts are at hand. `http` is the host of all that is served over HTTP, and `root` the URL of REST there."""

    def __init__(self, side: Side, host: HttpHost, root: str) -> None:
        self.broker: Broker = side.broker
        self.faces: Faces = side.face
        self.http, self.root = host, root

    async def renew(self) -> None:
        """Delete all nodes but that of the honest client, and make those anew that all use."""
        after = None
        while True:
            page: Any = await self.broker.handle(ReadNodes(ADMIN, after))
            names = [entry.node.name for entry in page.entries]
            for name in names:
                if name != OWN:
                    await self.broker.handle(Delete(ADMIN, name))
            if not page.more:
                break
            after = names[-1]
        for name, settings in reversed(NODES.items()):
            await self._make(name, settings, "m0")

    async def make_own(self) -> None:
        """Make the queue of the honest client."""
        await self._make(OWN, {"queueing": True, "access_model": "whitelist"}, HONEST)

    async def _make(self, name: str, settings: dict[str, Any], owner: str) -> None:
        owners = (Jid(f"{owner}@{SERVICE}"),)
        reply = await self.broker.handle(Declare(ADMIN, NodeName(name), Settings(settings), owners))
        assert not isinstance(reply, Refused), reply

    async def quiet(self) -> None:
        """Wait until the broker has answered all."""
        await self.broker.settled()

    def left_over(self) -> list[str]:
        """Return what is counted or kept although nothing is under way any more."""
        admission = self.broker.admission
        lists = self.http.listener.connections, self.faces.stomp.listener.connections
        counts = {
            "connections": sum(one.peer not in OWN_PEERS for each in lists for one in each),
            "requests": admission.count,
            "bytes": admission.byte_count,
            "reads": admission.reads,
            "accounts that wait": admission.lines,
            "bytes kept for clients": KEPT.size,
        }
        return [f"{count} {what} are left" for what, count in counts.items() if count]


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[House]:
    """Serve from a store in the folder."""
    store = SqliteStore(folder / "fuzz.db")
    async with AsyncExitStack() as ends:
        side = Side(store, Faces)
        await side.begin()
        ends.push_async_callback(side.end)
        # no power is lost here
        await store.connection.run(lambda c: c.execute("PRAGMA synchronous = OFF").fetchall())
        faces: Faces = side.face
        doors: list[Any] = [RestDoor([profile("/rest"), hornetq("/hornetq")]), JsonDoor()]
        doors.append(StompDoor("/stomp", (), lambda _peer: True))
        for door in doors:
            door.lead_to(faces.all)
        logins = Logins(faces.accounts, time.time, b"seed")
        service = faces.accounts.principals.service(Jid(SERVICE))
        monitor = Monitor(service, version="0", logins=logins)
        monitor.at_work(side.broker, [face.traffic for face in faces.all])
        host = HttpHost([*doors, monitor], BOUNDS)
        place = Place("127.0.0.1", 0)
        ((address, port),) = await ends.enter_async_context(host.serving([place]))
        await until(lambda: all((faces.stomp.is_serving, faces.rest.is_serving, faces.grpc.is_up)))
        house = House(side, host, f"http://{address}:{port}/rest")
        await house.make_own()
        await house.renew()
        yield house


FINISH: Final = 60.0
"""Seconds for all items of the honest client to come at the end."""
OWN_ITEM: Final = re.compile(rb"item \d+ \xc3\xa4 <&>\r\n")

# The honest client: publishes what has never been there, takes it, compares it, and settles it.


class HonestConnection(Protocol):
    """How an honest client publishes and takes over a protocol."""

    async def put(self, body: bytes) -> None:
        """Publish a body, which is confirmed."""

    async def get(self) -> bytes:
        """Take the next item, and settle it; return its body."""


class Honest:
    """Does its work beside everything else. `waits` are the seconds that each round has taken."""

    def __init__(self, connection: HonestConnection) -> None:
        self._connection, self._number = connection, 0
        self.waits: list[float] = []

    async def work(self) -> None:
        """Publish two bodies, take them, and compare.

        Raises:
            LostError: one does not come, or is another one.

        """
        begun = time.monotonic()
        bodies = [b"item %d \xc3\xa4 <&>\r\n" % (self._number + more) for more in range(2)]
        self._number += 2
        try:
            async with asyncio.timeout(TIMEOUT):
                for body in bodies:
                    await self._connection.put(body)
                found = [await self._connection.get() for _ in bodies]
        except TimeoutError:
            raise LostError(f"no answer to the honest client at {bodies}") from None
        if found != bodies:
            raise LostError(f"the honest client published {bodies} and got {found}")
        self.waits.append(time.monotonic() - begun)


class OverStomp:
    """A connection of STOMP."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    async def to(cls, house: House) -> OverStomp:
        """Log in and subscribe."""
        connection = await Connection.to(house.faces.stomp)
        assert (await connection.connect(HONEST)).command == "CONNECTED"
        more = {"ack": "client-individual", "prefetch_count": 2}
        answer = await connection.do("SUBSCRIBE", destination=f"/queue/{OWN}", id="s", **more)
        assert answer.command == "RECEIPT", answer
        return cls(connection)

    async def put(self, body: bytes) -> None:
        answer = await self._connection.do("SEND", body, destination=f"/queue/{OWN}")
        if answer is None or answer.command != "RECEIPT":
            raise LostError(f"the honest client's SEND was answered {answer}")

    async def get(self) -> bytes:
        message = await self._connection.hear()
        if message is None or message.command != "MESSAGE":
            raise LostError(f"the honest client got {message} instead of a message")
        answer = await self._connection.do("ACK", id=message.headers["ack"])
        if answer is None or answer.command != "RECEIPT":
            raise LostError(f"the honest client's ACK was answered {answer}")
        body: bytes = message.body
        return body


class AtCurb(Honest):
    """Works for the only queue of curb, where nobody logs in: others may take its items, and it takes theirs.

    `taken` is told what others have heard.
    """

    def __init__(self, client: RawClient) -> None:
        super().__init__(self)
        self._client = client
        self._sent: set[bytes] = set()

    @classmethod
    async def to(cls, port: int) -> AtCurb:
        """Connect and subscribe."""
        client = await RawClient.to(port)
        client.subscribe()
        return cls(client)

    async def put(self, body: bytes) -> None:
        self._client.frame("SEND", body, destination=".", receipt="r")
        self._sent.add(body)
        while (frame := await self._client.hear()).command == "MESSAGE":
            self._settle(frame)
        if frame.command != "RECEIPT":
            raise LostError(f"the honest client's SEND was answered {frame}")

    async def work(self) -> None:
        begun = time.monotonic()
        body = b"item %d \xc3\xa4 <&>\r\n" % self._number
        self._number += 1
        async with asyncio.timeout(TIMEOUT):
            await self.put(body)
        self.waits.append(time.monotonic() - begun)

    def taken(self, said: bytes) -> None:
        """Note that another client has got items of this one, which it may settle."""
        if self._sent:
            self._sent -= {one for one in self._sent if one + b"\0" in said}

    async def finish(self) -> None:
        """Take everything that is left.

        Raises:
            LostError: something is missing.

        """
        try:
            async with asyncio.timeout(FINISH):
                while self._sent:
                    self._settle(await self._client.hear())
        except TimeoutError:
            raise LostError(f"these have not come: {self._sent}") from None

    def _settle(self, frame: Frame) -> None:
        if frame.body.startswith(b"item "):
            if frame.body not in self._sent and not OWN_ITEM.fullmatch(frame.body):
                raise LostError(f"{frame} is not what was sent")
            self._sent.discard(frame.body)
        self._client.frame("ACK", id=frame.headers["ack"])


class OverRest:
    """A client of REST."""

    def __init__(self, http: Any, post: str, poller: str) -> None:
        self._http, self._post, self._poller = http, post, poller

    @classmethod
    async def to(cls, house: House, ends: AsyncExitStack) -> OverRest:
        """Follow the links of the queue."""
        http = await ends.enter_async_context(client(house.root, HONEST))
        where = [await follow(http, f"/queues/{OWN}", rel) for rel in ("post-message", "poller")]
        return cls(http, *where)

    async def put(self, body: bytes) -> None:
        answer = await self._http.post(self._post, content=body)
        if answer.status_code not in {200, 201}:
            raise LostError(f"the honest client's message was answered {answer}")

    async def get(self) -> bytes:
        answer = await self._http.post(self._poller, headers={"Accept-Wait": "0.05"})
        if answer.status_code != 200:
            raise LostError(f"the honest client was answered {answer} instead of a message")
        done = await self._http.post(links(answer)["acknowledgement"], data={"acknowledge": "true"})
        if done.status_code != 204:
            raise LostError(f"the honest client's acknowledgement was answered {done}")
        body: bytes = answer.content
        return body


class OverGrpc:
    """A client of `google.pubsub.v1`, at the queue as the project `xmpp` has it."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        login = (("authorization", f"Bearer {token_of(HONEST)}"),)
        self._publisher = Stub(channel, PUBLISHER, login)
        self._subscriber = Stub(channel, SUBSCRIBER, login)

    async def put(self, body: bytes) -> None:
        await self._publisher.Publish(
            topic=f"projects/xmpp/topics/{OWN}", messages=[{"data": body}]
        )

    async def get(self) -> bytes:
        named = f"projects/xmpp/subscriptions/{OWN}"
        answer = await self._subscriber.Pull(subscription=named, max_messages=1)
        if not answer.received_messages:
            raise LostError("the honest client got no message")
        (one,) = answer.received_messages
        await self._subscriber.Acknowledge(subscription=named, ack_ids=[one.ack_id])
        body: bytes = one.message.data
        return body
