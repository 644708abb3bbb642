"""Clients that send a part of what they have to say and close without reading, a thousand at each listener, harm nobody.

They are cut at any byte of a whole conversation, close or reset, and do not wait. Beside them a client of the same protocol works on. The
conversations are those of each protocol, and the same within TLS, at listeners of their own.
Afterwards nothing is logged as a fault, no connection and no descriptor is left, and the service ends as it should.
"""

import asyncio
import base64
import json
import os
import re
import select
import socket
import ssl
import struct
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from random import Random
from typing import NamedTuple

import aiohttp
import grpc
import pytest
from curb.curbs import CONNECT, Curb, RawClient
from faces.grpc.clients import PUBLISHER, SUBSCRIBER, Stub
from harness.patience import LOOK, TIMEOUT, until
from harness.servers.tls import certify
from harness.servers.users import RIGHT, OwnService, digest, table

from pubqueue.faces.grpc.transcoding import VERSION
from pubqueue.faces.stomp.codec import V12, Fault, Frame, FrameReader, Side, write
from pubqueue.loopback import free_ports

CLIENTS = 1_000
AT_ONCE = 8
STRAYS = 5
"""Of so many clients, one says what comes to every port."""
NAME = "localhost"
SEED = 148
OTHER = "a token of those who leave early, and long enough"
TOKEN = "a token of one who works beside all others"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
FACES = ["rest", "grpc", "stomp", "page"]
SETTLING = 30
"""Seconds after which nothing of a client that has gone may be left."""
UNDERSTOOD = 100
"""Of the clients, so many and more have published before they left."""
ROUNDS = 20
"""Of the honest client's work, at least."""

HELLO = bytes.fromhex("16030100a5010000a10303") + bytes(32) + bytes.fromhex("20") + bytes(129)
"""What a client of TLS says first."""
STRAY = (
    HELLO,
    b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    b"DISCONNECT\nreceipt:bye\n\n\0",
    b"\0" * 100,
    b"",
)
"""What comes to every port, whatever is spoken there."""
ANSWERED = 0.05
"""Seconds for an answer: what is not whole gets none."""
LEAVE = struct.pack("ii", 1, 0)
"""SO_LINGER of one who resets the connection."""


def frames(queue):
    """Return a conversation of STOMP: it publishes, gets a message, and ends with a receipt."""
    said = [
        Frame("SEND", {"destination": queue, "receipt": "1"}, b"of another"),
        Frame("SUBSCRIBE", {"destination": queue, "id": "s", "ack": "client-individual"}),
        Frame("DISCONNECT", {"receipt": "bye"}),
    ]
    return [write(frame, V12) for frame in said]


def login(name):
    return Frame(
        "CONNECT", {"accept-version": "1.2", "host": "x", "login": name, "passcode": RIGHT}
    )


