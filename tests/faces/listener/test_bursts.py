"""A burst of connections from one address holds up no other address: over the listener of every face, and counted, not timed."""

import asyncio
import socket
from contextlib import ExitStack, asynccontextmanager

import pytest
from faces.grpc import clients as grpc
from faces.listener.echoing import FREE, HOST, echoing
from faces.rest import clients as rest
from faces.sides import Side
from faces.stomp import clients as stomp
from harness.patience import TIMEOUT, until

from pubqueue.faces.grpc.front import PREFACE
from pubqueue.faces.listener import Bounds
from pubqueue.faces.listener.connection import ENTRIES, ClientConnection
from pubqueue.stores.sqlite.in_memory import Memory, MemoryStore

FLOODER, OTHER = "127.0.0.2", "127.0.0.3"
MANY = 12 * ENTRIES
FEW = 4 * ENTRIES
"""How many others may be read first: those that were before it, and two turns."""


@asynccontextmanager
async def with_side(make_face):
    side = Side(MemoryStore(Memory()), make_face)
    await side.begin()
    try:
        yield side
    finally:
        await side.end()


@asynccontextmanager
async def over_stomp():
    async with with_side(stomp.a_face) as side:
        await side.face.enter(lambda: None)
        yield side.face.listener.addresses[0][1], b"CONNECT\naccept-version:1.2\nhost:x\n\n\0"


@asynccontextmanager
async def over_http():
    async with with_side(rest.a_face) as side, rest.hosted(side.face) as root:
        port = int(root.rpartition(":")[2].partition("/")[0])
        yield port, b"GET /rest/queues/jobs HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def over_grpc():
    async with with_side(grpc.a_face) as side:
        await until(lambda: side.face.addresses)
        yield side.face.addresses[0][1], PREFACE + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@asynccontextmanager
async def over_any():
    async with echoing(FREE) as it:
        yield it.listener.addresses[0][1], b"hello\n"


@pytest.fixture
def sockets():
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def read(monkeypatch):
    """The addresses of those who are read, in their order."""
    enter, received, found = ClientConnection.enter, ClientConnection.data_received, []

    def entering(connection):
        found.append(connection.peer)
        enter(connection)

    def receiving(connection, data):
        before = len(found)
        received(connection, data)
        if not connection.waits and len(found) == before:
            found.append(connection.peer)

    monkeypatch.setattr(ClientConnection, "enter", entering)
    monkeypatch.setattr(ClientConnection, "data_received", receiving)
    return found


def connected(sockets, port, address, data):
    """Connect from this address, and send something, while the loop of the service does nothing."""
    client = sockets.enter_context(socket.socket())
    client.bind((address, 0))
    client.connect((HOST, port))
    client.sendall(data)
    return client


@pytest.mark.parametrize("over", [over_any, over_stomp, over_http, over_grpc])
async def test_a_burst_of_connections_from_one_address_holds_up_no_other(over, read, sockets):
    async with over() as (port, data):
        for _ in range(MANY):
            connected(sockets, port, FLOODER, data)
        other = connected(sockets, port, OTHER, data)
        other.settimeout(0)
        async with asyncio.timeout(TIMEOUT):
            assert await asyncio.get_running_loop().sock_recv(other, 9), "it has an answer"
        assert read.index(OTHER) <= FEW
        await until(lambda: read.count(FLOODER) >= MANY)


@pytest.mark.parametrize("over", [over_any, over_stomp, over_http])
async def test_a_burst_of_requests_on_open_connections_holds_up_no_other(over, read, sockets):
    async with over() as (port, data):
        addresses = [FLOODER] * MANY + [OTHER]
        clients = [connected(sockets, port, address, data[:1]) for address in addresses]
        await until(lambda: len(read) >= MANY + 1)
        read.clear()
        for client in clients:
            client.sendall(data[1:])
        await until(lambda: OTHER in read)
        assert read.index(OTHER) <= FEW
        await until(lambda: len(read) >= MANY + 1)


async def test_those_who_wait_to_begin_count_as_connections_and_the_rest_is_refused_at_once(
    sockets,
):
    bounds = Bounds(login=0, unread=0, connections=10 * ENTRIES, per_peer=8 * ENTRIES)

    async with echoing(bounds, busy=b"busy\n") as it:
        port = it.listener.addresses[0][1]
        for address in [FLOODER] * MANY + [OTHER]:
            connected(sockets, port, address, b"")
        await until(lambda: it.counts.open)
        assert it.counts.open == 8 * ENTRIES + 1
        assert len(it.made) < it.counts.open, "most of them have not begun"
        assert it.ended == {"peer": MANY - 8 * ENTRIES}
        await it.listener.stop()
        assert it.counts.open == 0
