"""The plugin on clients of slixmpp's own, behind a real Prosody."""

import asyncio

import pytest
from harness.patience import TIMEOUT
from harness.stanzas.qos_script import read

from pubqueue_demo.prosody import Prosody
from pubqueue_xeps.client.xmpp_client import login, logout, make_client
from pubqueue_xeps.errors import NotConfirmed, Refused
from pubqueue_xeps.xep_qos import Level, Retry, Sent, qos

pytestmark = pytest.mark.e2e
ONE, TWO = "bot@localhost/one", "bot@localhost/two"


def made(prosody, jid, **settings):
    client = make_client(jid, "secret", host=prosody.host, port=prosody.c2s_port, tls="off")
    client.register_plugin("xep_qos", settings, module="pubqueue_xeps.xep_qos")
    return client


@pytest.fixture
async def clients(prosody):
    pair = [made(prosody, jid) for jid in (ONE, TWO)]
    for client in pair:
        await login(client)
    yield pair
    for client in pair:
        await logout(client)


def messages_of(client):
    queue = asyncio.Queue()
    client.add_event_handler("message", queue.put_nowait)
    return queue


@pytest.mark.parametrize("level", list(Level))
async def test_a_message_of_each_level_arrives_as_any_other(clients, level):
    one, two = clients
    arrived = messages_of(two)
    sent = await qos(one).send(TWO, one.make_message(TWO, f"hello {level}"), level)
    assert (sent.to, sent.level) == (TWO, level)
    async with asyncio.timeout(TIMEOUT):
        message = await arrived.get()
    assert (message["from"], message["to"], message["body"]) == (ONE, TWO, f"hello {level}")


async def test_an_element_is_sent_as_well_and_its_addresses_are_left_out(clients):
    one, two = clients
    arrived = messages_of(two)
    element = read("<message from='evil@localhost' to='x@y'><body>hello</body></message>")
    sent = await qos(one).send(TWO, element, "assured", msg_id="order 17")
    assert sent == Sent(TWO, "order 17", Level.ASSURED, 2)
    assert (await arrived.get())["from"] == ONE


async def test_a_client_offers_the_feature_until_the_plugin_is_gone(clients):
    one, two = clients
    info = await one.plugin["xep_0030"].get_info(TWO)
    assert "urn:xmpp:qos" in info["disco_info"]["features"]
    two.plugin.disable("xep_qos")
    with pytest.raises(Refused) as caught:
        await qos(one).send(TWO, one.make_message(TWO, "hello"))
    assert caught.value.condition == "feature-not-implemented"


async def test_a_handler_that_raises_changes_nothing(clients, caplog):
    one, two = clients

    def fail(_message):
        raise RuntimeError("of the test")

    two.add_event_handler("message", fail)
    two.exception = lambda _error: None
    for _ in range(2):
        await qos(one).send(TWO, one.make_message(TWO, "hello"))


@pytest.mark.usefixtures("clients")
async def test_a_message_of_a_stranger_is_not_kept(prosody):
    await prosody.account("mallory", "secret")
    stranger = made(prosody, "mallory@localhost/x")
    await login(stranger)
    with pytest.raises(Refused) as caught:
        await qos(stranger).send(ONE, stranger.make_message(ONE, "hello"))
    assert caught.value.condition == "not-allowed"
    await qos(stranger).send(ONE, stranger.make_message(ONE, "hello"), Level.ACKNOWLEDGED)
    await logout(stranger)


async def test_what_was_given_up_goes_on_in_the_next_session_and_the_events_tell(prosody, tmp_path):
    path, retry = tmp_path / "pending.db", Retry(first=0.5, attempts=1)
    one = made(prosody, ONE, pending=path, retry=retry, check=False)
    await login(one)
    with pytest.raises(NotConfirmed, match="was not confirmed after 1 sendings"):
        await qos(one).send(TWO, one.make_message(TWO, "hello"), msg_id="7")
    (pending,) = qos(one).pending()
    assert (pending.to, pending.msg_id, pending.step) == (TWO, "7", "assured")
    await logout(one)
    one.plugin.disable("xep_qos")

    two = made(prosody, TWO)
    arrived = messages_of(two)
    await login(two)
    again = made(prosody, ONE, pending=path, retry=Retry(first=3600, longest=3600))
    reported = asyncio.Queue()
    again.add_event_handler("qos_sent", reported.put_nowait)
    await login(again)
    async with asyncio.timeout(TIMEOUT):
        assert (await reported.get()).msg_id == "7"
        assert (await arrived.get())["body"] == "hello"
    assert not qos(again).pending()
    assert not qos(again).forget("7")
    for client in (again, two):
        await logout(client)
        client.plugin.disable("xep_qos")


async def test_stream_management_counts_the_stanzas_of_the_stream_alone():
    """A message that is handed on is none of the server's: a count above its own would end the stream."""
    async with Prosody(modules=("smacks",)) as server:
        await server.account("bot", "secret")
        one, two = made(server, ONE), made(server, TWO)
        two.register_plugin("xep_0198")
        arrived, ended, enabled = messages_of(two), [], asyncio.Event()
        two.add_event_handler("sm_enabled", lambda _: enabled.set())
        two.add_event_handler("stream_error", ended.append)
        for client in (one, two):
            await login(client)
        async with asyncio.timeout(TIMEOUT):
            await enabled.wait()
        for n in range(20):
            await qos(one).send(TWO, one.make_message(TWO, str(n)), Level.ACKNOWLEDGED)
            async with asyncio.timeout(TIMEOUT):
                assert (await arrived.get())["body"] == str(n)
        await two.plugin["xep_0030"].get_info("localhost")  # by then the server has read our counts
        assert not ended
        for client in (one, two):
            await logout(client)
