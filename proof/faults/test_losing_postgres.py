"""PostgreSQL goes away under work: requests get *wait*, nothing confirmed is lost, and it goes on by itself."""

import asyncio
import random
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from harness.clients.crowd import Crowd, crowd
from harness.clients.store_lost import BEE, NODE, WASP, Stubborn, count
from harness.databases.postgres import Postgres
from harness.databases.small_disk import SmallDisk
from harness.databases.standby import Standby, wait_for_standbys
from harness.patience import LOOK, until
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer

LARGE = f"<job xmlns='x'>{random.Random(1).randbytes(50_000).hex()}</job>"
"""More than fits into what is left of a page, and cannot be made smaller by much."""


@dataclass
class Work:
    people: Crowd
    stubborn: Stubborn
    program: Program

    async def until_done(self, so_many):
        """Return when so many are done."""
        await self.people.until(lambda: len(self.people.ledger.committed) >= so_many)


@asynccontextmanager
async def work_on(address, folder, monkeypatch):
    """Let a crowd publish and work; at the end all of it is done, and the store says so too."""
    monkeypatch.setenv("PUBQUEUE_STORE", address)
    async with (
        StubServer(secret="a secret") as server,
        crowd(server) as people,
        Program(write_config(folder, server, NODE)) as program,
    ):
        stubborn = Stubborn(people)
        await people.join(BEE, 4)
        publishing = people.spawn(stubborn.keep_publishing())
        work = Work(people, stubborn, program)
        await work.until_done(20)
        yield work
        stubborn.enough = True
        await publishing
        await stubborn.confirmed()
        await people.all_done()
        await program.stop()
    assert "Traceback" not in program.log
    found = await count(address)
    people.ledger.compare(found)
    assert found.items == {}


@pytest.fixture
def postgres():
    with Postgres() as server:
        yield server


@pytest.mark.parametrize("end", [Postgres.stop, Postgres.kill, Postgres.crash])
async def test_a_restart(postgres, tmp_path, monkeypatch, end):
    async with work_on(postgres.address, tmp_path, monkeypatch) as work:
        for _ in range(2):
            await asyncio.to_thread(end, postgres)
            await work.stubborn.are_refused()
            postgres.start()  # here: it ends with the thread that started it
            await work.until_done(len(work.people.ledger.committed) + 20)


async def test_a_standby_takes_over(tmp_path, monkeypatch):
    """What is confirmed is on both, so whichever dies; and locks are as they were."""
    with Postgres() as primary, Standby(primary) as standby:
        wait_for_standbys(primary)
        hosts = ",".join(f"{server.host}:{server.port}" for server in (primary, standby))
        address = f"postgresql://queue@{hosts}/queues?target_session_attrs=read-write"
        async with work_on(address, tmp_path, monkeypatch) as work:
            held = await kept_by(WASP, work)
            await asyncio.to_thread(primary.crash)
            await work.stubborn.are_refused()
            await asyncio.to_thread(standby.promote)
            standby.ask("ALTER SYSTEM RESET synchronous_standby_names")
            await work.until_done(len(work.people.ledger.committed) + 20)
            assert work.people.ledger.holds(WASP, held.item, held.token)
            await work.stubborn.work(held)
            assert held.item in work.people.ledger.committed


async def kept_by(worker, work):
    """Let a worker join that keeps what it is given in hand; return that."""
    kept = asyncio.get_running_loop().create_future()

    async def keep(delivery):
        if delivery.to == worker and not kept.done():
            kept.set_result(delivery)
        else:
            await work.stubborn.work(delivery)

    work.people.handle = keep
    await work.people.join(worker, 1)
    return await kept


async def test_a_disk_that_is_full_of_tables(tmp_path, monkeypatch):
    """PostgreSQL refuses what has no room."""
    with (
        SmallDisk(96 << 20) as disk,
        Postgres(inside=disk.inside, data=f"{disk.folder}/data") as server,
    ):
        async with work_on(server.address, tmp_path, monkeypatch) as work:
            disk.fill()
            await work.stubborn.fill(LARGE, lambda: "No space left on device" in work.program.log)
            disk.clear()
            await work.until_done(len(work.people.ledger.committed) + 20)


async def test_a_disk_that_is_full_of_its_log(tmp_path, monkeypatch):
    """PostgreSQL ends, for it cannot say what is committed; whoever looks after it starts it again when there is room."""
    with (
        SmallDisk(16 << 20) as disk,
        Postgres(inside=disk.inside, log=f"{disk.folder}/log", segment=1) as server,
    ):
        async with work_on(server.address, tmp_path, monkeypatch) as work:
            disk.fill()
            await work.stubborn.are_refused()
            disk.clear()
            enough = len(work.people.ledger.committed) + 20

            def is_done():
                if server.has_ended:  # at once, or after it has tried to mend itself
                    server.start()
                return len(work.people.ledger.committed) >= enough

            await until(is_done, every=LOOK)
