"""`pubqueue migrate`, as its operator runs it: what it says, how it ends, and that the service goes on from the copy."""

import asyncio
import json
import os
import pty
import sqlite3
import subprocess
from contextlib import closing

import pytest
from harness.clients.crowd import ETL, JOB, OPTIONS, PUBSUB
from harness.databases.postgres import Postgres
from harness.patience import TIMEOUT
from harness.processes.program import PUBQUEUE, Program
from harness.servers.stub_server import StubServer
from harness.starts import warm_start
from harness.stores import furnished

from pubqueue.stores.copying.copy import source_at, target_at

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bee@localhost"]
"""
BEE = "bee@localhost/x"


@pytest.fixture
def postgres():
    with Postgres() as server:
        yield server


def run(*arguments, **more):
    """Run the program to its end; return its exit code, and what it has said on stdout and stderr."""
    environment = {name: value for name, value in os.environ.items() if "PUBQUEUE" not in name}
    done = warm_start.run(*arguments, env=environment | more)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def files(tmp_path):
    found = [tmp_path / name for name in ("a.db", "b.db")]
    furnished.furnish(found[0])
    return [f"sqlite://{path}" for path in found]


def config(folder, server, store):
    keys = {
        "jid": server.domain,
        "secret": server.secret,
        "server": f"{server.host}:{server.port}",
        "store": store,
    }
    path = folder / f"{store.partition(':')[0]}.toml"
    path.write_text("\n".join([*(f"{key} = {json.dumps(keys[key])}" for key in keys), NODE]))
    path.chmod(0o600)
    return path


# --- what it says ----------------------------------------------------------------------------------


def test_each_table_is_logged_and_nothing_is_drawn_without_a_terminal(files):
    code, out, err = run("migrate", *files)
    assert (code, err) == (0, "")
    *tables, last = out.splitlines()
    assert {line.split()[0] for line in tables} >= {"node", "item", "staged", "event"}
    assert all(" rows, SHA-256 " in line for line in tables)
    total = sum(int(line.split()[1].replace(",", "")) for line in tables)
    assert last == f"copied and compared: {total:,} rows"


def test_progress_is_drawn_on_a_terminal(files):
    mine, its = pty.openpty()
    with warm_start.Popen(
        (PUBQUEUE, "migrate", *files), stderr=its, stdout=subprocess.DEVNULL
    ) as running:
        os.close(its)
        drawn = b""
        while piece := _read(mine):
            drawn += piece
        assert running.wait(TIMEOUT) == 0
    os.close(mine)
    assert b"\xe2\x94\x81" in drawn  # a piece of the bar


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side has closed it
        return b""


def test_what_is_asked_wrongly_is_one_sentence(files, tmp_path):
    cases = {
        (files[0], files[0]): f"{tmp_path}/a.db is both the source and the target",
        (files[1], files[0]): f"{tmp_path}/b.db: there is no store",
        (files[0], "memory:"): "memory: keeps nothing that could be copied",
        (files[0], "mysql://root:secret@x/y"): "store must be sqlite:///path/to/file or "
        "postgresql://role@host/database or memory:, not 'mysql://root:...@x/y'",
    }
    for way, sentence in cases.items():
        assert run("migrate", *way) == (2, "", f"pubqueue: {sentence}\n")
    assert run("migrate", files[0])[0] == 2
    furnished.furnish(tmp_path / "b.db", seed=1)
    assert run("migrate", *files) == (2, "", f"pubqueue: {files[1]} is not empty\n")


def test_an_unreachable_database_is_reported_without_its_password(files):
    code, out, err = run("migrate", files[0], "postgresql://queue:hush@127.0.0.1:1/x")
    assert (code, out) == (1, "")
    assert "hush" not in err
    (sentence,) = err.splitlines()
    assert sentence.startswith("pubqueue: connection")
    code, _, err = run("migrate", files[0], "postgresql://queue@127.0.0.1:1/x", PGPASSWORD="hush")
    assert (code, "hush" in err) == (1, False)


# --- the service -----------------------------------------------------------------------------------


def halved(source, target):
    """Mark the target as half a copy, as a copy that was killed after its first step has left it."""
    with source_at(source) as one, target_at(target, one) as other:
        other.begin(one.name)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_half_a_copy_is_not_served_until_it_is_complete(files, tmp_path, postgres, kind):
    target = files[1] if kind == "sqlite" else postgres.address
    halved(files[0], target)
    async with StubServer() as server:
        path = config(tmp_path, server, target)
        code, out, err = await asyncio.to_thread(run, "serve", "--config", str(path))
        assert (code, out) == (1, "")
        assert err.splitlines()[-1].endswith(
            f": the copy from {files[0]} is not complete; `pubqueue migrate` can be begun again"
        )
        code, _, err = await asyncio.to_thread(run, "check", "--config", str(path))
        assert (code, "is not complete" in err) == (1, True)
        assert (await asyncio.to_thread(run, "migrate", files[0], target))[0] == 0
        async with Program(path):
            pass


class Talk:
    """Speaks for everybody beyond the server."""

    def __init__(self, server):
        self._server = server
        self._answers = asyncio.Queue()
        self.deliveries = asyncio.Queue()
        server.on_stanza = self._take

    def _take(self, stanza):
        if stanza.tree.tag.endswith("}iq"):
            self._answers.put_nowait(stanza.tree)
        elif stanza.tree.find(".//{*}items/{*}item") is not None:
            self.deliveries.put_nowait(stanza.tree)

    async def ask(self, who, inner):
        await self._server.send(
            f"<iq type='set' id='a' from='{who}' to='queue.localhost'>"
            f"<pubsub xmlns='{PUBSUB}'>{inner}</pubsub></iq>"
        )
        async with asyncio.timeout(TIMEOUT):
            assert (await self._answers.get()).get("type") == "result"

    async def delivery(self):
        """Return the next item, and the token of its lock."""
        async with asyncio.timeout(TIMEOUT):
            message = await self.deliveries.get()
        return message.find(".//{*}item").get("id"), int(message.find(".//{*}lock").get("token"))


async def test_a_killed_service_goes_on_from_its_copy_and_back(tmp_path, postgres):
    first, last = f"sqlite://{tmp_path}/a.db", f"sqlite://{tmp_path}/b.db"
    async with StubServer() as server:
        talk = Talk(server)
        async with Program(config(tmp_path, server, first)) as program:
            await talk.ask(BEE, f"<subscribe node='jobs' jid='{BEE}'/>{OPTIONS.format(2)}")
            await server.send(f"<presence from='{BEE}' to='queue.localhost'/>")
            items = "".join(f"<item id='{name}'>{JOB}</item>" for name in "abcde")
            await talk.ask(ETL, f"<publish node='jobs'>{items}</publish>")
            held = [await talk.delivery(), await talk.delivery()]
            code, _, err = await asyncio.to_thread(run, "migrate", first, postgres.address)
            assert (code, "a process serves from it; stop it first" in err) == (1, True)
            await program.kill()
        done = []
        for way in ((first, postgres.address), (postgres.address, last)):
            assert (await asyncio.to_thread(run, "migrate", *way))[0] == 0
            async with Program(config(tmp_path, server, way[1])) as program:
                # what may not have left is sent again, under the same locks
                again = [await talk.delivery(), await talk.delivery()]
                assert sorted(again) == sorted(held)
                done.append(again[0][0])
                await talk.ask(BEE, f"<retract node='jobs'><item id='{done[-1]}'/></retract>")
                held = [again[1], await talk.delivery()]
                assert held[1][1] > max(token for _, token in again), "tokens rise"
                await program.kill()
    with closing(sqlite3.connect(tmp_path / "b.db")) as store:
        left = {name for (name,) in store.execute("SELECT id FROM item")}
    assert left == set("abcde") - set(done)
