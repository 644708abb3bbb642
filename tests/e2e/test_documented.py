"""What the documentation prints does what it says: every configuration block of every page is used as printed."""

import asyncio
import json
import shutil
import tomllib
from contextlib import asynccontextmanager

import pytest
from harness.client import Client
from harness.documented import DOMAIN, DocumentedEjabberd, DocumentedProsody, blocks
from harness.patience import PATIENCE
from harness.program import Program

from pubqueue.config import load

pytestmark = pytest.mark.e2e
LUA, YAML, TOML = ([*blocks(language)] for language in ("lua", "yaml", "toml"))
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
    assert {block.page for block in LUA} == {block.page for block in YAML}
    assert {block.page for block in LUA} == {"docs/how-to/attach.md", "spark/README.md"}
    assert "docs/how-to/queue.md" in {block.page for block in TOML}


@pytest.mark.parametrize("block", named(TOML))
def test_the_service_takes_its_configuration(tmp_path, block):
    (tmp_path / "secret").write_text("geheim")
    for name in ("page-token", "page-admin-token"):
        (tmp_path / name).write_text(name * 3)
    (tmp_path / "pubqueue.toml").write_text(block.text.replace("/etc/pubqueue", str(tmp_path)))
    read = load(tmp_path / "pubqueue.toml", {}, {})
    assert {node.name for node in read.node} == {
        n["name"] for n in tomllib.loads(block.text).get("node", ())
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
    node = f'[[node]]\nname = "jobs"\nqueueing = true\npublishers = ["etl@{DOMAIN}"]\n'
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in keys.items()]
    (folder / "pubqueue.toml").write_text("".join(lines) + node)
    async with Program(folder / "pubqueue.toml") as program:
        yield program


DOCUMENTED = [(DocumentedProsody, block) for block in LUA]
DOCUMENTED += [(DocumentedEjabberd, block) for block in YAML]


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
            async with asyncio.timeout(PATIENCE):
                await client.log_out()
