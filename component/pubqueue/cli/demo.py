"""`pubqueue demo`."""

from __future__ import annotations

import sys

import click

from pubqueue.cli.exit_codes import ASKED_WRONGLY, stop


@click.command()
@click.option("--items", type=int, help="How many flights become work; all of them by default.")
@click.option("--workers", type=int, default=4, show_default=True, help="How many bots work.")
@click.option(
    "--kill-component",
    type=int,
    help="How often to kill the component at random moments; once if there are more instances.",
)
@click.option(
    "--store",
    type=click.Choice(["sqlite", "postgres"]),
    default="sqlite",
    show_default=True,
    help="Where items are kept; the demo starts a PostgreSQL of its own.",
)
@click.option(
    "--instances",
    type=int,
    default=1,
    show_default=True,
    help="How many instances of the component there are; one is at work, the others wait.",
)
def demo(
    items: int | None, workers: int, kill_component: int | None, store: str, instances: int
) -> None:
    """Play the main job end to end.

    Spark writes delayed flights into a queue, bots rebook them, and some of the bots fail.
    """
    try:
        from pubqueue_demo.run import run_demo  # noqa: PLC0415  # its libraries are an extra
    except ImportError as problem:
        stop(ASKED_WRONGLY, f"the demo needs pip install 'pubqueue[demo]' ({problem})")
    code = run_demo(
        items=items,
        workers=workers,
        kill_component=kill_component,
        store=store,
        instances=instances,
    )
    sys.exit(code)
