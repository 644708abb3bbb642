"""What is told over HTTP of a service: its health while it comes and goes, and numbers that are those of its queues."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import aiohttp
import pytest
from harness.operators.metrics_reader import Watcher
from harness.patience import TIMEOUT
from harness.processes.program import Program, write_config
from harness.servers.live import JOBS
from harness.servers.stub_server import StubServer

from pubqueue.engine.observe import Phase
from pubqueue.engine.outbox import Outbox
from pubqueue.loopback import free_ports
from pubqueue.monitor.server import Health

PUBSUB = "http://jabber.org/protocol/pubsub"
ITEM = f"<pubsub xmlns='{PUBSUB}'><publish node='jobs'><item id='%s'><job xmlns='x'/></item></publish></pubsub>"


@asynccontextmanager
async def watched(folder, server, extra=JOBS):
    (port,) = free_ports(1)
    config = write_config(folder, server, f'http = "{port}"\n{extra}')
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(TIMEOUT)) as session:
        yield Program(config), Watcher(port, session)


async def publish(server, name, node="jobs", by="etl@localhost/x"):
    text = (ITEM % name).replace("'jobs'", f"'{node}'")
    await server.send(f"<iq type='set' id='p' from='{by}' to='{server.domain}'>{text}</iq>")
    return (await server.receive()).tree.get("type")


async def test_numbers_are_those_of_the_queue(tmp_path):
    async with StubServer() as server, watched(tmp_path, server) as (program, watcher), program:
        assert [await publish(server, name) for name in ("a", "b")] == ["result"] * 2
        assert await publish(server, "c", by="nobody@elsewhere/x") == "error"
        found = await watcher.metrics()
    assert found["pubqueue_items_published_total", "jobs"] == 2
    assert found["pubqueue_queue_depth", "jobs"] == 2
    assert found["pubqueue_queue_in_flight", "jobs"] == 0
    assert found["pubqueue_queue_oldest_age_seconds", "jobs"] >= 0
    assert found["pubqueue_requests_refused_total", "forbidden"] == 1
    assert found["pubqueue_nodes",] == 1
    assert found["pubqueue_store_answers",] == 1
    assert found["pubqueue_phase", "at work"] == 1
    assert found["pubqueue_server_sessions_total",] == 1
    assert found["pubqueue_server_bytes_total", "in"] > 300
    assert found["pubqueue_server_bytes_total", "out"] > 100
    assert found["pubqueue_waiting", "requests"] == 0
    assert found["pubqueue_batch_committing_seconds_count",] > 0


async def test_without_its_server_the_service_is_live_but_not_ready(tmp_path):
    async with StubServer() as server, watched(tmp_path, server) as (program, watcher), program:
        assert await watcher.ready() == (200, {"ready": True, "phase": "at work", "why_not": []})
        server.secret = "another"  # so that it does not come back at once
        await server.drop()
        status, said = await watcher.ready()
        while status == 200:  # the service has not read the end of its stream yet
            status, said = await watcher.ready()
        assert (status, said["why_not"]) == (503, ["server: not connected"])
        assert await watcher.get("/healthz") == (200, "alive\n")
        server.secret = "secret"
        while (await watcher.ready())[0] != 200:
            pass


async def test_the_health_page_reports_a_wait_for_the_store_or_the_server(tmp_path):
    async with StubServer() as server, watched(tmp_path, server) as (program, watcher):
        server.condition = "system-shutdown"  # one that passes
        server.secret = "another"
        starting = asyncio.create_task(program.start())
        try:
            while True:
                try:
                    status, said = await watcher.ready()
                    break
                except aiohttp.ClientConnectionError:
                    continue  # it is not listening yet
            assert (status, said["phase"], said["why_not"]) == (
                503,
                "starting",
                ["phase: starting"],
            )
            assert (await watcher.metrics())["pubqueue_phase", "starting"] == 1
            server.secret = "secret"
            await starting
            assert (await watcher.ready())[0] == 200
        finally:
            starting.cancel()
            await program.stop()


@pytest.mark.parametrize("path", ["/", "/metrics/", "/healthz?x=1/.."])
async def test_there_is_nothing_else_and_nothing_changes_by_asking(tmp_path, path):
    async with StubServer() as server, watched(tmp_path, server) as (program, watcher), program:
        status, _ = await watcher.get(path)
        assert status == (200 if path.startswith("/healthz") else 404)
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{watcher.place}/metrics") as answer,
        ):
            assert answer.status == 405


async def test_a_port_that_is_taken_is_one_sentence(tmp_path):
    async with StubServer() as server:
        config = write_config(tmp_path, server, f'http = "{server.port}"')
        program = Program(config)
        with pytest.raises(AssertionError, match="cannot be listened on"):
            await program.start()
        assert await program.ended() == 2


def test_the_service_is_ready_when_each_protocol_is_served_that_waits_for_nothing():
    """One that was up made it ready, and requests to the others were refused for a moment."""
    outbox, health = Outbox(lambda: None), Health()
    stomp, rest, xmpp = (SimpleNamespace(largest=1) for _ in range(3))
    outbox.attach(stomp)
    outbox.attach(rest)
    outbox.attach(xmpp, waits=True)
    health.phase, health.is_connected = Phase.AT_WORK, lambda: outbox.is_open
    health.is_beginning = lambda: outbox.is_beginning
    outbox.set_up(stomp, up=True)
    assert health.readiness(None).why_not == ("protocols: not all are served yet",)
    outbox.set_up(rest, up=True)
    assert health.readiness(None).ready
    outbox.set_up(rest, up=False)
    assert health.readiness(None).ready, "as before: others are served"
