"""What a run has found: tables with the ratio of ours to each figure, and the table and picture of the documentation."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

import matplotlib as mpl
from rich.table import Table

from bench.report import spread
from bench.stomp.loads import COST, MEDIAN, RARE, RATE
from bench.wire import BenchError

mpl.use("agg")  # a file, not a window
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from bench.stomp.loads import Figures

OURS: Final = "pubqueue"


def table(title: str, found: Mapping[str, Sequence[Figures]]) -> Table:
    """Show each broker in a row; for others, also our figure divided by theirs."""
    own = found.get(OURS)
    names = list(next(iter(found.values()))[0])
    shown = Table(title=title)
    shown.add_column("broker", no_wrap=True)
    for name in names:
        shown.add_column(name, justify="right", no_wrap=True)
        shown.add_column("ours, x", justify="right", no_wrap=True)
    for broker, rounds in found.items():
        cells = []
        for name in names:
            cells.append(spread([one[name] for one in rounds], figure))
            pairs = zip(own, rounds, strict=True) if own and broker != OURS else ()
            ratios = [mine[name] / theirs[name] for mine, theirs in pairs if theirs[name]]
            cells.append(spread(ratios, "{:.2f}".format))
        shown.add_row(broker, *cells)
    return shown


def codec_table(found: Mapping[str, tuple[float, float]], size: int) -> Table:
    """Show how fast the codec reads and writes."""
    shown = Table(title=f"the codec alone, frames of {size} bytes a second")
    for name in ("frames", "codec", "careless", "codec is"):
        shown.add_column(name, justify="left" if name == "frames" else "right")
    for name, (careful, careless) in found.items():
        shown.add_row(name, f"{careful:,.0f}", f"{careless:,.0f}", f"x {careful / careless:.2f}")
    return shown


def figure(value: float) -> str:
    """Write a figure with its significant digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


# --- what README and the explanation of speed show ----------------------------------------------

FULL, ALONE, PACED = NEEDED = ("lives", "single", "paced")
SHOWN: Final = (
    (FULL, RATE, "items/s, full", "{:,.0f}"),
    (FULL, COST, "µs/item, full", "{:,.0f}"),
    (ALONE, RATE, "items/s, one at a time", "{:,.0f}"),
    (ALONE, COST, "µs/item, one at a time", "{:,.0f}"),
    (PACED, MEDIAN, "p50 at 200/s, ms", "{:.2f}"),
    (PACED, RARE, "p99 at 200/s, ms", "{:.2f}"),
)
"""The columns of the table: part, figure, title and format."""
NAMED: Final[Mapping[str, tuple[str, str]]] = {
    "pubqueue": ("pubqueue over STOMP, SQLite", "loss of power"),
    "rabbitmq": ("RabbitMQ over STOMP, classic durable queue", "a crash of the broker"),
    "beanstalkd": ("beanstalkd, `-f0`", "loss of power"),
    "redis": ("Redis stream, `appendfsync always`", "loss of power"),
    "procrastinate": ("Procrastinate on PostgreSQL", "loss of power"),
}
"""Each broker: its name on the page, and what a confirmed publish survives."""
BEGIN: Final = "<!-- rivals -->\n"
END: Final = "<!-- end of rivals -->"


def around(text: str) -> tuple[str, str]:
    """Return what a Markdown page has before and after its table. Raises BenchError if it has no marks for it."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise BenchError(f"the page has no {BEGIN.strip()} and {END}")
    return before + begin, end + after


def markdown(found: Mapping[str, Mapping[str, Sequence[Figures]]]) -> Iterator[str]:
    """Write the table of the medians, each also divided by ours, line by line."""
    yield f"| | {' | '.join(title for *_, title, _ in SHOWN)} | a confirmed publish survives |\n"
    yield f"| --- |{' ---: |' * len(SHOWN)} --- |\n"
    for broker in found[FULL]:
        name, survives = NAMED[broker]
        cells = []
        for part, it, _, form in SHOWN:
            median = _median(found[part][broker], it)
            own = _median(found[part][OURS], it)
            cells.append(
                form.format(median) + ("" if broker == OURS else f" ({median / own:.2f} x)")
            )
        yield f"| {name} | {' | '.join(cells)} | {survives} |\n"


def draw(path: Path, found: Mapping[str, Mapping[str, Sequence[Figures]]]) -> None:
    """Save the picture of the table: a bar for each broker, a panel for each column."""
    figure, panels = plt.subplots(3, 2, figsize=(10, 7), layout="constrained")
    for axes, (part, name, title, form) in zip(panels.flat, SHOWN, strict=True):
        medians = {broker: _median(rounds, name) for broker, rounds in found[part].items()}
        colours = ["#4477aa" if broker == OURS else "#bbbbbb" for broker in medians]
        bars = axes.barh(list(medians), list(medians.values()), color=colours)
        axes.bar_label(bars, labels=[form.format(value) for value in medians.values()], padding=3)
        axes.set(title=title, xticks=[])
        axes.margins(x=0.15)
        axes.invert_yaxis()
        axes.spines[["top", "right", "bottom"]].set_visible(False)
    with mpl.rc_context({"svg.hashsalt": OURS}):
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _median(rounds: Sequence[Figures], name: str) -> float:
    return statistics.median(one[name] for one in rounds)
