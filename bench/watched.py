"""`.venv/bin/python -m bench.watched`: the cost of monitoring the service.

The same work with `http` off, and with it on and scraped every 15 seconds or every second; with and without the page's
history; with no other nodes, and with as many as a scrape reports. Each is compared with the same service without
monitoring, in turns. This program is connected to the service directly.
"""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import aiohttp
import click
from rich.console import Console
from rich.table import Table

from bench import stock
from bench.contestants import EMPTY, Situation
from bench.measure import Work, measure
from bench.places import PLACES
from bench.report import spread
from bench.wire import BenchError
from pubqueue.loopback import free_ports
from pubqueue_demo.process import ChildError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from bench.measure import Sample
    from bench.places import Place

CONTESTANT: Final = "pubqueue"
UNWATCHED: Final = "unwatched"
OFTEN, SELDOM = 1.0, 15.0
"""Seconds between two scrapes: a short interval, and a usual one for Prometheus."""
LONG: Final = 15
"""The approximate seconds of a round, so that even rare scrapes happen once."""
SHORT: Final = 4000
"""Items of the run that determines how many these are."""
WIDTH: Final = 130
NOTE: Final = """\
CPU is the component's processor time for an item's life. "x unwatched" is the ratio in the same round to the same service
without `http`: of items/s, then of CPU. Scrapes are those of a whole round, which begins before the clock does."""

USER: Final = """
[[user]]
name = "viewer"
roles = ["viewer"]
"""
"""Without a password, so that the only cost is the page's history."""


@dataclass(frozen=True, slots=True)
class Way:
    """The store of a service, the seconds between two scrapes, if any, and whether it keeps the page's history."""

    situation: Situation = EMPTY
    every: float | None = None
    page: bool = False


@dataclass(frozen=True, slots=True)
class Round:
    """The sample, and the number of scrapes."""

    sample: Sample
    scrapes: int


@click.command(context_settings={"show_default": True})
@click.option(
    "--items", type=click.IntRange(4), help=f"Item lives in a round; else as take {LONG} seconds."
)
@click.option("--rounds", default=3, type=click.IntRange(1), help="Rounds of each.")
@click.option("--nodes", default=1000, type=click.IntRange(1), help="Other nodes.")
@click.option("--behind", default="direct", type=click.Choice(list(PLACES)))
def main(*, items: int | None, rounds: int, nodes: int, behind: str) -> None:
    """Measure pubqueue without monitoring, and scraped."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    try:
        with console.status("working"), tempfile.TemporaryDirectory(prefix="pq-") as folder:
            found = asyncio.run(compare(Path(folder), behind, items, rounds, nodes))
    except (BenchError, ChildError) as error:
        raise click.ClickException(str(error)) from error
    console.print(table(found))
    console.print(NOTE, highlight=False)


async def compare(
    folder: Path, behind: str, items: int | None, rounds: int, nodes: int
) -> dict[str, list[Round]]:
    """Measure all in turns, so that a slow minute affects them alike."""
    ways = await prepare(folder, Work(SHORT), nodes)
    found: dict[str, list[Round]] = {name: [] for name in ways}
    async with PLACES[behind]() as place:
        if items is None:
            items = round(LONG * (await one_round(behind, place, Work(SHORT), Way())).sample.rate)
        work = Work(items)
        for _ in range(rounds):
            for name, way in ways.items():
                found[name].append(await one_round(behind, place, work, way))
    return found


async def prepare(folder: Path, work: Work, nodes: int) -> Mapping[str, Way]:
    """Return the ways, each after the one without monitoring that it is compared with; fill the store of many nodes."""
    beside = folder / "nodes.db"
    await stock.nodes(beside, work.publisher_names, nodes)
    many = Situation(store=beside)
    ways: dict[str, Way] = {}
    for what, situation in (("", EMPTY), (f"{nodes:,} nodes: ", many)):
        ways |= {
            f"{what}{UNWATCHED}": Way(situation),
            f"{what}every {SELDOM:g} s": Way(situation, SELDOM),
            f"{what}every {OFTEN:g} s": Way(situation, OFTEN),
            f"{what}every {OFTEN:g} s, page": Way(situation, OFTEN, page=True),
        }
    return ways


async def one_round(behind: str, place: Place, work: Work, way: Way) -> Round:
    """Measure one round, with scrapes if the way has them."""
    if way.every is None:
        return Round(await measure(behind, place, CONTESTANT, work, situation=way.situation), 0)
    (port,) = free_ports(1)
    page = USER if way.page else ""
    situation = replace(way.situation, keys=f'http = "{port}"\n{page}')
    async with scraped(port, way.every) as times:
        sample = await measure(behind, place, CONTESTANT, work, situation=situation)
    return Round(sample, len(times))


@asynccontextmanager
async def scraped(port: int, every: float) -> AsyncIterator[Sequence[int]]:
    """Scrape in the background; yield a list that gets the bytes of each scrape."""
    times: list[int] = []

    async def scrape() -> None:
        async with aiohttp.ClientSession() as asking:
            await asyncio.sleep(every / 2)  # so that the clock runs at the first scrape
            while True:
                try:
                    async with asking.get(f"http://127.0.0.1:{port}/metrics") as answer:
                        times.append(len(await answer.read()))
                except aiohttp.ClientError:
                    pass  # it has not started yet, or has ended
                await asyncio.sleep(every)

    scraping = asyncio.create_task(scrape())
    try:
        yield times
    finally:
        scraping.cancel()
        await asyncio.gather(scraping, return_exceptions=True)


def table(found: Mapping[str, Sequence[Round]]) -> Table:
    """Show each way in a row."""
    first = next(iter(found.values()))
    shown = Table(title=f"{len(first)} rounds of {first[0].sample.items} items")
    titles = ("service", "items/s", "x unwatched", "CPU µs/item", "x unwatched", "scrapes")
    for title in titles:
        shown.add_column(title, justify="left" if title == "service" else "right", no_wrap=True)
    reference: Sequence[Round] = ()
    for name, own in found.items():
        if name.endswith(UNWATCHED):
            reference = own
        pairs = [(one.sample, other.sample) for one, other in zip(own, reference, strict=True)]
        shown.add_row(
            name,
            spread([one.sample.rate for one in own], "{:.0f}".format),
            spread([one.rate / other.rate for one, other in pairs], "{:.3f}".format),
            spread([one.sample.cost for one in own], "{:.0f}".format),
            spread([one.cost / other.cost for one, other in pairs], "{:.3f}".format),
            spread([one.scrapes for one in own], "{:.0f}".format),
        )
    return shown


if __name__ == "__main__":
    main()
