"""Relays of an outbox that are killed at random moments, beside a program that adds rows and a worker that does the work."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.operators.at_a_terminal import Operator
from harness.patience import LOOK, TIMEOUT, until
from harness.servers.live import component

from pubqueue import Worker
from pubqueue_demo.prosody import Prosody

if TYPE_CHECKING:
    from pathlib import Path

    from harness.databases.outboxes import Place

NODE: Final = """
[[node]]
name = "jobs"
queueing = true
publishers = ["etl@localhost"]
members = ["bot@localhost"]
[node.options]
"x-queueing#dedup_window" = 3600
"""
LEASE: Final = 2
"""Seconds; what a killed relay held comes back after them."""


@dataclass
class Found:
    """What was committed, what the worker got, and the relays' last words."""

    committed: list[tuple[str, str | None]] = field(default_factory=list)
    """The ids with their groups, in the order in which they were added."""
    done: list[str] = field(default_factory=list)
    codes: list[int | None] = field(default_factory=list)

    def wrong(self) -> list[str]:
        """Return what the outbox had promised and not kept."""
        times = Counter(self.done)
        names = [name for name, _ in self.committed]
        found = [f"{name} came {times[name]} times" for name in names if times[name] != 1]
        found += [f"{name} was rolled back, and came" for name in times.keys() - set(names)]
        for group in {group for _, group in self.committed if group is not None}:
            of_group = [name for name, its in self.committed if its == group]
            came = [name for name in self.done if name in set(of_group)]
            if came != of_group:
                found.append(f"{group} came as {came}")
        return found


async def bring_through(folder: Path, place: Place, *, rows: int, kills: int, seed: int) -> Found:
    """Add rows while two relays publish them, of which one is killed at each of several random moments; return what was found."""
    draw, found = random.Random(seed), Found()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(Prosody())
        for name in ("etl", "bot"):
            await server.account(name, "secret")
        await stack.enter_async_context(component(server, folder, NODE))
        operator = Operator(server, "etl")
        words = ("outbox", "relay", "--database", place.url, "--table", place.outbox.table)
        words += ("--interval", "0.02", "--lease", str(LEASE), "--timeout", str(LEASE * 0.9))

        async def start() -> Any:
            return await stack.enter_async_context(operator.running(*words))

        relays = [await start(), await start()]
        working = asyncio.create_task(_work(server, found))
        stack.push_async_callback(_end, working)
        adding = asyncio.create_task(asyncio.to_thread(_add, place, rows, seed, found))
        for moment in sorted(draw.sample(range(1, rows * 2 // 3), kills)):
            await until(lambda moment=moment: len(found.done) >= moment, every=draw.random() * LOOK)
            dying = draw.randrange(2)
            relays[dying].kill()
            relays[dying] = await start()
        await adding
        await until(
            lambda: len(found.done) >= len(found.committed) and not place.rows(), every=LOOK
        )
        for relay in relays:
            relay.send_signal(15)
            found.codes.append(await asyncio.wait_for(relay.wait(), TIMEOUT))
    return found


async def _work(server: Prosody, found: Found) -> None:
    where = {"service": "queue.localhost", "host": server.host, "port": server.c2s_port}

    async def handle(item: Any) -> None:
        found.done.append(item.id)

    worker = Worker("bot@localhost", "secret", node="jobs", **where, tls="off", signals=())
    await worker.run(handle, concurrency=1)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


def _add(place: Place, rows: int, seed: int, found: Found) -> None:
    """Add rows in transactions of a few, of which each fourth is rolled back."""
    draw, left = random.Random(seed), rows
    with closing(place.connect()) as connection:
        while left > 0:
            added = []
            for _ in range(draw.randint(1, 4)):
                group = draw.choice([None, "a", "b", "c"])
                added.append((place.outbox.add(connection, "jobs", left, group=group), group))
            if draw.random() < 0.25:
                connection.rollback()
            else:
                connection.commit()
                found.committed += added
                left -= len(added)
