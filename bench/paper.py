"""Estimates the throughput with more cores, from the processor time of each part for one item's life.

Instances and the XMPP server have machines of their own, in any number; a part is full when its cores are. Two parts do
not scale with the number of cores. An instance is one Python process, which uses one core. And batches of all instances
run one after another (decision 43): during a batch, either the instance or the database works. Not counted are the
disk's sync, which a batch waits for once, and the rows that an instance reads again after another has written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

CORES: Final = 16
"""Cores of the database's machine."""
INSTANCES: Final = (1, 2, 4, 8)
SECOND: Final = 1e6
"""Costs are in microseconds."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Microseconds of processor time for one item's life."""

    component: float
    line: float  # of the component, in batches
    database: float
    server: float

    def bounds(self, instances: int) -> dict[str, float]:
        """Return how many items per second each part carries."""
        return {
            "the instances": instances * SECOND / self.component,
            "the line of batches": SECOND / (self.line + self.database),
            f"{CORES} cores of the database": CORES * SECOND / self.database,
        }

    def first_full(self, instances: int) -> tuple[str, float]:
        """Return which part is full first, and at how many items per second."""
        return min(self.bounds(instances).items(), key=lambda bound: bound[1])


def table(costs: Costs, instances: Sequence[int] = INSTANCES) -> Table:
    """Show which part is full first, by number of instances."""
    shown = Table(title=f"on paper: PostgreSQL on {CORES} cores, instances and server elsewhere")
    for number, name in enumerate(
        ("instances", "full first", "items/s", "cores of the\ndatabase", "cores of the\nserver")
    ):
        shown.add_column(name, justify="left" if number == 1 else "right", no_wrap=True)
    for many in instances:
        part, rate = costs.first_full(many)
        used = [f"{rate * cost / SECOND:.1f}" for cost in (costs.database, costs.server)]
        shown.add_row(str(many), part, f"{rate:.0f}", *used)
    return shown


def sentence(costs: Costs) -> str:
    """Return a sentence about the database's limit."""
    bounds = costs.bounds(1)
    _, line, cores = bounds.values()
    return (
        f"One line of batches carries {line:.0f} items/s, whatever the number of instances. {CORES} cores of the database would "
        f"carry {cores:.0f}: that takes {cores / line:.0f} services with a database each on them."
    )
