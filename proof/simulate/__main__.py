"""`.venv/bin/python -m proof.simulate`: simulate, print the table, say whether all is well."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from proof.simulate.places import PLACES
from proof.simulate.plan import draw
from proof.simulate.report import Sum, reported, table
from proof.simulate.run import Run
from proof.simulate.shrink import shrink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proof.simulate.plan import Fault
    from proof.simulate.run import Outcome

WIDTH: Final = 100  # when nobody's terminal says

SHARE: Final = {"sqlite": 1.0, "clocked": 0.5, "postgres": 0.1}
"""Of the hours, how many each store gets when all are asked for: a server takes longer than files do."""


@click.command(context_settings={"show_default": True})
@click.option("--seed", default=1, help="Of the first run; each run after it has the next.")
@click.option("--hours", default=1.0, help="Virtual hours, at least; a run takes about 25 minutes.")
@click.option(
    "--store", "stores", multiple=True, default=list(PLACES), type=click.Choice(list(PLACES))
)
@click.option("--only", default="", help="One run, with these faults of its plan: numbers, or '-'.")
def main(*, seed: int, hours: float, stores: Sequence[str], only: str) -> None:
    """Simulate instances, network, workers and publishers on virtual time, with all that can befall them."""
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    sums = [Sum(store) for store in stores]
    broken = None
    for it in sums:
        most = hours if len(sums) == 1 else hours * SHARE[it.store]
        broken = broken or _simulate(it, seed, 0 if only else most, _chosen(seed, only), console)
    if broken is not None:
        _show(broken, console, short=bool(only))
    console.print(table(sums, seed))
    sys.exit(1 if broken else 0)


def _chosen(seed: int, only: str) -> Sequence[Fault] | None:
    """Return the faults that are named, None for all."""
    if not only:
        return None
    plan = draw(seed)
    return [plan[int(number)] for number in only.split(",") if number != "-"]


def _simulate(
    it: Sum, seed: int, hours: float, plan: Sequence[Fault] | None, console: Console
) -> Outcome | None:
    """Run until there are enough hours, or until a promise is broken."""
    columns = (TextColumn("{task.description:44}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=hours or None)
        while not it.runs or it.hours < hours:
            bar.update(task, completed=it.hours, description=f"{it.store}: seed {seed + it.runs}")
            outcome = Run(seed + it.runs, it.store, plan=plan).run()
            it.add(outcome)
            if outcome.violation:
                return outcome
    return None


def _show(broken: Outcome, console: Console, *, short: bool) -> None:
    """Say what was broken, and by as few faults as can be."""
    words = "\n".join(reported(broken))
    console.print(words if short else words.partition("\n  ")[0], highlight=False, markup=False)
    if not short:
        with Progress(TextColumn("{task.description}"), console=console, transient=True) as bar:
            task = bar.add_task("")
            said = "making the plan shorter: {} runs, {} faults are left"
            shortest = shrink(broken, lambda *of: bar.update(task, description=said.format(*of)))
        console.print(
            "\n".join(["", "as short as it gets:", *reported(shortest)]),
            highlight=False,
            markup=False,
        )


if __name__ == "__main__":
    main()
