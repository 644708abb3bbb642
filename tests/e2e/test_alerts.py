"""Alerts behind both servers: a person and a room are told by a stock client's screen, once and once when it is over."""

import asyncio
import json
import threading

import pytest
import pytest_asyncio
from harness.clients.session import PUBSUB, condition, session
from harness.machines.packaged import needs
from harness.operators.terminal import terminal
from harness.patience import TIMEOUT, until
from harness.processes.program import PUBQUEUE
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import component

from pubqueue_demo.prosody import Prosody

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

ROOMS = "rooms.localhost"
ROOM = f"ops@{ROOMS}"
NOWHERE = f"nowhere@{ROOMS}"
NODES = f"""
admins = ["boss@localhost"]

[[node]]
name = "jobs"
queueing = true
publishers = ["boss@localhost"]
members = ["bee@localhost"]

[alerts]
to = ["boss@localhost"]
rooms = ["{ROOM}", "{NOWHERE}"]
every = 0.1
over_after = 0.1

[[alerts.rule]]
no_workers = 0.1
"""
JOB = "<job xmlns='urn:example:job'>one</job>"
WINDOW = f"""
<pubsub xmlns='{PUBSUB}'><subscribe node='jobs' jid='bee@localhost/x'/>
<options><x xmlns='jabber:x:data' type='submit'><field var='pubsub#queue_requests'><value>1</value></field></x></options>
</pubsub>"""
RAISED, OVER = "ALERT jobs: no workers", "OVER jobs: no workers"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=[Prosody, Ejabberd])
async def server(request):
    async with request.param(rooms=ROOMS) as started:
        for name in ("boss", "bee"):
            await started.account(name, "secret")
        yield started


class Person:
    """Somebody with profanity in a room: `is_there` when the room is entered, `sees` when the alert is on the screen."""

    def __init__(self, server, home):
        self._server, self._home = server, home
        self.is_there, self.sees = threading.Event(), threading.Event()

    def watch(self):
        """Enter the room, and wait for both lines; then look at the message that came to the person alone."""
        host, port = self._server.host, self._server.c2s_port
        with terminal("profanity", self._home) as screen:
            screen.until("Type '/help' to show complete help.")
            screen.type(f"/connect boss@localhost server {host} port {port} tls disable")
            screen.until("Enter password")
            screen.type("secret")
            screen.until("logged in successfully")
            screen.type(f"/join {ROOM}")
            screen.until("Room locked")
            screen.type("/room accept")
            screen.until("Room unlocked")
            self.is_there.set()
            screen.until(f"pubqueue: queue.localhost: {RAISED}")
            self.sees.set()
            screen.until(f"pubqueue: queue.localhost: {OVER}")
            screen.type("/msg queue.localhost")
            screen.until(f"queue.localhost: {RAISED}", f"queue.localhost: {OVER}")
            screen.type("/quit")


async def alerts_of(server):
    """Return the alerts that the command shows an administrator."""
    words = {
        "PUBQUEUE_URL": f"xmpp://boss:secret@{server.host}:{server.c2s_port}/?tls=off&domain=localhost"
    }
    process = await asyncio.create_subprocess_exec(
        *(PUBQUEUE, "alerts", "--json"),
        stdout=asyncio.subprocess.PIPE,
        env=words,
    )
    shown, _ = await process.communicate()
    return [json.loads(line) for line in shown.splitlines()]


@needs("profanity")
async def test_a_person_and_a_room_are_told_once_and_once_when_it_is_over(server, tmp_path):
    (tmp_path / "service").mkdir()
    person = Person(server, tmp_path / "home")
    async with component(server, tmp_path / "service", NODES) as program:
        watching = asyncio.create_task(asyncio.to_thread(person.watch))
        async with asyncio.timeout(3 * TIMEOUT):
            await asyncio.to_thread(person.is_there.wait, TIMEOUT)
            async with session(server, "boss@localhost/desk") as boss:
                assert condition(await boss.publish(a1=JOB)) == "result"
            await asyncio.to_thread(person.sees.wait, TIMEOUT)
            async with session(server, "bee@localhost/x") as bee:
                assert condition(await bee.ask("set", WINDOW)) == "result"
                await watching
        await until(lambda: "alerts.refused" in program.log)
        assert f"target={NOWHERE}" in program.log
        assert "there is no such room: create it first" in program.log
        assert program.log.count("event=alert.raised") == 1
        assert program.log.count("event=alert.over") == 1
