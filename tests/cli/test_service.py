"""`pubqueue serve` and `pubqueue check`: what they print, what they leave as it is, and with which exit code they end."""

import asyncio
import json
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from cli.running import pubqueue, said
from click.testing import CliRunner
from harness.databases.postgres import Postgres
from harness.patience import TIMEOUT
from harness.processes.program import COLD, Program, write_config
from harness.servers.ejabberd import Ejabberd
from harness.servers.live import component
from harness.servers.stub_server import StubServer
from harness.servers.tls import certify, expire

from pubqueue.cli import main
from pubqueue.loopback import free_ports
from pubqueue.stores.sqlite.schema import migrations
from pubqueue_demo.prosody import Prosody

SECRET = "correct horse battery staple"


def command_line(process):
    return Path(f"/proc/{process.pid}/cmdline").read_text()


def flags(server, folder, **changed):
    (folder / "secret").write_text(SECRET)
    found = {
        "jid": server.domain,
        "secret-file": folder / "secret",
        "server": f"{server.host}:{server.port}",
        "store": f"sqlite:///{folder}/store.db",
    }
    return [f"--{name}={value}" for name, value in (found | changed).items()]


# --- check ---------------------------------------------------------------------------------------


async def test_check_lists_what_is_good(tmp_path):
    async with StubServer(secret=SECRET) as server:
        code, out, err = await said("check", *flags(server, tmp_path))
        assert (code, err) == (0, "")
    assert out.splitlines() == [
        "configuration: good, 0 declared nodes",
        f"store: {tmp_path}/store.db does not exist yet; the service creates it when it starts",
        f"server: {server.host}:{server.port} accepts {server.domain}",
    ]


async def test_check_reports_what_a_database_may_lose(tmp_path):
    with Postgres() as database:  # without fsync, as tests have it
        async with StubServer(secret=SECRET) as server:
            arguments = flags(server, tmp_path, store=database.address)
            code, out, err = await said("check", *arguments)
    assert (code, err) == (0, "")
    assert out.splitlines()[1:3] == [
        "store: the schema pubqueue does not exist yet; the service creates it when it starts",
        "store: the server has fsync off: a loss of power may destroy everything",
    ]


async def check(server, folder, **changed):
    """Return the sentence of a check that fails."""
    code, _, err = await said("check", *flags(server, folder, **changed))
    assert code == 1
    (sentence,) = err.splitlines()
    assert SECRET not in sentence
    return sentence.removeprefix("pubqueue: ")


async def test_check_with_a_wrong_secret(tmp_path):
    async with StubServer(secret="another") as server:
        sentence = await check(server, tmp_path)
    assert "refuses queue.localhost (not-authorized): does the secret" in sentence


async def test_check_without_a_server_at_the_port(tmp_path):
    server = StubServer()
    (server.port,) = free_ports(1)
    assert "is the server running" in await check(server, tmp_path)


async def test_check_with_something_else_at_the_port(tmp_path):
    async def serve(_reader, writer):
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as other:
        server = StubServer()
        server.port = other.sockets[0].getsockname()[1]
        assert "is this its component port?" in await check(server, tmp_path)


async def test_check_of_a_foreign_database(tmp_path):
    with closing(sqlite3.connect(tmp_path / "store.db")) as foreign:
        foreign.execute("CREATE TABLE theirs (x)")
    async with StubServer(secret=SECRET) as server:
        assert "belongs to another program" in await check(server, tmp_path)
    (tmp_path / "text").write_text("no database, but long enough to be looked at" * 100)
    store = f"sqlite:///{tmp_path}/text"
    assert "file is not a database" in await check(server, tmp_path, store=store)


@pytest.mark.parametrize("place", ["/proc", "/none/there", "/dev/null"])
async def test_check_of_a_folder_that_cannot_be_written(tmp_path, place):
    server = StubServer()
    server.port = 1
    sentence = await check(server, tmp_path, store=f"sqlite://{place}/store.db")
    assert f"{place}/store.db: unable to open database file" in sentence


# --- serve ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_serve_is_ready_once_and_ends_in_order(tmp_path, number):
    async with (
        StubServer(secret=SECRET) as server,
        pubqueue("serve", *flags(server, tmp_path), command=COLD) as process,
    ):
        first = await asyncio.wait_for(process.stdout.readline(), TIMEOUT)
        assert first.decode() == (
            f"ready: queue.localhost on {server.host}:{server.port}, "
            f"items in sqlite:///{tmp_path}/store.db\n"
        )
        assert SECRET not in command_line(process)
        reported = await lines_until(process, "stream.up")
        await server.drop()
        reported += await lines_until(process, "stream.up")
        process.send_signal(number)
        out, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
        reported += err.decode().splitlines()
    assert (process.returncode, out) == (0, b"")
    assert [" ".join(line.split()[1:3]) for line in reported] == [
        "level=info event=service.started",
        "level=info event=stream.up",
        "level=warning event=stream.down",
        "level=info event=stream.retrying",
        "level=info event=stream.up",
        "level=info event=service.stopping",
        "level=info event=service.stopped",
    ]
    assert not any(SECRET in line for line in reported)


