"""`.venv/bin/python -m bench.qos_held`: what 100,000 held messages cost an assured publish, and the start of the service.

Two stores, one without messages and one that holds them for other accounts, serve the same publisher in turns. The table shows
the processor time of the component for an assured item, the time until all are confirmed, and the time to start.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from harness.servers.live import component
from rich.console import Console
from rich.table import Table

from bench.qos import PASSWORD, Cost
from bench.qos_service import NODE, publish
from bench.report import spread
from pubqueue.model.entities import Jid, digest
from pubqueue.model.records import EVERYBODY, mark_of
from pubqueue_demo.prosody import Prosody

ACCOUNTS: Final = 100
MESSAGE: Final = b"<message xmlns='jabber:client'><body>%b</body></message>" % (b"x" * 300)
LIMITS: Final = NODE + "\n[qos]\nmessages = 1_000_000\nbytes = 1_000_000_000\n"
ADD: Final = """
INSERT INTO kept_message (mark, sender, account, msg_id, iq_id, digest, byte_count, held, answer, until, message)
VALUES (?, ?, ?, ?, '1', ?, ?, 1, '', ?, ?)"""
TOTAL: Final = """
INSERT INTO message_total (account, messages, byte_count, remembered) VALUES (?, ?, ?, 0)
ON CONFLICT (account) DO UPDATE SET messages = messages + excluded.messages, byte_count = byte_count + excluded.byte_count"""
WHOLE: Final = "{:.0f}".format
RATIO: Final = "{:.2f}".format
NOTE: Final = """\
The component behind Prosody with SQLite, items of 200 bytes, 100 on their way at once. The ratios are of one
round each: to the store without messages in the same round. The aim is 1.3."""


@dataclass(frozen=True, slots=True)
class Round:
    """One round with one store: the cost of an item, and the seconds to start."""

    cost: Cost
    start: float


def hold(path: Path, messages: int) -> None:
    """Add held messages of other accounts to the store; nothing else may have it open."""
    until, size, each = (int(time.time()) + 86_400) * 1000, len(MESSAGE), messages // ACCOUNTS
    senders = [Jid(f"account{n}@localhost/a") for n in range(ACCOUNTS)]
    rows = [
        (mark_of(jid, str(n)), jid, jid[:-2], str(n), digest(MESSAGE), size, until, MESSAGE)
        for jid in senders
        for n in range(each)
    ]
    totals = [(jid[:-2], each) for jid in senders] + [(EVERYBODY, len(rows))]
    with closing(sqlite3.connect(path)) as store, store:
        store.executemany(ADD, rows)
        store.executemany(TOTAL, [(who, count, count * size) for who, count in totals])


async def one_round(server: Prosody, folder: Path, items: int, number: int) -> Round:
    """Start the component on the store of this folder, publish, and stop it."""
    began = time.perf_counter()
    async with component(server, folder, LIMITS) as program:
        start = time.perf_counter() - began
        cost = await publish(server, program, "assured", items, number)
    return Round(cost, start)


async def measure(messages: int, items: int, rounds: int) -> dict[str, list[Round]]:
    """Let both stores serve in turns; the first round is warm-up, and creates them."""
    none, held = "none", f"{messages:,}"
    found: dict[str, list[Round]] = {none: [], held: []}
    with tempfile.TemporaryDirectory(prefix="pq-") as folder:
        async with Prosody() as server:
            await server.account("etl", PASSWORD)
            for number in range(rounds + 1):
                for name, rows in found.items():
                    place = Path(folder) / name
                    place.mkdir(exist_ok=True)
                    one = await one_round(server, place, items, number)
                    if number:
                        rows.append(one)
                    elif name == held:
                        hold(place / "pubqueue.db", messages)
    return found


def table(found: dict[str, list[Round]], title: str) -> Table:
    """Return the table: the store with messages compared with the other one of the same round."""
    shown = Table(title=title)
    for column in ("held", "CPU µs an item", "CPU", "time", "start ms", "start"):
        shown.add_column(column, justify="right", no_wrap=True)
    first = next(iter(found.values()))
    for name, rows in found.items():
        pairs = list(zip(rows, first, strict=True))
        shown.add_row(
            name,
            spread([one.cost.processor for one in rows], WHOLE),
            spread([one.cost.processor / other.cost.processor for one, other in pairs], RATIO),
            spread([one.cost.time / other.cost.time for one, other in pairs], RATIO),
            spread([one.start * 1000 for one in rows], WHOLE),
            spread([one.start / other.start for one, other in pairs], RATIO),
        )
    return shown


@click.command(context_settings={"show_default": True})
@click.option("--messages", default=100_000, type=click.IntRange(ACCOUNTS), help="Held messages.")
@click.option("--items", default=2000, type=click.IntRange(100), help="Items in a round.")
@click.option("--rounds", default=3, type=click.IntRange(1), help="Rounds of each.")
def main(*, messages: int, items: int, rounds: int) -> None:
    """Measure what held messages cost."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=110)
    found = asyncio.run(measure(messages, items, rounds))
    console.print(table(found, f"{rounds} rounds of {items} items"))
    console.print(NOTE, highlight=False)


if __name__ == "__main__":
    main()
