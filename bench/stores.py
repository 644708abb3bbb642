"""`.venv/bin/python -m bench.stores`: PostgreSQL compared with SQLite, and with other queues on PostgreSQL.

All run on one machine, in turns: the service behind ejabberd with either store, procrastinate, and a plain loop of
`SELECT ... FOR UPDATE SKIP LOCKED`, each with two publishers and four workers, and the database on the same cores.
"""

from __future__ import annotations

import asyncio
import statistics
from typing import TYPE_CHECKING, Final

import click
from harness.databases.postgres import PostgresError
from harness.servers.ejabberd import EjabberdError
from rich.console import Console
from rich.table import Table

from bench import paper
from bench.measure import Work
from bench.measure_stores import CONTESTANTS, POSTGRES, SQLITE, Round, rounds, server
from bench.places import PLACES
from bench.report import spread
from bench.wire import BenchError
from pubqueue_demo.process import ChildError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Measured = Mapping[str, Sequence[Round]]

WIDTH: Final = 160
PARTS: Final = ("component", "line", "database", "server", "clients")
NOTE: Final = """\
An item's life is published, handed out, done; all that is confirmed is on disk (fsync). Figures are the median of the rounds
(smallest-largest); CPU is user and system, in microseconds for an item, "in batches" what of the component's is spent in them.
Clients are publishers and workers: this program's light ones over XMPP, processes of psycopg's for the others, whose workers
take one job at a time and whose publishers commit four at once each; procrastinate has a quarter of the items.
On paper neither the disk's sync is counted, which a batch waits for once, nor what an instance asks anew after another
has written."""


@click.command(context_settings={"show_default": True})
@click.option("--items", default=2000, type=click.IntRange(8), help="Item lives in a round.")
@click.option("--rounds", "count", default=3, type=click.IntRange(1), help="Rounds of each.")
@click.option("--payload", default=200, type=click.IntRange(150), help="Bytes of an item.")
@click.option("--window", default=256, type=click.IntRange(1), help="Items on their way at once.")
@click.option("--behind", default="ejabberd", type=click.Choice(list(PLACES)))
def main(*, items: int, count: int, payload: int, window: int, behind: str) -> None:
    """Measure pubqueue on PostgreSQL and on SQLite, procrastinate, and a plain loop."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    try:
        with console.status("measuring"):
            found = asyncio.run(compare(behind, Work(items, payload, window), count))
    except (BenchError, ChildError, EjabberdError, PostgresError) as error:
        raise click.ClickException(str(error)) from error
    costs = costs_of(found[POSTGRES])
    for shown in (table(found), targets(found), paper.table(costs)):
        console.print(shown)
    console.print(paper.sentence(costs), highlight=False)
    console.print(NOTE, highlight=False)


async def compare(behind: str, work: Work, count: int) -> dict[str, list[Round]]:
    """Measure all in turns."""
    found: dict[str, list[Round]] = {name: [] for name in CONTESTANTS}
    with server() as postgres:
        async with PLACES[behind]() as place:
            async for one in rounds(place, postgres, work, count):
                found[one.contestant].append(one)
    return found


def costs_of(own: Sequence[Round]) -> paper.Costs:
    """Return the medians."""
    return paper.Costs(*(statistics.median(one.cost(part) for one in own) for part in PARTS[:-1]))


def table(found: Measured) -> Table:
    """Show each contestant in a row."""
    items = found[SQLITE][0].items
    shown = Table(title=f"{len(found[SQLITE])} rounds of {items} items, CPU in µs/item")
    titles = ("", "items/s", "component", "in batches", "database", "server", "clients")
    for title in titles:
        shown.add_column(title, justify="right" if title else "left", no_wrap=True)
    for name, own in found.items():
        costs = [spread([one.cost(part) for one in own], "{:.0f}".format) for part in PARTS]
        shown.add_row(name, spread([one.rate for one in own], "{:.0f}".format), *costs)
    return shown


def targets(found: Measured) -> Table:
    """Show the ratios that have a goal, each within one round."""
    shown = Table(title="PostgreSQL against others in the same round")
    for title in ("what", "against", "times", "aim"):
        shown.add_column(title, justify="right" if title == "times" else "left", no_wrap=True)
    component: Callable[[Round], float] = lambda one: one.cost("component")  # noqa: E731
    shown.add_row("component CPU per item", SQLITE, _times(found, SQLITE, component), "≤ 1.6")
    for name in found:
        if name != POSTGRES:
            aim = "≥ 0.5" if name == SQLITE else "≥ 1"
            shown.add_row("items/s", name, _times(found, name, lambda one: one.rate), aim)
    return shown


def _times(found: Measured, other: str, figure: Callable[[Round], float]) -> str:
    pairs = zip(found[POSTGRES], found[other], strict=True)
    return spread([figure(one) / figure(beside) for one, beside in pairs], "{:.2f}".format)


if __name__ == "__main__":
    main()
