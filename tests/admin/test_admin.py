"""`pubqueue.Admin` and `BlockingAdmin`: each operation as a method, over HTTP and on the host."""

import asyncio
import inspect
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest
from harness.documents.documented import blocks_of
from harness.operators.over_http import HttpOperator, HttpService
from harness.servers.users import RIGHT

from pubqueue import (
    Admin,
    BlockingAdmin,
    ConfigurationError,
    LoginRefused,
    OperationRefused,
    ServerUnreachable,
)
from pubqueue.admin import admin as module
from pubqueue.admin.methods import attribute, method_name, row_name
from pubqueue.operations.table import OPERATIONS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def service(tmp_path):
    async with HttpService(tmp_path) as running:
        yield running


async def test_a_program_operates_a_service(service):
    etl = HttpOperator(service.url("etl"))
    for name in ("a", "b", "c"):
        await etl.does("publish", "jobs", "1", "--id", name)
    async with Admin(service.url("root"), password=RIGHT) as admin:
        (queue,) = [row async for row in admin.overview()]
        assert (queue.node, queue.depth, queue.problems) == ("jobs", 3, ("no workers",))
        assert isinstance(queue.oldest, datetime)
        assert queue.oldest.tzinfo is not None
        assert [row.id async for row in admin.items("jobs", state="queued", max=2)] == ["a", "b"]
        assert (await admin.peek("jobs", "a")).payload == "1"
        paused = await admin.pause("jobs")
        assert ("jobs" in paused.note, paused.warns) == (True, False)
        gone = await admin.cancel("jobs", ["a", "gone"])
        assert (gone.count, gone.missing) == (1, ("gone",))
        assert (await admin.node_create("mail", settings={"max_failures": 5})).note.startswith(
            "mail"
        )
        settings = {row.setting: row.value async for row in admin.node_settings("mail")}
        assert settings["max_failures"] == "5"
        assert settings["queueing"] == "1", "as by the command"
        await admin.node_set("mail", ["max_failures=7"])
        await admin.schedule_add(
            "nightly", "@daily", "jobs", {"task": "tidy"}, headers={"kind": "x"}
        )
        await admin.schedule_change("nightly", zone="Europe/Berlin")
        row = await admin.schedule_show("nightly")
        assert (row.cron, row.zone) == ("@daily", "Europe/Berlin")
        assert row.payload is not None
        assert '{"task":"tidy"}' in row.payload
        assert (await admin.purge("jobs")).count == 2
        first = [event async for event in admin.events(node="jobs", max=1)]
        assert (first[0].type, first[0].item) == ("published", "a")
        page = await admin.perform("overview", sort="name")
        assert page.note.startswith("2 queues")
        with pytest.raises(LookupError):
            await admin.perform("no-such-operation")


async def test_a_refusal_is_an_error_with_its_condition(service):
    async with Admin(service.url("root"), password=RIGHT) as admin:
        with pytest.raises(OperationRefused) as refused:
            await admin.pause("gone")
        assert (refused.value.condition, refused.value.node) == ("item-not-found", "gone")
        assert refused.value.operation == "pause"
        with pytest.raises(OperationRefused) as refused:
            await admin.node_set("jobs", {"no_such": 1})
        assert refused.value.wrongly
        with pytest.raises(TypeError):
            await admin.pause("jobs", hard=True)
    with pytest.raises(RuntimeError):
        await admin.pause("jobs")
    async with Admin(service.url("root"), password="wrong") as admin:
        with pytest.raises(LoginRefused):
            await admin.pause("jobs")
    with pytest.raises(ConfigurationError):
        async with Admin("http://anna@192.0.2.1/", password=RIGHT):
            pass
    await service.kill()
    async with Admin(service.url("root"), password=RIGHT) as admin:
        with pytest.raises(ServerUnreachable):
            await admin.pause("jobs")


async def test_threads_share_one_that_blocks_on_the_host(service):
    etl = HttpOperator(service.url("etl"))
    for name in ("a", "b", "c"):
        await etl.does("publish", "jobs", "1", "--id", name)

    def work():
        with BlockingAdmin(config=service.path) as admin, ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda name: admin.peek("jobs", name).id, "abcabc"))
            found += [row.id for row in admin.items("jobs", max=1)]
            done = admin.cancel("jobs", ["a"])
            assert admin.perform("queues").rows[0]["node"] == "jobs"
            return found, done.count

    assert await asyncio.to_thread(work) == ([*"abcabc", "a"], 1)
    assert "by=queue.localhost/local-" in service.log


async def test_the_program_of_the_page_runs(service, tmp_path):
    page = ROOT / "docs" / "operations" / "command-line.md"
    (text,) = (block.text for block in blocks_of(page) if block.language == "python")
    url, password = "https://anna@queue.example.org:9254/", "correct horse"
    program = tmp_path / "program.py"
    program.write_text(text.replace(url, service.url("root")).replace(f'"{password}"', repr(RIGHT)))
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", program),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await run.communicate()
    assert (out, err) == (b"jobs 0 None\n0 items requeued\n", b"")
    names = {row["node"] for row in await HttpOperator(service.url("root")).rows("queues")}
    assert names == {"jobs", "mail"}


def test_each_operation_is_a_method_of_both_with_its_parameters():
    for operation in OPERATIONS.values():
        name = method_name(operation)
        assert (operation.command or operation.name).replace("-", " ").split() == name.split("_")
        for kind in (Admin, BlockingAdmin):
            method = getattr(kind, name)
            assert method.__doc__.startswith(operation.label)
            known = set(inspect.signature(method).parameters) - {"self", "max", "after", "until"}
            assert known == {attribute(one.name) for one in operation.parameters} - {
                "max",
                "after",
                "until",
            }
        row = getattr(module, row_name(operation))
        assert list(row.__struct_fields__) == [attribute(one.name) for one in operation.columns]


def test_the_types_are_written_from_the_table():
    done = subprocess.run(
        [sys.executable, "-I", ROOT / "tools" / "admin", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
