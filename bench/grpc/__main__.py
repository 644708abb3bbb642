"""`.venv/bin/python -m bench.grpc`: measure in turns, print the table."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console

from bench.__main__ import names
from bench.grpc import services
from bench.grpc.loads import PARTS, Services, Work
from bench.rest.report import cells, empty
from bench.wire import BenchError
from pubqueue_demo.process import ChildError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from bench.grpc.loads import Figures

    Rounds = dict[str, list[tuple[Figures, Figures]]]

WIDTH: Final = 160
NOTE: Final = """\
Every Publish and Acknowledge of pubqueue is answered after the commit that holds it, on SQLite on disk; the bare handler stores nothing.
Figures are the median of the rounds (smallest-largest), CPU is the service's, user and system, all threads. "ours, x" is the figure
divided by the one beside it, of the same round."""


@click.command(context_settings={"show_default": True})
@click.option("--messages", default=20_000, type=click.IntRange(400), help="Messages of a round.")
@click.option("--rounds", default=3, type=click.IntRange(1), help="Rounds of each.")
@click.option("--payload", default=200, type=click.IntRange(100), help="Bytes of a message.")
@click.option("--streams", default=2_000, type=click.IntRange(1), help="Idle streams.")
@click.option("--parts", default=",".join(PARTS), callback=names(PARTS))
def main(*, messages: int, rounds: int, payload: int, streams: int, parts: list[str]) -> None:
    """Compare gRPC with a bare handler of grpc.aio, and with XMPP on a direct stream."""
    work = Work(messages, payload, streams)
    try:
        found = asyncio.run(measure(parts, work, rounds))
    except (BenchError, ChildError) as error:
        raise click.ClickException(str(error)) from error
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    console.print(table(found))
    console.print(NOTE, highlight=False)


async def measure(parts: Sequence[str], work: Work, rounds: int) -> Rounds:
    """Measure each part, and what it is compared with, in turns, so that a slow minute harms both alike."""
    found: Rounds = {}
    async with services.pubqueue() as ours, services.bare() as bare:
        for name in parts:
            for _ in range(rounds):
                figures = await PARTS[name].measure(Services(ours, bare), work)
                found.setdefault(name, []).append(figures)
    return found


def table(found: Rounds) -> Table:
    """Show each goal of each part in a row."""
    shown = empty("gRPC, beside what each load is compared with", "beside")
    for name, rounds in found.items():
        part = PARTS[name]
        title = part.title
        for goal in part.goals:
            shown.add_row(title, *cells(goal, rounds, part.beside))
            title = ""
    return shown


if __name__ == "__main__":
    main()
