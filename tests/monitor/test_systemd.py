"""What systemd hears of a service: when it serves, how far it is, that it lives, and that it reads its settings anew."""

import asyncio
import os
import signal
import socket
import time
from queue import SimpleQueue

import pytest
from harness.background import Background
from harness.batches.facts import NOW
from harness.batches.queue_requests import a_queue, publishes
from harness.patience import TIMEOUT, turns
from harness.processes.program import Program, write_config
from harness.servers.live import listener
from harness.servers.stub_server import StubServer

from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.observe import Phase
from pubqueue.model.decision import Refused
from pubqueue.monitor.process import STATUS, ServiceManager, service_manager, watchdog
from pubqueue.rules.access import CreationPolicy
from pubqueue.stores.sqlite.in_memory import MemoryStore
from pubqueue_demo.prosody import Prosody

SERVES = f"READY=1\nSTATUS={STATUS[Phase.AT_WORK]}"
WAITS = f"STATUS={STATUS[Phase.WAITING]}"
STARTS = f"STATUS={STATUS[Phase.STARTING]}"
STOPS = f"STOPPING=1\nSTATUS={STATUS[Phase.STOPPING]}"
LIVES = "WATCHDOG=1"


class Systemd:
    """Listens where a service manager does."""

    def __init__(self, path):
        self.path = path
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(0)

    async def hears(self):
        async with asyncio.timeout(TIMEOUT):
            return (await asyncio.get_running_loop().sock_recv(self.socket, 4096)).decode()

    async def hears_besides(self, *passed):
        """Return the next that is none of these."""
        while (said := await self.hears()) in passed:
            pass
        return said

    def pending(self):
        """Return what has come and was not heard."""
        found = []
        while True:
            try:
                found.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return found


