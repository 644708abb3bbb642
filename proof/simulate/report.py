"""The table that a simulation ends with; and of a promise that was broken, what it takes to see it again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.table import Table

from proof.simulate.plan import MINUTES, FaultKind, draw

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proof.simulate.run import Outcome


@dataclass
class Sum:
    """What has come of all runs on one store."""

    store: str
    runs: int = 0
    hours: float = 0.0
    seconds: float = 0.0
    items: int = 0
    delivered: int = 0
    completed: int = 0
    died: int = 0
    emptied: int = 0
    longest: float = 0.0
    violations: int = 0
    faults: Counter[FaultKind] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        """Count a run."""
        self.runs += 1
        self.hours += outcome.at / 3600
        self.seconds += outcome.seconds
        self.items += outcome.items
        self.delivered += outcome.delivered
        self.completed += outcome.completed
        self.died += outcome.died
        self.emptied += outcome.emptied
        self.longest = max(self.longest, outcome.drained)
        self.violations += bool(outcome.violation)
        self.faults += outcome.faults


def table(sums: Sequence[Sum], seed: int) -> Table:
    """Show what was simulated on each store."""
    shown = Table(title=f"simulated from seed {seed} on")
    shown.add_column(no_wrap=True)
    for it in sums:
        shown.add_column(it.store, justify="right")
    for kind in FaultKind:
        shown.add_row(kind.value, *(f"{it.faults[kind]:,}" for it in sums))
    shown.add_section()
    figures = [_figures(it) for it in sums]
    for what in figures[0]:
        shown.add_row(what, *(it[what] for it in figures))
    shown.add_section()
    shown.add_row("promises broken", *(f"{it.violations:,}" for it in sums), style="bold")
    return shown


def _figures(it: Sum) -> dict[str, str]:
    return {
        "runs": f"{it.runs:,}",
        "virtual hours": f"{it.hours:,.1f}",
        "virtual hours a second": f"{it.hours / it.seconds:,.2f}" if it.seconds else "",
        "published and confirmed": f"{it.items:,}",
        "handed out": f"{it.delivered:,}",
        "completed": f"{it.completed:,}",
        "deaths": f"{it.died:,}",
        "purged": f"{it.emptied:,}",
        "longest drain after the faults, s": f"{it.longest:,.0f}",
    }


def command(outcome: Outcome) -> str:
    """Return the command line that repeats a run."""
    line = f"make simulate SEED={outcome.seed} STORE={outcome.store} HOURS=0.1"
    plan = draw(outcome.seed, outcome.minutes)
    if len(outcome.plan) < len(plan):
        chosen = [str(at) for at, fault in enumerate(plan) if fault in set(outcome.plan)]
        line += f" ONLY={','.join(chosen) or '-'}"
    return line


def reported(outcome: Outcome) -> Iterable[str]:
    """Say what was broken, when, and by which faults."""
    minutes, seconds = divmod(outcome.at, 60)
    yield f"{minutes:3.0f}:{seconds:06.3f}  {outcome.violation}"
    yield f"repeat it: {command(outcome)}"
    if outcome.minutes != MINUTES:
        yield f"with {outcome.minutes:g} minutes of faults"
    yield from (fault.reported() for fault in outcome.plan)
