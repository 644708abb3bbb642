"""A worker of the run, a program of its own: works until SIGTERM, and writes its history."""

from __future__ import annotations

import asyncio
import os
import random
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from proof.faults_run.job import named
from proof.judge.history import History
from pubqueue_xeps.client.pace import Timings
from pubqueue_xeps.errors import LockLost, NotConfirmed
from pubqueue_xeps.worker.worker import Worker

if TYPE_CHECKING:
    from pubqueue_xeps.item import Item

# The server is on this machine: an answer that has not come by then was lost.
TIMINGS: Final = Timings(answer=2, refresh=5, backoff_min=0.1, backoff_max=0.5)
MAX_WORK: Final = 0.01


async def handle(history: History, item: Item) -> None:
    """Do the work, and only then retract the item."""
    token, name = given(history, item), named(item.id, item.payload)[0]
    await asyncio.sleep(random.uniform(0, MAX_WORK))
    if item.token != token:  # it has come again meanwhile, under a new lock
        token = given(history, item)
    retract = history.begin("retract", item.node, name, token=token)
    try:
        await item.retract()
    except LockLost:
        retract.end("fail")
    except NotConfirmed:
        retract.end("unknown")
    else:
        if item.token != token:
            token = given(history, item)
        retract.end("ok", token=token)


def given(history: History, item: Item) -> int | None:
    """Write that the worker has the item; return the token of the lock."""
    lock = {"token": item.token, "attempt": item.attempt}
    name, digest = named(item.id, item.payload)
    history.deliver(item.node, name, digest=digest, **lock)
    return item.token


@click.command()
@click.option("--jid", required=True)
@click.option("--service", required=True)
@click.option("--host", required=True)
@click.option("--port", required=True, type=int)
@click.option("--requests", required=True, type=int)
@click.option("--history", "path", required=True, type=click.Path(path_type=Path))
@click.option("--level")
def main(
    *,
    jid: str,
    service: str,
    host: str,
    port: int,
    requests: int,
    path: Path,
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
    asyncio.run(worker.run(partial(handle, History(path, path.stem))))


if __name__ == "__main__":
    main()
