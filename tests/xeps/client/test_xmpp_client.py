import asyncio
import socket

import pytest

from pubqueue_xeps.client.xmpp_client import LoginFailed, login, logout, make_client

pytestmark = pytest.mark.e2e


def client_of(server, password="secret", **settings):
    settings = {"host": server.host, "port": server.c2s_port, "tls": "off"} | settings
    return make_client("bot@localhost/one", password, **settings)


async def failure(client, **patience):
    with pytest.raises(LoginFailed) as caught:
        await login(client, **patience)
    assert not client.is_connected()
    assert not client.is_connecting()
    return str(caught.value)


async def test_the_right_password_starts_a_session_and_logout_ends_it(prosody):
    client = client_of(prosody)
    await login(client)
    assert client.boundjid.full == "bot@localhost/one"
    await logout(client)
    assert not client.is_connected()


async def test_a_client_can_log_in_again(prosody):
    client = client_of(prosody)
    await login(client)
    await logout(client)
    await login(client)
    await logout(client)


async def test_a_wrong_password_is_one_sentence(prosody):
    assert (
        await failure(client_of(prosody, "wrong"))
        == f"localhost at 127.0.0.1:{prosody.c2s_port} refused bot@localhost:"
        " wrong name or password."
    )


async def test_an_unreachable_server_fails_at_once():
    with socket.socket() as taken:  # bound, never listening
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        client = make_client("bot@localhost", "x", host="127.0.0.1", port=port, tls="off")
        message = await failure(client)
    assert message.startswith(f"localhost at 127.0.0.1:{port} cannot be reached: ")
    assert "Connect call failed" in message or "refused" in message


async def test_a_mute_server_fails_after_the_timeout():
    async def silent(reader, writer):
        await reader.read(-1)
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        client = make_client("bot@localhost", "x", host="127.0.0.1", port=port, tls="off")
        assert "started no session within 0.2 seconds" in await failure(client, timeout=0.2)


async def test_a_foreign_domain_is_one_sentence(prosody):
    client = make_client(
        "bot@elsewhere.test", "x", host=prosody.host, port=prosody.c2s_port, tls="off"
    )
    assert "ended the stream: host-unknown." in await failure(client)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"jid": "bot@x", "host": "192.0.2.1", "tls": "off"}, "TLS may be off only on a loopback"),
        ({"jid": "bot@example.org", "tls": "off"}, "TLS may be off only on a loopback"),
        ({"jid": "bot@x", "tls": "yes"}, "tls is 'yes'; it takes one of required, direct, off."),
        ({"jid": "bot@x", "tls": True}, "tls is True; it takes one of required, direct, off."),
        ({"jid": "localhost"}, "names no account"),
        ({"jid": "@@"}, "'@@' is not a JID."),
        ({"jid": "bot@x", "ca_file": "/nowhere.pem"}, "/nowhere.pem does not exist"),
        ({"jid": "bot@x", "ca_file": __file__}, "cannot be used"),
    ],
)
async def test_wrong_settings_are_refused_with_a_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        make_client(password="x", **arguments)
