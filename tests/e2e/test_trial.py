"""`pubqueue trial`: a server, a service and a shell that knows them; nothing is left when it ends."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from harness.patience import TIMEOUT

pytestmark = pytest.mark.e2e
PUBQUEUE = Path(sys.executable).with_name("pubqueue")
LOOKS = """
import json, os, pathlib
folders = sorted(map(str, pathlib.Path(os.environ["TMPDIR"]).iterdir()))
told = {name: os.environ[name] for name in ("PUBQUEUE_URL", "PUBQUEUE_PASSWORD")}
print(json.dumps([folders, told]), flush=True)
"""


async def trial(folder, *arguments, **more):
    return await asyncio.create_subprocess_exec(
        *(PUBQUEUE, "trial", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(folder)} | more,
    )


async def said(*arguments, typed=b"", **more):
    """Return the exit code, what went to stdout and what to stderr."""
    process = await trial(*arguments, **more)
    out, err = await asyncio.wait_for(process.communicate(typed), TIMEOUT)
    return process.returncode, out.decode(), err.decode()


async def test_a_command_gets_the_address_of_the_queue_and_leaves_nothing(tmp_path):
    code, out, err = await said(tmp_path, sys.executable, "-Ic", LOOKS)
    assert (code, err) == (0, "")
    folders, reported = json.loads(out)
    assert len(folders) == 2, "one of the server, one of the service"
    address, _, query = reported["PUBQUEUE_URL"].partition("?")
    assert address == "xmpp://bot@localhost/queue.localhost"
    assert query.startswith("host=127.0.0.1&port=")
    assert [*tmp_path.iterdir()] == []


async def test_a_shell_reads_on_and_its_status_is_the_trial_s(tmp_path):
    typed = b"echo $PUBQUEUE_PASSWORD\nexit 7\n"
    code, out, err = await said(tmp_path, typed=typed, SHELL="/bin/sh")
    assert (code, out) == (7, "trial\n")
    assert err == "the queue jobs is ready at queue.localhost; this is a shell, exit ends both\n"


SHELLS = {
    "bash": ("bash", {".bashrc": "PATH={}:$PATH\nPS1='mine> '\n"}),
    "zsh": ("zsh", {".zshrc": "PATH={}:$PATH\nPROMPT='mine> '\n"}),
    "zsh, its files elsewhere": (
        "zsh",
        {
            ".zshenv": "ZDOTDIR=$HOME/dot\nSEEN=mine\n",
            "dot/.zshrc": 'PATH={}:$PATH\nPROMPT="$SEEN> "\n',
        },
    ),
}
"""The user's own files: they put a folder in front of the PATH, and set the prompt."""


@pytest.mark.parametrize("shell", SHELLS)
async def test_the_shell_has_our_python_first_and_a_prompt_of_a_trial(tmp_path, shell):
    """Also behind the user's own file, which puts another one in front, as pyenv and conda do."""
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "python").write_text("#!/bin/sh\necho another\n")
    (shims / "python").chmod(0o755)
    program, files = SHELLS[shell]
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text.format(shims))
    inner = tmp_path / "temporary"
    inner.mkdir()
    reported, terminal = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *(PUBQUEUE, "trial"),
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env=os.environ
        | {"TMPDIR": str(inner), "SHELL": f"/bin/{program}", "HOME": str(tmp_path), "TERM": "dumb"},
        start_new_session=True,
    )
    os.close(terminal)
    said = b""
    try:
        for wanted, typed in ((b"(trial) mine> ", b"which python\n"), (b"/python\r\n", b"exit\n")):
            async with asyncio.timeout(TIMEOUT):
                while wanted not in said:
                    said += await asyncio.to_thread(os.read, reported, 4096)
            os.write(reported, typed)
        assert str(PUBQUEUE.with_name("python")).encode() in said
        assert await asyncio.wait_for(process.wait(), TIMEOUT) == 0
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
        os.close(reported)
    assert [*inner.iterdir()] == []


async def test_a_page_to_log_in_at(tmp_path):
    look = "import os, sys, urllib.request; print(urllib.request.urlopen(sys.stdin.readline().strip()).status)"
    process = await trial(tmp_path, "--page", sys.executable, "-Ic", look)
    line = (await asyncio.wait_for(process.stderr.readline(), TIMEOUT)).decode().split()
    (address,) = [word for word in line if word.startswith("http://127.0.0.1:")]
    assert len(line[-1]) >= 20
    out, _ = await asyncio.wait_for(process.communicate(f"{address}healthz\n".encode()), TIMEOUT)
    assert (process.returncode, out) == (0, b"200\n")


async def test_sigterm_ends_all_of_it(tmp_path):
    process = await trial(tmp_path, sys.executable, "-Ic", LOOKS + "input()")
    assert await asyncio.wait_for(process.stdout.readline(), TIMEOUT)
    process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(process.communicate(), TIMEOUT)
    assert process.returncode == 128 + signal.SIGTERM
    assert [*tmp_path.iterdir()] == []


async def test_a_program_that_is_not_there_is_one_sentence(tmp_path):
    code, out, err = await said(tmp_path, "no-such-program")
    assert (code, out, err) == (2, "", "pubqueue: there is no program no-such-program\n")


async def test_without_prosody_it_names_what_to_install(tmp_path, monkeypatch):
    absent = (
        "import pubqueue_demo.prosody as p, shutil; shutil.which = lambda *a, **k: None;"
        "from pubqueue.cli import main; main(['trial', 'true'])"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-Ic", absent), stderr=asyncio.subprocess.PIPE
    )
    _, err = await asyncio.wait_for(process.communicate(), TIMEOUT)
    assert process.returncode == 2
    assert err == b"pubqueue: Prosody is not installed: run `apt-get install prosody`\n"
