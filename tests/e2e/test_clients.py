"""Clients of others, unchanged, run a queue by its commands (XEP-0050): list, pause, peek, redrive.

profanity is a person's client in a terminal; slixmpp's plugins are what bots have.
"""

import asyncio
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
import slixmpp
from harness.clients.session import PUBSUB, SERVICE, condition, session
from harness.machines.packaged import needs
from harness.operators.terminal import terminal
from harness.patience import TIMEOUT
from harness.servers.live import component
from lxml import etree

from pubqueue_demo.prosody import Prosody

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]

OURS = "urn:x-pubqueue:0"
NODES = """
[[node]]
name = "jobs"
queueing = true
owners = ["boss@localhost"]
members = ["bee@localhost"]

[[node]]
name = "news"
owners = ["boss@localhost"]
"""
JOB = "<job xmlns='urn:example:job'>one</job>"
WINDOW = f"""
<pubsub xmlns='{PUBSUB}'><subscribe node='jobs' jid='bee@localhost/x'/>
<options><x xmlns='jabber:x:data' type='submit'><field var='pubsub#queue_requests'><value>1</value></field></x></options>
</pubsub>"""
REJECT = f"""
<pubsub xmlns='{PUBSUB}'><unlock xmlns='urn:xmpp:pubsub:queueing:0' node='jobs'><item id='a1'/></unlock>
<outcome xmlns='{OURS}' type='reject' reason='no such flight'/></pubsub>"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def prosody():
    async with Prosody() as server:
        for name in ("boss", "bee"):
            await server.account(name, "secret")
        yield server


@asynccontextmanager
async def a_dead_item(server, folder):
    """Serve a queue in which an item is dead, for it was rejected by the worker that is handed over."""
    async with component(server, folder, NODES), session(server, "bee@localhost/x") as bee:
        async with session(server, "boss@localhost/desk") as boss:
            assert condition(await boss.publish(a1=JOB)) == "result"
        assert condition(await bee.ask("set", WINDOW)) == "result"
        await bee.next_message()
        assert condition(await bee.ask("set", REJECT)) == "result"
        await bee.next_message()  # that it is unlocked
        yield bee


def in_profanity(server, home):
    """Do all of it as somebody at a terminal; what is typed is what docs/operations/chat-client.md says."""
    with terminal("profanity", home) as screen:
        screen.until("Type '/help' to show complete help.")
        screen.type(
            f"/connect boss@localhost server {server.host} port {server.c2s_port} tls disable"
        )
        screen.until("Enter password")
        screen.type("secret")
        screen.until("logged in successfully")
        screen.type("/clear")
        screen.type(f"/cmd list {SERVICE}")
        screen.until(f"{OURS}#pause", f"{OURS}#peek", f"{OURS}#queues", f"{OURS}#redrive")

        screen.type(f"/cmd exec {OURS}#queues {SERVICE}")
        screen.until(
            "Form title: Queues", "jobs: running: 0 waiting, 0 in flight, 1 dead"
        )  # no table
        screen.type("/win 1")

        screen.type(f"/cmd exec {OURS}#pause {SERVICE}")
        screen.until(
            "Form title: Pause a queue",
            "A paused queue delivers nothing",
            "[field1] Node (required)",
        )
        screen.type("/form submit")
        screen.until("jobs is paused.")

        screen.type(f"/cmd exec {OURS}#peek {SERVICE}")
        screen.until("Form title: Look at an item", "[field2] Items")
        screen.type("/form submit")
        screen.until("a1 (dead, failed 1 time, no such flight)")
        screen.type("/form submit")
        screen.until(
            "Last error: no such flight", "Payload: <job xmlns='urn:example:job'>one</job>"
        )

        screen.type("/win 1")
        screen.type(f"/cmd exec {OURS}#redrive {SERVICE}")
        screen.until("Form title: Redrive dead items")
        screen.type("/form submit")
        screen.until("1 dead item of jobs requeued.")

        screen.type(f"/cmd exec {OURS}#resume {SERVICE}")
        screen.until("Form title: Resume a paused queue")
        screen.type("/form submit")
        screen.until("jobs is resumed.")
        screen.type("/quit")


@needs("profanity")
async def test_a_person_with_profanity_runs_the_queue(prosody, tmp_path):
    async with a_dead_item(prosody, tmp_path) as bee:
        await asyncio.to_thread(in_profanity, prosody, tmp_path / "home")
        event = await bee.next_message()
        assert event.find(".//{*}item").get("id") == "a1"


# --- slixmpp -------------------------------------------------------------------------------------


@asynccontextmanager
async def slix(server, *plugins):
    """Log the owner in, with these plugins as slixmpp ships them."""
    client = slixmpp.ClientXMPP("boss@localhost/slix", "secret")
    client.enable_starttls = client.enable_direct_tls = False
    client.enable_plaintext = client.plugin["feature_mechanisms"].unencrypted_scram = True
    for plugin in plugins:
        client.register_plugin(plugin)
    started = asyncio.get_running_loop().create_future()
    client.add_event_handler("session_start", started.set_result)
    client.connect(server.host, server.c2s_port)
    async with asyncio.timeout(TIMEOUT):
        await started
        try:
            yield client
        finally:
            await client.disconnect()


class Running:
    """Executes commands as slixmpp's plugin does it: handlers are called with each answer."""

    def __init__(self, client):
        self._client = client
        self._answers = asyncio.Queue()

    async def start(self, command):
        session = {"next": self._took, "error": self._failed}
        self._client.plugin["xep_0050"].start_command(SERVICE, f"{OURS}#{command}", session)
        return await self._answer()

    async def submit(self, session, how="next", **values):
        """Fill in the form of a session, and go on or to the end."""
        form = session["form"]
        form["type"] = "submit"
        form.set_values(values)
        session["payload"] = form
        session["next"] = self._took
        plugin = self._client.plugin["xep_0050"]
        (plugin.complete_command if how == "complete" else plugin.continue_command)(session)
        return await self._answer()

    async def _answer(self):
        async with asyncio.timeout(TIMEOUT):
            iq, session = await self._answers.get()
        assert iq["type"] == "result", iq
        session["form"] = iq["command"]["form"]
        return iq["command"], session

    def _took(self, iq, session):
        self._answers.put_nowait((iq, session))

    def _failed(self, iq, session):
        self._answers.put_nowait((iq, session))


