"""Runs the demo from the command line: checks the arguments, runs it, and reports how it ended."""

from __future__ import annotations

import asyncio
import signal
import sys
from importlib.util import find_spec
from typing import Final

from pubqueue_demo.flights import NoTableError
from pubqueue_demo.java import NoJavaError
from pubqueue_demo.process import ChildError
from pubqueue_demo.prosody import NotInstalledError, PortTakenError
from pubqueue_demo.screen import Screen
from pubqueue_demo.system import DemoSystem, Plan

DEFAULT_WORKERS: Final = 4
# Each worker is a process that holds the table: 130 MB.
MAX_WORKERS: Final = 32
MAX_INSTANCES: Final = 8
MAX_KILLS: Final = 50

GOOD: Final = 0
FAILED: Final = 1
MISUSED: Final = 2
SIGNALLED: Final = 128

ENDINGS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_demo(
    *,
    items: int | None = None,
    workers: int = DEFAULT_WORKERS,
    kill_component: int | None = None,
    store: str = "sqlite",
    instances: int = 1,
) -> int:
    """Run the demo and return the exit code.

    0: nothing was lost and every item was completed. 1: an item was lost or not completed, or a part of the demo could
    not run. 2: the arguments are invalid. 128 plus the signal's number: interrupted. `items` is how many flights become
    work (None: all that are two hours late), `kill_component` how often the component is killed at random moments
    (None: once, if another of its `instances` can take over). The `store` is sqlite or postgres. Leaves no process and
    no file behind.
    """
    kills = int(instances > 1) if kill_component is None else kill_component
    plan = Plan(items, workers, kills, postgres=store == "postgres", instances=instances)
    complaint = _complaint(plan)
    if complaint:
        return _refuse(complaint, MISUSED)
    try:
        return asyncio.run(_play(plan))
    except* (ChildError, NoJavaError, NoTableError, NotInstalledError, PortTakenError) as errors:
        code = _refuse(str(_first(errors)), FAILED)
    return code


def _complaint(plan: Plan) -> str | None:
    if plan.items is not None and plan.items < 1:
        return f"the demo needs at least one item, not {plan.items}"
    for most, count, sentence in (
        (MAX_WORKERS, plan.workers, "the demo runs with 1 to {} workers, not {}"),
        (MAX_INSTANCES, plan.instances, "the demo runs with 1 to {} instances, not {}"),
    ):
        if not 1 <= count <= most:
            return sentence.format(most, count)
    if not 0 <= plan.kills <= MAX_KILLS:
        return f"the component is killed 0 to {MAX_KILLS} times, not {plan.kills}"
    if find_spec("pyspark") is None:
        return "the demo needs Spark: `pip install pubqueue[demo]`"
    if plan.postgres and find_spec("psycopg") is None:
        return "the demo on PostgreSQL needs `pip install pubqueue[demo,postgres]`"
    return None


async def _play(plan: Plan) -> int:
    loop = asyncio.get_running_loop()
    run = asyncio.ensure_future(_perform(plan))
    received: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        # Only once: a second Ctrl-C must not interrupt the cleanup.
        if not received:
            run.cancel()
        received.append(number)

    for number in ENDINGS:
        loop.add_signal_handler(number, end, number)
    try:
        return await run
    except asyncio.CancelledError:
        if not received:
            raise
        return _refuse("interrupted; everything is ended and removed", SIGNALLED + received[0])


async def _perform(plan: Plan) -> int:
    with Screen() as screen:
        figures = await DemoSystem(plan, screen).run()
    screen.end(figures)
    return GOOD if figures.good else FAILED


def _first(errors: BaseExceptionGroup[Exception]) -> BaseException:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _refuse(sentence: str, code: int) -> int:
    print(f"pubqueue demo: {sentence}", file=sys.stderr)  # noqa: T201 - the output of the command
    return code
