"""A client of STOMP for tests, over a socket, by the codec of the service; and a face that it connects to."""

import asyncio
import json
from collections import deque
from contextlib import suppress

from faces.sides import NEWS, SHOPS
from harness.patience import until
from harness.servers.users import RIGHT, SERVICE, accounts_of, users_for

from pubqueue.faces.listener import Bounds, Place
from pubqueue.faces.stomp.codec import VERSIONS, Fault, Frame, FrameReader, Side, write
from pubqueue.faces.stomp.face import StompFace
from pubqueue.faces.stomp.settings import UNSENT, StompSettings

NAMES = ("etl", "bee", "ann", "eva", "slow", "eve")
BEATS = 600.0
"""Seconds: no test waits for a beat that is not about beats."""


def a_face(broker, tls=None, stomp=None, *, auto_creates=False, **bounds):
    """Return a face on a free port."""
    accounts = accounts_of(users_for("stomp", NAMES))
    face = StompFace(
        broker,
        accounts,
        [Place("127.0.0.1", 0, tls)],
        stomp or StompSettings(heart_beat=BEATS),
        bounds=Bounds(**({"unsent": UNSENT} | bounds)),
        auto_creates=auto_creates,
    )
    FACES.append(face)
    return face


MADE = []
"""Connections of this test, which `closed` closes."""
FACES = []
"""Faces of this test, which may have been killed."""


async def closed():
    """Close all connections."""
    made, faces = MADE.copy(), FACES.copy()
    MADE.clear()  # what one test leaves is no other's
    FACES.clear()
    for one in made:
        one.close()
        with suppress(OSError):
            await one.writer.wait_closed()
    for face in faces:
        await face.listener.stop()


class Connection:
    """A connection to a face: frames out, frames in."""

    def __init__(self, reader, writer, version="1.2"):
        self.reader, self.writer = reader, writer
        self.version = VERSIONS[version]
        self._frames = FrameReader(Side.SERVER)
        self._heard = deque()
        self._receipts = 0
        MADE.append(self)

    @classmethod
    async def to(cls, face, version="1.2", peer="127.0.0.1", **tls):
        if not face.listener.addresses:
            await face.enter(lambda: None)
        host, port = face.listener.addresses[0]
        local = (peer, 0) if peer != "127.0.0.1" else None
        return cls(*await asyncio.open_connection(host, port, local_addr=local, **tls), version)

    def write(self, data):
        self.writer.write(data)

    def say(self, command, body=b"", /, **headers):
        """Send a frame; `_` in a name is `-`."""
        named = {name.replace("_", "-"): f"{value}" for name, value in headers.items()}
        self.say_frame(Frame(command, named, body))

    def say_frame(self, frame):
        self.write(write(frame, self.version))

    async def hear(self):
        """Return the next frame, None at the end."""
        while not self._heard:
            if (event := self._frames.next_event()) is not None:
                assert not isinstance(event, Fault), event
                self._heard.append(event)
                continue
            data = await self.reader.read(1 << 16)
            if not data:
                return None
            self._frames.receive(data)
        return self._heard.popleft()

    async def connect(self, name="etl", passcode=RIGHT, **headers):
        """Log in, and return the answer."""
        accepted = {"accept_version": self.version.name} if self.version.name != "1.0" else {}
        self.say("CONNECT", **{"login": name, "passcode": passcode, **accepted, **headers})
        answer = await self.hear()
        if answer is not None and answer.command == "CONNECTED":
            self._frames.agree(self.version)
        return answer

    async def do(self, command, body=b"", /, **headers):
        """Send a frame with a receipt, and return the RECEIPT or the ERROR; messages are kept for `hear`."""
        self._receipts += 1
        name = f"r{self._receipts}"
        self.say(command, body, receipt=name, **headers)
        return await self.answer()

    async def answer(self):
        before = []
        while True:
            frame = await self.hear()
            if frame is None or frame.command != "MESSAGE":
                self._heard.extendleft(reversed(before))
                return frame
            before.append(frame)

    def close(self):
        self.writer.close()