CRASHES = """
import faulthandler, signal
from pubqueue.cli import main
signal.signal(signal.SIGUSR2, lambda *_: faulthandler._sigsegv())
main()
"""


async def test_after_a_crash_in_a_library_its_log_says_where_its_threads_were(tmp_path):
    """It crashes as a library does: no other thread runs meanwhile, so the stacks do not change while they are read."""
    async with (
        StubServer(secret=SECRET) as server,
        pubqueue(
            "serve", *flags(server, tmp_path), command=(sys.executable, "-c", CRASHES)
        ) as process,
    ):
        await asyncio.wait_for(process.stdout.readline(), TIMEOUT)
        process.send_signal(signal.SIGUSR2)
        _, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
    assert process.returncode == -signal.SIGSEGV
    said = err.decode().partition("Fatal Python error: Segmentation fault")[2]
    assert re.search(r'File ".*/pubqueue/cli/service\.py", line \d+ in serve', said)
    assert SECRET not in said


async def test_a_service_without_xmpp_is_ready_on_no_server(tmp_path):
    (port,) = free_ports(1)
    config = tmp_path / "pubqueue.toml"
    words = ("jid = 'queue.localhost'", "server = ''", f"store = 'sqlite:///{tmp_path}/store.db'")
    config.write_text("\n".join((*words, "[stomp]", f"listen = '127.0.0.1:{port}'")))
    async with pubqueue("serve", "--config", str(config)) as process:
        first = await asyncio.wait_for(process.stdout.readline(), TIMEOUT)
        assert first.decode() == f"ready: queue.localhost, items in sqlite:///{tmp_path}/store.db\n"


async def lines_until(process, event):
    """Return the lines of the log up to this event."""
    reported = []
    async with asyncio.timeout(TIMEOUT):
        while not reported or f"event={event}" not in reported[-1]:
            reported.append((await process.stderr.readline()).decode())
            assert reported[-1], f"it ended without {event}: {reported}"
    return reported


async def logged(process, event):
    """Read the log, one JSON object a line, up to this event."""
    async with asyncio.timeout(TIMEOUT):
        while (line := json.loads(await process.stderr.readline()))["event"] != event:
            pass
    return line


async def test_hangup_has_the_configuration_read_again(tmp_path):
    node = '[[node]]\nname = "jobs"\nqueueing = true\n'
    known = {"node": "jobs", "what": "x-queueing#lock_timeout", "stored": "300"}
    async with StubServer(secret=SECRET) as server:
        path = write_config(tmp_path, server, 'log_format = "json"\n' + node)
        async with pubqueue("serve", "--config", path) as process:
            await asyncio.wait_for(process.stdout.readline(), TIMEOUT)
            more = 'options = { "x-queueing#lock_timeout" = 7 }'
            head = 'log_format = "json"\nadmins = ["boss@localhost"]\n'
            write_config(tmp_path, server, head + node + more, store=tmp_path / "other.db")
            process.send_signal(signal.SIGHUP)
            assert (await logged(process, "config.read"))["taken_over"] == "admins,node"
            assert (await logged(process, "config.needs_restart"))["keys"] == "store"
            changed = await logged(process, "node.changed")
            assert changed.items() >= (known | {"declared": "7"}).items()
            path.write_text("jid = 7")
            process.send_signal(signal.SIGHUP)
            assert "Expected `str`, got `int`" in (await logged(process, "config.refused"))["why"]
            await ask_as(server, "boss@localhost/desk", "jobs")
            process.terminate()
            _, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
            assert process.returncode == 0
            assert SECRET not in err.decode()
    assert not (tmp_path / "other.db").exists()


async def ask_as(server, jid, node):
    """Ask for the settings of a node as one who may see them."""
    inner = f"<configure node='{node}'/>"
    words = f"<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'>{inner}</pubsub>"
    await server.send(f"<iq type='get' id='c' from='{jid}' to='{server.domain}'>{words}</iq>")
    assert (await server.receive()).tree.get("type") == "result"


async def test_serve_without_a_server_waits_for_one_and_can_be_ended(tmp_path):
    server = StubServer()
    (server.port,) = free_ports(1)
    async with pubqueue("serve", *flags(server, tmp_path)) as process:
        line = (await lines_until(process, "stream.unreachable"))[-1]
        assert f"level=warning event=stream.unreachable server=127.0.0.1:{server.port}" in line
        process.terminate()
        out, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
    assert (process.returncode, out) == (0, b"")
    assert b"Traceback" not in err


