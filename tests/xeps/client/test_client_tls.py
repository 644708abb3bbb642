"""Logging in with TLS, on a Prosody with a certificate that this test has made."""

import asyncio
import ssl

import pytest
import pytest_asyncio
from harness.servers.tls import certify, secure

from pubqueue_demo.prosody import Prosody, free_ports
from pubqueue_xeps.client.xmpp_client import LoginFailed, login, logout, make_client

pytestmark = pytest.mark.e2e


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def secured():
    """A server whose certificate is right, its authority, and its port for direct TLS."""
    async with Prosody(modules=("tls",)) as server:
        await server.account("bot", "secret")
        (direct,) = free_ports(1)
        certificate = await secure(server, f"c2s_direct_tls_ports = {{ {direct} }}\n")
        yield server, str(certificate), direct


def client_of(server, port, tls, ca_file):
    return make_client(
        "bot@localhost", "secret", host=server.host, port=port, tls=tls, ca_file=ca_file
    )


@pytest.mark.parametrize("tls", ["required", "direct"])
async def test_a_trusted_server_is_logged_in_to_under_tls(secured, tls):
    server, authority, direct = secured
    port = direct if tls == "direct" else server.c2s_port
    client = client_of(server, port, tls, authority)
    await login(client)
    assert isinstance(client.socket, ssl.SSLObject)
    await logout(client)


@pytest.mark.parametrize("tls", ["required", "direct"])
async def test_a_server_that_is_not_trusted_is_one_sentence(secured, tls):
    server, _, direct = secured
    port = direct if tls == "direct" else server.c2s_port
    client = client_of(server, port, tls, None)
    with pytest.raises(LoginFailed) as caught:
        await login(client)
    assert str(caught.value) == (
        f"TLS with localhost at 127.0.0.1:{port} failed: self-signed certificate."
    )
    assert not client.is_connected()


async def test_a_certificate_for_another_name_is_not_accepted(tmp_path):
    key, certificate = await certify(tmp_path, "elsewhere.test")
    identity = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    identity.load_cert_chain(certificate, key)
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=identity)
    async with server:
        port = server.sockets[0].getsockname()[1]
        client = make_client(
            "bot@localhost",
            "secret",
            host="127.0.0.1",
            port=port,
            tls="direct",
            ca_file=str(certificate),
        )
        with pytest.raises(LoginFailed, match="certificate is not valid for 'localhost'"):
            await login(client)
