"""`pubqueue worker` as its user runs it: a process, with a module in the current directory."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from harness.patience import TIMEOUT
from harness.processes.program import PUBQUEUE
from harness.servers.behind import behind_both, publishing, serving
from harness.starts import warm_start

from pubqueue import cli
from pubqueue.cli import main
from pubqueue.cli.worker import send_signal
from pubqueue.loopback import free_ports

NODE = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bot@localhost"]
[node.options]
"x-queueing#backoff_min" = 0
"""
APP = """
import sys
from pubqueue_xeps.handlers import Handlers

app = Handlers()
nothing = Handlers()

@app.handler("job")
def job(item):
    print("done", item.id, flush=True)

async def handle(item):
    print("{said}", item.id, flush=True)

mails = Handlers()

@mails.handler("mail", node="mails")
def mail(item): pass

class Kind: pass

number = 7

async def three(item, payload, more): pass
"""
URL = "xmpp://bot@localhost/queue.localhost"


def environment(**more):
    clean = {name: value for name, value in os.environ.items() if "PUBQUEUE" not in name}
    return clean | {"PUBQUEUE_PASSWORD": "secret"} | more


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "app.py").write_text(APP.replace("{said}", "done"))
    (tmp_path / "needy.py").write_text("import no_such_library")
    (tmp_path / "broken.py").write_text("raise ValueError('some text')")
    (tmp_path / "wrong.py").write_text("def (")
    (tmp_path / "part.py").write_text("from app import nobody")
    return tmp_path


class Running:
    """A program, its lines as they come."""

    def __init__(self, process):
        self.process = process
        self._lines = asyncio.Queue()
        self.said = []
        self._tasks = [
            asyncio.create_task(self._read(it)) for it in (process.stdout, process.stderr)
        ]

    async def _read(self, stream):
        async for line in stream:
            self.said.append(line.decode().rstrip())
            self._lines.put_nowait(self.said[-1])

    async def line(self, pattern):
        """Return the next line in which this is found."""
        async with asyncio.timeout(TIMEOUT):
            while not re.search(pattern, line := await self._lines.get()):
                pass
        return line

    async def end(self):
        async with asyncio.timeout(TIMEOUT):
            await asyncio.gather(*self._tasks)
            return await self.process.wait()


@asynccontextmanager
async def worker(folder, *arguments, command=(PUBQUEUE,), **more):
    process = await warm_start.program(
        *(*command, "worker", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(**more),
        cwd=folder,
    )
    running = Running(process)
    try:
        yield running
    finally:
        if process.returncode is None:
            process.terminate()
        await running.end()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["app"], "'app' is not of the form module:function"),
        (["app:"], "'app:' is not of the form module:function"),
        (["nowhere:app"], "there is no module nowhere, neither in {folder} nor installed"),
        (["app.deep:app"], "there is no module app.deep, neither in {folder} nor installed"),
        (["app:nobody"], "the module app has no nobody"),
        (["app:nothing"], "app:nothing has no handlers"),
        (["app:number"], "app:number is neither a function nor Handlers"),
        (["app:Kind"], "app:Kind is neither a function nor Handlers"),
        (["needy:app"], "the module needy needs no_such_library, which is not installed"),
        (["broken:app"], "the module broken cannot be imported (ValueError)"),
        (["wrong:app"], "the module wrong cannot be imported (SyntaxError)"),
        (
            ["app:app", "--url="],
            "no account is given: give jid= or a URL (url=, --url), or set PUBQUEUE_URL",
        ),
        (["app:app", "--url=http://x"], "the URL is an address over HTTP, with which commands of"),
        (["app:app", "--url=ftp://x"], "the URL is not of the form xmpp://bot@example.org/"),
        (["app:app", "--node="], "a worker needs the name of a node: give node= or --node"),
        (["app:app", "--node=more", "--node=jobs"], "the node 'jobs' is given more than once"),
        (
            ["app:app", "--weight=jobs"],
            "--weight 'jobs' is not of the form NODE=N, such as urgent=3",
        ),
        (["app:app", "--weight=jobs=0"], "the weight of 'jobs' is 0; it takes a whole number"),
        (["app:app", "--weight=more=2"], "a weight is given to 'more', which is no node of this"),
        (["app:mails"], "no handler takes items of the node 'jobs': the handlers name mails"),
        (["app:app", "--processes=2", "--metrics=65535"], "there are not 2 ports from 65535 on"),
        (["app:app", "--url=xmpp://a@b/c", "--processes=0"], "0 is not in the range x>=1"),
    ],
)
async def test_what_is_asked_wrongly_is_one_sentence(folder, arguments, sentence):
    async with worker(folder, "--url", URL, "--node=jobs", *arguments) as running:
        assert await running.end() == 2
    assert sentence.format(folder=folder) in running.said[-1]
    assert "secret" not in "".join(running.said)


async def test_a_missing_password_is_reported(folder):
    async with worker(folder, "app:app", "--url", URL, PUBQUEUE_PASSWORD="") as running:
        assert await running.end() == 2
    assert "there is no password for bot@localhost" in running.said[-1]


def test_without_the_library_reload_names_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    result = CliRunner().invoke(main, ["worker", "app:app", "--reload"])
    assert result.exit_code == 2
    assert result.output == "pubqueue: --reload needs pip install 'pubqueue[reload]'\n"


