"""What no server sends (RFC 6120 11.1): the component gives up the connection, not its life."""

import pytest
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer

PING = (
    "<iq type='get' id='still-here' from='bee@localhost/x' to='queue.localhost'>"
    "<ping xmlns='urn:xmpp:ping'/></iq>"
)
HOSTILE = {
    "not well-formed": "<iq><pubsub></iq>",
    "an entity": "<message from='a@b' to='queue.localhost'><body>&lol;</body></message>",
    "a doctype": "<!DOCTYPE s [<!ENTITY lol 'lol'>]>",
    "a character that XML has not": "<message><body>\x01</body></message>",
}


@pytest.mark.covers("W-005")
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
async def test_the_component_survives(text, tmp_path):
    async with (
        StubServer(secret="a secret") as server,
        Program(write_config(tmp_path, server)) as program,
    ):
        await server.send(text)
        await server.reconnected(1)
        await server.send(PING)
        answer = await server.receive()
    assert answer.tree.get("id") == "still-here"
    assert "Traceback" not in program.log
