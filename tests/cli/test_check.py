"""`pubqueue check`: it makes and changes nothing, and offline it touches neither store nor port."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from click.testing import CliRunner
from harness.databases.postgres import Postgres
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer
from harness.servers.tls import certify, expire

from pubqueue.cli import main
from pubqueue.stores.sqlite.schema import migrations

NODE = '[[node]]\nname = "jobs"\nqueueing = true\n'


async def checked(config, *more):
    """Return the exit code, and what was written to both."""
    words = ["check", "--config", str(config), *more]
    result = await asyncio.to_thread(CliRunner().invoke, main, words)
    return result.exit_code, result.stdout, result.stderr


async def made(folder, address=None):
    """Have the service make its store, and end it; return the configuration."""
    async with StubServer() as server:
        config = write_config(folder, server, NODE, store=address)
        async with Program(config):
            await server.connected()
    return config


async def test_it_makes_no_store(tmp_path):
    async with StubServer() as server:
        config = write_config(tmp_path, server, NODE)
        code, out, err = await checked(config)
    assert (code, err) == (0, "")
    store = tmp_path / "pubqueue.db"
    assert out.splitlines() == [
        "configuration: good, 1 declared node",
        f"store: {store} does not exist yet; the service creates it when it starts",
        f"server: {server.host}:{server.port} accepts {server.domain}",
    ]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["pubqueue.toml"]


async def test_it_makes_no_schema(tmp_path):
    with Postgres() as database:
        async with StubServer() as server:
            config = write_config(tmp_path, server, NODE, store=database.address)
            for _ in range(2):  # the first has made nothing for the second to find
                code, out, err = await checked(config)
                assert (code, err) == (0, "")
                assert "store: the schema pubqueue does not exist yet; the service" in out
            code, out, err = await checked(config, "--prepare")
            assert (code, err) == (0, "")
            assert "store: good, 0 nodes" in out


async def test_it_compares_with_the_store_that_is_there(tmp_path):
    await made(tmp_path)
    before = (tmp_path / "pubqueue.db").read_bytes()
    async with StubServer() as server:
        options = 'options = { "x-queueing#lock_timeout" = 7 }\n'
        code, out, err = await checked(write_config(tmp_path, server, NODE + options))
    assert (code, err) == (0, "")
    assert out.splitlines()[1:3] == [
        "store: good, 1 nodes",
        "node 'jobs': x-queueing#lock_timeout is 300, will be 7",
    ]
    assert (tmp_path / "pubqueue.db").read_bytes() == before


async def test_it_brings_no_store_to_a_newer_schema(tmp_path):
    await made(tmp_path)
    store, known = tmp_path / "pubqueue.db", len(migrations())
    with closing(sqlite3.connect(store)) as earlier:
        earlier.execute(f"PRAGMA user_version = {known - 1}")
    before = store.read_bytes()
    async with StubServer() as server:
        code, out, err = await checked(write_config(tmp_path, server, NODE))
    assert (code, err) == (0, "")
    says = f"its schema is number {known - 1}; the start of this version brings it to {known}"
    assert out.splitlines()[1] == f"store: {store}: {says}"
    assert store.read_bytes() == before


async def test_offline_touches_neither_store_nor_port(tmp_path):
    server = StubServer()
    server.port = 1
    config = write_config(tmp_path, server, NODE, store=Path("/none/there/store.db"))
    code, out, err = await checked(config, "--offline")
    assert (code, err) == (0, "")
    assert out == "configuration: good, 1 declared node\n"
    code, _, err = await checked(config)
    assert code == 1
    assert "/none/there/store.db" in err


async def test_it_names_the_certificate_of_http_and_whether_it_has_expired(tmp_path):
    key, certificate = await certify(tmp_path, "queue", days=30)
    server = StubServer()
    server.port = 1
    more = f'http = "0"\nhttp_certificate = "{certificate}"\nhttp_key = "{key}"\n'
    config = write_config(tmp_path, server, more)
    code, out, err = await checked(config, "--offline")
    assert (code, err) == (0, "")
    assert "\nhttp: certificate CN=queue, valid until " in out
    await expire(key, certificate)
    code, out, _ = await checked(config, "--offline")
    assert code == 0
    assert "\nhttp: certificate CN=queue, expired on " in out
    key.write_text("rubbish")
    code, _, err = await checked(config, "--offline")
    assert (code, err.count("\n")) == (2, 1)
    assert "http_certificate " in err


def test_offline_finds_what_the_start_would_refuse(tmp_path):
    server = StubServer()
    server.port = 1
    wrong = NODE + 'options = { "x-queueing#lock_timeot" = 60 }\n'
    config = write_config(tmp_path, server, wrong)
    result = CliRunner().invoke(main, ["check", "--offline", "--config", str(config)])
    assert result.exit_code == 2
    assert result.stderr == (
        "pubqueue: node 'jobs': x-queueing#lock_timeot is not a setting of this service;"
        " did you mean x-queueing#lock_timeout?\n"
    )
    late = NODE + '[[schedule]]\nname = "n"\ncron = "61 * * * *"\nnode = "jobs"\njson = 1\n'
    config = write_config(tmp_path, server, late)
    result = CliRunner().invoke(main, ["check", "--offline", "--config", str(config)])
    assert result.exit_code == 2
