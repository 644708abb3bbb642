"""STOMP over WebSocket, on the host of the page: who may connect, frames in pieces, slow readers, and a page in a browser."""

import asyncio
import socket
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
import stomp
from faces.stomp.served.service import SERVED, StompService
from faces.stomp.test_stock_clients import Heard
from harness.documents.documented import ROOT, blocks
from harness.operators.browser import chromium
from harness.operators.page_server import page_server
from harness.patience import TIMEOUT, until
from harness.servers.users import RIGHT
from harness.stores.recount import recount

from pubqueue.faces.stomp.codec import V12, Frame, FrameReader, Side, write

ORIGIN = "https://app.example.org"
STOMP = f'{SERVED}\nweb_socket = "/stomp"\norigins = ["{ORIGIN}"]'
HTTP = 'http = "127.0.0.1:0"'


class Client:
    """A client that says frames, a message for each or in pieces."""

    def __init__(self, socket):
        self.socket, self._reader = socket, FrameReader(Side.SERVER)

    async def say(self, command, body=b"", pieces=1, **headers):
        frame = Frame(
            command, {key.replace("_", "-"): value for key, value in headers.items()}, body
        )
        data = write(frame, V12)
        size = -(-len(data) // pieces)
        for start in range(0, len(data), size):
            await self.socket.send_bytes(data[start : start + size])

    async def hear(self):
        """Return the next frame; None at the end."""
        while (event := self._reader.next_event()) is None:
            message = await asyncio.wait_for(self.socket.receive(), TIMEOUT)
            if message.type is aiohttp.WSMsgType.TEXT:
                self._reader.receive(message.data.encode())
            elif message.type is aiohttp.WSMsgType.BINARY:
                self._reader.receive(message.data)
            else:
                return None
        return event

    async def log_in(self, name="etl", passcode=RIGHT, **how):
        await self.say(
            "CONNECT", accept_version="1.2", host="x", login=name, passcode=passcode, **how
        )
        answer = await self.hear()
        self._reader.agree(V12)
        return answer


@pytest.fixture
async def service(tmp_path):
    async with StompService(tmp_path, STOMP, more=HTTP) as started:
        yield started


@asynccontextmanager
async def connected(service, *, origin=None, protocols=("v12.stomp", "v11.stomp")):
    headers = {} if origin is None else {"Origin": origin}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"http://{service.http}/stomp", protocols=protocols, headers=headers
        ) as made,
    ):
        yield Client(made)


async def test_a_client_sends_and_receives(service):  # N27
    async with connected(service) as client:
        assert client.socket.protocol == "v12.stomp"
        assert (await client.log_in()).command == "CONNECTED"
        await client.say("SEND", b"hello", destination="/queue/jobs", receipt="1")
        assert (await client.hear()).command == "RECEIPT"
        await client.say("SUBSCRIBE", destination="/queue/jobs", id="1", ack="client-individual")
        message = await client.hear()
        assert message.body == b"hello"
        await client.say("ACK", id=message.headers["ack"], receipt="2")
        assert (await client.hear()).headers["receipt-id"] == "2"
        await client.say("DISCONNECT", receipt="3")
        assert (await client.hear()).headers["receipt-id"] == "3"
        assert await client.hear() is None
        assert client.socket.close_code == 1000


async def test_in_mode_auto_what_was_received_does_not_come_again_after_the_end(service):  # S14
    names = [f"{number}" for number in range(9)]
    async with connected(service) as etl:
        await etl.log_in()
        async with connected(service) as bee:
            await bee.log_in("bee")
            await bee.say("SUBSCRIBE", destination="/queue/jobs", id="1", ack="auto", receipt="1")
            assert (await bee.hear()).command == "RECEIPT"
            for name in names:
                await etl.say("SEND", b"x" * 60_000, destination="/queue/jobs", item_id=name)
            assert [(await bee.hear()).headers["item-id"] for _ in names] == names
        await etl.say("SEND", b"x", destination="/queue/jobs", item_id="last", receipt="1")
        assert (await etl.hear()).command == "RECEIPT"
        await etl.say("SUBSCRIBE", destination="/queue/jobs", id="1", ack="client")
        assert (await etl.hear()).headers["item-id"] == "last"


async def test_frames_may_be_split_over_messages_and_bodies_have_any_bytes(service):  # N27
    body = bytes(range(256)) * 4
    async with connected(service) as client:
        assert (await client.log_in(pieces=7)).command == "CONNECTED"
        size = f"{len(body)}"
        headers = {"destination": "/queue/jobs", "receipt": "1", "content_length": size}
        await client.say("SEND", body, pieces=99, **headers)
        assert (await client.hear()).command == "RECEIPT"
        await client.say("SUBSCRIBE", destination="/queue/jobs", id="1")
        assert (await client.hear()).body == body


