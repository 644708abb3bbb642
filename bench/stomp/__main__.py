"""`.venv/bin/python -m bench.stomp`: measure the brokers in turns, print the tables."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console

from bench.__main__ import names
from bench.profile import show
from bench.stomp.brokers import BROKERS, installed, pubqueue, started
from bench.stomp.codecs import frames_per_second
from bench.stomp.loads import PARTS, Work, lives
from bench.stomp.report import NEEDED, OURS, around, codec_table, draw, markdown, table
from bench.wire import BenchError
from pubqueue_demo.process import ChildError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.stomp.loads import Figures

WIDTH: Final = 150
CODEC: Final = "codec"
NOTE: Final = """\
An item's life is a publish with a confirmation, a delivery, and an acknowledgement; over STOMP a SEND with a receipt, a MESSAGE,
and an ACK without one. pubqueue (SQLite), beanstalkd (-f0), Redis (appendfsync always) and PostgreSQL confirm what is on disk; RabbitMQ
confirms once it has written, or once the message was acknowledged, if that is sooner. A worker of beanstalkd holds one item,
as its protocol has it. Redis is asked for entries by its workers, which keep and count no failures; Procrastinate runs in the clients, so
a part of its cost is theirs. Figures are the median of the rounds (smallest-largest), CPU is the broker's, user and system, all threads and
processes; "ours, x" is pubqueue's figure divided by this one, in the same round."""


@click.command(context_settings={"show_default": True})
@click.option("--items", default=4000, type=click.IntRange(10), help="Item lives in a round.")
@click.option("--rounds", default=3, type=click.IntRange(1), help="Rounds of each.")
@click.option("--payload", default=200, type=click.IntRange(100), help="Bytes of a body.")
@click.option("--window", default=100, type=click.IntRange(1), help="SENDs that are under way.")
@click.option("--seconds", default=3.0, help="Of items at a steady rate, and of idleness.")
@click.option("--connections", default=1000, type=click.IntRange(1), help="Idle ones.")
@click.option("--parts", default=",".join([*PARTS, CODEC]), callback=names([*PARTS, CODEC]))
@click.option(
    "--brokers",
    default=",".join(installed()),
    callback=names(BROKERS),
    help="Those that are installed.",
)
@click.option(
    "--profile",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Instead, profile pubqueue in a round of item lives, into this folder.",
)
@click.option(
    "--python",
    default=sys.executable,
    type=click.Path(exists=True, dir_okay=False),
    callback=lambda _context, _option, path: os.path.abspath(
        path
    ),  # links stay: an environment is known by its path
    help="Runs pubqueue; perhaps a newer one.",
)
@click.option(
    "--write",
    "pages",
    nargs=2,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="A Markdown page whose table is written anew, and the picture beside it.",
)
def main(
    *,
    items: int,
    rounds: int,
    payload: int,
    window: int,
    seconds: float,
    connections: int,
    parts: list[str],
    brokers: list[str],
    folder: Path | None,
    python: str,
    pages: tuple[Path, Path] | None,
) -> None:
    """Compare pubqueue's STOMP with RabbitMQ's, and with beanstalkd, Redis and Procrastinate."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    work = Work(items, payload, window, seconds, connections)
    if pages is not None and not ({*NEEDED} <= {*parts} and OURS in brokers):
        raise click.UsageError(f"--write needs {OURS} and the parts {', '.join(NEEDED)}")
    try:
        before, after = around(pages[0].read_text()) if pages is not None else ("", "")
    except (BenchError, OSError) as error:
        raise click.UsageError(str(error)) from error
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            asyncio.run(profiled(work, folder.resolve()))
            show(folder)
            return
        found = asyncio.run(measure(brokers, parts, work, rounds, python))
        if pages is not None:
            text, picture = pages
            text.write_text("".join((before, *markdown(found), after)))
            draw(picture, found)
    except (BenchError, ChildError) as error:
        raise click.ClickException(str(error)) from error
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    for part, of_brokers in found.items():
        console.print(table(PARTS[part].title(work), of_brokers))
    if CODEC in parts:
        console.print(codec_table(frames_per_second(work.body), payload))
    console.print(NOTE, highlight=False)


async def measure(
    brokers: Sequence[str], parts: Sequence[str], work: Work, rounds: int, python: str
) -> dict[str, dict[str, list[Figures]]]:
    """Measure the brokers in turns, A B C A B C, so that a slow minute affects them alike."""
    found: dict[str, dict[str, list[Figures]]] = {}
    async with started(brokers, python) as running:
        for name in parts:
            if name == CODEC:
                continue
            part = PARTS[name]
            for _ in range(1 if part.is_once else rounds):
                for broker in running:
                    if part.is_once and not broker.has_beats:
                        continue
                    figures = await part.measure(broker, work)
                    found.setdefault(name, {}).setdefault(broker.name, []).append(figures)
    return found


async def profiled(work: Work, folder: Path) -> None:
    """Run a round of item lives with the service under the profiler."""
    with tempfile.TemporaryDirectory(prefix="pq-") as store:
        async with pubqueue(Path(store), ("bench.profiled", str(folder))) as broker:
            await lives(broker, work)


if __name__ == "__main__":
    main()
