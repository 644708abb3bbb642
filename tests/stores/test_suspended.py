"""A process that is suspended for longer than its lease: it wakes up fenced, confirms nothing more, and enters again."""

import asyncio
import signal
import sys
from contextlib import asynccontextmanager

import pytest
from harness.patience import TIMEOUT
from harness.processes import suspended
from stores.of_instances import died
from stores.test_postgres_hanging import stopped

from pubqueue.stores import store_at
from pubqueue.stores.postgres import instances as of_postgres
from pubqueue.stores.sql import columns
from pubqueue.stores.sqlite import instances as of_sqlite

LEASE = 1.0


class Other:
    """The process that is suspended."""

    def __init__(self, process):
        self.process = process

    async def says(self):
        async with asyncio.timeout(TIMEOUT):
            return (await self.process.stdout.readline()).decode().strip()

    async def writes(self):
        self.process.stdin.write(b"\n")
        return await self.says()


@asynccontextmanager
async def process(address):
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", suspended.__file__, address, str(LEASE)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        yield Other(started)
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_an_instance_suspended_longer_than_its_lease_is_fenced(
    postgres, tmp_path, monkeypatch, kind
):
    for module in (columns, of_postgres, of_sqlite):
        monkeypatch.setattr(module, "LEASE", LEASE)
    address = postgres.address if kind == "postgresql" else f"sqlite://{tmp_path}/queue.db"
    store = store_at(address)
    await store.open()
    async with process(address) as other:
        assert await other.says() == "entered"
        assert await other.writes() == "committed 1"
        await store.instances.enter()
        other.process.send_signal(signal.SIGSTOP)
        await asyncio.to_thread(stopped, other.process.pid)
        assert await died(store.instances) == [0], "though it has its locks"
        assert await store.batch(lambda tx: tx.number("item", 1)) == 2
        await store.instances.leave(0)
        other.process.send_signal(signal.SIGCONT)
        assert await other.writes() == "fenced"
        assert await other.says() == "entered"
        assert await other.writes() == "committed 3", "and nothing in between"
    await store.close()
