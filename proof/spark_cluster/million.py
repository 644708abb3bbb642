"""A job of a million rows, or of five, on two cores: its tasks stage them, and one commit makes all of them visible.

`.venv/bin/python -m proof.spark_cluster.million` shows what it took, of a service as it is by default.
"""

from __future__ import annotations

import json
import re
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from bench import timed
from bench.spark import start
from harness.patience import wait_until
from harness.processes import slowed
from harness.servers.live import JOBS
from harness.stores.queue_store import items, left, records
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.processes.program import Program

    from proof.spark_cluster.driver import Driver

TIMEOUT: Final = 4 * 3600.0
DEFAULTS: Final = 1_000_000
"""Up to how many staged items of an account the service keeps by default, in millions."""

ROOM: Final = """
[transactions]
items_per_account = {rows}
items = {twice}
bytes_per_account = {bytes}
bytes = {bytes}
"""
AT_WORK: Final = re.compile(r"version 1 of 'million'.*: after \d+ s .*")
"""A line about the progress of the commit."""

BYTES: Final = 1000
"""Of quota for each row."""


MOMENTS: Final = ("judging", "moving")
"""When a driver can be killed: while the winners are judged, and, after the mark, while they are moved."""


@dataclass(frozen=True)
class Seen:
    """What the store has: how many items, and how many items each commit had."""

    items: int
    records: list[int]


@dataclass(frozen=True)
class Millions:
    """What became of a job: its figures, and what the store has and the log of Spark said."""

    visible: int
    records: list[int]
    staged: int
    commit: float
    """Seconds."""
    seen: list[Seen]
    """What the store had each time when a driver was killed."""
    progress: list[str]
    """The lines of the drivers' log that say how far the commit is."""
    figures: dict[str, object]


@click.command(context_settings={"show_default": True})
@click.option("--rows", default=DEFAULTS, type=click.IntRange(2), help="In one transaction.")
@click.option("--payload", default=200, type=click.IntRange(50), help="Bytes of XML in a row.")
@click.option("--pause", default=0.0, help="Seconds that the service waits before each slice.")
@click.option(
    "--kill",
    type=click.Choice(MOMENTS),
    multiple=True,
    help="Kill the driver in this part of its commit, and run the job again; needs --pause.",
)
def main(*, rows: int, payload: int, pause: float, kill: Sequence[str]) -> None:
    """Let two tasks stage the rows, commit them, and say what it took."""
    if kill and not pause:
        raise click.UsageError("--kill needs --pause: otherwise a commit may be over before")
    found = write(rows, payload=payload, pause=pause, kill=kill)
    _show(found.figures)
    if (found.visible, found.records, found.staged) != (rows, [rows], 0):
        raise click.ClickException("not every row is there once")


def write(
    rows: int, *, payload: int = 200, pause: float = 0.0, kill: Sequence[str] = ()
) -> Millions:
    """Run the job. At each of the moments `kill` the driver is killed, and a new one runs the job again."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pq-")))
        command = (slowed.__file__, str(pause), str(slowed.SLICE)) if pause else ()
        # of a driver that was killed before the mark, the staged items stay until they expire
        room = rows * (1 + kill.count("judging"))
        extra = JOBS if room <= DEFAULTS else JOBS + _room(room)
        options, program, driver = start(folder, stack, command, extra)
        notes = folder / "notes"
        own = {"notes": str(notes), "txnAppId": "million", "txnVersion": "1"}
        store = folder / "pubqueue.db"
        seen = []
        for moment in (*kill, ""):
            driver.send(timed.write, options | own, rows=rows // 2, tasks=2, payload=payload)
            if moment:
                is_there = partial(_is_at, moment, driver, store)
                wait_until(is_there, every=0.2, within=TIMEOUT)
                driver.kill()
                seen.append(Seen(items(store), records(store)))
                driver = stack.enter_context(driver.again())
        seconds = driver.result(within=TIMEOUT)
        lines = [json.loads(line) for line in notes.read_text().splitlines()]
        commit = sum(line.get("commit", 0.0) for line in lines)
        visible, kept, staged = items(store), records(store), _swept(store)
        figures = {
            "visible": visible,
            "records": kept,
            "left staged": staged,
            "seconds of the job": round(seconds),
            "seconds of each task": [round(line["wall"]) for line in lines if "wall" in line],
            "seconds of the commit": round(commit, 1),
            "component, MiB of memory at most": _peak(program),
            "store, MiB": store.stat().st_size // 2**20,
        }
        progress = AT_WORK.findall(driver.log.read_text())
        return Millions(visible, kept, staged, commit, seen, progress, figures)


def _is_at(moment: str, driver: Driver, store: Path) -> bool:
    """Return whether the commit is in this part, which the driver has reported or the store shows."""
    if moment == "judging":
        return bool(AT_WORK.search(driver.log.read_text()))
    return bool(records(store))


def _room(rows: int) -> str:
    return ROOM.format(rows=rows, twice=2 * rows, bytes=rows * BYTES)


def _swept(store: Path) -> int:
    """Return what is left of the transaction some minutes after its commit, or as soon as nothing is."""
    with suppress(TimeoutError):
        wait_until(lambda: not left(store), every=0.2, within=300)
    return left(store)


def _peak(program: Program) -> int:
    status = Path(f"/proc/{program.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


def _show(found: dict[str, object]) -> None:
    shown = Table(show_header=False)
    for name, value in found.items():
        shown.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    Console().print(shown)


if __name__ == "__main__":
    main()
