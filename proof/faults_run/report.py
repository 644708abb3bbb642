"""The table that a run ends with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proof.faults_run.run import RunResult


def table(outcomes: Sequence[RunResult]) -> Table:
    """Show what was done to the queue behind each server, and what has come of it."""
    plan = outcomes[0].plan
    shown = Table(title=f"{plan.items:,} items behind each server, {plan.store}, seed {plan.seed}")
    shown.add_column(no_wrap=True)
    for outcome in outcomes:
        shown.add_column(outcome.server, justify="right")
    for fault in sorted({fault for it in outcomes for fault in it.faults}, key=lambda it: it.value):
        shown.add_row(fault.value, *(f"{it.faults[fault]:,}" for it in outcomes))
    shown.add_section()
    figures = [_figures(it) for it in outcomes]
    for what in figures[0]:
        shown.add_row(what, *(f"{it[what]:,}" for it in figures))
    shown.add_section()
    judged = [_judged(it) for it in outcomes]
    for what in judged[0]:
        shown.add_row(what, *(it[what] for it in judged), style="bold")
    return shown


def _figures(outcome: RunResult) -> dict[str, int]:
    notes = outcome.notes
    return {
        "seconds": round(outcome.seconds),
        "times that refused writes have cost a batch": outcome.met,
        "published and confirmed": len(outcome.confirmed),
        "publishes repeated": outcome.repeated,
        "completed": len(notes.results),
        "redelivered": notes.redelivered,
        "worked on more than once": sum(times > 1 for times in notes.results.values()),
        "retracts refused as late": notes.late,
        "retracts of which nobody knows": notes.gone,
    }


def reported(outcome: RunResult) -> str:
    """Write what has come of a run in lines, for a test that fails."""
    found = {**_figures(outcome), **_judged(outcome)}
    lines = (f"{what}: {it}" for what, it in found.items())
    return "\n".join([*lines, *outcome.judgement.lines[:-1]])


def _judged(outcome: RunResult) -> dict[str, str]:
    return {
        "violations that the judge has found": outcome.judgement.summary,
        "locked twice at one time": _count(map(str, outcome.locked_twice)),
        "left in the store": _count(outcome.store.of("jobs")),
        "integrity, and counts kept in the store": "; ".join(outcome.store.wrong) or "as counted",
    }


def _count(found: Iterable[str]) -> str:
    """Write how many there are, and a few of them."""
    names = sorted(found)
    return f"{len(names):,}" + (f": {', '.join(names[:5])}" if names else "")
