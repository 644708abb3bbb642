"""The table that a run ends with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from faults_run.run import Outcome


def table(outcome: Outcome) -> Table:
    """Show what was done to the queue, and what has come of it."""
    plan, notes, store = outcome.plan, outcome.notes, outcome.store
    shown = Table(
        title=f"{plan.items:,} items, seed {plan.seed}, {outcome.seconds:.0f} s", show_header=False
    )
    shown.add_column(no_wrap=True)
    shown.add_column(justify="right")
    for fault, times in sorted(outcome.faults.items(), key=lambda entry: entry[0].value):
        shown.add_row(fault.value, f"{times:,}")
    shown.add_section()
    figures = {
        "published and confirmed": len(outcome.confirmed),
        "publishes repeated": outcome.repeated,
        "completed": len(notes.results),
        "redelivered": notes.redelivered,
        "worked on more than once": sum(times > 1 for times in notes.results.values()),
        "retracted, as two workers see it": notes.twice,
        "retracts refused as late": notes.late,
    }
    for what, figure in figures.items():
        shown.add_row(what, f"{figure:,}")
    shown.add_section()
    wrong = "; ".join(store.wrong) or "as counted"
    judged = {
        "lost": _count(outcome.lost),
        "came back after a confirmed retract": _count(outcome.undone),
        "left in the store": _count(store.of("jobs")),
        "integrity, and counts kept in the store": wrong,
    }
    for what, verdict in judged.items():
        shown.add_row(what, verdict, style="bold")
    return shown


def _count(found: Iterable[str]) -> str:
    """Write how many there are, and a few of them."""
    names = sorted(found)
    return f"{len(names):,}" + (f": {', '.join(names[:5])}" if names else "")