def request(line, body=b"", **fields):
    lines = [f"{line} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {OTHER}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
    lines += [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([*lines, "", ""]).encode() + body


def masked(data):
    """Return a message of a client's WebSocket."""
    assert len(data) < 126
    return bytes([0x82, 0x80 | len(data), 0, 0, 0, 0]) + data


UPGRADE = request(
    "GET /stomp",
    Upgrade="websocket",
    Connection="Upgrade",
    Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==",
    Sec_WebSocket_Version=13,
    Sec_WebSocket_Protocol="v12.stomp",
)
MESSAGE = {"data": base64.b64encode(b"of another").decode()}
PUBLISH = json.dumps({"topic": "/topics/xmpp/others", "message": MESSAGE}).encode()
PULL = json.dumps({"subscription": "/subscriptions/xmpp/others"}).encode()
JSON = {"Content_Type": "application/json"}
CONNECT_BEE = write(login("bee"), V12)
FRAMES = frames("/queue/others")
SAID = {
    "stomp": [CONNECT_BEE, b"".join(FRAMES)],
    "web-socket": [UPGRADE, masked(CONNECT_BEE), b"".join(map(masked, FRAMES))],
    "http": [
        request("PUT /rest/queues/others"),
        request("GET /rest/queues/others"),
        request("POST /rest/queues/others/messages", b"of another", Content_Type="text/plain"),
        request("GET /metrics"),
        request("GET /api/v1/queues"),
        request("GET /ui/"),
    ],
    "json": [
        request(f"POST /{VERSION}/topics/publish", PUBLISH, **JSON),
        request(f"POST /{VERSION}/subscriptions/pull", PULL, **JSON),
    ],
    "curb": [CONNECT, b"".join(frames("."))],
}
"""Whole conversations, by the listener, in parts that wait for an answer; that of gRPC is one of its own client."""


def cut(parts, place):
    """Return the parts up to this byte."""
    for number, part in enumerate(parts):
        if place <= len(part):
            return [*parts[:number], part[:place]]
        place -= len(part)
    raise AssertionError("it is not that long")


class Leavers:
    """Clients of one port, cut at random places of what they have to say."""

    def __init__(self, port, said, private=None):
        self._port, self._said, self._private = port, said, private
        self._random = Random(SEED)
        self.gone = 0

    def _connected(self, number):
        """Return a connection from an address of its own, as a full address has to wait; what is no TLS comes without."""
        own = f"127.0.{1 + number // 250}.{1 + number % 250}"
        place = "127.0.0.1", self._port
        client = socket.create_connection(place, TIMEOUT, source_address=(own, 0))
        if self._private is None or number % STRAYS == 0:
            return client
        with client:
            return self._private.wrap_socket(client, server_hostname=NAME)

    def _one(self, number, parts, how):
        """Say all parts, and leave at once, or with an answer that is not read."""
        with self._connected(number) as client:
            with suppress(ConnectionError, ssl.SSLError):  # the service may be the first to close
                for part in parts[:-1]:
                    client.sendall(part)
                    client.recv(1 << 16)
                client.sendall(parts[-1])
                if number % 2:
                    select.select([client], [], [], ANSWERED)
                if how == "end":
                    client.shutdown(socket.SHUT_WR)
            if how == "reset":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LEAVE)

    async def run(self):
        numbers = iter(range(CLIENTS))

        async def some():
            for number in numbers:
                said = [self._random.choice(STRAY)] if number % STRAYS == 0 else self._said
                size = sum(map(len, said))
                # the whole of it, now and then: the end of a conversation is a place, too
                place = self._random.choice((size, self._random.randint(0, size)))
                how = self._random.choice(("close", "reset", "end"))
                await asyncio.to_thread(self._one, number, cut(said, place), how)
                self.gone += 1

        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(some())


async def beside(leavers, work):
    """Have an honest client work as long as the others come and go, and a few times more; return how often it did."""
    leaving = asyncio.create_task(leavers.run())
    rounds = 0
    while rounds < ROUNDS or not leaving.done():
        async with asyncio.timeout(TIMEOUT):
            await work(b"item %d" % rounds)
        rounds += 1
    await leaving
    assert leavers.gone == CLIENTS
    return rounds


# Honest clients: each returns what publishes one body, takes it and acknowledges it.


class Frames:
    """A client of STOMP over what `say` and `read` do: it works through its own queue."""

    def __init__(self, say, read):
        self._say, self._read = say, read
        self._frames = FrameReader(Side.SERVER)
        self._receipts = count()

    async def hear(self):
        while (event := self._frames.next_event()) is None:
            data = await self._read()
            assert data, "the service has ended the connection"
            self._frames.receive(data)
        assert not isinstance(event, Fault), event
        return event

    async def begin(self):
        await self._say(write(login("etl"), V12))
        assert (await self.hear()).command == "CONNECTED"
        self._frames.agree(V12)
        more = {"destination": "/queue/own", "id": "s", "ack": "client-individual"}
        await self._say(write(Frame("SUBSCRIBE", more), V12))

    async def work(self, body):
        wanted = {"receipt": f"{next(self._receipts)}", "destination": "/queue/own"}
        await self._say(write(Frame("SEND", wanted, body), V12))
        heard = {frame.command: frame for frame in [await self.hear(), await self.hear()]}
        assert heard["RECEIPT"].headers["receipt-id"] == wanted["receipt"]
        assert heard["MESSAGE"].body == body
        done = {"id": heard["MESSAGE"].headers["ack"], "receipt": "ack"}
        await self._say(write(Frame("ACK", done), V12))
        assert (await self.hear()).headers == {"receipt-id": "ack"}


async def by_stomp(places, ends):
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", places.ports["stomp"], **places.private("stomp.v12")
    )
    ends.callback(writer.transport.abort)

    async def say(data):
        writer.write(data)

    client = Frames(say, lambda: reader.read(1 << 16))
    await client.begin()
    return client.work


async def by_web_socket(places, ends):
    http = await ends.enter_async_context(aiohttp.ClientSession())
    root = f"http://127.0.0.1:{places.ports['web-socket']}/stomp"
    line = await ends.enter_async_context(http.ws_connect(root, protocols=["v12.stomp"]))

    async def read():
        data = (await line.receive()).data
        return data.encode() if isinstance(data, str) else data

    client = Frames(line.send_bytes, read)
    await client.begin()
    return client.work


