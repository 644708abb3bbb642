"""Page, metrics and health over HTTPS: the certificate is read again on SIGHUP, and a broken one is logged while the service goes on."""

import asyncio
import os
import signal
import ssl
from contextlib import asynccontextmanager

import aiohttp
import pytest
from harness.operators.metrics_reader import Watcher
from harness.patience import TIMEOUT, wait_until
from harness.processes.program import Program, write_config
from harness.servers.live import JOBS
from harness.servers.stub_server import StubServer
from harness.servers.tls import certify
from harness.servers.users import table

from pubqueue.loopback import free_ports

EXPIRY = "pubqueue_certificate_expiry_timestamp_seconds"


@asynccontextmanager
async def trusting(port, certificate):
    """Ask as one who trusts this certificate, on a connection of their own that is kept for as long as a test takes."""
    trust = ssl.create_default_context(cafile=certificate)
    connector = aiohttp.TCPConnector(ssl=trust, keepalive_timeout=TIMEOUT)
    timeout = aiohttp.ClientTimeout(TIMEOUT)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        watcher = Watcher(port, session)
        watcher.place = f"https://localhost:{port}"
        yield watcher


def lines(program, event):
    return [line for line in program.log.splitlines() if f"event={event}" in line]


async def hang_up(program, event, count=1):
    """Send SIGHUP, and return the lines of the event when there are so many."""
    os.kill(program.pid, signal.SIGHUP)
    found = await asyncio.to_thread(
        wait_until, lambda: len(lines(program, event)) >= count and lines(program, event)
    )
    assert len(found) == count
    return found


async def test_a_certificate_is_read_again_on_sighup_and_a_broken_one_changes_nothing(tmp_path):
    key, certificate = await certify(tmp_path, "localhost")
    (port,) = free_ports(1)
    more = f'http = "localhost:{port}"\nhttp_certificate = "{certificate}"\nhttp_key = "{key}"\n'
    async with StubServer() as server:
        config = write_config(tmp_path, server, more + JOBS)
        async with Program(config) as program, trusting(port, certificate) as before:
            assert (await before.ready())[0] == 200
            assert "CN=localhost" in lines(program, "tls.loaded")[0]
            first = (await before.metrics())[EXPIRY, "http"]
            await certify(tmp_path, "localhost", "O=second", days=2)
            await hang_up(program, "tls.reloaded")
            async with trusting(port, certificate) as after:
                assert (await after.ready())[0] == 200
                assert (await before.ready())[0] == 200, "its connection was not dropped"
                found = await after.metrics()
                assert found["pubqueue_connections", "http"] == 2
                assert found[EXPIRY, "http"] > first > 0
                assert found["pubqueue_connections_refused_total", "http", "peer"] == 0
                key.write_text("rubbish")
                (said,) = await hang_up(program, "tls.refused")
                assert "level=error" in said
                assert (await after.ready())[0] == 200
            async with trusting(port, certificate) as later:
                assert (await later.ready())[0] == 200


async def test_while_it_waits_for_its_server_it_reads_the_certificate_again_and_the_settings_when_it_serves(
    tmp_path,
):
    key, certificate = await certify(tmp_path, "localhost")
    (port,) = free_ports(1)
    more = f'http = "localhost:{port}"\nhttp_certificate = "{certificate}"\nhttp_key = "{key}"\n'
    async with StubServer() as server:
        server.condition = "system-shutdown"  # one that passes
        server.secret = "another"
        program = Program(write_config(tmp_path, server, more))
        server.secret = "not yet"
        starting = asyncio.create_task(program.start())
        try:
            await asyncio.to_thread(wait_until, lambda: lines(program, "http.listening"))
            await certify(tmp_path, "localhost", "O=second")
            (said,) = await hang_up(program, "tls.reloaded")
            assert "O=second" in said
            assert not lines(program, "config.read")
            async with trusting(port, certificate) as watcher:
                assert (await watcher.ready())[0] == 503
                server.secret = "another"
                await starting
                assert (await watcher.ready())[0] == 200
            await asyncio.to_thread(wait_until, lambda: lines(program, "config.read"))
        finally:
            starting.cancel()
            await program.stop()


async def test_neither_an_untrusting_client_nor_one_without_tls_gets_an_answer(
    tmp_path,
):
    key, certificate = await certify(tmp_path, "localhost")
    (port,) = free_ports(1)
    more = f'http = "localhost:{port}"\nhttp_certificate = "{certificate}"\nhttp_key = "{key}"\n'
    async with StubServer() as server, Program(write_config(tmp_path, server, more)):
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await session.get(f"https://localhost:{port}/healthz")
            with pytest.raises(aiohttp.ClientError):
                await session.get(f"http://localhost:{port}/healthz")
        async with trusting(port, certificate) as watcher:
            assert await watcher.get("/healthz") == (200, "alive\n")
            found = await watcher.metrics()
            assert found["pubqueue_connections_refused_total", "handshake", "http"] >= 2


async def test_a_login_over_https_has_a_cookie_for_https_only(tmp_path):
    key, certificate = await certify(tmp_path, "localhost")
    (port,) = free_ports(1)
    token = "a-token-of-twenty-two-c"
    more = (
        f'http = "localhost:{port}"\nhttp_certificate = "{certificate}"\nhttp_key = "{key}"\n'
        f"{table('anna', token=token, roles=['viewer'])}"
    )
    async with StubServer() as server, Program(write_config(tmp_path, server, more)):
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=certificate))
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.post(
                f"https://localhost:{port}/ui/login",
                data={"password": token},
                allow_redirects=False,
            ) as answer,
        ):
            assert answer.status == 303
            assert "Secure" in answer.headers["Set-Cookie"]


@pytest.mark.parametrize(
    ("certificate", "said"),
    [
        ("nothing.pem", "http_certificate .*nothing.pem cannot be read: No such file"),
        ("localhost.key", "not a certificate and key in PEM format"),
    ],
)
async def test_a_certificate_that_cannot_be_used_is_one_sentence(tmp_path, certificate, said):
    key, _ = await certify(tmp_path, "localhost")
    lines = (
        f'http = "{free_ports(1)[0]}"',
        f'http_certificate = "{tmp_path / certificate}"',
        f'http_key = "{key}"',
    )
    async with StubServer() as server:
        program = Program(write_config(tmp_path, server, "\n".join(lines)))
        with pytest.raises(AssertionError, match=said):
            await program.start()
        assert await program.ended() == 2
