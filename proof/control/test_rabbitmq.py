"""The judge finds nothing where nothing is lost: RabbitMQ keeps what it confirms when it is killed, in a classic durable queue."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import suppress

import pytest
from bench.stomp.brokers import rabbitmq
from harness.patience import TIMEOUT, until

from proof.disk.load import ROOM, done
from proof.faults_run import over_stomp
from proof.faults_run.face_worker import Rota
from proof.faults_run.over_stomp import Dialect, StompPublisher
from proof.judge.history import History, judged

ITEMS, FAILURES = 300, 2
BACKLOG = 30
QUIET = 3.0
"""Seconds without a message after which there is none."""


class Rabbit:
    """RabbitMQ, killed and started again at another port each time."""

    def __init__(self, folder):
        self._folder = folder
        self.places = [""]
        self._killed = asyncio.Event()
        self._begun = asyncio.Event()

    async def live(self, lives):
        """Live so many lives, each of which ends when it is killed."""
        for _ in range(lives):
            async with rabbitmq(self._folder) as broker:
                self.places[0] = f"127.0.0.1:{broker.port}"
                self._begun.set()
                await self._killed.wait()
                self._killed.clear()
                os.kill(broker.pid, signal.SIGKILL)

    async def begun(self):
        await self._begun.wait()
        self._begun.clear()

    def kill(self):
        self._killed.set()


@pytest.mark.e2e
async def test_rabbitmq_loses_nothing_that_it_has_confirmed(tmp_path):
    dialect = Dialect(("guest", "guest"), {"persistent": "true"}, is_ours=False, host="/")
    paths = [tmp_path / f"{name}.jsonl" for name in ("publisher", "worker", "reader")]
    publisher, worker, reader = (History(path, path.stem) for path in paths)
    is_over = threading.Event()
    (tmp_path / "rabbit").mkdir()
    rabbit = Rabbit(tmp_path / "rabbit")
    async with asyncio.timeout(TIMEOUT), asyncio.TaskGroup() as people:
        people.create_task(rabbit.live(FAILURES + 1))
        await rabbit.begun()
        client = StompPublisher(publisher, rabbit.places, dialect)
        working = (over_stomp.work, worker, Rota(rabbit.places), is_over, dialect)
        people.create_task(asyncio.to_thread(*working))

        async def room():
            with suppress(TimeoutError):
                waits = len(client.confirmed) - BACKLOG
                await until(lambda: done(paths[1]) > waits, within=ROOM)

        async def fail():
            for number in range(1, FAILURES + 1):
                due = number * ITEMS // (FAILURES + 1)
                await until(lambda due=due: len(client.confirmed) >= due)
                rabbit.kill()
                await rabbit.begun()

        names = (f"i-{number}" for number in range(ITEMS))
        try:
            await asyncio.gather(client.publish_all(names, room), fail())
            await quiet(paths[1])
        finally:
            is_over.set()
        reader.read("jobs", [])
        rabbit.kill()
    judgement = judged(paths)
    assert judgement.is_right, judgement.lines


async def quiet(path):
    """Wait until a file has not grown for a while."""
    loop = asyncio.get_running_loop()
    size, since = 0, loop.time()

    def is_quiet():
        nonlocal size, since
        if (now := path.stat().st_size) != size:
            size, since = now, loop.time()
        return loop.time() - since > QUIET

    await until(is_quiet)