@pytest.mark.parametrize(
    ("origin", "enters"),
    [
        (ORIGIN, True),
        ("http://HOST", True),
        ("ws://HOST", True),
        ("http://HOST:1", False),
        ("http://127.0.0.1:1", False),
        ("https://evil.example", False),
        ("null", False),
    ],
)
async def test_only_pages_of_the_listed_origins_and_our_own_connect(service, origin, enters):  # N27
    origin = origin.replace("HOST", service.http)
    if enters:
        async with connected(service, origin=origin) as client:
            assert (await client.log_in()).command == "CONNECTED"
        return
    with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
        async with connected(service, origin=origin):
            pass


def work_with_stomp_py(address):
    """Send and take a message with stomp.py, which names the address that it calls as its origin; return the body."""
    heard = Heard()
    connection = stomp.WSConnection([address], ws_path="/stomp")
    connection.set_listener("", heard)
    connection.connect("etl", RIGHT, wait=True)
    connection.send("/queue/jobs", "hello")
    connection.subscribe("/queue/jobs", "s", "client-individual")
    frame = heard.messages.get(timeout=TIMEOUT)
    connection.ack(frame.headers["ack"], receipt="r")
    assert heard.receipts.get(timeout=TIMEOUT) == "r"
    connection.disconnect()
    return frame.body


async def test_stomp_py_connects_as_it_is(service):  # N25, N27
    host, _, port = service.http.rpartition(":")
    assert await asyncio.to_thread(work_with_stomp_py, (host, int(port))) == "hello"


async def test_a_wrong_passcode_is_an_error_and_the_end(service):
    async with connected(service) as client:
        answer = await client.log_in(passcode="wrong")
        assert (answer.command, answer.headers["message"]) == ("ERROR", "login refused")
        assert await client.hear() is None


async def test_a_message_that_is_too_large_ends_the_connection_and_no_other(service):  # N27
    async with connected(service) as flood, connected(service) as other:
        assert (await other.log_in()).command == "CONNECTED"
        await flood.socket.send_bytes(b"x" * (300 * 1024))
        assert await flood.hear() is None
        assert flood.socket.close_code == 1009
        await other.say("SEND", b"x", destination="/queue/jobs", receipt="1")
        assert (await other.hear()).command == "RECEIPT"


async def test_an_empty_message_ends_the_connection(service):  # N27
    """Thousands of these are as many bytes as one frame, and each would be handled."""
    async with connected(service) as client:
        await client.socket.send_bytes(b"")
        assert await client.hear() is None


FRAGMENT, PING = b"\0\x80abcd", b"\x89\x80abcd"
"""A fragment of a message, and a ping: both empty, and masked."""


async def raw(client, frames):
    """Send bytes of frames as they are."""
    with client.socket.get_extra_info("socket").dup() as beside:
        await asyncio.get_running_loop().sock_sendall(beside, frames)


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("frame", [FRAGMENT, PING])
async def test_bytes_without_a_whole_message_end_the_connection_and_no_other(
    service, frame, is_known
):
    async with connected(service) as flood, connected(service) as other:
        assert (await other.log_in()).command == "CONNECTED"
        if is_known:
            assert (await flood.log_in("bee")).command == "CONNECTED"
        else:
            await raw(flood, b"\1\x80abcd" + frame * 2_000)  # 12,006 bytes are few enough
            assert await flood.socket.ping() is None
        with suppress(ConnectionError):
            await raw(flood, b"\1\x80abcd" * is_known + frame * 60_000)
        assert await flood.hear() is None
        assert flood.socket.close_code in {1006, 1008}
        await other.say("SEND", b"x", destination="/queue/jobs", receipt="1")
        assert (await other.hear()).command == "RECEIPT"


async def test_many_large_messages_at_once_and_pings_between_are_taken(service):
    async with connected(service) as client:
        assert (await client.log_in()).command == "CONNECTED"
        for number in range(20):
            await client.socket.ping()
            await client.say(
                "SEND", b"x" * 60_000, 3, destination="/queue/jobs", receipt=f"{number}"
            )
        for number in range(20):
            assert (await client.hear()).headers["receipt-id"] == f"{number}"


async def test_a_plain_request_is_no_web_socket(service):
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{service.http}/stomp") as answer,
    ):
        assert answer.status == 400


BAD = b"\x83\x81\0\0\0\0x"
"""A frame of a kind that there is not, of a client."""
CLOSE = b"\x88\x82\0\0\0\0\x03\xe8"


