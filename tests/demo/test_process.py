import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from harness.patience import TIMEOUT

from pubqueue_demo.process import ChildError, read_log, spawn, tail


async def shell(folder: Path, script: str, **more):
    return await spawn(["sh", "-c", script], name="it", log=folder / "log", **more)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def ended(pid: int) -> None:
    """Wait for the end of a process that is not our child."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    end = asyncio.Event()
    asyncio.get_running_loop().add_reader(handle, end.set)
    await end.wait()
    asyncio.get_running_loop().remove_reader(handle)
    os.close(handle)


async def test_the_line_waited_for_is_returned_and_the_next_ones_are_still_there(tmp_path):
    child = await shell(tmp_path, "echo noise; echo ready: now; echo more")
    assert await child.wait_line("ready", timeout=TIMEOUT) == "ready: now"
    assert [line async for line in child.lines()] == ["more"]
    assert await child.wait() == 0


async def test_a_child_that_ends_early_is_reported_with_its_last_output(tmp_path):
    child = await shell(tmp_path, "echo 'no such thing' >&2; exit 3")
    with pytest.raises(ChildError, match="it ended with status 3; its last lines:\nno such thing"):
        await child.wait_line("ready", timeout=TIMEOUT)


async def test_a_silent_child_is_reported(tmp_path):
    child = await shell(tmp_path, "exec sleep 60")
    with pytest.raises(ChildError, match=r"it was silent for 0\.05 s"):
        await child.wait_line("ready", timeout=0.05)
    await child.kill()


async def test_stop_asks_first(tmp_path):
    child = await shell(tmp_path, "trap 'echo bye; exit 7' TERM; echo ready; while :; do :; done")
    await child.wait_line("ready", timeout=TIMEOUT)
    assert await child.stop(grace=TIMEOUT) == 7
    assert [line async for line in child.lines()] == ["bye"]
    assert not child.running


async def test_stop_kills_what_does_not_listen_and_its_children(tmp_path):
    child = await shell(tmp_path, "trap '' TERM; sleep 60 & echo $!; wait")
    grandchild = int(await child.wait_line("", timeout=TIMEOUT))
    assert await child.stop(grace=0.05) == -signal.SIGKILL
    assert not alive(grandchild)
    assert await child.stop() == -signal.SIGKILL


async def test_a_child_runs_in_the_given_folder_with_the_given_arguments(tmp_path):
    child = await shell(tmp_path, "pwd; echo $WORD", cwd=tmp_path, env={"WORD": "yes"})
    assert [line async for line in child.lines()] == [str(tmp_path), "yes"]
    await child.wait()


async def test_a_child_dies_with_the_process_that_started_it(tmp_path):
    program = (
        "import asyncio, os, pathlib, signal\n"
        "from pubqueue_demo.process import spawn\n"
        "async def main():\n"
        f"    log = pathlib.Path({str(tmp_path / 'inner')!r})\n"
        "    child = await spawn(['sh', '-c', 'echo $$; exec sleep 60'], name='x', log=log)\n"
        "    print(await child.wait_line('', timeout=10), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "asyncio.run(main())\n"
    )
    outer = await spawn([sys.executable, "-Ic", program], name="outer", log=tmp_path / "log")
    inner = int(await outer.wait_line("", timeout=TIMEOUT))
    assert await outer.wait() == -signal.SIGKILL
    async with asyncio.timeout(TIMEOUT):
        await ended(inner)


def test_a_log_that_is_not_there_is_empty(tmp_path):
    assert (read_log(tmp_path / "none"), tail(tmp_path / "none")) == ("", "")


def test_the_tail_is_the_last_lines(tmp_path):
    log = tmp_path / "log"
    log.write_text("\n".join(str(number) for number in range(100)) + os.linesep)
    assert tail(log).splitlines() == [str(number) for number in range(85, 100)]
