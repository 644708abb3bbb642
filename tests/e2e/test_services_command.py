"""The command line with several services: publishing, working and lists are of all, anything else is of one that is named."""

import asyncio
import json
import os
import sys

import pytest
from click.testing import CliRunner
from harness.patience import LOOK, TIMEOUT, until
from harness.servers.several import SERVICES, for_several, several

from pubqueue.cli import main
from pubqueue_xeps.wire.services import read_services

pytestmark = pytest.mark.e2e
A, B, _, _ = SERVICES
NODES = """
admins = ["bot@localhost"]

[[node]]
name = "jobs"
queueing = true
publishers = ["bot@localhost"]
members = ["bot@localhost"]
"""
APP = """
async def handle(item):
    with open("done", "a") as done:
        done.write(f"{item.id} {item.service}\\n")
"""

server = for_several("bot")


@pytest.fixture
async def programs(server, tmp_path):
    async with several(server, tmp_path, NODES) as started:
        yield started


@pytest.fixture
def command(server, monkeypatch, tmp_path):
    """Return what calls a command with both services in the environment, and returns its exit code and output."""
    at = f"?host={server.host}&port={server.c2s_port}&tls=off"
    monkeypatch.setenv("PUBQUEUE_URL", f"xmpp://bot@localhost/{A}{at}")
    monkeypatch.setenv("PUBQUEUE_SERVICES", f"{A},{B}")
    monkeypatch.setenv("PUBQUEUE_PASSWORD", "secret")
    monkeypatch.chdir(tmp_path)

    async def call(*words):
        done = await asyncio.to_thread(CliRunner().invoke, main, words)
        return done.exit_code, done.stdout, done.stderr

    return call


async def test_lines_are_published_to_all_and_lists_have_all(programs, command, tmp_path):
    (tmp_path / "lines").write_text("1\n" * 20)
    ids = [f"i{number}" for number in range(1, 21)]
    rule = read_services([A, B])
    code, said, _ = await command("publish", "jobs", "@lines", "--lines", "--id-prefix", "i")
    assert (code, said) == (0, "20 items of jobs confirmed.\n")

    code, said, _ = await command("items", "jobs", "--json")
    found = {(row["service"], row["id"]) for row in map(json.loads, said.splitlines())}
    assert code == 0
    assert found == {(rule.place(one), one) for one in ids}

    code, said, _ = await command("items", "jobs", "--service", A, "--json")
    rows = [json.loads(line) for line in said.splitlines()]
    assert {row["id"] for row in rows} == {one for one in ids if rule.place(one) == A}
    assert "service" not in rows[0], "of one service it is as before"

    code, said, _ = await command("queues")
    assert code == 0
    assert said.index(f"{A}:\n") < said.index(f"{B}:\n")
    assert said.count("jobs") >= 2


async def test_a_service_that_is_away_fails_the_list_after_the_others(programs, command):
    await programs[A].kill()
    code, said, errors = await command("queues")
    assert code == 1
    assert f"{B}:" in said
    assert "jobs" in said
    assert A in errors
    await programs[A].start()


async def test_a_change_is_of_one_service(programs, command):
    code, _, errors = await command("pause", "jobs")
    assert code == 2
    assert errors == (
        "pubqueue: 2 services are given, and this is for one: give service= or --service.\n"
    )
    code, said, _ = await command("pause", "jobs", "--service", B)
    assert code == 0
    code, said, _ = await command("queues", "--json")
    paused = {row["service"]: row["state"] for row in map(json.loads, said.splitlines())}
    assert (paused[A] == "paused", paused[B] == "paused") == (False, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("top", "--once"), "2 services are given, and this is for one"),
        (("items", "jobs", "--after", "3"), "--after continues the list of one service"),
        (("items", "jobs", "--config", "x", "--service", A), "--service and --config contradict"),
        (("items", "jobs", "--url", "http://x", "--service", A), "--service is for XMPP"),
        (("items", "jobs", "--service", f"{A}=away"), "has a mark that is neither"),
        (("publish", "jobs", "1", "--service", "@"), "'@' is not a JID"),
        (("worker", "os:path", "--node", "jobs", "--service", A, "--service", A), "more than once"),
    ],
)
async def test_what_cannot_be_is_one_sentence(command, words, says):
    code, _, errors = await command(*words)
    assert code == 2
    assert says in errors
    assert errors.count("\n") == 1


async def test_a_url_over_http_is_of_one_service(command, monkeypatch):
    monkeypatch.setenv("PUBQUEUE_URL", "http://anna@127.0.0.1:1/")
    code, _, errors = await command("publish", "jobs", "1")
    assert code == 2
    assert "PUBQUEUE_SERVICES is for XMPP" in errors


async def test_a_worker_takes_from_all(programs, command, server, tmp_path):
    code, _, _ = await command("publish", "jobs", "1\n2\n3\n4\n5\n6", "--lines", "--id-prefix", "i")
    assert code == 0
    (tmp_path / "app.py").write_text(APP)
    words = ["worker", "app:handle", "--node", "jobs", "--processes", "2"]
    words += ["--service", A, "--service", f"{B}=draining"]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pubqueue", *words),
        cwd=tmp_path,
        env=os.environ,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr
    connected = set()
    while len(connected) < 4:  # each process at each service
        line = (await asyncio.wait_for(process.stderr.readline(), TIMEOUT)).decode()
        connected |= {line} if "connected as" in line else set()
    done = tmp_path / "done"
    await until(lambda: done.exists() and len(done.read_text().splitlines()) == 6, every=LOOK)
    process.terminate()
    assert await process.wait() == 0
    found = dict(line.split() for line in done.read_text().splitlines())
    rule = read_services([A, B])
    assert found == {one: rule.place(one) for one in (f"i{number}" for number in range(1, 7))}
