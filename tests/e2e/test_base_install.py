"""`pip install pubqueue`, without any extra: every command that runs queues does its work."""

import pytest
import pytest_asyncio
from harness.machines.pythons import build_wheel, install, python_with, required
from harness.operators.at_a_terminal import Operator
from harness.servers.live import component

from pubqueue.cli import COMMANDS
from pubqueue.cli.operations import COMMANDS as MADE
from pubqueue_demo.prosody import Prosody

pytestmark = pytest.mark.e2e

CONFIG = """
admins = ["root@localhost"]

[[node]]
name = "mail"
queueing = true

[[node]]
name = "jobs"
queueing = true
options = { "x-queueing#event_log" = true }
"""
ITEM = '{"greeting": "hello"}'
SCHEDULE = ("--cron", "0 3 * * *", "--node", "jobs", "--payload", ITEM)

DONE = {
    "schedule": (("schedule", "add", "nightly", *SCHEDULE), ("schedule", "fire", "nightly")),
    "publish": (("publish", "mail", "{}"),),
    "queues": (("queues",),),
    "overview": (("overview",),),
    "top": (("top", "--once"),),
    "service": (("service",),),
    "items": (("items", "jobs"),),
    "peek": (),  # below, with an item that is there
    "item": (),  # likewise
    "alerts": (("alerts",),),
    "events": (("events", "jobs"),),
    "workers": (("workers", "jobs"),),
    "dead": (("dead", "jobs"),),
    "doctor": (("doctor",),),
    "pause": (("pause", "jobs"),),
    "resume": (("resume", "jobs"),),
    "pause-publishing": (("pause-publishing", "jobs"),),
    "resume-publishing": (("resume-publishing", "jobs"),),
    "redrive": (("redrive", "jobs", "--yes"),),
    "cancel": (),  # below: there is no such item
    "discard": (("discard", "jobs", "--yes"),),
    "release": (),  # below: nobody holds the item
    "end-subscription": (),  # below: nobody subscribes
    "connections": (("connections",),),
    "messages": (("messages", "list"), ("messages", "drop", "etl@jobs.localhost")),
    "registration": (("registration", "list", "--node", "jobs"),),
    "end-connection": (("end-connection", "nobody@jobs.localhost/stomp.1.1"),),
    "node": (
        ("node", "create", "letters", "max_failures=3"),
        ("node", "settings", "letters"),
        ("node", "members", "letters"),
        ("node", "delete", "letters", "--yes"),
    ),
    "purge": (("purge", "jobs", "--yes"),),
    "completion": (("completion", "bash"),),
}
"""Of each command that needs no extra, what it is run with here, in this order."""

ELSEWHERE = {"worker"}
"""What is tried by other tests: tests/cli/test_worker.py."""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """`pubqueue`, in an environment with what the package itself requires and nothing else."""
    folder = tmp_path_factory.mktemp("base")
    python = python_with(folder / "environment", *required())
    install(build_wheel(folder), python)
    return python.with_name("pubqueue")


@pytest_asyncio.fixture
async def operator(program, tmp_path):
    async with Prosody() as server:
        await server.account("root", "secret")
        async with component(server, tmp_path, CONFIG):
            yield Operator(server, program=program)


def test_no_command_is_forgotten():
    by_hand = {name for name, (_, extra) in COMMANDS.items() if not extra}
    assert by_hand | MADE.keys() == DONE.keys() | ELSEWHERE


async def test_each_does_its_work(operator):
    for lines in DONE.values():
        for words in lines:
            assert (await operator.does(*words)) != ""
        if lines and lines[0][0] == "items":
            (item,) = await operator.rows("items", "jobs")
            assert "hello" in await operator.does("peek", "jobs", item["id"])
            assert "published" in await operator.does("item", "jobs", item["id"])
            said = await operator.says("release", "--yes", "jobs", item["id"])
            assert (said.code, said.err.count("\n")) == (1, 1)
            said = await operator.says("cancel", "--yes", "jobs", "no-such-item")
            assert said.err.count("Traceback") == 0
            said = await operator.says("end-subscription", "jobs", "nobody@localhost/1")
            assert (said.code, said.err.count("\n")) == (1, 1)
