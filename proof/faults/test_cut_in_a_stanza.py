"""The stream is cut in the middle of a stanza, of the server's or of ours: nothing confirmed is lost."""

import random

import pytest
from harness.clients.crowd import ETL, PUBSUB, SERVICE, crowd
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer
from harness.stores.recount import recount

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["ant@localhost", "bee@localhost"]
[node.options]
"x-queueing#backoff_min" = 0
"x-queueing#max_failures" = 1000
"x-queueing#dedup_window" = 3600
"""
ITEMS = [f"i{number}" for number in range(300)]
BEES = {"ant@localhost/x": 3, "bee@localhost/x": 5}
CUTS = 8
PUBLISH = (
    f"<iq type='set' id='half' from='{ETL}' to='{SERVICE}'><pubsub xmlns='{PUBSUB}'>"
    "<publish node='jobs'><item id='half'><job xmlns='urn:x' a='&lt;'><![CDATA[b]]>c</job></item>"
    "</publish></pubsub></iq>"
)


async def cut_what_the_server_says(server, chance):
    """Half of a stanza comes in, and then the end."""
    await server.send(PUBLISH[: chance.randrange(1, len(PUBLISH))])
    await server.drop()


async def cut_what_the_component_says(server, chance):
    """Half of a stanza gets out: it believes to have said all of it, and had committed it before."""
    accepted = server.accepted
    server.drop_after(chance.randrange(500, 3000))
    await server.reconnected(accepted)


@pytest.mark.covers("W-005")
@pytest.mark.parametrize("cut", [cut_what_the_server_says, cut_what_the_component_says])
async def test_cut_in_a_stanza(cut, tmp_path):
    chance = random.Random(7)
    async with (
        StubServer(secret="a secret") as server,
        crowd(server) as people,
        Program(write_config(tmp_path, server, NODE)) as program,
    ):
        publishing = people.spawn(publish(people))
        for number in range(1, CUTS + 1):
            await begin_anew(people)
            await cut(server, chance)
            await server.reconnected(number)
        await begin_anew(people)
        await publishing
        await people.all_done()
        await program.stop()
    assert program.log.count("event=stream.down") == CUTS
    assert "Traceback" not in program.log
    found = recount(tmp_path / "pubqueue.db")
    people.ledger.compare(found)
    assert people.ledger.confirmed == set(ITEMS)
    assert found.items == {}  # nor was anything made of half a stanza


async def publish(people):
    for item in ITEMS:
        await people.publish_until_confirmed(item)


async def begin_anew(people):
    """Join as new sessions, which frees what was on its way; ask again what was not answered."""
    await people.ask_again()
    for bee, window in BEES.items():
        await people.leave(bee)
        await people.join(bee, window)
