"""A process hangs with the lock of whoever writes: the others go on, and it loses and confirms nothing when it goes on too."""

import asyncio
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from harness.patience import TIMEOUT
from harness.processes import pausing
from harness.stores.store_contents import recount
from stores.steps import EMPTY, add, ids, make

from pubqueue.engine.ports import StoreError
from pubqueue.model import changes as c
from pubqueue.stores.postgres import instances, schema
from pubqueue.stores.postgres.store import PostgresStore


@pytest.fixture
async def store(postgres, monkeypatch):
    monkeypatch.setattr(schema, "LOCK_TIMEOUT", 0.6)
    monkeypatch.setattr(instances, "HANGS", 0.3)
    store = PostgresStore(postgres.address)
    await store.open()
    await make(store, c.CreateNode(EMPTY))
    yield store
    await store.close()


def stopped(pid):
    """Return when every thread is stopped: the signal reaches one first, and the others may still run."""
    threads = Path(f"/proc/{pid}/task")
    while {(one / "stat").read_text().rpartition(")")[2][1] for one in threads.iterdir()} != {"T"}:
        pass


@asynccontextmanager
async def hung(address, moment):
    """A process that is stopped at that moment of a batch."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", pausing.__file__, address, moment),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(TIMEOUT):
            assert await process.stdout.readline() == b"waiting\n"
            process.send_signal(signal.SIGSTOP)
            await asyncio.to_thread(stopped, process.pid)
            process.stdin.write(b"\n")
            yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("moment", ["batch", "commit"])
async def test_others_go_on_and_a_hung_instance_is_refused_what_was_undone(store, postgres, moment):
    async with hung(postgres.address, moment) as process:
        await make(store, add("meanwhile"))
        process.send_signal(signal.SIGCONT)
        said, _ = await process.communicate()
    assert said == b"refused\nconfirmed\n"
    assert await ids(store) == ["meanwhile", "after"]
    assert await store.batch(recount) == []


async def test_a_slow_instance_keeps_the_lock(store, postgres, monkeypatch):
    monkeypatch.setattr(instances, "HANGS", 3600.0)
    async with hung(postgres.address, "batch") as process:
        with pytest.raises(StoreError, match="lock timeout"):
            await make(store, add("in-vain"))
        process.send_signal(signal.SIGCONT)
        said, _ = await process.communicate()
    assert said == b"confirmed\nconfirmed\n"
    assert await ids(store) == ["hung", "after"]


async def test_an_instance_in_doubt_about_a_commit_does_not_wait_for_one_that_hangs(
    store, postgres
):
    line = store.line
    async with hung(postgres.address, "batch"):
        assert await line.run(lambda: store.is_committed(line, RuntimeError("cut")))