async def by_http(places, ends):
    http = await ends.enter_async_context(places.session("http"))

    async with http.head("/rest/queues/own") as found:
        to, poller = (found.links[rel]["url"] for rel in ("post-message", "poller"))

    async def work(body):
        async with http.post(to, data=body) as made:
            assert made.status in {200, 201}, await made.text()
        async with http.post(poller, headers={"Accept-Wait": "5"}) as taken:
            assert (await taken.read(), taken.status) == (body, 200)
            done = taken.links["acknowledgement"]["url"]
        async with http.post(done, data={"acknowledge": "true"}) as answer:
            assert answer.status == 204, await answer.text()

    return work


async def by_json(places, ends):
    http = await ends.enter_async_context(places.session("json"))

    async def call(path, **said):
        async with http.post(f"/{VERSION}/{path}", json=said) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def work(body):
        data = base64.b64encode(body).decode()
        await call("topics/publish", topic="/topics/xmpp/own", message={"data": data})
        found = await call("subscriptions/pull", subscription="/subscriptions/xmpp/own")
        assert found["pubsubEvent"]["message"]["data"] == data
        done = {"subscription": "/subscriptions/xmpp/own", "ackId": [found["ackId"]]}
        await call("subscriptions/acknowledge", **done)

    return work


def grpc_work(channel, queue, token):
    metadata = (("authorization", f"Bearer {token}"),)
    publisher, subscriber = (Stub(channel, one, metadata) for one in (PUBLISHER, SUBSCRIBER))
    topic, subscription = f"projects/xmpp/topics/{queue}", f"projects/xmpp/subscriptions/{queue}"

    async def work(body):
        await publisher.Publish(topic=topic, messages=[{"data": body}])
        answer = await subscriber.Pull(subscription=subscription, max_messages=1)
        (one,) = answer.received_messages
        assert one.message.data == body
        await subscriber.Acknowledge(subscription=subscription, ack_ids=[one.ack_id])

    return work


async def by_grpc(places, ends):
    address = f"{NAME}:{places.ports['grpc']}"
    if places.trusted is None:
        channel = grpc.aio.insecure_channel(address)
    else:
        credentials = grpc.ssl_channel_credentials(places.trusted.read_bytes())
        channel = grpc.aio.secure_channel(address, credentials)
    return grpc_work(await ends.enter_async_context(channel), "own", TOKEN)


async def said_by_grpc(places):
    """Return what a client of gRPC sends to do its work once, in the parts that wait for an answer."""
    said = [b""]

    def heard(data):
        said[-1] += data

    def answered(_data):
        if said[-1]:
            said.append(b"")

    async def relay(reader, writer, note):
        while data := await reader.read(1 << 16):
            note(data)
            writer.write(data)

    async def connected(reader, writer):
        other_reader, other_writer = await asyncio.open_connection(
            "127.0.0.1", places.ports["grpc"], **places.private("h2")
        )
        back = asyncio.create_task(relay(other_reader, writer, answered))
        with suppress(ConnectionError):
            await relay(reader, other_writer, heard)
        back.cancel()
        other_writer.transport.abort()
        writer.transport.abort()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        (_, between) = server.sockets[0].getsockname()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{between}") as channel:
            await grpc_work(channel, "others", OTHER)(b"of another")
    return [part for part in said if part]


PROTOCOLS = {"stomp": "stomp.v12", "http": "http/1.1", "json": "http/1.1", "grpc": "h2"}
"""What clients speak within TLS, as they name it there."""
WORKING = {
    "stomp": by_stomp,
    "web-socket": by_web_socket,
    "http": by_http,
    "json": by_json,
    "grpc": by_grpc,
}


def user(name, token):
    """Return the table of a user with this token, and the password that STOMP wants."""
    return table(name, token_sha256=[digest(token)], roles=["admin"], faces=FACES)


class Places(NamedTuple):
    """The ports of a service by protocol; and the certificate, if they speak TLS."""

    ports: dict[str, int]
    trusted: Path | None = None

    def context(self, *protocols):
        """Return what a client needs that speaks one of these protocols within TLS, None without."""
        if self.trusted is None:
            return None
        made = ssl.create_default_context(cafile=str(self.trusted))
        made.set_alpn_protocols(list(protocols))
        return made

    def private(self, *protocols):
        """Return what a connection of asyncio's is given."""
        context = self.context(*protocols)
        return {} if context is None else {"ssl": context, "server_hostname": NAME}

    def session(self, face):
        """Return a client of HTTP that may do everything."""
        root = f"{'http' if self.trusted is None else 'https'}://{NAME}:{self.ports[face]}"
        line = aiohttp.TCPConnector(ssl=self.context("http/1.1") or True)
        return aiohttp.ClientSession(root, headers=BEARER, connector=line)


