"""A job of a million rows, or of five, on two cores: its tasks stage them, and one commit makes all of them visible.

`.venv/bin/python -m proof.spark_cluster.million` shows what it took, of a service as it is by default.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass
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
    from harness.processes.program import Program

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
BYTES: Final = 1000
"""Of quota for each row."""


@dataclass(frozen=True)
class Millions:
    """What became of a job: its figures, and what the store has and the log of Spark said."""

    visible: int
    records: list[int]
    staged: int
    commit: float
    """Seconds."""
    figures: dict[str, object]


@click.command(context_settings={"show_default": True})
@click.option("--rows", default=DEFAULTS, type=click.IntRange(2), help="In one transaction.")
@click.option("--payload", default=200, type=click.IntRange(50), help="Bytes of XML in a row.")
@click.option("--pause", default=0.0, help="Seconds that the service waits before each slice.")
def main(*, rows: int, payload: int, pause: float) -> None:
    """Let two tasks stage the rows, commit them, and say what it took."""
    found = write(rows, payload=payload, pause=pause)
    _show(found.figures)
    if (found.visible, found.records, found.staged) != (rows, [rows], 0):
        raise click.ClickException("not every row is there once")


def write(rows: int, *, payload: int = 200, pause: float = 0.0) -> Millions:
    """Run the job."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pq-")))
        command = (slowed.__file__, str(pause), str(slowed.SLICE)) if pause else ()
        extra = JOBS if rows <= DEFAULTS else JOBS + _room(rows)
        options, program, driver = start(folder, stack, command, extra)
        notes = folder / "notes"
        own = {"notes": str(notes), "txnAppId": "million", "txnVersion": "1"}
        driver.send(timed.write, options | own, rows=rows // 2, tasks=2, payload=payload)
        seconds = driver.result(within=TIMEOUT)
        store = folder / "pubqueue.db"
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
        return Millions(visible, kept, staged, commit, figures)


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
