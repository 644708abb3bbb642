"""What the documentation prints does what it says: every configuration block of every page is used as printed."""

import asyncio
import json
import os
import shutil
import signal
import sys
import tomllib
from contextlib import asynccontextmanager

import pytest
from harness.clients.client import Client
from harness.documents.documented import (
    DOMAIN,
    ELSEWHERE,
    FOLLOWED,
    ROOT,
    DebiansEjabberd,
    DocumentedProsody,
    blocks,
)
from harness.patience import TIMEOUT
from harness.processes.program import Program

from pubqueue.config.loading import load
from pubqueue_demo.prosody import Prosody

pytestmark = pytest.mark.e2e
LUA, YAML, TOML = (
    [block for block in blocks(language) if language == "toml" or block.page not in ELSEWHERE]
    for language in ("lua", "yaml", "toml")
)
PYTHON = [
    block
    for block in blocks("python")
    if block.page not in FOLLOWED and "spark" not in block.page and block.page not in ELSEWHERE
]
PROGRAM = """
import runpy, sys
from pubqueue_xeps.client import xmpp_client as client

made = client.make_client


def make_client(jid, password, **more):
    told = {"host": sys.argv[2], "port": int(sys.argv[3]), "tls": "off", "ca_file": None}
    return made(jid, password, **more | told)


client.make_client = make_client
runpy.run_path(sys.argv[1], run_name="__main__")
"""
"""Runs a program of the documentation, and tells it where example.org is."""
PUBLISH = (
    "<iq type='set' id='i{0}' to='queue.example.org'><pubsub xmlns='http://jabber.org/protocol/pubsub'>"
    "<publish node='jobs'><item id='i{0}'><job xmlns='x'>{1}</job></item></publish></pubsub></iq>"
)
PAYLOADS, SIZE = 12, 60_000
"""At Prosody's default this takes more than a minute, at ejabberd's four."""
TOO_LONG = 30


def named(found):
    return [pytest.param(block, id=block.name) for block in found]


def test_there_are_blocks():
    assert {block.page for block in LUA} == {"docs/how-to/attach.md", "spark/README.md"}
    assert [block.name for block in YAML] == ["docs/how-to/attach.md-1"], (
        "Spark's commands are on top of it"
    )
    assert "docs/how-to/queue.md" in {block.page for block in TOML}


@pytest.mark.parametrize("block", named(TOML))
def test_the_service_takes_its_configuration(tmp_path, block):
    (tmp_path / "secret").write_text("geheim")
    for name in ("page-token", "page-admin-token"):
        (tmp_path / name).write_text(name * 3)
    # a part of a file is read behind what every file has
    must = "" if block.text.startswith("jid") else 'jid = "queue.example.org"\nsecret = "geheim"\n'
    text = must + block.text.replace("/etc/pubqueue", str(tmp_path))
    (tmp_path / "pubqueue.toml").write_text(text)
    read = load(tmp_path / "pubqueue.toml", {}, {})
    assert {node.name for node in read.node} == {
        node["name"] for node in tomllib.loads(block.text).get("node", ())
    }


