"""docs/how-to/rest.md is typed into a shell, and its program is run, against a service."""

import asyncio
import os
import sys

import pytest
from faces.rest.clients import served
from harness.documents.documented import ROOT, blocks_of
from harness.operators.browser import chromium
from harness.operators.page_server import page_server
from harness.patience import TIMEOUT, until
from harness.servers.users import RIGHT

PAGE = ROOT / "docs" / "how-to" / "rest.md"


def blocks(rest, language):
    place = rest.root.removesuffix("/rest")
    return [
        block.text.replace("http://127.0.0.1:8600", place).replace("its password", RIGHT)
        for block in blocks_of(PAGE)
        if block.language == language
    ]


async def run(*command, folder):
    """Return what a program prints."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(TIMEOUT):
        out, wrong = await process.communicate()
    assert (process.returncode, wrong) == (0, b""), out + wrong
    return out.decode()


async def counts(rest):
    etl = await rest.as_()
    return (await etl.get("/queues/jobs")).json()["counts"]["messages"]


async def test_the_commands_of_the_page_publish_take_and_acknowledge(rest, tmp_path):
    plain, create, begin, publish, take, acknowledge, _ = blocks(rest, "bash")
    for commands in (plain, create):
        assert "201 Created" in await run("bash", "-e", "-c", commands, folder=tmp_path)
    assert await run("bash", "-e", "-c", begin + take, folder=tmp_path) == "hello"
    await run("bash", "-e", "-c", begin + acknowledge, folder=tmp_path)
    for _ in range(2):
        await run("bash", "-e", "-c", begin + publish, folder=tmp_path)
    assert await counts(rest) == 1
    assert await run("bash", "-e", "-c", begin + take, folder=tmp_path) == '{"nr": 1}'
    assert await counts(rest) == 1
    await run("bash", "-e", "-c", begin + acknowledge, folder=tmp_path)
    assert await counts(rest) == 0


async def test_the_commands_for_clients_of_hornetq_do_all_of_it(rest, tmp_path):
    *_, commands = blocks(rest, "bash")
    assert await run("bash", "-e", "-c", commands, folder=tmp_path) == "hello"
    assert await counts(rest) == 0


@pytest.mark.e2e
async def test_a_page_of_another_origin_works_the_queue_by_fetch():
    async with (
        asyncio.timeout(TIMEOUT),
        page_server() as shown,
        served(cors_origins=(shown.origin,)) as rest,
        chromium() as browser,
    ):
        await rest.make("jobs", backoff_min=0)
        (shown.text,) = blocks(rest, "html")
        visited = await browser.new_page()
        await visited.goto(shown.origin)
        await visited.wait_for_selector("#jobs:has-text('from a page')", timeout=TIMEOUT * 1000)
        await until(lambda: empty(rest))


async def empty(rest):
    return await counts(rest) == 0


async def test_the_program_of_the_page_works_the_queue_until_nothing_is_left(rest, tmp_path):
    _, _, begin, publish, *_ = blocks(rest, "bash")
    for name in ("one", "two"):
        text = publish.replace("order-1", name).replace('{"nr": 1}', f'"{name}"')
        await run("bash", "-e", "-c", begin + text, folder=tmp_path)
    (program,) = blocks(rest, "python")
    program = program.replace("wait=30", "wait=0.1")
    assert await run(sys.executable, "-c", program, folder=tmp_path) == 'got "one"\ngot "two"\n'
    assert await counts(rest) == 0
