"""`.venv/bin/python -m bench.situations`: the cost of an item's life in a service that is not empty.

With the event log on, with a long backlog, with many nodes: each compared with the same service empty, in turns. The
stores are filled before the service starts, once for all rounds.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.table import Table

from bench import stock
from bench.contestants import EMPTY, Situation
from bench.measure import Work, measure
from bench.places import Direct
from bench.report import spread
from bench.wire import BenchError
from pubqueue_demo.process import ChildError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.measure import Sample

CONTESTANT: Final = "pubqueue"
REFERENCE: Final = "empty"
SHORT: Final = 1000
"""Items of a short backlog that never ends, to show the additional cost of a long one."""
LOGGED: Final = 'options = {"x-queueing#event_log" = true}'
WIDTH: Final = 110
NOTE: Final = """\
pubqueue without a server between. CPU is the component's processor time for an item's life, "x empty" the
ratio in the same round. With a backlog, workers are given what has waited longest, and what is published
waits."""


@click.command(context_settings={"show_default": True})
@click.option("--items", default=4000, type=click.IntRange(4), help="Item lives in a round.")
@click.option("--rounds", default=5, type=click.IntRange(1), help="Rounds of each.")
@click.option("--backlog", default=200_000, type=click.IntRange(1), help="Items that wait.")
@click.option("--nodes", default=10_000, type=click.IntRange(1), help="Other nodes.")
def main(*, items: int, rounds: int, backlog: int, nodes: int) -> None:
    """Measure pubqueue with the event log on, with a backlog, and with many nodes."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    work = Work(items)
    try:
        with console.status("working"), tempfile.TemporaryDirectory(prefix="pq-") as folder:
            found = asyncio.run(compare(Path(folder), work, rounds, backlog, nodes))
    except (BenchError, ChildError) as error:
        raise click.ClickException(str(error)) from error
    console.print(table(found, work.items))
    console.print(NOTE, highlight=False)


async def compare(
    folder: Path, work: Work, rounds: int, backlog: int, nodes: int
) -> dict[str, list[Sample]]:
    """Measure all in turns, so that a slow minute affects them alike."""
    found: dict[str, list[Sample]] = {}
    situations = await prepare(folder, work, backlog, nodes)
    async with Direct() as place:
        for _ in range(rounds):
            for name, situation in situations.items():
                sample = await measure("direct", place, CONTESTANT, work, situation=situation)
                found.setdefault(name, []).append(sample)
    return found


async def prepare(folder: Path, work: Work, backlog: int, nodes: int) -> Mapping[str, Situation]:
    """Fill the stores."""
    short, waiting, beside = (folder / f"{name}.db" for name in ("short", "backlog", "nodes"))
    await stock.backlog(short, work.publisher_names, SHORT)
    await stock.backlog(waiting, work.publisher_names, backlog)
    await stock.nodes(beside, work.publisher_names, nodes)
    return {
        REFERENCE: EMPTY,
        "event log on": Situation(settings=LOGGED),
        f"backlog of {SHORT:,}": Situation(store=short),
        f"backlog of {backlog:,}": Situation(store=waiting),
        f"{nodes:,} nodes": Situation(store=beside),
    }


def table(found: Mapping[str, list[Sample]], items: int) -> Table:
    """Show each situation in a row."""
    shown = Table(title=f"{len(found[REFERENCE])} rounds of {items} items")
    for title in ("service", "items/s", "CPU µs/item", f"x {REFERENCE}"):
        shown.add_column(title, justify="left" if title == "service" else "right", no_wrap=True)
    for name, own in found.items():
        pairs = zip(own, found[REFERENCE], strict=True)
        shown.add_row(
            name,
            spread([sample.rate for sample in own], "{:.0f}".format),
            spread([sample.cost for sample in own], "{:.0f}".format),
            spread([one.cost / other.cost for one, other in pairs], "{:.2f}".format),
        )
    return shown


if __name__ == "__main__":
    main()