@pytest.mark.parametrize("last", [BAD, CLOSE])
async def test_a_connection_that_breaks_while_it_is_ended_is_counted_no_more(service, last):
    """Else a stranger could use up all connections, one by one."""
    url = f"http://{service.http}/metrics"
    async with aiohttp.ClientSession() as session:

        async def are_open():
            async with session.get(url) as answer:
                text = await answer.text()
            return int(float(text.split('pubqueue_connections{face="stomp"} ')[1].split()[0]))

        for _ in range(5):
            reader, writer = await asyncio.open_connection(*service.http.split(":"))
            writer.write(
                b"GET /stomp HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            await reader.readuntil(b"\r\n\r\n")
            assert await are_open()
            writer.write(last)
            writer.transport.abort()
        async with connected(service) as other:
            assert (await other.log_in()).command == "CONNECTED"

        async def have_ended():
            return not await are_open()

        await until(have_ended, every=0.05, within=30)


async def test_a_protocol_that_is_unknown_is_not_written_into_the_log(service):
    async with connected(service, protocols=("nothing-of-ours",)) as client:
        assert client.socket.protocol is None
        assert (await client.log_in()).command == "CONNECTED"
    assert "nothing-of-ours" not in service.log


@pytest.mark.parametrize(
    "field", [b"Upgrade", b"Connection", b"Sec-WebSocket-Version", b"Sec-WebSocket-Key"]
)
async def test_a_request_with_a_field_that_is_not_ascii_is_refused(service, field):
    fields = {
        b"Host": b"x",
        b"Upgrade": b"websocket",
        b"Connection": b"Upgrade",
        b"Sec-WebSocket-Key": b"dGhlIHNhbXBsZSBub25jZQ==",
        b"Sec-WebSocket-Version": b"13",
    } | {field: b"\xff"}
    head = b"".join(b"%s: %s\r\n" % line for line in fields.items())
    reader, writer = await asyncio.open_connection(*service.http.split(":"))
    writer.write(b"GET /stomp HTTP/1.1\r\n%s\r\n" % head)
    assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
    writer.close()


async def test_what_a_client_held_that_breaks_off_is_with_another(service):
    async with connected(service) as first:
        await first.log_in()
        await first.say("SEND", b"a", destination="/queue/jobs", receipt="1")
        await first.hear()
        await first.say("SUBSCRIBE", destination="/queue/jobs", id="1", ack="client-individual")
        assert (await first.hear()).body == b"a"
        first.socket.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        async with connected(service) as second:
            await second.log_in("bee")
            await second.say(
                "SUBSCRIBE", destination="/queue/jobs", id="1", ack="client-individual"
            )
            assert (await second.hear()).body == b"a"


async def test_a_client_that_does_not_read_is_closed_and_delays_no_other(service):  # N27
    """It asks for more than sockets take, and reads none of it."""
    async with connected(service) as slow, connected(service) as etl:
        await slow.log_in("bee")
        await slow.say(
            "SUBSCRIBE", destination="/queue/jobs", id="1", ack="client", prefetch_count="1000"
        )
        await etl.log_in()
        for number in range(40):
            await etl.say("SEND", b"x" * 60_000, destination="/queue/jobs", receipt=f"{number}")
            assert (await etl.hear()).headers["receipt-id"] == f"{number}"


async def test_the_end_of_the_service_is_reported(tmp_path):
    async with StompService(tmp_path, STOMP, more=HTTP) as service, connected(service) as client:
        await client.log_in()
        await service.stop()
        answer = await client.hear()
        assert (answer.command, answer.headers["message"]) == ("ERROR", "try again later")
        assert await client.hear() is None


@pytest.mark.parametrize("how", ["web_socket without http", "plain text"])
async def test_what_cannot_be_served_safely_is_refused_at_the_start(tmp_path, how):
    more = 'http = "*:0"' if how == "plain text" else ""
    service = StompService(tmp_path, STOMP, more=more)
    with pytest.raises(AssertionError, match=r"stomp\.web_socket"):
        await service.start()
    await service.process.wait()


@pytest.mark.e2e
async def test_a_page_in_a_browser_publishes_and_works(tmp_path):  # N27
    (page,) = (block.text for block in blocks("html") if block.page == "docs/how-to/stomp.md")
    bundle = ROOT / "tests/node/node_modules/@stomp/stompjs/bundles/stomp.umd.min.js"
    async with page_server({"/stomp.umd.min.js": bundle}) as shown:
        stomp = f'{SERVED}\nweb_socket = "/stomp"\norigins = ["{shown.origin}"]'
        async with StompService(tmp_path, stomp, more=HTTP) as service, chromium() as browser:
            shown.text = page.replace("127.0.0.1:8080", service.http).replace("its password", RIGHT)
            visited = await browser.new_page()
            await visited.goto(shown.origin)
            await visited.wait_for_selector("#jobs:has-text('from a page')", timeout=TIMEOUT * 1000)
            await until(lambda: recount(tmp_path / "pubqueue.db").of("jobs") == {})
