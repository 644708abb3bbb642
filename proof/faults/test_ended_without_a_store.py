"""SIGTERM while PostgreSQL is away or hangs, in the middle of work: the service ends, and what it has confirmed is there."""

from contextlib import suppress

import pytest
from harness.clients.crowd import CutError, crowd
from harness.clients.store_lost import Stubborn, count
from harness.databases.postgres import Postgres
from harness.processes.program import Program, write_config
from harness.servers.stub_server import StubServer

from proof.faults.test_losing_postgres import NODE
from proof.stores.test_postgres_closing import Hung


@pytest.fixture
def postgres():
    with Postgres() as server:
        yield server


class Away:
    """The server is ended, and comes again."""

    def __init__(self, server):
        self._server = server

    def __enter__(self):
        self._server.kill()

    def __exit__(self, *_):
        self._server.start()


@pytest.mark.parametrize("trouble", [Away, Hung])
async def test_the_service_ends_while_its_store_does_not_answer(
    postgres, tmp_path, monkeypatch, trouble
):
    monkeypatch.setenv("PUBQUEUE_STORE", postgres.address)
    confirmed = []
    async with (
        StubServer(secret="a secret") as server,
        crowd(server) as people,
        Program(write_config(tmp_path, server, NODE)) as program,
    ):
        stubborn = Stubborn(people)

        async def publish():
            with suppress(CutError):  # the service has ended
                for number in range(10**6):
                    await stubborn.publish([f"i{number}"])
                    confirmed.append(f"i{number}")

        publishing = people.spawn(publish())
        await people.until(lambda: len(confirmed) >= 20)
        with trouble(postgres):
            await people.ping()
            await program.stop()
        await publishing
    assert "service.stopped" in program.log
    assert "Traceback" not in program.log
    found = await count(postgres.address)
    assert set(confirmed) <= {item for _, item in found.items}
    assert found.wrong == ()
