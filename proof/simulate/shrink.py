"""Makes a plan that breaks a promise as short as it gets: what can be left out, while it is still that promise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proof.simulate.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proof.simulate.plan import Fault
    from proof.simulate.run import Outcome

MAX_TRIES: Final = 300
"""Runs in all: after that it is short enough."""


def shrink(
    outcome: Outcome, report: Callable[[int, int], None] = lambda _tries, _left: None
) -> Outcome:
    """Return the outcome of the shortest plan that was found; `report` hears of each try, and how many faults are left."""
    shortest = (
        _again(outcome, [fault for fault in outcome.plan if fault.at <= outcome.at]) or outcome
    )
    tries, size = 1, max(1, len(shortest.plan) // 2)
    while True:
        at, before = 0, len(shortest.plan)
        while at < len(shortest.plan) and tries < MAX_TRIES:
            less = [*shortest.plan[:at], *shortest.plan[at + size :]]
            found = _again(outcome, less)
            shortest, at = (found, at) if found is not None else (shortest, at + size)
            tries += 1
            report(tries, len(shortest.plan))
        if tries >= MAX_TRIES or (size == 1 and len(shortest.plan) == before):
            return shortest
        size = max(1, size // 2)


def _again(outcome: Outcome, plan: Sequence[Fault]) -> Outcome | None:
    """Run with these faults only; None if no promise is broken, or another."""
    found = Run(outcome.seed, outcome.store, minutes=outcome.minutes, plan=plan).run()
    return found if found.rule == outcome.rule else None
