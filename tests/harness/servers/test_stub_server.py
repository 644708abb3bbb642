import pytest
from harness.servers.scripted_component import fake_component
from harness.servers.stub_server import StreamError, StubServer


def reply(text):
    return lambda _stanza: [text]


async def test_a_stanza_is_kept_as_sent_and_as_a_tree():
    raw = "<iq type='result'  id='a>1' from='queue.localhost' to='x@localhost'/>"
    async with StubServer() as server, fake_component(server.port, reply(raw)):
        await server.connected()
        await server.send("<iq type='get' id='a' from='x@localhost' to='queue.localhost'/>")
        stanza = await server.receive()
    assert stanza.raw == raw
    assert stanza.tree.get("id") == "a>1"


async def test_stanzas_in_one_piece_and_in_pieces_come_in_order():
    async with StubServer() as server, fake_component(server.port, many):
        await server.connected()
        await server.send("<message from='x@localhost' to='queue.")
        await server.send("localhost'><body>ü</body></message>")
        ids = [(await server.receive()).tree.get("id") for _ in range(3)]
    assert ids == ["0", "1", "2"]


def many(stanza):
    body = stanza.findtext("{jabber:component:accept}body")
    return [
        f"<message id='{n}' from='queue.localhost' to='x@localhost'><body>{body}</body></message>"
        for n in range(3)
    ]


async def test_a_wrong_secret_is_refused():
    async with StubServer() as server, fake_component(server.port, reply(""), secret="wrong"):
        await server.has_refused(1)
        assert not server.up


@pytest.mark.parametrize(
    "bad",
    [
        "<message to='x@localhost'/>",
        "<message from='elsewhere.localhost' to='x@localhost'/>",
        "<message from='queue.localhost'/>",
        "<message xmlns='jabber:client' from='queue.localhost' to='x@localhost'/>",
    ],
)
async def test_what_a_server_would_not_route_is_reported(bad):
    async with StubServer() as server, fake_component(server.port, reply(bad)):
        await server.connected()
        await server.send("<message from='x@localhost' to='queue.localhost'/>")
        with pytest.raises(StreamError):
            await server.receive()


async def test_a_dropped_component_may_come_back():
    async with StubServer() as server:
        async with fake_component(server.port, reply("")):
            await server.connected()
            await server.drop()
        async with fake_component(server.port, reply("")):
            await server.connected()