@pytest.fixture
def beats_beside():
    """Return what holds the caller up for so many beats of a service in another thread, 50 ms each."""
    background, beats = Background(), SimpleQueue()
    beating = ServiceManager(beats.put).feed(0.05)
    living = asyncio.run_coroutine_threadsafe(beating, background.loop)

    def wait(count):
        while not beats.empty():
            beats.get()
        return [beats.get(timeout=TIMEOUT) for _ in range(count)]

    yield wait
    living.cancel()
    background.run(turns(3))
    background.close()


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    listening = Systemd(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", str(listening.path))
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    monkeypatch.delenv("WATCHDOG_USEC", raising=False)
    yield listening
    listening.socket.close()


# --- the program -----------------------------------------------------------------------------------


async def test_it_is_ready_when_the_server_has_accepted_it(systemd, tmp_path):
    async with StubServer() as server:
        config = write_config(tmp_path, server)
        server.secret, server.condition = "another", "conflict"  # somebody else has its place
        program = Program(config)
        await program.start("waiting")
        assert [await systemd.hears(), await systemd.hears()] == [STARTS, WAITS]
        await server.has_refused(3)
        assert systemd.pending() == []
        server.secret = "secret"
        await program.says("ready")
        assert await systemd.hears() == SERVES
        await program.stop()
        assert await systemd.hears() == STOPS
        assert systemd.pending() == []


async def test_the_service_manager_learns_when_a_reload_is_done(systemd, tmp_path):
    async with StubServer() as server:
        config = write_config(tmp_path, server)
        async with Program(config) as program:
            assert [await systemd.hears(), await systemd.hears()] == [STARTS, SERVES]
            for wrong in ("", "nonsense = 1\n"):
                config.write_text(wrong + config.read_text())
                before = time.monotonic_ns() // 1000
                os.kill(program.pid, signal.SIGHUP)
                reloading, moment = (await systemd.hears()).splitlines()
                assert reloading == "RELOADING=1"
                assert int(moment.removeprefix("MONOTONIC_USEC=")) >= before
                assert await systemd.hears() == "READY=1"
        assert "config.refused" in program.log


async def test_a_process_that_stands_still_does_not_report_that_it_lives(
    systemd, beats_beside, tmp_path, monkeypatch
):
    monkeypatch.setenv("WATCHDOG_USEC", "400000")
    async with StubServer() as server, Program(write_config(tmp_path, server)) as program:
        while await systemd.hears() != SERVES:
            pass
        assert await systemd.hears() == LIVES
        os.kill(program.pid, signal.SIGSTOP)
        try:
            wait_until_stopped(program.pid)
            systemd.pending()
            assert await asyncio.to_thread(beats_beside, 20) == [LIVES] * 20
            assert systemd.pending() == []
        finally:
            os.kill(program.pid, signal.SIGCONT)
        assert await systemd.hears() == LIVES


def wait_until_stopped(process):
    os.waitid(os.P_PID, process, os.WSTOPPED | os.WNOWAIT)


@pytest.mark.e2e
async def test_of_two_instances_behind_prosody_one_is_ready_and_the_other_waits(systemd, tmp_path):
    async with Prosody() as server:
        programs = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            store = tmp_path / "shared.db"
            programs.append(Program(write_config(tmp_path / name, listener(server), store=store)))
        try:
            await programs[0].start()
            assert [await systemd.hears(), await systemd.hears()] == [STARTS, SERVES]
            await programs[1].start("waiting")
            assert [await systemd.hears(), await systemd.hears()] == [STARTS, WAITS]
            assert systemd.pending() == []
            await programs[0].kill()
            await programs[1].says("ready")
            assert await systemd.hears() == SERVES
        finally:
            for program in programs:
                await program.kill()


# --- the watchdog ----------------------------------------------------------------------------------


async def test_a_loop_that_stands_still_does_not_report_that_it_lives(systemd, beats_beside):
    environment = {"NOTIFY_SOCKET": str(systemd.path), "WATCHDOG_USEC": "100000"}
    async with service_manager(environment):
        assert await systemd.hears() == LIVES
        systemd.pending()
        assert beats_beside(7) == [LIVES] * 7  # the loop is held up meanwhile
        assert systemd.pending() == []
        assert await systemd.hears() == LIVES
    systemd.pending()


class Held:
    """A store whose batches wait until they are let go on."""

    def __init__(self, store):
        self._store = store
        self.asked = asyncio.Event()
        self.free = asyncio.Event()

    async def batch(self, job):
        self.asked.set()
        await self.free.wait()
        return await self._store.batch(job)


async def test_a_broker_that_stays_in_one_round_does_not_live():
    store = MemoryStore()
    await store.open()
    held = Held(store)
    broker = Broker(
        held,
        Terms(CreationPolicy.ANYONE),
        clock=lambda: NOW,
    )
    broker.start()
    reporter = ServiceManager(lambda _words: None)
    reporter.at_work(broker, [])
    assert [reporter.lives(), reporter.lives()] == [True, True], "it has nothing to do"
    asking = asyncio.create_task(broker.handle(a_queue()))
    await held.asked.wait()
    assert [reporter.lives(), reporter.lives(), reporter.lives()] == [True, False, False]
    held.free.set()
    await asking
    for name in "abc":
        await broker.handle(publishes(name))
        assert reporter.lives(), "rounds that come to an end are work"
    await broker.stop()
    reporter.at_rest(Phase.STOPPING)
    assert [reporter.lives(), reporter.lives()] == [True, True]
    await store.close()


class Faulty:
    """A store that fails as no store may."""

    async def batch(self, job):
        raise RuntimeError("not a StoreError")


async def test_a_broker_whose_work_has_ended_does_not_live():
    broker = Broker(
        Faulty(),
        Terms(CreationPolicy.ANYONE),
        clock=lambda: NOW,
    )
    broker.start()
    reporter = ServiceManager(lambda _words: None)
    reporter.at_work(broker, [])
    assert isinstance(await broker.handle(a_queue()), Refused)
    assert reporter.lives()
    broker.task.cancel()
    await asyncio.wait([broker.task])
    assert not reporter.lives()
    await broker.stop()


@pytest.mark.parametrize(
    ("environment", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 30.0),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "5", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": str(os.getpid())}, 1.0),
    ],
)
def test_the_time_within_which_it_has_to_report_that_it_lives(environment, seconds):
    assert watchdog(environment) == seconds


async def test_without_a_service_manager_nothing_is_reported():
    async with service_manager({}) as nobody:
        nobody.ready()
        with nobody.reloading():
            pass