@pytest.mark.parametrize("block", named(LUA))
async def test_prosody_has_no_complaint(block):
    async with DocumentedProsody(block) as server:
        checking = await asyncio.create_subprocess_exec(
            *(prosodyctl(), "--config", server.folder / "prosody.cfg.lua", "check", "config"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await checking.communicate()
    assert (checking.returncode, "All checks passed" in said.decode()) == (0, True), said.decode()


def prosodyctl():
    found = shutil.which("prosodyctl", path="/usr/bin:/usr/sbin:/usr/local/bin")
    assert found, "prosodyctl comes with Prosody"
    return found


@asynccontextmanager
async def serving(server, folder):
    """Serve the node jobs, to which etl publishes."""
    keys = {
        "jid": f"queue.{DOMAIN}",
        "secret": server.secret,
        "server": f"{server.host}:{server.component_port}",
        "store": f"sqlite:///{folder}/pubqueue.db",
    }
    node = (
        f'[[node]]\nname = "jobs"\nqueueing = true\npublishers = ["etl@{DOMAIN}", "bot@{DOMAIN}"]\n'
    )
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in keys.items()]
    (folder / "pubqueue.toml").write_text("".join(lines) + node)
    async with Program(folder / "pubqueue.toml") as program:
        yield program


DOCUMENTED = [(DocumentedProsody, block) for block in LUA]
DOCUMENTED += [(DebiansEjabberd, block) for block in YAML]


@pytest.mark.parametrize(
    ("kind", "block"),
    [pytest.param(kind, block, id=f"{kind.__name__}-{block.name}") for kind, block in DOCUMENTED],
)
async def test_an_account_that_publishes_much_is_not_slowed_down(tmp_path, kind, block):
    answers = asyncio.Queue()
    async with kind(block) as server:
        await server.account("etl", "secret", DOMAIN)
        async with serving(server, tmp_path):
            client = Client(f"etl@{DOMAIN}/x", answers.put_nowait)
            await client.log_in(server.host, server.c2s_port, "secret")
            async with asyncio.timeout(TOO_LONG):
                for number in range(PAYLOADS):
                    await client.send(PUBLISH.format(number, "x" * SIZE))
                for _ in range(PAYLOADS):
                    assert "result" in await answers.get()
            async with asyncio.timeout(TIMEOUT):
                await client.log_out()


SESSIONS = 15
"""Of one account at a time: more than the ten that Debian's ejabberd lets it have."""
PING = "<iq type='get' id='{0}' to='example.org'><ping xmlns='urn:xmpp:ping'/></iq>"


async def test_an_account_of_spark_has_a_session_for_each_task():
    """Who is one too many has its oldest session ended."""
    (block,) = YAML
    answers = asyncio.Queue()
    async with DebiansEjabberd(block) as server:
        await server.account("etl", "secret", DOMAIN)
        clients = [Client(f"etl@{DOMAIN}/{n}", answers.put_nowait) for n in range(SESSIONS)]
        async with asyncio.timeout(TIMEOUT):
            for client in clients:
                await client.log_in(server.host, server.c2s_port, "secret")
            for number, client in enumerate(clients):
                await client.send(PING.format(number))
            for _ in clients:
                assert "result" in await answers.get()
            for client in clients:
                await client.log_out()


@asynccontextmanager
async def documented(server, block, folder):
    """Run a program as it is printed; whatever it says on stderr shows, and it is killed if it does not end."""
    (folder / "program.py").write_text(block.text)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-Iuc", PROGRAM),
        *(folder / "program.py", server.host, str(server.c2s_port)),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ
        | {
            "PUBQUEUE_URL": f"xmpp://bot@{DOMAIN}/queue.{DOMAIN}?node=jobs",
            "PUBQUEUE_PASSWORD": "password",
        },
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("block", named(PYTHON))
async def test_a_program_does_its_work(tmp_path, block):
    """A worker is given an item, says something of it, and ends when it is asked to; anything else ends by itself."""
    async with Prosody(component=f"queue.{DOMAIN}", more_domains=(DOMAIN,)) as server:
        for name in ("bot", "etl"):
            await server.account(name, "password", DOMAIN)
        async with serving(server, tmp_path), documented(server, block, tmp_path) as process:
            if "Worker(" in block.text:
                await publish(server)
                said = await asyncio.wait_for(process.stdout.readline(), TIMEOUT)
                assert said.startswith(b"i1 ")
                process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), TIMEOUT) == 0


async def publish(server):
    """Publish an item as etl, and return when it is confirmed."""
    answers = asyncio.Queue()
    client = Client(f"etl@{DOMAIN}/x", answers.put_nowait)
    await client.log_in(server.host, server.c2s_port, "password")
    async with asyncio.timeout(TIMEOUT):
        await client.send(PUBLISH.format(1, ""))
        assert "result" in await answers.get()
        await client.log_out()


@pytest.mark.parametrize("page", FOLLOWED[1:])
async def test_a_page_is_followed_line_by_line(page):
    said = await followed("--here", ROOT / page)
    assert "from the beginning to the end" in said


async def test_the_first_five_minutes_begin_with_nothing():
    """All that is needed is installed anew, from where pip finds it."""
    said = await followed()
    steps = [line.partition(" s  ")[2] for line in said.splitlines() if " s  " in line]
    assert [step for step in steps if step.startswith("pip install")]
    assert steps[-1] == "from the beginning to the end"


async def followed(*arguments):
    """Run tools/five-minutes, and return what it printed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", ROOT / "tools" / "five-minutes", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()
