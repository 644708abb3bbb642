"""`pubqueue demo`."""

from __future__ import annotations

import sys

import click

from pubqueue.cli.exit_codes import ASKED_WRONGLY, stop


@click.command()
@click.option("--items", type=int, help="Number of delayed flights to publish (default: all).")
@click.option("--workers", type=int, default=4, show_default=True, help="Number of bots.")
@click.option(
    "--kill-component",
    type=int,
    help="How many times to kill the component at random moments (default: once with several instances).",
)
@click.option(
    "--store",
    type=click.Choice(["sqlite", "postgres"]),
    default="sqlite",
    show_default=True,
    help="The kind of store; the demo starts its own PostgreSQL.",
)
@click.option(
    "--instances",
    type=int,
    default=1,
    show_default=True,
    help="Number of instances of the component; one serves, the others stand by.",
)
def demo(
    items: int | None, workers: int, kill_component: int | None, store: str, instances: int
) -> None:
    """Run a complete example.

    Spark publishes delayed flights to a queue, bots rebook them, and some of the bots fail.
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
