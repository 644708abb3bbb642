"""`pubqueue top`: the busiest queues, on a screen that updates itself."""

from __future__ import annotations

import asyncio
import sys
import termios
import tty
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import click
from rich.console import Group
from rich.live import Live
from rich.text import Text

from pubqueue.cli import output, tables
from pubqueue.cli.session import answering, run
from pubqueue.operations.model import count
from pubqueue.operations.nodes import NO_QUEUE, QUEUES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from pubqueue.admin.connecting import Where
    from pubqueue.admin.session import Link
    from pubqueue.operations.model import Value


MAX_NODES: Final = 1_000
"""Nodes that are read for one screen."""

KEYS: Final = {"q", "Q", "\x03", "\x1b"}
"""Keys that quit: q, Ctrl-C, Esc."""

AROUND: Final = 4
"""Lines of the screen that are not queues."""

Rows = "list[dict[str, Value]]"


@click.command()
@click.option(
    "--every",
    type=click.FloatRange(0.2, 3600),
    default=2.0,
    show_default=True,
    help="Seconds between updates.",
)
@click.option(
    "--once", is_flag=True, help="Print once and exit; this is the default without a terminal."
)
@answering
def top(where: Where, every: float, *, once: bool, as_json: bool) -> None:
    """Watch the busiest queues.

    Queues with the most work come first. Press q to quit.
    """
    live = sys.stdout.isatty() and sys.stdin.isatty() and not once and not as_json

    async def work(link: Link) -> None:
        if live:
            await _watch(link, every)
            return
        found, now, more = await _look(link)
        if as_json:
            for row in found:
                output.write_json(output.as_json(row, QUEUES.columns))
        else:
            click.echo(_head(link, found, more=more))
            where = tables.console()
            where.print(tables.table(QUEUES.columns, found, now, where.width))

    run(where, work)


async def _look(link: Link) -> tuple[list[dict[str, Value]], int | None, bool]:
    """Return the queues, those with the most work first, and whether there are more than were read."""
    found: list[dict[str, Value]] = []
    now, more = None, False
    async for page in link.pages(QUEUES, {}, MAX_NODES):
        found += [row for row in page.rows if row["state"] != NO_QUEUE]
        now, more = page.now, page.more
    return sorted(found, key=lambda row: (-_work(row), str(row["node"]))), now, more


def _number(row: dict[str, Value], name: str) -> int:
    value = row[name]
    return value if isinstance(value, int) else 0


def _work(row: dict[str, Value]) -> int:
    return sum(_number(row, name) for name in ("depth", "in_flight", "delayed"))


def _head(link: Link, found: list[dict[str, Value]], *, more: bool) -> str:
    """Return the line that sums up."""
    sums = {
        name: sum(_number(row, name) for row in found)
        for name in ("depth", "delayed", "in_flight", "dead")
    }
    rate = sum(value for row in found if isinstance(value := row["rate"], float))
    queues = count(len(found), "queue") + (" and more" if more else "")
    return (
        f"{link.about.service}: {queues}, {sums['depth']} waiting, {sums['delayed']} delayed,"
        f" {sums['in_flight']} in flight, {sums['dead']} dead, {rate:.1f} done per minute"
    )


async def _watch(link: Link, every: float) -> None:
    """Keep a screen up to date until a key ends it."""
    ended = asyncio.Event()
    console = tables.console()
    with _keys(ended), Live(console=console, screen=True, auto_refresh=False) as live:
        while not ended.is_set():
            found, now, more = await _look(link)
            room = max(1, console.size.height - AROUND)
            parts: list[RenderableType] = [
                Text(_head(link, found, more=more), style="bold", overflow="ellipsis"),
                tables.table(QUEUES.columns, found[:room], now, console.width),
                Text("press q to quit", style="dim"),
            ]
            live.update(Group(*parts), refresh=True)
            lost = asyncio.ensure_future(ended.wait())
            await asyncio.wait({lost}, timeout=every)
            lost.cancel()


@contextmanager
def _keys(ended: asyncio.Event) -> Iterator[None]:
    """Read keys as they are pressed."""
    loop, keyboard = asyncio.get_running_loop(), sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)

    def read_key() -> None:
        if sys.stdin.read(1) in KEYS:
            ended.set()

    tty.setcbreak(keyboard)
    loop.add_reader(keyboard, read_key)
    try:
        yield
    finally:
        loop.remove_reader(keyboard)
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
