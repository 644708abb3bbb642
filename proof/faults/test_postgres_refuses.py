"""PostgreSQL is there and refuses: requests get *wait* in bounded time, also those that only read, and it goes on by itself."""

import asyncio
import os
import signal
from contextlib import ExitStack

import psycopg
import pytest
from harness.clients.crowd import crowd
from harness.clients.store_lost import BEE, NODE, WAIT, Stubborn, count
from harness.databases.postgres import ENDED, SESSIONS, Postgres
from harness.patience import until
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer

FEW = {"max_connections": "12", "superuser_reserved_connections": "3", "max_wal_senders": "0"}
OTHERS = f"{ENDED} application_name != 'pubqueue' AND usename = 'queue'"
ITEMS = "<items node='jobs'/>"


@pytest.fixture
def postgres(monkeypatch):
    with Postgres(**FEW) as server:
        monkeypatch.setenv("PUBQUEUE_STORE", server.address)
        yield server


async def test_a_table_that_another_has_locked(postgres, tmp_path):
    """Twenty wait behind the one that waits for the lock: all of them are answered when its patience ends, not in turns."""
    async with StubServer(secret="a secret") as server, crowd(server) as people:
        people.handle = Stubborn(people).work
        async with Program(write_config(tmp_path, server, NODE)) as program:
            assert await people.publish("a") == "result"
            with postgres.session() as other:
                other.execute("BEGIN")
                other.execute("LOCK TABLE pubqueue.item IN ACCESS EXCLUSIVE MODE")
                readers = [people.read(BEE, ITEMS) for _ in range(20)]
                writers = [people.publish(f"b{number}") for number in range(20)]
                assert set(await asyncio.gather(*readers, *writers)) == {WAIT}
                await people.ping()
                other.execute("COMMIT")
            assert program.log.count("event=read.failed") < 5
            assert program.log.count("event=batch.lost") < 5
            assert await people.publish("b") == "result"
            assert await people.read(BEE, ITEMS) == "result"
            await people.join(BEE, 2)
            await people.all_done()
            await program.stop()
    people.ledger.compare(await count(postgres.address))


async def test_too_many_connections(postgres, tmp_path):
    """At the start the service waits until there is one for it; later its requests are refused until then."""
    async with StubServer(secret="a secret") as server, crowd(server) as people:
        people.handle = Stubborn(people).work
        program = Program(write_config(tmp_path, server, NODE))
        try:
            with ExitStack() as others:
                take_all(others, postgres)
                starting = asyncio.create_task(program.start())
                await until(lambda: program.log.count("event=store.unreachable") >= 2)
                assert not starting.done()
            await starting
            assert await people.publish("a") == "result"
            with ExitStack() as others:
                while await people.publish("b") == "result":
                    postgres.ask(SESSIONS)
                    take_all(others, postgres)
                assert await people.publish("c") == WAIT
                assert await people.read(BEE, ITEMS) == WAIT
                await people.ping()
                postgres.ask(OTHERS)
            assert await people.publish("d") == "result"
            await people.join(BEE, 2)
            await people.all_done()
            await program.stop()
        finally:
            await program.kill()
    assert "connection slots" in program.log or "too many clients" in program.log
    assert "Traceback" not in program.log
    people.ledger.compare(await count(postgres.address))


def take_all(others, postgres):
    """Take connections until there are no more."""
    while True:
        try:
            others.enter_context(psycopg.connect(postgres.address))
        except psycopg.OperationalError:
            return


async def test_a_service_that_waits_for_its_store_can_be_stopped(postgres, tmp_path):
    postgres.stop()
    async with StubServer(secret="a secret") as server:
        program = Program(write_config(tmp_path, server, NODE))
        starting = asyncio.create_task(program.start())
        await until(lambda: "event=store.unreachable" in program.log)
        os.kill(program.pid, signal.SIGTERM)
        with pytest.raises(AssertionError, match="said b''"):
            await starting
        assert await program.ended() == 0
    assert "Traceback" not in program.log
