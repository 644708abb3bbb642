"""Who left while nobody could report it keeps nothing of its account, behind Prosody and ejabberd."""

from contextlib import AsyncExitStack

import pytest
from harness.clients.session import PUBSUB, SERVICE, condition, session
from harness.processes.program import Program, write_config
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import listener

from pubqueue_demo.prosody import Prosody

pytestmark = pytest.mark.e2e

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bee@localhost", "ant@localhost"]
[node.options]
"x-queueing#lock_timeout" = 3600
"x-queueing#backoff_min" = 0
"""
SUBSCRIBE = """<pubsub xmlns='{space}'><subscribe node='jobs' jid='{jid}'/><options><x xmlns='jabber:x:data' type='submit'>
<field var='pubsub#queue_requests'><value>1</value></field></x></options></pubsub>"""


async def subscribe(one, jid):
    answer = await one.ask("set", SUBSCRIBE.format(space=PUBSUB, jid=jid))
    assert condition(answer) == "result"


async def item(one):
    return [item.get("id") for item in (await one.next_message()).iter("{*}item")]


@pytest.mark.parametrize("kind", [Prosody, Ejabberd])
async def test_who_left_while_the_service_was_down_keeps_nothing_for_its_account(tmp_path, kind):
    """No presence tells of `twin`, and the lock lasts an hour."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(kind())
        for name in ("etl", "bee", "ant"):
            await server.account(name, "secret")
        program = await stack.enter_async_context(
            Program(write_config(tmp_path, listener(server), NODE))
        )
        etl = await stack.enter_async_context(session(server, "etl@localhost/desk"))
        ant = await stack.enter_async_context(session(server, "ant@localhost/y"))
        async with session(server, "bee@localhost/x") as bee:
            await bee.client.send("<presence/>")  # messages to the account go here
            async with session(server, "bee@localhost/twin") as twin:
                await subscribe(bee, "bee@localhost")
                for one in (twin, bee):
                    await one.client.send(f"<presence to='{SERVICE}'/>")
                assert condition(await etl.publish(a="<work/>")) == "result"
                assert await item(bee) == ["a"]
                await subscribe(ant, ant.jid)
                await program.stop()
            await program.start()
        assert await item(ant) == ["a"]
