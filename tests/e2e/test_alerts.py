"""Alerts behind both servers: a person and a room are told by a stock client's screen, once and once when it is over."""

import asyncio
import signal
import sqlite3
import threading
from contextlib import closing

import pytest
import pytest_asyncio
from aiohttp import web
from harness.clients.session import PUBSUB, condition, session
from harness.machines.packaged import needs
from harness.operators.at_a_terminal import Operator
from harness.operators.terminal import terminal
from harness.patience import TIMEOUT, until
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import component
from harness.servers.users import OwnService

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
                # bee stays: an item of a worker that is gone has no worker again
                await until(lambda: "alerts.refused" in program.log)
                operator = Operator(server, "boss")
                rows = (await operator.says("alerts", "--json")).rows
                (target,) = [row for row in rows if row["kind"] == "target"]
                assert (target["subject"], target["state"]) == (NOWHERE, "failing")
                examined = await operator.says("doctor")
                why = f"alerts: {NOWHERE} does not take alerts: there is no such room: create it first"
                assert examined.code == 1
                assert why in examined.out
                assert f"target={NOWHERE}" in program.log
                assert "there is no such room: create it first" in program.log
                assert program.log.count("event=alert.raised") == 1
                assert program.log.count("event=alert.over") == 1


# --- without XMPP --------------------------------------------------------------------------------

FULL = 2**53
"""More bytes than are free on any disk."""


def reported(store):
    """Return whether an alert is stored as reported."""
    with closing(sqlite3.connect(store)) as found:
        return found.execute("SELECT count(*) FROM alert WHERE reported > 0").fetchone()[0] == 1


async def test_a_service_without_xmpp_posts_to_a_webhook_from_a_reload_on(tmp_path):
    posted = asyncio.Queue()

    async def take(request):
        posted.put_nowait(await request.json())
        return web.Response(status=204)

    app = web.Application()
    app.router.add_post("/hook", take)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    (host, port), *_ = runner.addresses
    try:
        async with OwnService(tmp_path, "[stomp]\nlisten = '127.0.0.1:0'\n") as service:
            table = f"[alerts]\nwebhooks = ['http://{host}:{port}/hook']\nwebhook_networks = ['127.0.0.0/8']\n"
            service.write(f"{service.path.read_text()}\n{table}disk_free = {FULL}\nevery = 0.1\n")
            service.process.send_signal(signal.SIGHUP)
            async with asyncio.timeout(TIMEOUT):
                body = await posted.get()
            (alert,) = body["alerts"]
            assert (alert["state"], alert["kind"], alert["subject"]) == (
                "raised",
                "disk",
                str(tmp_path),
            )
            await until(lambda: reported(tmp_path / "pubqueue.db"))
            await service.stop()
            await service.start()  # it is not sent again
            text = service.path.read_text().replace(f"disk_free = {FULL}", "disk_free = 1")
            service.write(text.replace("every", "over_after = 0.1\nevery"))
            service.process.send_signal(signal.SIGHUP)
            async with asyncio.timeout(TIMEOUT):
                body = await posted.get()
            assert [one["state"] for one in body["alerts"]] == ["over"]
    finally:
        await runner.cleanup()
