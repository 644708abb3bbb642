"""`pip install pubqueue`, without any extra: every command that runs queues does its work."""

import pytest
import pytest_asyncio
from harness.machines.pythons import build_wheel, install, python_with, required
from harness.operators.at_a_terminal import Operator
from harness.operators.base_commands import DONE
from harness.servers.live import component

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


async def test_each_does_its_work(operator):
    for lines in DONE.values():
        for words in lines:
            assert (await operator.does(*words)) != ""
        if lines and lines[0][0] == "items":
            (item,) = await operator.rows("items", "jobs")
            assert "hello" in await operator.does("peek", "jobs", item["id"])
            assert "published" in await operator.does("item", "jobs", item["id"])
            assert "approved" in await operator.does("signal", "jobs", item["id"], "approved")
            said = await operator.says("release", "--yes", "jobs", item["id"])
            assert (said.code, said.err.count("\n")) == (1, 1)
            said = await operator.says("cancel", "--yes", "jobs", "no-such-item")
            assert said.err.count("Traceback") == 0
            for command in ("end-subscription --yes", "quiet-worker", "resume-worker"):
                said = await operator.says(*command.split(), "jobs", "nobody@localhost/1")
                assert (said.code, said.err.count("\n")) == (1, 1)
