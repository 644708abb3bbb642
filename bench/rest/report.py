"""The table of a run: each figure, its ratio to the bare handler's in the same round, and the goal."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from rich.table import Table

from bench.report import spread
from bench.stomp.report import figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.rest.loads import Figures, Goal, Part

    Rounds = Sequence[tuple[Figures, Figures]]


def table(parts: Mapping[str, Part], found: Mapping[str, Rounds]) -> Table:
    """Show each goal of each part in a row; a round is our figures and those of the bare handler."""
    shown = empty("REST, beside a bare handler of aiohttp", "bare")
    for name, rounds in found.items():
        title = parts[name].title
        for goal in parts[name].goals:
            shown.add_row(title, *cells(goal, rounds, "bare"))
            title = ""
    return shown


def empty(title: str, *others: str) -> Table:
    """Return a table without rows; `others` are the columns beside our figures."""
    shown = Table(title=title)
    for name in ("load", "figure", "ours", *others, "ours, x", "goal", "met"):
        justify = "left" if name in {"load", "figure", "beside", "goal", "met"} else "right"
        shown.add_column(name, justify=justify, no_wrap=True)
    return shown


def cells(goal: Goal, rounds: Rounds, beside: str) -> list[str]:
    """Return the figure's name, our value, the other's, the ratio, the goal, and whether it is met."""
    ours = [mine[goal.figure] for mine, _ in rounds]
    judged, theirs, ratios = ours, [], []
    if goal.of:
        theirs = [bare[goal.of] for _, bare in rounds]
        judged = ratios = [mine / bare for mine, bare in zip(ours, theirs, strict=True)]
    sign, bound = ("≥", goal.least) if goal.least else ("≤", goal.most)
    met = "yes" if goal.met(statistics.median(judged)) else "no"
    return [
        goal.figure,
        spread(ours, figure),
        spread(theirs, figure),
        spread(ratios, "{:.2f}".format),
        f"{sign} {bound:g}{f' x {beside}' if goal.of else ''}",
        met,
    ]