def test_without_the_library_metrics_name_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    result = CliRunner().invoke(main, ["worker", "app:app", "--metrics=9101"])
    assert result.exit_code == 2
    assert result.output == "pubqueue: --metrics needs pip install 'pubqueue[metrics]'\n"


def test_what_belongs_to_the_base_install_is_to_be_installed_again(monkeypatch):
    monkeypatch.setitem(cli.COMMANDS, "worker", ("no_such_library", ""))
    result = CliRunner().invoke(main, ["worker", "app:app"])
    wanted = "worker needs pip install --force-reinstall pubqueue (no module no_such_library)"
    assert (result.exit_code, wanted in result.output) == (2, True)


# --- at work -------------------------------------------------------------------------------------


server = behind_both("etl", "bot")
program = serving(NODE)


def url(server):
    return f"{URL}?host={server.host}&port={server.c2s_port}&tls=off&node=jobs"


@pytest.mark.e2e
@pytest.mark.parametrize("target", ["app:app", "app:handle"])
async def test_it_works_and_drains(server, program, folder, target):
    async with (
        worker(folder, target, PUBQUEUE_URL=url(server)) as running,
        publishing(server) as publish,
    ):
        line = await running.line("connected")
        assert re.fullmatch(
            r"pubqueue: connected as bot@localhost/worker-\w+ to jobs at queue.localhost, 10 at a time",
            line,
        )
        await publish("i1", "i2")
        done = [await running.line(r"done i\d") for _ in range(2)]  # both are worked at once
        assert {line[-2:] for line in done} == {"i1", "i2"}
        running.process.send_signal(signal.SIGTERM)
        assert await running.end() == 0
    assert [it for it in running.said if "pubqueue:" in it][1:] == [
        running.said[-2],
        "pubqueue: closed",
    ]
    assert "secret" not in "".join(running.said)


@pytest.mark.e2e
async def test_quiet_is_quiet(server, program, folder):
    arguments = ("app:app", "--url", url(server), "--quiet")
    async with worker(folder, *arguments) as running, publishing(server) as publish:
        await publish("i1")
        assert await running.line("done i1")
        running.process.send_signal(signal.SIGINT)
        assert await running.end() == 0
    assert running.said == ["done i1"]


@pytest.mark.e2e
async def test_a_refused_password_is_one_sentence(server, folder):
    arguments = ("app:app", "--url", url(server))
    async with worker(folder, *arguments, PUBQUEUE_PASSWORD="wrong") as running:
        assert await running.end() == 1
    (line,) = running.said
    assert line.startswith("pubqueue: localhost at ")
    assert "refused bot@localhost" in line


@pytest.mark.e2e
async def test_several_processes_are_one(server, program, folder):
    arguments = ("app:app", "--url", url(server), "--processes=2", "--requests=1")
    async with worker(folder, *arguments) as running, publishing(server) as publish:
        who = {await running.line("connected"), await running.line("connected")}
        assert len(who) == 2
        await publish("i1")
        assert await running.line("done i1")
        running.process.send_signal(signal.SIGTERM)
        assert await running.end() == 0
    assert running.said.count("pubqueue: closed") == 2


@pytest.mark.e2e
async def test_when_one_process_ends_all_do(server, folder):
    arguments = ("app:nobody", "--url", url(server), "--processes=2")
    async with worker(folder, *arguments) as running:
        assert await running.end() == 2


def test_a_signal_leaves_the_exit_code_of_one_that_has_just_ended():
    ended = subprocess.Popen(["true"])
    look = os.WEXITED | os.WNOWAIT
    os.waitid(os.P_PID, ended.pid, look)
    known = SimpleNamespace(pid=ended.pid, returncode=None, send_signal=ended.send_signal)
    send_signal([known], signal.SIGTERM)
    assert os.waitid(os.P_PID, ended.pid, look | os.WNOHANG).si_status == 0
    ended.wait()


@pytest.mark.e2e
@pytest.mark.parametrize(("flags", "workers"), [(["--processes=2"], 2), (["--reload"], 1)])
async def test_a_supervisor_that_is_killed_leaves_no_worker_behind(
    server, program, folder, flags, workers
):
    arguments = ("app:app", "--url", url(server), *flags)
    async with worker(folder, *arguments) as running:
        for _ in range(workers):
            await running.line("connected")
        running.process.kill()
        assert await running.end() == -signal.SIGKILL  # the pipes end with the last who has them
    assert running.said.count("pubqueue: closed") == workers


async def test_a_worker_without_an_answer_ends_at_once(folder):
    where = f"{URL}?host=127.0.0.1&port={free_ports(1)[0]}&tls=off&node=jobs"
    async with worker(folder, "app:app", "--url", where) as running:
        await running.line("127.0.0.1|localhost")
        running.process.terminate()
        assert await running.end() == -signal.SIGTERM


@pytest.mark.e2e
async def test_a_change_of_the_program_begins_it_again(server, program, folder):
    arguments = ("app:handle", "--url", url(server), "--reload")
    async with worker(folder, *arguments) as running, publishing(server) as publish:
        await running.line("connected")
        await publish("i1")
        await running.line("done i1")
        (folder / "app.py").write_text("def (")
        assert await running.line("restarting") == "pubqueue: app.py changed, restarting"
        await running.line("the module app cannot be imported")
        (folder / "app.py").write_text(APP.replace("{said}", "done anew"))
        await running.line("restarting")
        await running.line("connected")
        await publish("i2")
        await running.line("done anew i2")
        running.process.send_signal(signal.SIGTERM)
        assert await running.end() == 0
