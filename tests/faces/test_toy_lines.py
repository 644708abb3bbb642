"""The toy face over sockets: TLS, logins, and clients that flood, do not read, or say nothing."""

import asyncio
import ssl
from base64 import b64encode
from contextlib import asynccontextmanager

import pytest
from faces.contract import stored
from faces.sides import Side
from harness.batches.queue_requests import a_queue
from harness.batches.toy_face import SERVICE, WORD
from harness.batches.toy_lines import MAX_LINE, UNDER_WAY, ServedLines
from harness.patience import LOOK, TIMEOUT, turns, until
from harness.servers.tls import certify
from harness.servers.users import RIGHT, accounts_of, users_for

from pubqueue.faces.listener import Bounds, Place, Tls, TlsFiles
from pubqueue.stores.sqlite.in_memory import Memory, MemoryStore

MAX_UNSENT = 1 << 20
"""Bytes that one client may cost here."""


class Client:
    """A client over a socket."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def hear(self):
        return (await self.reader.readline()).decode().rstrip("\n")

    async def ask(self, *lines):
        self.writer.write("".join(f"{line}\n" for line in lines).encode())
        return [await self.hear() for _ in lines]

    def close(self):
        self.writer.close()


class Served:
    """An instance with its clients; `side` has the broker and the face."""

    def __init__(self, side, trusted):
        self.side, self._trusted, self._clients = side, trusted, []

    async def connect(self):
        host, port = self.side.face.listener.addresses[0]
        client = Client(*await asyncio.open_connection(host, port, **self._trusted))
        self._clients.append(client)
        return client

    async def log_in(self, name):
        client = await self.connect()
        assert await client.ask(f"LOGIN {name} {RIGHT}") == ["OK"]
        return client

    def close(self):
        for client in self._clients:
            client.close()


@asynccontextmanager
async def serving(tls=None, trusted=None, **bounds):
    def face_of(broker):
        accounts = accounts_of(users_for(WORD))
        places = [Place("127.0.0.1", 0, tls)]
        return ServedLines(broker, accounts, places, service=SERVICE, bounds=Bounds(**bounds))

    side = Side(MemoryStore(Memory()), face_of)
    async with asyncio.timeout(TIMEOUT):
        await side.begin()
        await side.face.enter(lambda: None)
        await side.broker.handle(a_queue(publish_model="open"))
        served = Served(side, trusted or {})
        yield served
        served.close()
        await side.end()


@pytest.fixture
async def served():
    async with serving() as it:
        yield it


async def test_a_client_works_over_tls(tmp_path):
    key, certificate = await certify(tmp_path, "localhost")
    tls = Tls(TlsFiles(str(certificate), str(key)), face=WORD)
    context = ssl.create_default_context(cafile=certificate)
    async with serving(tls, {"ssl": context, "server_hostname": "localhost"}) as served:
        etl, bee = await served.log_in("etl"), await served.log_in("bee")
        assert await bee.ask("TAKE jobs 1") == ["OK"]
        body = b64encode(bytes(range(256))).decode()
        assert await etl.ask(f"SEND jobs a image/png {body}") == ["OK"]
        assert await bee.hear() == f"ITEM jobs a image/png {body}"
        assert await bee.ask("DONE jobs a") == ["OK"]
        assert await etl.ask("NEXT jobs 1 0") == ["OK"]


@pytest.mark.parametrize("first", ["PUT jobs a text", "LOGIN etl wrong", "LOGIN", "\0"])
async def test_a_client_that_does_not_log_in_gets_an_error_and_is_closed(served, first):
    client = await served.connect()
    assert await client.ask(first) == ["NO LOGIN"]
    assert await client.reader.read() == b""


async def test_a_silent_client_is_closed():
    async with serving(login=0.05) as served:
        client = await served.connect()
        assert await client.hear() == "NO LOGIN"


async def test_a_client_that_sends_byte_by_byte_has_no_more_time_to_log_in():
    async with serving(login=0.05) as served:
        client = await served.connect()
        hearing = asyncio.create_task(client.hear())
        await until(lambda: client.writer.write(b"L") or hearing.done(), every=LOOK)
        assert hearing.result() == "NO LOGIN"


async def test_a_client_that_sends_byte_by_byte_is_served_and_others_meanwhile(served):
    slow, bee = await served.log_in("etl"), await served.log_in("bee")
    for byte in b"PUT jobs a text":
        slow.writer.write(bytes([byte]))
        assert await bee.ask("NEXT jobs 1 0") == ["OK"]
    assert await slow.ask("") == ["OK"]
    assert await bee.ask("NEXT jobs 1 0") == ["BODY jobs a text"]


async def test_a_flood_waits_with_the_client_and_another_is_served(served):
    flood, bee = await served.log_in("etl"), await served.log_in("bee")
    count = 20 * UNDER_WAY
    most = 0

    async def look():
        nonlocal most
        while True:
            most = max(most, served.side.broker.waiting.requests)
            await turns(1)

    looking = asyncio.create_task(look())
    flood.writer.write(b"".join(b"PUT jobs %d text\n" % number for number in range(count)))
    assert await bee.ask("NEXT nowhere 1 0") == ["NO NODE_NOT_FOUND"]
    assert [await flood.hear() for _ in range(count)] == ["OK"] * count
    looking.cancel()
    assert most <= UNDER_WAY + 1


async def test_a_line_without_an_end_is_refused(served):
    client = await served.log_in("etl")
    client.writer.write(b"x" * (MAX_LINE + 1))
    assert await client.hear() == "NO LINE"
    assert await client.reader.read() == b""


async def test_a_client_that_does_not_read_costs_less_than_a_mebibyte_and_others_get_the_items(
    served,
):
    etl, slow = await served.log_in("etl"), await served.log_in("bee")
    body = b64encode(b"\0" * 30_000).decode()
    assert await slow.ask("TAKE jobs 1000") == ["OK"]
    slow.writer.transport.pause_reading()
    (line,) = [line for line in served.side.face.lines if line.address.startswith("bee@")]
    count = 0
    while not line.is_full:
        count += 1
        assert await etl.ask(f"SEND jobs {count} image/png {body}") == ["OK"]
    await served.side.broker.settled()
    assert sum(one.connection.unsent for one in served.side.face.protocols) < MAX_UNSENT
    assert await etl.ask(f"SEND jobs more image/png {body}") == ["OK"]
    other = await served.log_in("etl")
    assert await other.ask("TAKE jobs 1") == ["OK"]
    assert (await other.hear()).startswith("ITEM jobs more ")
    slow.writer.transport.resume_reading()
    for number in range(1, count + 1):
        assert (await slow.hear()).startswith(f"ITEM jobs {number} ")


async def test_what_was_read_is_answered_before_the_end(served):
    client = await served.log_in("etl")
    client.writer.write(b"".join(b"PUT jobs %d text\n" % number for number in range(10)))
    assert await client.hear() == "OK"
    await served.side.face.stop()
    assert (await client.reader.read()).decode().split() == ["OK"] * 9


async def test_a_line_that_breaks_has_failed_and_one_that_ends_in_order_has_not(served):
    etl = await served.log_in("etl")
    for number, farewell in enumerate(("", "BYE\n")):
        bee = await served.log_in("bee")
        assert await etl.ask(f"PUT jobs {number} text") == ["OK"]
        assert await bee.ask("NEXT jobs 1 0") == [f"BODY jobs {number} text"]
        assert await bee.hear() == f"OK {number}"
        bee.writer.write(farewell.encode())
        bee.close()
        assert await etl.ask(f"NEXT jobs 1 {TIMEOUT}") == [f"BODY jobs {number} text"]
        assert await etl.hear() == f"OK {number}"
        item = await stored(served.side, f"{number}")
        assert item.failed == (0 if farewell else 1)
