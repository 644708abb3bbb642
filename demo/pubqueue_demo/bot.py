"""A worker of the demo: rebooks the passengers of delayed flights, with some faults.

A program of its own, `python -Im pubqueue_demo.bot`. Apart from the faults and reports it is like a user's worker: a
handler, and `Worker.run`.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import click

from pubqueue_demo.faults import Faults
from pubqueue_demo.flights import flown
from pubqueue_demo.rebook import Timetable, read_payload
from pubqueue_demo.report import (
    Delivered,
    Done,
    Lost,
    Ready,
    Result,
    Stalling,
    ToBeKilled,
    Unlocked,
    emit,
)
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.errors import GoneUnconfirmed, LockLost
from pubqueue_xeps.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue_xeps.item import Item

# The server is on this machine: a later answer was lost with the component.
TIMINGS = Timings(answer=2, backoff_min=0.1, backoff_max=1)


class Bot:
    """Handles items, and reports each step."""

    def __init__(self, timetable: Timetable, faults: Faults) -> None:
        self._timetable = timetable
        self._faults = faults
        self._delivered = 0

    async def handle(self, item: Item) -> None:
        """Rebook one flight."""
        self._delivered += 1
        _report_delivery(item)
        if self._delivered == self._faults.die_at:
            await _wait_for_the_end()
        if self._delivered == self._faults.stall_at:
            _hang(self._faults.stall_seconds)
        if self._faults.unlocks(item.id, item.attempt):
            await item.unlock()
            return emit(Unlocked(id=item.id, at=time.time()))
        return await self._rebook(item)

    async def _rebook(self, item: Item) -> None:
        if item.payload is None:
            raise ValueError("a work item of the demo has a payload")
        rebooking = self._timetable.rebook(read_payload(item.payload))
        # Reported before the retract: a worker that dies in between has still done the work.
        emit(Result(id=item.id, minutes=rebooking.minutes, at=time.time()))
        try:
            await item.retract()
        except (LockLost, GoneUnconfirmed):
            emit(Lost(id=item.id, at=time.time()))
        else:
            emit(Done(id=item.id, at=time.time()))


def _report_delivery(item: Item) -> None:
    if item.published is None:
        raise ValueError("a delivery of this project's service says when the item was published")
    published = item.published.timestamp()
    emit(Delivered(id=item.id, attempt=item.attempt, published=published, at=time.time()))


async def _wait_for_the_end() -> NoReturn:
    emit(ToBeKilled())
    while True:
        await asyncio.Event().wait()


def _hang(seconds: float) -> None:
    """Block the whole program, its event loop included, like a hanging worker."""
    emit(Stalling(seconds=seconds))
    time.sleep(seconds)


async def _work(make_worker: Callable[[], Worker], bot: Bot) -> None:
    async with make_worker() as worker:
        emit(Ready())
        await worker.run(bot.handle)


@click.command()
@click.option("--service", required=True)
@click.option("--node", required=True)
@click.option("--jid", required=True)
@click.option("--host", required=True)
@click.option("--port", required=True, type=int)
@click.option("--requests", required=True, type=int, help="How many items to hold at a time.")
@click.option("--die-at", default=0, help="The item at which to wait to be killed; 0: never.")
@click.option("--stall-at", default=0, help="The item at which to hang; 0: never.")
@click.option("--stall-seconds", default=0.0, help="For how many seconds to hang.")
@click.option("--unlock-share", default=0, help="Release one in this many items; 0: none.")
def main(
    *, service: str, node: str, jid: str, host: str, port: int, requests: int, **faults: float
) -> None:
    """Work until SIGTERM; the password is in PUBQUEUE_PASSWORD."""
    # a million small objects live to the end: collecting garbage among them is wasted time
    gc.disable()
    timetable = Timetable(flown())
    gc.freeze()
    gc.enable()
    make_worker = partial(
        Worker,
        jid,
        os.environ["PUBQUEUE_PASSWORD"],
        service=service,
        node=node,
        requests=requests,
        host=host,
        port=port,
        tls="off",
        timings=TIMINGS,
    )
    bot = Bot(timetable, Faults(**faults))  # type: ignore[arg-type]  # click has checked them
    asyncio.run(_work(make_worker, bot))


if __name__ == "__main__":
    main()
