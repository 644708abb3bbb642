"""A warm start is the start of a process: what it is given, what it returns, and how it is ended."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from harness.patience import TIMEOUT, wait_until
from harness.starts import warm_start
from harness.starts.warm_start import PUBQUEUE

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
LOOK = """
import json, os, signal, sys

def look(item): pass

names = ("encoding", "errors", "line_buffering", "write_through")
print(json.dumps({
    "words": sys.argv,
    "environment": dict(os.environ),
    "folder": os.getcwd(),
    "path": sys.path[0],
    "streams": [[getattr(one, name) for name in names] for one in (sys.stdin, sys.stdout, sys.stderr)],
    "signals": [str(signal.getsignal(number)) for number in (2, 3, 13, 15)],
    "files": len(os.listdir("/proc/self/fd")),
    "group": os.getpgid(0),
    "parent": os.getppid(),
}))
sys.exit(7)
"""
"""The module of a worker, which prints how it has been started, and ends the program."""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "app.py").write_text(LOOK)
    return tmp_path


def words(command):
    return (*command, "worker", "app:look", "--url=xmpp://a@b/c", "--node=x")


def cold(folder, **environment):
    said = {"env": os.environ | {"PUBQUEUE_PASSWORD": "x"} | environment, "cwd": folder}
    return subprocess.run(words((PUBQUEUE,)), capture_output=True, text=True, check=False, **said)


def warm(folder, **environment):
    said = {"env": os.environ | {"PUBQUEUE_PASSWORD": "x"} | environment, "cwd": folder}
    return warm_start.run(*words(()), **said)


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONUNBUFFERED": ""}, {"PYTHONUNBUFFERED": "1"}, {"PYTHONIOENCODING": "latin"}],
)
def test_it_is_started_as_any_other(folder, environment):
    found, expected = warm(folder, **environment), cold(folder, **environment)
    assert json.loads(found.stdout) == json.loads(expected.stdout)
    assert (found.returncode, found.stderr) == (expected.returncode, expected.stderr) == (7, "")


def test_what_python_reads_when_it_starts_is_read(tmp_path):
    """It is an ordinary start then."""
    (tmp_path / "sitecustomize.py").write_text("print('read')")
    found = warm_start.run("--version", env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert found.stdout.startswith("read\n")


def waiting(**how):
    return warm_start.Popen((PUBQUEUE, "user", "password"), text=True, **PIPES, **how)


def test_it_reads_what_is_written_to_it():
    with waiting() as process:
        out, err = process.communicate("correct horse\n", timeout=TIMEOUT)
    assert (process.returncode, out[:7], err) == (0, "$scrypt", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGQUIT])
def test_a_signal_ends_it(number):
    with waiting() as process:
        process.send_signal(number)
        process.communicate(timeout=TIMEOUT)
    assert process.returncode == -number


async def test_it_is_waited_for_by_a_loop():
    pipe = asyncio.subprocess.PIPE
    process = await warm_start.pubqueue("user", "password", stdin=pipe, stdout=pipe, stderr=pipe)
    both = asyncio.gather(process.wait(), process.wait())
    assert process.returncode is None
    out, err = await asyncio.wait_for(process.communicate(b"correct horse\n"), TIMEOUT)
    assert (out[:7], err, await both, process.returncode) == (b"$scrypt", b"", [0, 0], 0)


TESTS = """
import os, sys, time
from harness.starts import warm_start
process = warm_start.Popen((warm_start.PUBQUEUE, "user", "password"), stdin=-1)
print(process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


def test_it_ends_with_the_process_that_has_started_it():
    command = (sys.executable, "-c", TESTS)
    where = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, stdout=-1, text=True, check=False, timeout=TIMEOUT, env=where)
    assert done.returncode == -signal.SIGKILL
    wait_until(lambda: not is_there(int(done.stdout)))


def is_there(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
