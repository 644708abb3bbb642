"""go-sendxmpp, unmodified: a script in a shell publishes, and a worker has the item."""

import asyncio

import pytest
from harness.clients.session import PUBSUB, SERVICE, session
from harness.machines.packaged import needs
from harness.patience import TIMEOUT
from harness.servers.live import JOBS, component
from harness.servers.tls import secure

from pubqueue_demo.prosody import Prosody

pytestmark = [pytest.mark.e2e, needs("go-sendxmpp")]
ITEM = "<item id='a1'><work xmlns='urn:example:work'/></item>"
WINDOW = """<options><x xmlns='jabber:x:data' type='submit'>
<field var='pubsub#queue_requests'><value>1</value></field></x></options>"""


async def say(server, folder, stanza):
    """Have the account etl say it."""
    words = ["--raw", "--no-tls-verify"]  # it does not log in without TLS
    words += ["-u", "etl@localhost", "-p", "secret", "-j", f"{server.host}:{server.c2s_port}"]
    process = await asyncio.create_subprocess_exec(
        *("go-sendxmpp", *words, "etl@localhost"),  # to whom a text would go
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
    )
    async with asyncio.timeout(TIMEOUT):
        shown, _ = await process.communicate(stanza.encode())
    assert process.returncode == 0, shown


async def test_what_a_script_publishes_goes_to_a_worker(tmp_path):
    async with Prosody(modules=("tls",)) as server:
        await secure(server)
        for name in ("etl", "bot"):
            await server.account(name, "secret")
        async with component(server, tmp_path, JOBS), session(server, "bot@localhost/one") as bot:
            subscribe = f"<subscribe node='jobs' jid='{bot.jid}'/>{WINDOW}"
            answer = await bot.ask("set", f"<pubsub xmlns='{PUBSUB}'>{subscribe}</pubsub>")
            assert answer.get("type") == "result"
            publish = f"<pubsub xmlns='{PUBSUB}'><publish node='jobs'>{ITEM}</publish></pubsub>"
            stanza = f"<iq type='set' id='p1' to='{SERVICE}'>{publish}</iq>"
            await say(server, tmp_path, stanza)
            delivery = await bot.next_message()
            assert delivery.find(".//{*}item").get("id") == "a1"
