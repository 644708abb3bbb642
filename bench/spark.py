"""`.venv/bin/python -m bench.spark`: how fast Spark's tasks publish, and what they wait for."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import click
from harness.background import Background
from harness.processes.program import Program, write_config
from harness.servers.live import JOBS, listener
from proof.spark_cluster.driver import Driver
from proof.spark_cluster.standalone import SPARK_HOME
from rich.console import Console
from rich.table import Table

from bench import timed
from bench.report import spread
from pubqueue_demo.java import java_home
from pubqueue_demo.prosody import Prosody

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PASSWORD: Final = "bench"
CASES: Final = tuple((tasks, seen) for seen in ("commit", "immediate") for tasks in (1, 2))
WIDTH: Final = 110
NOTE: Final = """\
Behind Prosody, on the pubqueue component, which has every row on disk before it answers. What the tasks
spent their time with: waiting for Spark's next row, this process at work (formatting, XMPP), waiting for the
service. Around them, as a share of the job's time: planning, launching, and the commit, whose seconds are
shown."""

SESSION: Final = {
    "spark.master": "local[2,3]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.python.unix.domain.socket.enabled": "true",
}


@dataclass(frozen=True, slots=True)
class Job:
    """One write: its tasks' times, and its own."""

    tasks: int
    visibility: str
    rows: int
    seconds: float
    notes: list[dict[str, float]]

    def sum(self, name: str) -> float:
        """Add up one kind of seconds."""
        return sum(note.get(name, 0.0) for note in self.notes)

    @property
    def longest(self) -> float:
        """Return the seconds of the longest task."""
        return max(note.get("wall", 0.0) for note in self.notes)


@click.command(context_settings={"show_default": True})
@click.option("--rows", default=3000, type=click.IntRange(10), help="Rows of each task.")
@click.option("--rounds", default=3, type=click.IntRange(1), help="Jobs of each kind.")
@click.option("--payload", default=200, type=click.IntRange(50), help="Bytes of XML in a row.")
def main(*, rows: int, rounds: int, payload: int) -> None:
    """Measure the Spark sink, with one task and with two, with and without transactions."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    with console.status("starting Spark"), tempfile.TemporaryDirectory(prefix="pq-") as folder:
        jobs = list(measure(Path(folder), rows, rounds, payload))
    console.print(table(jobs))
    console.print(NOTE, highlight=False)


def measure(folder: Path, rows: int, rounds: int, payload: int) -> Iterator[Job]:
    """Run the kinds of jobs in turns, so that a slow minute affects them alike; the first round is warm-up."""
    with ExitStack() as stack:
        options, _, driver = start(folder, stack)
        for number in range(rounds + 1):
            for tasks, visibility in CASES:
                notes = folder / f"notes-{number}-{tasks}-{visibility}"
                own = {"visibility": visibility, "notes": str(notes)}
                seconds = driver.run(
                    timed.write, options | own, rows=rows, tasks=tasks, payload=payload
                )
                lines = [json.loads(line) for line in notes.read_text().splitlines()]
                if number:
                    yield Job(tasks, visibility, rows, seconds, lines)


def start(
    folder: Path, stack: ExitStack, command: Sequence[str] = (), extra: str = JOBS
) -> tuple[dict[str, str], Program, Driver]:
    """Start server, component and driver until the stack ends; return the options for them, and both.

    The component is started by `command`, if there is one; `extra` is of its configuration.
    """
    background = Background()
    stack.callback(background.close)
    server = Prosody()
    background.run(server.__aenter__())
    stack.callback(lambda: background.run(server.__aexit__(None, None, None)))
    jid = background.run(server.account("etl", PASSWORD))
    config = write_config(folder, listener(server), extra)
    serving = Program(config, (sys.executable, *command)) if command else Program(config)
    program = background.run(serving.__aenter__())
    stack.callback(lambda: background.run(serving.__aexit__(None, None, None)))
    options = {
        "service": server.component,
        "node": "jobs",
        "jid": jid,
        "password": PASSWORD,
        "host": server.host,
        "port": str(server.c2s_port),
        "tls": "off",
    }
    return options, program, stack.enter_context(_driver(background, folder))


def _driver(background: Background, folder: Path) -> Driver:
    env = os.environ | {
        "JAVA_HOME": str(java_home(folder)),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    own = {"spark.local.dir": str(folder), "spark.sql.warehouse.dir": str(folder / "warehouse")}
    return Driver(background, folder, env, SESSION | own, python=Path(sys.executable))


def table(jobs: Sequence[Job]) -> Table:
    """Show each kind of job in a row."""
    shown = Table(title=f"{len(jobs)} jobs of {jobs[0].rows} rows a task")
    names = (
        "visibility",
        "tasks",
        "rows/s a task",
        "Spark",
        "client",
        "waiting",
        "around",
        "commit",
    )
    for number, name in enumerate(names):
        shown.add_column(name, justify="right" if number else "left", no_wrap=True)
    for tasks, visibility in CASES:
        own = [job for job in jobs if (job.tasks, job.visibility) == (tasks, visibility)]
        shown.add_row(visibility, str(tasks), *_figures(own))
    return shown


def _figures(own: Sequence[Job]) -> tuple[str, ...]:
    rates = [job.rows * job.tasks / job.sum("wall") for job in own]
    shares = {
        name: median(job.sum(name) / job.sum("wall") for job in own) for name in ("spark", "client")
    }
    around = median((job.seconds - job.longest) / job.seconds for job in own)
    return (
        spread(rates, "{:.0f}".format),
        f"{shares['spark']:.0%}",
        f"{shares['client']:.0%}",
        f"{1 - sum(shares.values()):.0%}",
        f"{around:.0%}",
        f"{median(job.sum('commit') for job in own):.2f} s",
    )


if __name__ == "__main__":
    main()