async def test_serve_can_be_ended_while_the_server_keeps_it_waiting(tmp_path):
    waiting = asyncio.Event()

    async def serve(reader, writer):
        await reader.read(100)
        waiting.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as silent:
        server = StubServer()
        server.port = silent.sockets[0].getsockname()[1]
        async with pubqueue("serve", *flags(server, tmp_path)) as process:
            await asyncio.wait_for(waiting.wait(), TIMEOUT)
            process.terminate()
            out, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
        assert (process.returncode, out) == (0, b"")
        assert [line.split()[2] for line in err.decode().splitlines()] == [
            *("event=service.started", "event=service.stopping", "event=service.stopped")
        ]


async def test_a_declared_node_that_does_not_fit_is_one_sentence(tmp_path):
    async with StubServer(secret=SECRET) as server:
        node = '[[node]]\nname = "n"\noptions = { "x-queueing#lock_timeout" = 0 }'
        code, out, err = await said("serve", "--config", write_config(tmp_path, server, node))
    assert (code, out) == (2, "")
    assert err == (
        "pubqueue: node 'n': x-queueing#lock_timeout: a whole number from 1 to 31622400 is required\n"
    )


class StreamRefusal:
    """A server that ends every stream with one condition, whoever comes."""

    host, domain = "127.0.0.1", "queue.localhost"

    def __init__(self, condition):
        self._error = (
            "<?xml version='1.0'?><stream:stream xmlns='jabber:component:accept'"
            " xmlns:stream='http://etherx.jabber.org/streams' id='s'><stream:error>"
            f"<{condition} xmlns='urn:ietf:params:xml:ns:xmpp-streams'/></stream:error></stream:stream>"
        )

    async def __aenter__(self):
        self._listener = await asyncio.start_server(self._serve, self.host, 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self._listener.close()
        await self._listener.wait_closed()

    async def _serve(self, reader, writer):
        await reader.read(100)
        writer.write(self._error.encode())
        await writer.drain()
        writer.close()


@pytest.mark.parametrize("command", ["serve", "check"])
async def test_a_name_that_the_server_does_not_know_is_reported_with_its_port(tmp_path, command):
    async with StreamRefusal("host-unknown") as server:
        code, _, err = await said(command, *flags(server, tmp_path))
    assert code == 1
    assert err.splitlines()[-1] == (
        f"pubqueue: 127.0.0.1:{server.port} refuses queue.localhost (host-unknown): "
        f"the server has no component queue.localhost on port {server.port}"
    )
    assert "secret" not in err


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Prosody, "(host-unknown): the server has no component other.localhost on port {port}\n"),
        (Ejabberd, " ejabberd sends the same error for an unknown name\n"),
    ],
)
async def test_a_real_server_that_does_not_know_the_name(tmp_path, kind, sentence):
    (tmp_path / "secret").write_text(SECRET)
    async with kind() as server:
        place = f"{server.host}:{server.component_port}"
        code, _, err = await said(
            "check",
            *("--jid=other.localhost", f"--server={place}", f"--secret-file={tmp_path}/secret"),
            f"--store=sqlite:///{tmp_path}/other.db",
        )
    assert code == 1
    assert err.startswith(f"pubqueue: {place} refuses other.localhost (")
    assert err.endswith(sentence.format(port=server.component_port))


@pytest.mark.e2e
@pytest.mark.parametrize("kind", [Prosody, Ejabberd])
async def test_a_server_that_refuses_is_reported_in_one_sentence(tmp_path, kind):
    async with kind() as server:
        (tmp_path / "wrong").write_text(SECRET)
        arguments = (
            f"--jid={server.component}",
            f"--server={server.host}:{server.component_port}",
            f"--store=sqlite:///{tmp_path}/other.db",
        )
        for command in ("serve", "check"):
            code, out, err = await said(command, *arguments, f"--secret-file={tmp_path}/wrong")
            (sentence,) = [line for line in err.splitlines() if line.startswith("pubqueue: ")]
            assert (code, SECRET in err) == (1, False)
            assert "refuses queue.localhost (not-authorized): does the secret" in sentence
            assert "ready" not in out
        right = {"PUBQUEUE_SECRET": server.secret}
        code, out, err = await said("check", *arguments, **right)
        assert (code, err) == (0, "")
        if kind is Prosody:  # ejabberd lets both in, and divides the work between them
            async with component(server, tmp_path):
                code, out, err = await said("check", *arguments, **right)
                assert (code, "(conflict): another component is connected" in err) == (1, True)


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


# --- memory --------------------------------------------------------------------------------------

BLOCKS = """
from pathlib import Path
from pubqueue.wiring.serving import return_large_blocks

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

return_large_blocks()
before = resident()
for _ in range(3):
    large = [bytearray(b"x") * (7 << 20) for _ in range(6)]
    small = [bytes(2_000 + number) for number in range(50)]
    middle = [bytearray(b"x") * (3 << 20) for _ in range(6)]
    del large, middle
print(resident() - before)
"""


def test_large_blocks_that_are_freed_are_the_systems_again():
    found = subprocess.check_output([sys.executable, "-I", "-c", BLOCKS], timeout=TIMEOUT)
    assert int(found) < 5, "MiB; glibc by itself keeps 45"
