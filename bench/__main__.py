"""`.venv/bin/python -m bench`: measure, print the table."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click
from harness.servers.ejabberd import EjabberdError
from rich.console import Console

from bench import stanzas
from bench.contestants import PROGRAMS
from bench.measure import Sample, Work, rounds
from bench.places import PLACES
from bench.profile import profile
from bench.report import NOTE, table
from bench.wire import BenchError
from pubqueue_demo.process import ChildError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

WIDTH = 150  # width of the table without a terminal


def names(known: Collection[str]) -> Callable[[object, object, str], list[str]]:
    """Read a comma-separated list of known names."""

    def read(_context: object, _option: object, text: str) -> list[str]:
        for name in text.split(","):
            if name not in known:
                raise click.BadParameter(f"{name} is not one of {', '.join(known)}.")
        return text.split(",")

    return read


@click.command(context_settings={"show_default": True})
@click.option("--items", default=2000, type=click.IntRange(4), help="Item lives per round.")
@click.option("--rounds", "count", default=3, type=click.IntRange(1), help="Number of rounds.")
@click.option("--payload", default=200, type=click.IntRange(150), help="Bytes of XML per item.")
@click.option("--window", default=256, type=click.IntRange(1), help="Items in flight.")
@click.option("--requests", default=32, type=click.IntRange(1), help="Window of a worker.")
@click.option(
    "--short/--no-short", default=True, help="Ask contestants that support it for short answers."
)
@click.option("--servers", default=",".join(PLACES), callback=names(PLACES))
@click.option("--contestants", default=",".join(PROGRAMS), callback=names(PROGRAMS))
@click.option(
    "--profile",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Only profile the first contestant at the first server, and write to this folder.",
)
def main(
    *,
    items: int,
    count: int,
    payload: int,
    window: int,
    requests: int,
    short: bool,
    servers: list[str],
    contestants: list[str],
    folder: Path | None,
) -> None:
    """Compare pubqueue, which is durable, with components that store nothing."""
    work = Work(items, payload, window, requests=requests, short=short)
    try:
        if folder is None:
            asyncio.run(compare(servers, contestants, work, count))
        else:
            profile(work, servers[0], contestants[0], folder)
    except (BenchError, ChildError, EjabberdError, FileNotFoundError) as error:
        raise click.ClickException(str(error)) from error


async def compare(servers: list[str], contestants: list[str], work: Work, count: int) -> None:
    """Measure all and print the table, with the progress meanwhile."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    samples: list[Sample] = []
    total = count * len(servers) * len(contestants)
    with console.status("starting") as status:
        async for sample in rounds(servers, contestants, work, count):
            samples.append(sample)
            status.update(f"round {len(samples)} of {total}: {sample.place}, {sample.contestant}")
        status.update("counting")
        sizes = {name: await stanzas.sizes(name, work) for name in contestants}
    console.print(table(samples))
    console.print(stanzas.size_table(sizes))
    console.print(NOTE, highlight=False)


if __name__ == "__main__":
    main()
