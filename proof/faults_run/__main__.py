"""`.venv/bin/python -m proof.faults_run`: run, print the table, say whether all is well."""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from proof.faults_run.faces import PUBLISHERS
from proof.faults_run.plan import OF_DATABASES, OF_DISKS, ROUND, Plan
from proof.faults_run.report import table
from proof.faults_run.run import SERVERS, Run, RunResult
from proof.faults_run.stores import STORES
from proof.judge.history import keep

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH = 100  # of the table when nobody's terminal says
KEPT = Path("build") / "histories"


@click.command(context_settings={"show_default": True})
@click.option("--items", default=10_000, type=click.IntRange(50), help="Items to bring through.")
@click.option("--seed", default=1, help="What happens, and when, follows from it.")
@click.option(
    "--server", "servers", multiple=True, default=list(SERVERS), type=click.Choice(list(SERVERS))
)
@click.option("--store", default="sqlite", type=click.Choice(list(STORES)))
@click.option("--instances", default=1, help="Components on one store; Prosody has one of them.")
@click.option(
    "--faces", default="xmpp", type=click.Choice(["xmpp", "all"]), help="Whose clients take part."
)
def main(
    *, items: int, seed: int, servers: Sequence[str], store: str, instances: int, faces: str
) -> None:
    """Bring items through the queue while all that takes part in it is killed at random."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    kinds = OF_DISKS + ROUND if store == "sqlite" else OF_DATABASES + OF_DISKS + ROUND
    others = tuple(PUBLISHERS) if faces == "all" else ()
    outcomes = []
    for server in servers:
        admitted = 1 if server == "prosody" else instances
        common = {"kinds": kinds, "log": True, "store": store, "faces": others}
        plan = Plan(items, seed, instances=admitted, **common)
        with tempfile.TemporaryDirectory(prefix="pubqueue-faults-") as folder:
            outcomes.append(asyncio.run(_run(plan, server, Path(folder), console)))
    console.print(table(outcomes))
    for line in (line for outcome in outcomes for line in outcome.judgement.lines[:-1]):
        console.print(line, highlight=False, markup=False)
    sys.exit(0 if all(outcome.good for outcome in outcomes) else 1)


async def _run(plan: Plan, server: str, folder: Path, console: Console) -> RunResult:
    columns = (TextColumn("{task.description:44}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as bar:
        task = bar.add_task("", total=plan.items)

        def show(done: int, what: str) -> None:
            said = {"description": f"{server}: {what}"} if what else {}
            bar.update(task, completed=done, **said)

        outcome = await Run(plan, server, folder, show).run(patience=300 + plan.items / 10)
    if not outcome.judgement.is_right:
        kept = KEPT / f"{server}-{plan.store}-{plan.seed}"
        _keep(folder, kept)
        console.print(f"the histories, and all logs, are kept in {kept}")
    return outcome


def _keep(folder: Path, kept: Path) -> None:
    """Keep what clients, their programs and the service have written."""
    written = (folder.glob(what) for what in ("*.jsonl", "*.log", "instance*/stderr"))
    keep([path for paths in written for path in paths], folder, kept)


if __name__ == "__main__":
    # asyncio says of every client that it goes on writing while its server dies: that is the idea
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    logging.getLogger("stomp.py").setLevel(logging.CRITICAL)
    main()
