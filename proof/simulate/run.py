"""One run: faults for a while, then none, until every queue is empty; and what has come of it."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness import virtual_time
from harness.batches.facts import JOBS

from proof.judge.history import judged
from proof.simulate.feeds import DIGEST, ORDERS
from proof.simulate.oracle import Oracle
from proof.simulate.places import PLACES
from proof.simulate.plan import MINUTES, FaultKind, draw
from proof.simulate.quiet import listening
from proof.simulate.ticks import true_time
from proof.simulate.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proof.simulate.plan import Fault

DRAINED: Final = 300.0
"""Virtual seconds after the last fault within which every queue is empty; with one for each item that waits then, and
with as many as a clock was ahead: who was told to wait waits until the time has come by that clock."""

REDRIVEN: Final = 60.0
LOOK: Final = 5.0
BY_JUDGE: Final = "the histories of the clients are not those of a queue"
WATCH: Final = 2.0
"""Virtual seconds between two looks at what should not last."""


@dataclass
class Outcome:
    """What has come of a run: `violation` is the first promise that was broken, `at` the virtual time of the end.

    `trace` is the same whenever the same run is repeated.
    """

    seed: int
    store: str
    plan: Sequence[Fault]
    minutes: float
    violation: str = ""
    at: float = 0.0
    drained: float = 0.0
    seconds: float = 0.0
    trace: int = 0
    items: int = 0
    delivered: int = 0
    completed: int = 0
    died: int = 0
    emptied: int = 0
    faults: Counter[FaultKind] = field(default_factory=Counter)

    @property
    def rule(self) -> str:
        """Which promise was broken."""
        return self.violation.partition(":")[0]


class Run:
    """A run of a seed, with the faults that follow from it or with some of them."""

    def __init__(
        self,
        seed: int,
        store: str,
        *,
        minutes: float = MINUTES,
        plan: Sequence[Fault] | None = None,
    ) -> None:
        self._minutes = minutes
        self.outcome = Outcome(seed, store, draw(seed, minutes) if plan is None else plan, minutes)
        self._violated = asyncio.Event()
        self._time: Callable[[], float] = lambda: 0.0

    def run(self) -> Outcome:
        """Run to the end, or to the first violation."""
        began = time.perf_counter()
        with listening(self._object), tempfile.TemporaryDirectory(prefix="pubqueue-history-") as at:
            virtual_time.run(self._main(Path(at)))
        self.outcome.seconds = time.perf_counter() - began
        return self.outcome

    def _object(self, what: str) -> None:
        if not self._violated.is_set():
            self.outcome.violation = what
            self.outcome.at = self._time()
            self._violated.set()

    def _fault_of_loop(self, _loop: object, context: dict[str, Any]) -> None:
        self._object(
            f"nobody has caught an exception: {context.get('exception') or context['message']!r}"
        )

    async def _main(self, folder: Path) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(self._fault_of_loop)
        self._time = loop.time
        place = PLACES[self.outcome.store]()
        oracle = Oracle(place, self._object)
        world = World(self.outcome.seed, place, oracle, folder)
        parts = self._live(world, oracle, folder), _watch(world, oracle), self._violated.wait()
        tasks = [asyncio.ensure_future(part) for part in parts]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()  # raises what has gone wrong in the simulator itself
        finally:
            for task in tasks:
                task.cancel()
            world.end()
            await asyncio.sleep(0)
            self._sum_up(oracle)
            place.close()

    async def _live(self, world: World, oracle: Oracle, folder: Path) -> None:
        loop = asyncio.get_running_loop()
        await world.begin()
        for fault in self.outcome.plan:
            loop.call_at(fault.at, partial(self._befall, world, fault))
        await asyncio.sleep(self._minutes * 60 - loop.time())
        await world.recover()
        left = oracle.left(JOBS, ORDERS, DIGEST)
        began, longest = loop.time(), DRAINED + len(left) + _ahead(self.outcome.plan)
        while not all(one.is_done for one in world.publishers) or left:
            if loop.time() - began > longest:
                self._object(f"not drained: {len(left)} items are left, {left[:4]}")
                return
            if (loop.time() - began) % REDRIVEN < LOOK:
                await world.redrive()
            await asyncio.sleep(LOOK)
            left = oracle.left(JOBS, ORDERS, DIGEST)
        self.outcome.drained = loop.time() - began
        oracle.finish(true_time())
        await world.read()
        self._have_judged(sorted(folder.iterdir()))  # noqa: ASYNC240  # time is virtual

    def _have_judged(self, histories: Sequence[Path]) -> None:
        judgement = judged(histories)
        if not judgement.is_right:
            self._object("\n".join([f"{BY_JUDGE}: {judgement.summary}", *judgement.lines[:-1]]))

    def _befall(self, world: World, fault: Fault) -> None:
        self.outcome.faults[fault.kind] += 1
        world.befall(fault)

    def _sum_up(self, oracle: Oracle) -> None:
        outcome = self.outcome
        outcome.at = outcome.at or self._time()
        outcome.items = len(oracle.confirmed)
        outcome.delivered, outcome.completed = oracle.delivered, oracle.completed
        outcome.died, outcome.emptied, outcome.trace = oracle.died, oracle.emptied, oracle.trace


async def _watch(world: World, oracle: Oracle) -> None:
    """Look all the time at what should not last."""
    while True:
        await asyncio.sleep(WATCH)
        oracle.watch(world.time_if_well(), world.excused())


def _ahead(plan: Sequence[Fault]) -> float:
    """Return how far a clock was ahead, at most."""
    return max([0.0, *(fault.size for fault in plan if fault.kind is FaultKind.CLOCK)])
