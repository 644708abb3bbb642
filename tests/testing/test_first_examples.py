"""The first examples of other queues, in docs/explanation/coming-from.md: each pair of files does what the page says."""

import asyncio
import contextlib
import io
import re
import sqlite3
import sys
from pathlib import Path
from runpy import run_path

import pytest
from harness.patience import TIMEOUT, until

from pubqueue import Outbox, Publisher, Relay, Worker
from pubqueue.testing import Service

PAGE = Path(__file__).parents[2] / "docs/explanation/coming-from.md"
BLOCK = re.compile(r"^```python\n# (\S+\.py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = dict(BLOCK.findall(PAGE.read_text()))


@pytest.fixture
def service(monkeypatch, tmp_path):
    """Run the service, with the files in the current folder and the connection in the environment."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    with Service() as running:
        running.create("jobs", dedup_window=60)
        monkeypatch.setenv("PUBQUEUE_URL", running.url("etl"))
        monkeypatch.setenv("PUBQUEUE_PASSWORD", running.password)
        yield running
    sys.modules.pop("sorting", None)


def run(name):
    """Run a file; return what it has defined, and what it has printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        defined = run_path(name)
    return defined, printed.getvalue()


@contextlib.asynccontextmanager
async def working(service, name):
    """Let a worker take items with the handlers of a file, and yield what they print."""
    worker = Worker(**service.account("bot"), node="jobs", signals=())
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        task = asyncio.create_task(worker.run(run_path(name)["app"]))
        yield printed
        worker.stop()
        await asyncio.wait_for(task, TIMEOUT)


def test_each_block_is_run():
    assert len(FILES) == PAGE.read_text().count("```python") == 9


@pytest.mark.parametrize(
    ("works", "asks", "answer"),
    [("tasks.py", "call.py", "8\n"), ("greeting.py", "greet.py", "Hello, my name!\n")],
)
async def test_who_asks_gets_the_answer(service, works, asks, answer):
    async with working(service, works) as printed:
        await asyncio.to_thread(run_path, asks)
        await until(lambda: printed.getvalue() == answer)


async def test_a_chain_gives_the_result_of_one_task_to_the_next(service):
    service.publish("jobs", {"add": [4, 4]})
    async with working(service, "chain.py") as printed:
        await until(lambda: printed.getvalue() == "64\n")


async def test_a_job_is_inserted_in_a_transaction(service):
    with contextlib.closing(sqlite3.connect("shop.db")) as connection:
        Outbox().create_table(connection)
        connection.commit()
    run("insert.py")
    await Relay(Outbox(), "sqlite:///shop.db", Publisher()).drain()
    async with working(service, "sorting.py") as printed:
        await until(lambda: "['bear', 'tiger', 'whale']" in printed.getvalue())


async def test_a_mail_is_delivered_later(service):
    await asyncio.to_thread(run_path, "mail.py")
    (item,) = service.items("jobs")
    assert item.state == "delayed"
    async with working(service, "mailing.py") as printed:
        service.advance(61)
        await until(lambda: printed.getvalue() == "to foo@example.com Hello from Oban!\n")