async def test_a_bot_with_slixmpp_runs_the_queue(prosody, tmp_path):
    async with a_dead_item(prosody, tmp_path) as bee, slix(prosody, "xep_0050") as client:
        offered = await client.plugin["xep_0050"].get_commands(SERVICE)
        names = {node: name for _, node, name in offered["disco_items"]["items"]}
        assert names[f"{OURS}#pause"] == "Pause a queue"

        running = Running(client)
        done, _ = await running.start("queues")
        rows = etree.fromstring(str(done)).findall(".//{jabber:x:data}item")
        cells = [[cell.findtext("{*}value") for cell in row] for row in rows]
        assert [row[:6] for row in cells] == [
            ["jobs", "running", "0", "0", "0", "1"],
            ["news", "no queue", "0", "0", "0", "0"],
        ]

        _, session = await running.start("pause")
        done, _ = await running.submit(session, "complete", node="jobs")
        assert done["notes"] == [("info", "jobs is paused.")]

        _, session = await running.start("peek")
        _, session = await running.submit(session, node="jobs", which="dead")
        done, session = await running.submit(session, "complete", item="a1")
        shown = done["form"].get_values()
        assert (shown["error"], shown["payload"]) == ("no such flight", JOB)

        _, session = await running.start("redrive")
        done, _ = await running.submit(session, "complete", node="jobs")
        assert done["notes"] == [("info", "1 dead item of jobs requeued.")]

        _, session = await running.start("resume")
        await running.submit(session, "complete", node="jobs")
        event = await bee.next_message()
        assert event.find(".//{*}item").get("id") == "a1"


async def test_a_reader_with_slixmpp_publishes_and_subscribes(prosody, tmp_path):
    async with component(prosody, tmp_path, NODES), slix(prosody, "xep_0060") as client:
        pubsub = client.plugin["xep_0060"]
        heard = asyncio.get_running_loop().create_future()
        client.add_event_handler("pubsub_publish", heard.set_result)
        await pubsub.subscribe(SERVICE, "news", bare=False)
        entry = slixmpp.xmlstream.ET.Element("{http://www.w3.org/2005/Atom}entry")
        await pubsub.publish(SERVICE, "news", id="n1", payload=entry)
        async with asyncio.timeout(TIMEOUT):
            message = await heard
        assert message["pubsub_event"]["items"]["item"]["id"] == "n1"
        items = await pubsub.get_items(SERVICE, "news")
        assert [item["id"] for item in items["pubsub"]["items"]] == ["n1"]
        await pubsub.retract(SERVICE, "news", "n1", notify=True)
        assert [*(await pubsub.get_items(SERVICE, "news"))["pubsub"]["items"]] == []
        await pubsub.purge(SERVICE, "news")
        subscriptions = await pubsub.get_subscriptions(SERVICE)
        assert [each["node"] for each in subscriptions["pubsub"]["subscriptions"]] == ["news"]
        await pubsub.unsubscribe(SERVICE, "news", bare=False)
