"""`.venv/bin/python -m bench.rest`: measure in turns, print the table."""

from __future__ import annotations

import asyncio
import resource
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console

from bench.__main__ import names
from bench.rest import loads, services
from bench.rest.loads import PARTS, Work
from bench.rest.report import table
from bench.wire import BenchError
from pubqueue_demo.process import ChildError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.rest.loads import Figures

WIDTH: Final = 150
NOTE: Final = """\
Every 201 and 204 of pubqueue is sent after the commit that holds it, on SQLite on disk; the bare handler stores nothing. Figures are the
median of the rounds (smallest-largest), CPU is the service's, user and system, all threads. A life is three requests, and its figures are
of one of them. "ours, x" is the figure divided by the bare handler's over as many connections, in the same round."""


@click.command(context_settings={"show_default": True})
@click.option("--requests", default=20_000, type=click.IntRange(64), help="Requests in a round.")
@click.option("--rounds", default=3, type=click.IntRange(1), help="Rounds of each.")
@click.option("--payload", default=200, type=click.IntRange(100), help="Bytes of a body.")
@click.option("--seconds", default=5.0, help="Of messages at a steady rate, and of waiting.")
@click.option("--waiting", default=1000, type=click.IntRange(1), help="Requests that wait.")
@click.option("--parts", default=",".join(PARTS), callback=names(PARTS))
def main(
    *, requests: int, rounds: int, payload: int, seconds: float, waiting: int, parts: list[str]
) -> None:
    """Compare REST with a bare handler of aiohttp."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    work = Work(requests, payload, seconds, waiting)
    try:
        found = asyncio.run(measure(parts, work, rounds))
    except (BenchError, ChildError) as error:
        raise click.ClickException(str(error)) from error
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    console.print(table(PARTS, found))
    console.print(NOTE, highlight=False)


async def measure(
    parts: Sequence[str], work: Work, rounds: int
) -> dict[str, list[tuple[Figures, Figures]]]:
    """Measure each part and the bare handler in turns, so that a slow minute harms both alike."""
    found: dict[str, list[tuple[Figures, Figures]]] = {}
    async with services.pubqueue() as ours, services.bare() as bare:
        for name in parts:
            part = PARTS[name]
            for _ in range(rounds):
                theirs: Figures = {}
                if any(goal.of for goal in part.goals):
                    theirs = await loads.bare(bare, work, part.connections)
                mine = await part.measure(ours, work, part.connections)
                found.setdefault(name, []).append((mine, theirs))
    return found


if __name__ == "__main__":
    main()
