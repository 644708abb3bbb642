"""The demo from its command line: what it prints, how it ends, and that it leaves nothing."""

import asyncio
import os
import re
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from harness.patience import TIMEOUT

from pubqueue_demo.process import Child, spawn

pytestmark = [pytest.mark.e2e, pytest.mark.spark]


@pytest.fixture
def scratch():
    """Where the demo has its files: PostgreSQL, which is not run as root, has to come there too."""
    with tempfile.TemporaryDirectory(prefix="pubqueue-e2e-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.fixture
async def demo(tmp_path, scratch):
    """Start the demo with these flags, its files in a folder of ours; kill it if the test fails."""
    started: list[Child] = []

    async def start(*flags: str) -> Child:
        child = await spawn(
            [sys.executable, "-Im", "pubqueue", "demo", *flags],
            name="the demo",
            log=tmp_path / "stderr",
            env=os.environ | {"TMPDIR": str(scratch)},
        )
        started.append(child)
        return child

    yield start
    for child in started:
        await child.kill()


def left(scratch: Path) -> tuple[list[str], list[str]]:
    """Return the files that are left, and the processes: all have inherited the TMPDIR."""
    mark = f"TMPDIR={scratch}".encode()
    processes = [p.name for p in Path("/proc").iterdir() if p.name.isdigit() and mark in environ(p)]
    return [path.name for path in scratch.iterdir()], processes


def environ(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""


async def play(child: Child) -> tuple[int, str]:
    lines = [line async for line in child.lines()]
    return await child.wait(), "\n".join(lines)


def figure(text: str, name: str) -> int:
    found = re.search(rf"│ {name} +│ +([\d,]+) │", text)
    assert found, text
    return int(found[1].replace(",", ""))


async def test_two_hundred_flights_are_rebooked_though_a_worker_dies_and_one_stalls(
    demo, tmp_path, scratch
):
    code, text = await play(await demo("--items", "200"))
    assert code == 0, text + (tmp_path / "stderr").read_text()
    assert "200 of the table's 336,776 flights" in text
    assert "bot1 was killed (SIGKILL); another takes its place" in text
    assert "bot3 hangs for 7.5 s" in text
    assert (figure(text, "published"), figure(text, "completed")) == (200, 200)
    assert figure(text, "lost") == 0
    assert figure(text, "redelivered") > 0
    assert left(scratch) == ([], [])


async def test_nothing_is_lost_when_the_component_is_killed_twice_and_one_worker_has_all_faults(
    demo, tmp_path, scratch
):
    child = await demo("--items", "300", "--workers", "1", "--kill-component", "2")
    code, text = await play(child)
    assert code == 0, text + (tmp_path / "stderr").read_text()
    assert text.count("the component was killed (SIGKILL); starting it again") == 2
    assert text.count("the component is back") == 2
    assert (figure(text, "completed"), figure(text, "lost")) == (300, 0)
    assert left(scratch) == ([], [])


async def test_on_postgresql_the_second_instance_takes_over_when_the_first_is_killed(
    demo, tmp_path, scratch
):
    child = await demo("--items", "200", "--store", "postgres", "--instances", "2")
    code, text = await play(child)
    assert code == 0, text + (tmp_path / "stderr").read_text()
    waits = "waits, to take over when the one at work is gone"
    assert f"instance 2 of the component {waits}" in text
    assert "killing the active instance" in text
    assert "instance 1 of the component was killed (SIGKILL); starting it again" in text
    assert "instance 2 of the component has taken over" in text
    assert (figure(text, "completed"), figure(text, "lost")) == (200, 0)
    assert left(scratch) == ([], [])


@pytest.mark.parametrize("moment", ["the component is ready", "Spark writes"])
async def test_ctrl_c_ends_it_and_leaves_nothing(demo, tmp_path, scratch, moment):
    child = await demo("--items", "500")
    async for line in child.lines():
        if moment in line:
            break
    # twice, as an impatient user does
    child.send(signal.SIGINT)
    child.send(signal.SIGINT)
    async with asyncio.timeout(TIMEOUT):
        assert await child.wait() == 128 + signal.SIGINT
    ending = "pubqueue demo: interrupted; everything is ended and removed\n"
    assert (tmp_path / "stderr").read_text() == ending
    assert left(scratch) == ([], [])


async def test_items_that_make_no_sense_are_refused(demo, tmp_path):
    child = await demo("--items", "0")
    assert await child.wait() == 2
    ending = "pubqueue demo: the demo needs at least one item, not 0\n"
    assert (tmp_path / "stderr").read_text() == ending
