"""Two instances on one store, behind ejabberd: what one that is killed has decided and not said, the other says."""

import signal
import sys
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path

import pytest
from harness.clients.session import PUBSUB, condition, session
from harness.databases.postgres import Postgres
from harness.processes import doomed
from harness.processes.program import Program, write_config
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import listener
from proof.faults_run.publisher import XmppPublisher
from proof.judge.history import History

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bee@localhost"]
[node.options]
"x-queueing#lock_timeout" = 3600
"""
BEE = "bee@localhost/x"
SUBSCRIBE = f"""<subscribe node='jobs' jid='{BEE}'/><options><x xmlns='jabber:x:data' type='submit'>
<field var='pubsub#queue_requests'><value>1000</value></field></x></options>"""
ITEMS = [f"i{number}" for number in range(40)]
KILLED = (sys.executable, "-I", Path(doomed.__file__), "answered", "1")


async def room():
    """There is room for every item."""


@pytest.mark.e2e
@pytest.mark.parametrize("kept", ["sqlite", "postgres"])
async def test_what_a_killed_instance_has_confirmed_and_not_handed_out_comes_from_the_other(
    tmp_path, kept
):
    async with AsyncExitStack() as stack:
        database = stack.enter_context(Postgres() if kept == "postgres" else nullcontext())
        store = database.address if database else tmp_path / "pubqueue.db"
        server = await stack.enter_async_context(Ejabberd())
        for name in ("etl", "bee"):
            await server.account(name, "secret")
        programs = []
        for name, command in (("lives", ()), ("dies", (KILLED,))):
            (tmp_path / name).mkdir()
            config = write_config(tmp_path / name, listener(server), NODE, store=store)
            programs.append(await stack.enter_async_context(Program(config, *command)))
        lives, dies = programs
        publisher = XmppPublisher(
            History(tmp_path / "etl.jsonl", "etl"),
            "etl@localhost/x",
            "secret",
            host=server.host,
            port=server.c2s_port,
            service=server.component,
        )
        bee = await stack.enter_async_context(session(server, BEE))
        answer = await bee.ask("set", f"<pubsub xmlns='{PUBSUB}'>{SUBSCRIBE}</pubsub>")
        assert condition(answer) == "result"
        await publisher.publish_all(ITEMS, room)  # ejabberd gives either a part of the stanzas
        assert await dies.ended() == -signal.SIGKILL
        given = set()
        while given != set(ITEMS):
            given |= {item.get("id") for item in (await bee.next_message()).iter("{*}item")}
    assert "event=instance.taken_over" in lives.log
