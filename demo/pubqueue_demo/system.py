"""The whole demo: starts and stops server, component, workers and Spark job in order."""

from __future__ import annotations

import asyncio
import random
import secrets
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pubqueue_demo import queue_state
from pubqueue_demo.faults import assigned
from pubqueue_demo.java import java_home
from pubqueue_demo.postgres import Postgres
from pubqueue_demo.prosody import Prosody
from pubqueue_demo.publisher import Publisher
from pubqueue_demo.queue_state import File, QueueState, Schema
from pubqueue_demo.screen import Rate, View, WorkerView
from pubqueue_demo.service import Service
from pubqueue_demo.tally import Tally, WorkerCount
from pubqueue_demo.workers import Workers

if TYPE_CHECKING:
    from pubqueue_demo.queue_state import Database
    from pubqueue_demo.screen import Screen
    from pubqueue_demo.tally import Figures

# The lock timeout in seconds.
LOCK_TIMEOUT: Final = 5
# The table has 10,200 such late flights; the workers start before it is read.
EXPECTED: Final = 10_000

LOOK_EVERY: Final = 0.25
# Seconds without any progress after which the run is ended.
STUCK: Final = 60.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run. `kills` is how often the component is killed, at random moments.

    The component keeps its items in `postgres` or in a file; only one of several instances is active at a time.
    """

    items: int | None
    workers: int
    kills: int = 0
    postgres: bool = False
    instances: int = 1


class DemoSystem:
    """One run of the demo."""

    def __init__(self, plan: Plan, screen: Screen) -> None:
        self._plan = plan
        self._screen = screen
        self._tally = Tally()
        self._rate = Rate()
        self._state = QueueState()
        # The fractions of all publishes and completions at which the component is killed.
        self._kill_at = sorted(random.uniform(0.02, 0.95) for _ in range(plan.kills))  # noqa: S311
        self._service: Service
        self._publisher: Publisher
        self._workers: Workers

    async def run(self) -> Figures:
        """Run everything, judge the result, and leave nothing behind; raise ChildError if a part fails."""
        async with AsyncExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pubqueue-demo-")))
            await self._set(stack, folder)
            async with asyncio.TaskGroup() as tasks:
                workers = self._plan.workers
                self._screen.note(f"starting Spark, and workers: {workers}; Java takes its time")
                supervisor = tasks.create_task(self._service.supervise())
                for bot in self._workers.bots:
                    tasks.create_task(self._workers.keep_running(bot))
                tasks.create_task(
                    self._publisher.publish(
                        self._plan.items, crashes=lambda: self._service.restarts
                    )
                )
                await self._watch()
                await self._workers.stop()
                supervisor.cancel()
            left = await asyncio.to_thread(queue_state.remaining, self._service.database)
        return self._tally.figures(self._publisher.published or (), left)

    async def _set(self, stack: AsyncExitStack, folder: Path) -> None:
        """Start the server and the component."""
        note = self._screen.note
        home = await asyncio.to_thread(java_home, folder)
        server = await stack.enter_async_context(Prosody())
        note(f"Prosody is ready on {server.host}:{server.c2s_port}")
        if self._plan.instances > 1:
            note(
                "Prosody accepts one instance at a time; with ejabberd all of them would be active"
            )
        bots = [f"bot{number}" for number in range(1, self._plan.workers + 1)]
        self._service = await stack.enter_async_context(
            Service(
                server,
                folder,
                await self._database(stack, folder),
                instances=self._plan.instances,
                members=bots,
                lock_timeout=LOCK_TIMEOUT,
                note=note,
            )
        )
        self._publisher = await Publisher(server, folder, home, note=note).prepare()
        self._workers = Workers(
            server, folder, tally=self._tally, note=note, on_progress=self._kill_if_due
        )
        items = self._plan.items or EXPECTED
        shares = assigned(items=items, workers=self._plan.workers, lock_timeout=LOCK_TIMEOUT)
        for name, faults in zip(bots, shares, strict=True):
            await self._workers.add(name, secrets.token_hex(16), faults)

    async def _database(self, stack: AsyncExitStack, folder: Path) -> Database:
        """Return the database of the component."""
        if not self._plan.postgres:
            return File(folder / "pubqueue.db")
        server = await stack.enter_async_context(Postgres())
        self._screen.note(f"PostgreSQL is ready on {server.host}:{server.port}")
        return Schema(server.address)

    async def _watch(self) -> None:
        """Show the state until all is done, or nothing happens any more."""
        last_news, last_change = None, time.monotonic()
        while not self._finished:
            await asyncio.sleep(LOOK_EVERY)
            self._state = await asyncio.to_thread(queue_state.look, self._service.database)
            self._kill_if_due()
            self._screen.show(self._view())
            now = time.monotonic()
            news = (self._state, self._tally.lines, self._publisher.published is None)
            if news != last_news or self._publisher.published is None:
                last_news, last_change = news, now
            elif now - last_change > STUCK:
                return self._screen.note(f"nothing has happened for {STUCK:g} s; giving up")
        return self._screen.note("the queue is empty, and no worker has an item in hand")

    @property
    def _finished(self) -> bool:
        published = self._publisher.published is not None
        killed = not self._kill_at and self._service.up
        return published and killed and self._state.items == 0 and self._workers.idle

    @property
    def _done(self) -> int:
        """How many items are known to be done."""
        if self._publisher.published is None:
            return self._tally.done
        # Also items that were done by a worker which died before it read the confirmation.
        return len(self._publisher.published) - self._state.items

    def _view(self) -> View:
        done = self._done
        return View(
            total=self._publisher.total,
            depth=self._state.depth,
            in_flight=self._state.in_flight,
            done=done,
            rate=self._rate.now(done, time.monotonic()),
            workers=[
                WorkerView(bot.name, bot.state, self._tally.workers.get(bot.name, WorkerCount()))
                for bot in self._workers.bots
            ],
        )

    def _kill_if_due(self) -> None:
        if not (self._kill_at and self._publisher.total and self._service.up):
            return
        done = self._done
        progress = (self._state.items + 2 * done) / (2 * self._publisher.total)
        if progress >= self._kill_at[0]:
            self._kill_at.pop(0)
            whom = "the active instance" if self._plan.instances > 1 else "the component"
            self._screen.note(f"killing {whom} with {done:,} items done")
            self._service.kill()
