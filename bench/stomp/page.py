"""The table of README.md and its picture: pubqueue beside what a user would pick instead, in one run."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import matplotlib as mpl

from bench.stomp.loads import COST, MEDIAN, RARE, RATE
from bench.stomp.report import figure

mpl.use("agg")  # a file, not a window
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.stomp.loads import Figures

ROOT: Final = Path(__file__).resolve().parent.parent.parent
README: Final = ROOT / "README.md"
PICTURE: Final = ROOT / "docs" / "explanation" / "queues.svg"
PLACE: Final = re.compile(r"(<!-- queues -->\n).*?(<!-- end -->)", re.DOTALL)

NEEDED: Final = ("lives", "single", "paced")
"""The parts of a run that the table shows."""

NAMES: Final = {
    "pubqueue": "pubqueue (STOMP, SQLite)",
    "rabbitmq": "RabbitMQ (STOMP)",
    "beanstalkd": "beanstalkd (`-f 0`)",
    "redis": "Redis (streams, `appendfsync always`)",
    "procrastinate": "Procrastinate (PostgreSQL)",
}
SURVIVES: Final = {
    "pubqueue": "loss of power",
    "rabbitmq": "loss of power, unless it is acknowledged at once",
    "beanstalkd": "loss of power",
    "redis": "loss of power",
    "procrastinate": "loss of power",
}
"""What a publish survives once it is confirmed, as each is configured here."""

CELLS: Final = (
    ("items/s, full", "lives", RATE),
    ("one at a time", "single", RATE),
    ("µs of processor, full", "lives", COST),
    ("one at a time", "single", COST),
    ("p50, ms", "paced", MEDIAN),
    ("p99, ms", "paced", RARE),
)


def write(found: Mapping[str, Mapping[str, Sequence[Figures]]]) -> None:
    """Write the table into README.md, and the picture."""
    text = README.read_text(encoding="utf-8")
    README.write_text(PLACE.sub(lambda at: f"{at[1]}\n{rows(found)}\n\n{at[2]}", text), "utf-8")
    draw(found, PICTURE)


def rows(found: Mapping[str, Mapping[str, Sequence[Figures]]]) -> str:
    """Return the table, in Markdown: the medians of each."""
    heads = ["queue", *(head for head, _, _ in CELLS), "a confirmed publish survives"]
    lines = [heads, ["---", *(["---:"] * len(CELLS)), "---"]]
    for name in found[NEEDED[0]]:
        cells = [figure(_median(found[part][name], what)) for _, part, what in CELLS]
        lines.append([NAMES[name], *cells, SURVIVES[name]])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def draw(found: Mapping[str, Mapping[str, Sequence[Figures]]], path: Path) -> None:
    """Save the picture: throughput, processor time and waits of each, on logarithmic scales."""
    mpl.rcParams["svg.hashsalt"] = "queues"  # the same picture for the same figures
    names = list(found[NEEDED[0]])[::-1]
    shown, axes = plt.subplots(1, 3, sharey=True, figsize=(11, 3.2), layout="constrained")
    panels = (
        ("items per second", RATE, ("lives", "single")),
        ("µs of processor time an item", COST, ("lives", "single")),
        ("ms from publish to worker, at 200 items/s", None, ("p50", "p99")),
    )
    for panel, (title, what, pair) in zip(axes, panels, strict=True):
        for number, (kind, colour) in enumerate(zip(pair, ("#4477aa", "#ee7733"), strict=True)):
            part, of = (kind, what) if what else ("paced", MEDIAN if kind == "p50" else RARE)
            values = [_median(found[part][name], of) for name in names]
            at = [place + (0.2 if number == 0 else -0.2) for place in range(len(names))]
            label = {"lives": "full", "single": "one at a time"}.get(kind, kind)
            panel.barh(at, values, height=0.38, color=colour, label=label)
        panel.set(xlabel=title, xscale="log")
        panel.legend(fontsize="small")
        panel.grid(alpha=0.3, axis="x")
        panel.spines[["top", "right"]].set_visible(False)
    axes[0].set_yticks(range(len(names)), names)
    shown.savefig(path, metadata={"Date": None})
    plt.close(shown)


def _median(rounds: Sequence[Figures], what: str) -> float:
    return median(one[what] for one in rounds)
