"""A worker of the run, a program of its own: works until SIGTERM, and notes what it does."""

from __future__ import annotations

import asyncio
import os
import random
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from proof.faults_run.notes import Pen
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.errors import GoneUnconfirmed, LockLost
from pubqueue_xeps.worker.worker import Worker

if TYPE_CHECKING:
    from pubqueue_xeps.item import Item

# The server is on this machine: an answer that has not come by then was lost.
TIMINGS: Final = Timings(answer=2, refresh=5, backoff_min=0.1, backoff_max=0.5)
MAX_WORK: Final = 0.01


async def handle(pen: Pen, item: Item) -> None:
    """Do the work, note its result, and only then retract the item."""
    pen.note("given", item)
    await asyncio.sleep(random.uniform(0, MAX_WORK))
    pen.note("result", item)
    try:
        await item.retract()
    except LockLost:
        pen.note("late", item)
    except GoneUnconfirmed:
        pen.note("gone", item)
    else:
        pen.note("done", item)


@click.command()
@click.option("--jid", required=True)
@click.option("--service", required=True)
@click.option("--host", required=True)
@click.option("--port", required=True, type=int)
@click.option("--requests", required=True, type=int)
@click.option("--notes", required=True, type=click.Path(path_type=Path))
@click.option("--level")
def main(
    *,
    jid: str,
    service: str,
    host: str,
    port: int,
    requests: int,
    notes: Path,
    level: str | None,
) -> None:
    """Work on the node `jobs`; the password is in PUBQUEUE_PASSWORD."""
    worker = Worker(
        jid,
        os.environ["PUBQUEUE_PASSWORD"],
        service=service,
        node="jobs",
        requests=requests,
        host=host,
        port=port,
        tls="off",
        timings=TIMINGS,
        level=level,
    )
    asyncio.run(worker.run(partial(handle, Pen(notes))))


if __name__ == "__main__":
    main()
