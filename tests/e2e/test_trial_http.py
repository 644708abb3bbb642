"""`pubqueue trial --http`: each line that it prints, pasted; and nothing is left when it ends."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from harness.patience import TIMEOUT

pytestmark = pytest.mark.e2e
PUBQUEUE = Path(sys.executable).with_name("pubqueue")
LINES = ("page", "publish", "take", "done", "STOMP", "", "Pub/Sub", "", "in JSON")
"""How the lines begin that follow the first one."""


async def trial(folder, *arguments):
    return await asyncio.create_subprocess_exec(
        *(PUBQUEUE, "trial", "--http", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(folder), "SHELL": "/bin/sh"},
    )


async def pasted(process, line, end):
    """Type a line into the shell, and return what it prints up to this text."""
    process.stdin.write(f"{line}\n".encode())
    async with asyncio.timeout(TIMEOUT):
        return (await process.stdout.readuntil(end.encode())).decode()


async def test_each_line_does_what_it_says_and_nothing_is_left(tmp_path):
    process = await trial(tmp_path)
    try:
        first, *others = [
            (await asyncio.wait_for(process.stderr.readline(), TIMEOUT)).decode().rstrip("\n")
            for _ in range(1 + len(LINES))
        ]
        assert re.fullmatch(
            r"the queue jobs is ready; the user is dev, with the password [0-9a-f]{16}; this is a shell, exit ends the service",
            first,
        )
        assert [line[:9].strip() for line in others] == [*LINES]
        page, publish, take, done, stomp, at, export, python, json = [line[9:] for line in others]
        assert re.fullmatch(
            r"at 127\.0\.0\.1:\d+, and for pages at ws://127\.0\.0\.1:\d+/stomp", at
        )
        assert "200" in await pasted(
            process, f"curl -s -o /dev/null -w '%{{http_code}}' -L {page}", "200"
        )
        await pasted(process, publish, "201 Created")
        taken = await pasted(process, take, "hello")
        (url,) = re.findall(r"msg-acknowledgement: (\S+)\r", taken)
        address = export.split()[1].partition("=")[2]
        await pasted(process, done.replace("URL", url).replace("  #", "; echo acked  #"), "acked")
        await pasted(process, stomp, "receipt-id:1")
        await pasted(process, take, "hello")
        assert "{}" in await pasted(process, f"{json}; echo sent", "sent")
        await pasted(process, take, "hello")
        assert "\n" in await pasted(process, f"{python} && echo said", "said")
        await pasted(process, take, "hello")
        await pasted(process, "echo $PUBSUB_EMULATOR_HOST", address)
        process.stdin.write(b"exit 7\n")
        assert await asyncio.wait_for(process.wait(), TIMEOUT) == 7
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    assert [*tmp_path.iterdir()] == []


async def test_a_command_runs_in_place_of_the_shell_and_sees_where_it_is(tmp_path):
    process = await trial(tmp_path, "printenv", "PUBSUB_EMULATOR_HOST", "PUBQUEUE_URL")
    out, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
    assert (process.returncode, err) == (0, b"")
    assert re.fullmatch(rb"127\.0\.0\.1:\d+\nhttp://dev@127\.0\.0\.1:\d+/\n", out)
    assert [*tmp_path.iterdir()] == []


async def test_a_program_that_is_not_there_is_one_sentence(tmp_path):
    process = await trial(tmp_path, "no-such-program")
    out, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
    assert (process.returncode, out) == (2, b"")
    assert err == b"pubqueue: there is no program no-such-program\n"
    assert [*tmp_path.iterdir()] == []


async def test_sigterm_ends_all_of_it(tmp_path):
    process = await trial(tmp_path, "sh", "-c", "echo begun; exec cat")
    assert await asyncio.wait_for(process.stdout.readline(), TIMEOUT) == b"begun\n"
    process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(process.communicate(), TIMEOUT)
    assert process.returncode == 128 + signal.SIGTERM
    assert [*tmp_path.iterdir()] == []


async def test_without_the_libraries_of_grpc_all_else_is_there(tmp_path):
    absent = (
        "import importlib.util as u, sys; find = u.find_spec;"
        "u.find_spec = lambda name, *more: None if name == 'grpc' else find(name, *more);"
        "from pubqueue.cli import main; main(['trial', '--http', '--page', 'true'])"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-Ic", absent),
        env=os.environ | {"TMPDIR": str(tmp_path)},
        stderr=asyncio.subprocess.PIPE,
    )
    _, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
    assert process.returncode == 0
    lines = err.decode().splitlines()
    assert [line[:9].strip() for line in lines[1:]] == [*LINES[:7]]
    assert lines[-1] == "Pub/Sub  needs pip install 'pubqueue[grpc]'"
