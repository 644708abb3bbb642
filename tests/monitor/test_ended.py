"""SIGTERM while clients are connected over HTTP: whatever they are at, the service ends in order."""

import asyncio
import ssl

from harness.clients.slow_reader import connect_slowly
from harness.patience import TIMEOUT
from harness.processes.program import Program, write_config
from harness.servers.live import JOBS
from harness.servers.stub_server import StubServer
from harness.servers.tls import certify

from pubqueue.loopback import free_ports

GET = b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n"


async def connect(port, first=b"", connected=None):
    reader, writer = await (connected or asyncio.open_connection("127.0.0.1", port))
    writer.write(first)
    return reader, writer


async def rest(reader):
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def test_clients_of_every_kind_do_not_hold_up_the_end(tmp_path):
    (port,) = free_ports(1)
    async with StubServer() as server, asyncio.timeout(TIMEOUT):
        async with Program(write_config(tmp_path, server, f'http = "{port}"\n{JOBS}')) as program:
            idle = await connect(port, GET % b"/healthz")
            assert await idle[0].readline() == b"HTTP/1.1 200 OK\r\n"
            silent = await connect(port)
            half = await connect(port, b"GET /healthz HTTP/1.1\r\nHos")
            body = await connect(
                port, b"POST /ui/login HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab"
            )
            slow = await connect(port, GET % b"/metrics", connect_slowly(port))
            assert await slow[0].readline() == b"HTTP/1.1 200 OK\r\n"
            slow[1].transport.pause_reading()
            slow[1].write(GET % b"/metrics" * 1_000)
            await program.stop()
        for reader, writer in (idle, silent, half, body):
            await rest(reader)
            writer.close()
        slow[1].transport.abort()
    assert "end.given_up" not in program.log


async def test_a_connection_in_its_handshake_does_not_delay_the_end(tmp_path):
    key, certificate = await certify(tmp_path, "localhost")
    (port,) = free_ports(1)
    more = f'http = "{port}"\nhttp_certificate = "{certificate}"\nhttp_key = "{key}"\n'
    async with StubServer() as server, asyncio.timeout(TIMEOUT):
        async with Program(write_config(tmp_path, server, more)) as program:
            silent = await connect(port)
            half = await connect(port, b"\x16\x03\x01\x02\x00\x01")
            context = ssl.create_default_context(cafile=certificate)
            reader, writer = await asyncio.open_connection("localhost", port, ssl=context)
            writer.write(GET % b"/healthz")  # it comes behind the others
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            await program.stop()
        await rest(reader)
        writer.close()
        for reader, writer in (silent, half):
            assert await rest(reader) == b""
            writer.close()
