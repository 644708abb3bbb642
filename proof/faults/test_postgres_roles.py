"""Who the service is to PostgreSQL: its password is nowhere to be read, and it needs no right but those on its schema."""

import asyncio
import re
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from harness.clients.crowd import ETL, crowd
from harness.clients.store_lost import BEE, NODE, Stubborn, count
from harness.databases.postgres import Postgres
from harness.processes.program import COLD, Program, write_config
from harness.servers.stub_server import StubServer
from harness.starts import warm_start

SECRET = "s3cr3t-pa55word"
WRONG = "wr0ng-pa55word"
DELETE = "<pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><delete node='jobs'/></pubsub>"

DATA_RIGHTS = """
    CREATE ROLE clerk LOGIN;
    GRANT CONNECT ON DATABASE queues TO clerk;
    GRANT USAGE ON SCHEMA pubqueue TO clerk;
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA pubqueue TO clerk;
    GRANT USAGE ON ALL SEQUENCES IN SCHEMA pubqueue TO clerk;
"""


@pytest.fixture(scope="module")
def postgres():
    with Postgres() as server:
        server.ask(f"ALTER ROLE queue PASSWORD '{SECRET}'")
        server.want_passwords()
        yield server


def in_the_address(server, _folder, password):
    return {"PUBQUEUE_STORE": server.address.replace("@", f":{password}@")}


def in_the_query(server, _folder, password):
    return {"PUBQUEUE_STORE": f"{server.address}?password={password}"}


def in_a_variable(server, _folder, password):
    return {"PUBQUEUE_STORE": server.address, "PGPASSWORD": password}


def in_a_file(server, folder, password):
    file = folder / "pgpass"
    file.write_text(f"{server.host}:{server.port}:queues:queue:{password}\n")
    file.chmod(0o600)
    return {"PUBQUEUE_STORE": server.address, "PGPASSFILE": str(file)}


def in_a_service(server, folder, password):
    """A section of libpq's file of services, which the address names."""
    file = folder / "services"
    lines = [f"host={server.host}", f"port={server.port}", "dbname=queues", "user=queue"]
    file.write_text("\n".join(["[queues]", *lines, f"password={password}", ""]))
    return {"PUBQUEUE_STORE": "postgresql:///?service=queues", "PGSERVICEFILE": str(file)}


@pytest.mark.parametrize(
    "given", [in_the_address, in_the_query, in_a_variable, in_a_file, in_a_service]
)
async def test_a_password_is_shown_nowhere(postgres, tmp_path, monkeypatch, given):
    """Not by `check`, nor in logs, whatever goes wrong; and processes are for all to see."""
    seen = []
    postgres.wipe()
    async with StubServer(secret="a secret") as server, crowd(server) as people:
        people.handle = Stubborn(people).work
        config = write_config(tmp_path, server, 'log_level = "debug"\n' + NODE)
        set_all(monkeypatch, given(postgres, tmp_path, SECRET))
        async with Program(config, COLD) as program:
            seen += titles(program.pid, postgres.pid)
            assert await people.publish("a") == "result"
            await asyncio.to_thread(postgres.kill)
            assert await people.publish("b") == "wait internal-server-error"
            seen.append((await checked(config))[1])
            postgres.start()  # here: it ends with the thread that started it
            await people.publish_until_confirmed("b")
            await people.join(BEE, 2)
            await people.all_done()
            await program.stop()
        set_all(monkeypatch, given(postgres, tmp_path, WRONG))
        status, said = await checked(config)
        assert (status, "password authentication failed" in said) == (1, True), said
        seen += [said, program.log]
    assert not re.search(f"{SECRET}|{WRONG}", "\n".join(seen))
    # The batch of "b" is lost; or a batch before it, of which nobody knows whether it was committed, holds it up.
    assert re.search(r"event=batch\.(lost|stalled)", program.log), program.log


def set_all(monkeypatch, variables):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


async def checked(config):
    """Return the status of `pubqueue check`, and all that it says."""
    process = await warm_start.pubqueue(
        *("check", "--config", config),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


def titles(*pids):
    """Return what `ps` shows of these processes and their children."""
    found = []
    for pid in pids:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for one in (pid, *children):
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                found.append(Path(f"/proc/{one}/cmdline").read_bytes().decode())
    return found


async def test_a_role_that_may_not_make_tables_serves(tmp_path, monkeypatch):
    """An owner has made them; the service's role has nothing but the data."""
    with Postgres() as postgres:
        assert (await count(postgres.address)).items == {}  # as the owner, who makes the schema
        postgres.ask(DATA_RIGHTS)
        clerk = postgres.address.replace("queue@", "clerk@")
        with psycopg.connect(clerk) as own, pytest.raises(psycopg.errors.InsufficientPrivilege):
            own.execute("CREATE TABLE pubqueue.mine (x int)")
        monkeypatch.setenv("PUBQUEUE_STORE", clerk)
        async with (
            StubServer(secret="a secret") as server,
            crowd(server) as people,
            Program(write_config(tmp_path, server, NODE)) as program,
        ):
            people.handle = Stubborn(people).work
            assert await people.publish("a", "b") == "result"
            await people.join(BEE, 2)
            await people.all_done()
            assert await people.result_of(ETL, "set", DELETE) == "result"
            await program.stop()
        assert "Traceback" not in program.log
        assert "permission denied" not in program.log
