"""`.venv/bin/python -m proof.spark_cluster.million`: stage a million rows, and commit them at once.

It takes minutes, hence it is no test. Component and sink run as they are by default.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from bench import timed
from bench.spark import start
from harness.patience import wait_until
from harness.stores.queue_store import items, left, records
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from harness.processes.program import Program

TIMEOUT: Final = 3600.0


@click.command(context_settings={"show_default": True})
@click.option("--rows", default=1_000_000, type=click.IntRange(2), help="In one transaction.")
@click.option("--payload", default=200, type=click.IntRange(50), help="Bytes of XML in a row.")
def main(*, rows: int, payload: int) -> None:
    """Let two tasks stage the rows, commit them, and say what it took."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pq-")))
        options, program, driver = start(folder, stack)
        notes = folder / "notes"
        own = {"notes": str(notes), "txnAppId": "million", "txnVersion": "1"}
        driver.send(timed.write, options | own, rows=rows // 2, tasks=2, payload=payload)
        seconds = driver.result(within=TIMEOUT)
        store = folder / "pubqueue.db"
        found = {
            "visible": items(store),
            "records": records(store),
            "left staged": _swept(store),
            "seconds of the job": round(seconds),
            **_seconds(notes),
            "component, MiB of memory at most": _peak(program),
            "store, MiB": store.stat().st_size // 2**20,
        }
        _show(found)
        if (found["visible"], found["records"], found["left staged"]) != (rows, [rows], 0):
            raise click.ClickException("not every row is there once")


def _seconds(notes: Path) -> dict[str, object]:
    lines = [json.loads(line) for line in notes.read_text().splitlines()]
    walls = [line["wall"] for line in lines if "wall" in line]
    return {
        "seconds of each task": [round(wall) for wall in walls],
        "seconds of the commit": round(sum(line.get("commit", 0) for line in lines), 1),
    }


def _swept(store: Path) -> int:
    """Return what is left of the transaction a minute after its commit, or as soon as nothing is."""
    with suppress(TimeoutError):
        wait_until(lambda: not left(store), every=0.2, within=60)
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