class StompClient:
    """A client as the contract of faces has it. After an ERROR, which is an end, it connects anew."""

    def __init__(self, face, name, connection, address):
        self._face, self._name = face, name
        self.address = address
        self.bodies, self.waits = {}, {}
        self._items, self._answers = asyncio.Queue(), asyncio.Queue()
        self._acks = {}
        self._begin(connection)

    def _begin(self, connection):
        self.connection = connection
        self.hearing = asyncio.create_task(self._hear(connection))

    async def _hear(self, connection):
        while (frame := await connection.hear()) is not None:
            if frame.command != "MESSAGE":
                said = f"{frame.headers.get('message', '')}: {frame.body.decode()}"
                self._answers.put_nowait("" if frame.command == "RECEIPT" else said)
                continue
            item = frame.headers["item-id"]
            self.bodies[item] = frame.headers.get("content-type"), frame.body
            if "waited" in frame.headers:
                came = json.loads(frame.headers["waited"])
                self.waits[item] = frame.headers.get("woken"), came
            self._acks[item] = naming(connection.version.name, frame.headers)
            self._items.put_nowait(item)

    async def _ask(self, command, body=b"", /, **headers):
        self.connection.say(command, body, receipt="r", **headers)
        said = await self._answers.get()
        if said:
            await self.hearing
            self.connection.close()
            version = self.connection.version.name
            again = await connected(self._face, self._name, version=version)
            again.hearing.cancel()
            self._begin(again.connection)
        return said

    async def publish(self, node, item):
        kind = "topic" if node in {NEWS, SHOPS} else "queue"
        return await self._ask("SEND", b"text", destination=f"/{kind}/{node}", item_id=item)

    async def send(self, node, item, body, kind):
        more = {} if kind is None else {"content_type": kind}
        return await self._ask("SEND", body, destination=f"/queue/{node}", item_id=item, **more)

    async def subscribe(self, node, window):
        more = {"ack": "client-individual", "prefetch_count": window}
        return await self._ask("SUBSCRIBE", destination=f"/queue/{node}", id=node, **more)

    async def unsubscribe(self, node):
        return await self._ask("UNSUBSCRIBE", id=node)

    async def retract(self, node, item):
        return await self._ask("ACK", **self._acks.get(item, {"id": "none"}))

    async def item(self):
        return await self._items.get()

    def items(self):
        return [self._items.get_nowait() for _ in range(self._items.qsize())]

    async def leave(self):
        self.connection.say("DISCONNECT", receipt="r")
        assert await self._answers.get() == ""
        self.connection.close()

    async def breaks(self):
        self.connection.writer.transport.abort()
        await self._gone()

    async def _gone(self):
        await until(lambda: self._protocol() is None)

    def _protocol(self):
        for protocol in self._face.protocols:
            if protocol.address == self.address:
                return protocol
        return None

    def stop_reading(self):
        self._protocol().connection.pause_writing()

    def read_on(self):
        self._protocol().connection.resume_writing()


def naming(version, headers):
    """Return the headers that name the message with these headers in an ACK, as the version has it."""
    named = {
        "id": headers.get("ack"),
        "message-id": headers["message-id"],
        "subscription": headers["subscription"],
    }
    wanted = {"1.0": ("message-id",), "1.1": ("message-id", "subscription"), "1.2": ("id",)}
    return {name: named[name] for name in wanted[version]}


async def connected(face, name, passcode=RIGHT, peer="127.0.0.1", version="1.2"):
    """Return a client that has logged in, or what is said."""
    connection = await Connection.to(face, version, peer)
    answer = await connection.connect(name, passcode)
    if answer.command == "ERROR":
        connection.close()
        return f"{answer.headers['message']}: {answer.body.decode()}"
    address = f"{name}@{SERVICE}/{answer.headers['session']}"
    return StompClient(face, name, connection, address)
