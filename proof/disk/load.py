"""A service whose store is on the disk that forgets, with a publisher and a worker over HTTP; the power fails again and again."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import httpx
from harness.http.clients import PLAIN
from harness.patience import until
from harness.servers.users import SERVICE, OwnService, table

from proof.faults_run import over_rest
from proof.faults_run.face_worker import USER, Rota
from proof.faults_run.over_rest import RestPublisher
from proof.faults_run.publisher import NODE
from proof.judge.history import History
from pubqueue.loopback import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from proof.disk.mounting import ForgetfulDisk

TABLES: Final = f"""
[rest]
listen = "{{place}}"
{table("etl")}
[[node]]
name = "{NODE}"
queueing = true
publishers = ["etl@{SERVICE}"]
members = ["etl@{SERVICE}"]
[node.options]
"x-queueing#lock_timeout" = 2
"x-queueing#backoff_min" = 0
"x-queueing#max_failures" = 1000
"x-queueing#dedup_window" = 3600
"""
ROOM: Final = 1.0
"""Seconds for which a publisher waits until there are fewer."""
LOOK: Final = 0.1
"""Seconds between two looks whether all is done."""
BACKLOG: Final = 15
"""Items that may wait, so that there is always work on its way when the power fails."""


async def bring_through(
    folder: Path, disk: ForgetfulDisk, items: int, failures: int, lose_power: Callable[[], None]
) -> list[Path]:
    """Publish and do so many items, while the power fails so many times; return the histories."""
    (port,) = free_ports(1)
    place = f"127.0.0.1:{port}"
    tables = TABLES.format(place=place)
    service = OwnService(folder, tables, store=f"sqlite:///{disk.path / 'queue.db'}")
    names = ("publisher", "worker", "reader")
    paths = {name: folder / f"{name}.jsonl" for name in names}
    publisher, worker, reader = (History(path, name) for name, path in paths.items())
    client, is_over = RestPublisher(publisher, [place]), threading.Event()

    async def room() -> None:
        with suppress(TimeoutError):  # what was lost is never done
            waits = len(client.confirmed) - BACKLOG
            await until(lambda: done(paths["worker"]) > waits, within=ROOM)

    async def fail() -> None:
        for number in range(1, failures + 1):
            due = number * items // (failures + 1)
            await until(lambda due=due: len(client.confirmed) >= due)
            await service.kill()
            await asyncio.to_thread(lose_power)
            await asyncio.to_thread(disk.start)
            await service.start()

    async def publish() -> None:
        await client.publish_all((f"i-{number}" for number in range(items)), room)

    async with service, asyncio.TaskGroup() as people:
        people.create_task(asyncio.to_thread(over_rest.work, worker, Rota([place]), is_over))
        try:
            await asyncio.gather(publish(), fail())
            await _emptied(place, reader)
        finally:
            is_over.set()
    return list(paths.values())


def done(history: Path) -> int:
    """Return how many retracts a history has that were begun."""
    return history.read_text().count('"result":"invoke"')


async def _emptied(place: str, history: History) -> None:
    """Wait until nothing is left, dead or alive, and write so."""
    async with httpx.AsyncClient(auth=USER, **PLAIN) as client:

        async def is_empty() -> bool:
            answer = await client.get(f"http://{place}/rest/queues/{NODE}")
            return answer.is_success and not answer.json()["counts"]["messages"]

        await until(is_empty, every=LOOK)
    history.read(NODE, [])