@asynccontextmanager
async def serving(folder, *, private):
    """Run a service with all listeners; yield it, and where they are: within TLS, REST and JSON have listeners of their own."""
    stomp, http, rpc, rest, json_ = free_ports(5)
    trusted, files = None, ""
    if private:
        key, trusted = await certify(folder, NAME)
        files = f'tls_certificate = "{trusted}"\ntls_key = "{key}"'
    else:
        rest = json_ = http
    ports = {"stomp": stomp, "web-socket": http, "http": rest, "json": json_, "grpc": rpc}
    bee = user("bee", OTHER)
    tables = f"""
[stomp]
listen{"_tls" if private else ""} = "127.0.0.1:{stomp}"
web_socket = "/stomp"
{files}
[rest]
listen = "127.0.0.1:{rest}"
{files}
[grpc]
listen = "127.0.0.1:{rpc}"
json = "127.0.0.1:{json_}"
{files}
{user("etl", TOKEN)}{bee}"""
    async with OwnService(folder, tables, top=f'http = "127.0.0.1:{http}"') as service:
        yield service, Places(ports, trusted), f"http://127.0.0.1:{http}"


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


KEPT = re.compile(r'^pubqueue_queue_(depth|in_flight)\{node="others"\} (\d+)', re.MULTILINE)
OPEN = re.compile(r'^pubqueue_connections\{face="(\w+)"\} (\d+)', re.MULTILINE)


@pytest.mark.parametrize("face", WORKING)
async def test_clients_that_close_early_harm_nobody(tmp_path, face):
    await many_leave(tmp_path, face, private=False)


@pytest.mark.parametrize("face", PROTOCOLS)
async def test_clients_that_close_early_harm_nobody_within_tls(tmp_path, face):
    await many_leave(tmp_path, face, private=True)


async def many_leave(folder, face, *, private):
    """Have many clients leave early while one works on, and see that nothing of them is left."""
    async with AsyncExitStack() as ends:
        service, places, root = await ends.enter_async_context(serving(folder, private=private))
        operator = await ends.enter_async_context(aiohttp.ClientSession(root, headers=BEARER))
        rest = await ends.enter_async_context(places.session("http"))

        async def made(path):
            async with rest.put(path) as answer:
                return answer.status == 201

        for queue in ("own", "others"):
            await until(lambda path=f"/rest/queues/{queue}": made(path), every=LOOK)

        async def found(shown):
            async with operator.get("/metrics") as answer:
                assert answer.status == 200
                return dict(shown.findall(await answer.text()))

        work = await WORKING[face](places, ends)
        await work(b"first")
        said = SAID[face] if face in SAID else await said_by_grpc(places)
        before, held = await found(OPEN), descriptors(service.pid)
        assert sum(map(int, before.values())) >= 1
        leavers = Leavers(places.ports[face], said, places.context(PROTOCOLS.get(face, "")))
        await beside(leavers, work)

        async def more_than_before():
            """Return the counts that have risen; idle connections of this test may have ended since."""
            now = await found(OPEN)
            return {one: now[one] for one in now if int(now[one]) > int(before.get(one, 0))}

        async def is_as_before():
            return not await more_than_before() and descriptors(service.pid) <= held

        with suppress(TimeoutError):
            await until(is_as_before, every=LOOK, within=SETTLING)
        assert await more_than_before() == {}
        assert descriptors(service.pid) <= held
        assert sum(map(int, (await found(KEPT)).values())) > UNDERSTOOD
    assert "Traceback" not in service.log
    assert [line for line in service.log.splitlines() if "level=error" in line] == []


async def test_clients_that_close_early_harm_nobody_at_curb(tmp_path, capfd):
    async with Curb(tmp_path / "journal", cap="16MiB") as curb:
        line = await RawClient.to(curb.port)
        line.subscribe()
        held = descriptors(curb.process.pid)

        async def work(body):
            """Publish, and take what comes until this comes: what others publish is in the same queue, and they may have it first."""
            line.frame("SEND", body, destination=".", receipt="r")
            wanted = {"RECEIPT", body}
            while wanted:
                heard = await line.hear()
                wanted -= {heard.command, heard.body}
                if heard.command == "MESSAGE":
                    line.frame("ACK", id=heard.headers["ack"])

        await beside(Leavers(curb.port, SAID["curb"]), work)
        await until(lambda: descriptors(curb.process.pid) <= held, every=LOOK)
        await line.close()
    assert capfd.readouterr().err == ""
