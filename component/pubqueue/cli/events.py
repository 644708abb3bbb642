"""`pubqueue events`: the event log, up to now or as it grows.

The service sends no events; the log is read by number, so `--follow` polls. It reads the next page at once as long as there are
more, and otherwise polls after one second, up to every five while nothing happens. A poll that finds nothing reads only an index.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import click

from pubqueue.admin.session import OperationRefused
from pubqueue.cli import output
from pubqueue.cli.exit_codes import plain
from pubqueue.cli.session import NODE, answering, run, words
from pubqueue.operations.items import EVENTS
from pubqueue.operations.nodes import SETTINGS

if TYPE_CHECKING:
    from pubqueue.admin.connecting import Where
    from pubqueue.admin.session import Link, Page

    Which = dict[str, tuple[str, ...]]
    """The parameters that choose events: a node, an item."""


SHORTEST: Final = 1.0
POLL_INTERVAL: Final = 5.0
"""Seconds between two polls."""

OFF: Final = "{0} keeps no event log. Turn it on with: pubqueue node set {0} event_log=1"
NONE: Final = (
    "There are no such events. To make a node keep a log: pubqueue node set NODE event_log=1"
)

LAST: Final = 20
"""Numbers of the log that are read without `--after`."""


@click.command()
@click.argument("node", type=NODE, required=False)
@click.option("--after", type=click.IntRange(0), help="Only events after this number; 0 for all.")
@click.option("--max", "most", type=click.IntRange(1), help="Maximum number of events.")
@click.option("--item", help="Only events of the item with this id, from the beginning of the log.")
@click.option("--follow", "-f", is_flag=True, help="Continue with new events.")
@answering
def events(
    where: Where,
    node: str | None,
    after: int | None,
    most: int | None,
    item: str | None,
    *,
    follow: bool,
    as_json: bool,
) -> None:
    """Read the event log.

    Prints the events of one node, or of all nodes that you may read. Only nodes with event_log turned on keep a log. Without --after, the last 20 numbers of
    the log are read, or with --item all.
    """
    which = words(node=node, item=item)

    async def work(link: Link) -> None:
        begin = 0 if item is not None and after is None else after
        if begin is None:
            page = await link.perform(EVENTS, words(node=node, max=1))
            begin = max(0, (page.newest or 0) - LAST)
        through, shown = await _read(link, which, begin, most, for_programs=as_json)
        await _say_if_it_is_off(link, node, shown, aside=follow or as_json)
        if follow:
            await _follow(link, which, through, most, shown, for_programs=as_json)

    try:
        run(where, work)
    except KeyboardInterrupt:  # the way to end --follow
        return


async def _say_if_it_is_off(link: Link, node: str | None, shown: int, *, aside: bool) -> None:
    """Print how to turn the log of a node on, or that it has no events; on standard error if programs read the rest."""
    if node is not None and await _is_off(link, node):
        click.echo(OFF.format(plain(node)), err=aside)
        return
    if not shown and not aside:
        click.echo("There are no such events." if node else NONE)


async def _is_off(link: Link, node: str) -> bool:
    """Read the setting; publishers may read the log of a node but not its settings, and get no hint."""
    try:
        page = await link.perform(SETTINGS, words(node=node))
    except OperationRefused:
        return False
    return any(row["setting"] == "event_log" and row["value"] == "0" for row in page.rows)


async def _read(
    link: Link, which: Which, after: int, most: int | None, *, for_programs: bool
) -> tuple[int, int]:
    """Write the events that exist; return the last number, and how many events were written."""
    shown = 0
    async for page in link.pages(EVENTS, which | words(after=after), most):
        _write(page, for_programs=for_programs)
        after, shown = int(page.through), shown + len(page.rows)
    return after, shown


def _write(page: Page, *, for_programs: bool) -> None:
    """Write events line by line: a table would wait for its end."""
    for row in page.rows:
        if for_programs:
            output.write_json(output.as_json(row, EVENTS.columns))
        else:
            at = output.as_json(row, EVENTS.columns)["at"]
            known = (row["node"], row["item"], row["type"], row["worker"], row["detail"])
            fields = "  ".join(plain(str(value)) for value in known if value is not None)
            click.echo(f"{row['seq']}  {at}  {fields}")


async def _follow(
    link: Link, which: Which, after: int, most: int | None, shown: int, *, for_programs: bool
) -> None:
    pause = SHORTEST
    while most is None or shown < most:
        await asyncio.sleep(pause)
        left = None if most is None else most - shown
        after, found = await _read(link, which, after, left, for_programs=for_programs)
        shown += found
        pause = SHORTEST if found else min(POLL_INTERVAL, pause * 1.5)
