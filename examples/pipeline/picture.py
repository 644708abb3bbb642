"""Shows the event log second by second: as a table on the screen, and as a picture."""

from collections.abc import Iterable, Sequence
from itertools import accumulate

import matplotlib as mpl
from matplotlib.ticker import MaxNLocator, ScalarFormatter
from pyspark.sql import Row
from rich.console import Console
from rich.table import Table

mpl.use("agg")  # a file, not a window
from matplotlib import pyplot as plt

COUNTS = {"published": "#4477aa", "completed": "#228833", "given_back": "#aa3377"}
AGES = {"p50": "#88ccee", "p95": "#ee7733", "p99": "#cc3311"}


def backlog(seconds: Iterable[Row]) -> list[int]:
    """Return how many orders were not done at the end of each second."""
    return list(accumulate(it.published - it.completed for it in seconds))


def show(seconds: Sequence[Row]) -> None:
    """Print the table."""
    table = Table("second", "came", "done", "back", "not done", *AGES)
    for column in table.columns:
        column.justify = "right"
    for it, left in zip(seconds, backlog(seconds), strict=True):
        ages = [f"{age:.2f} s" for age in it.ages or ()]
        counts = it.second - seconds[0].second, it.published, it.completed, it.given_back, left
        table.add_row(*(f"{count:,}" for count in counts), *ages)
    Console().print(table)


def draw(seconds: Sequence[Row], path: str) -> None:
    """Save the picture: orders that were published and done, the backlog, and the time to completion."""
    figure, (rates, left, below) = plt.subplots(
        3, sharex=True, figsize=(10, 9), layout="constrained"
    )
    times = [it.second - seconds[0].second for it in seconds]
    for name, colour in COUNTS.items():
        counts = [getattr(it, name) for it in seconds]
        label = name.replace("_", " ")
        rates.plot(times, counts, "o-", drawstyle="steps-mid", ms=3, color=colour, label=label)
    left.fill_between(times, backlog(seconds), step="mid", color="#bbbbbb", label="not done")
    done = [(time, it.ages) for time, it in zip(times, seconds, strict=True) if it.ages]
    for number, (name, colour) in enumerate(AGES.items()):
        ages = [age[number] for _, age in done]
        below.plot([time for time, _ in done], ages, "o-", ms=3, color=colour, label=name)
    rates.set(ylabel="orders per second", title="From the event log", yscale="symlog")
    rates.yaxis.set_major_formatter(ScalarFormatter())
    left.set(ylabel="orders")
    below.set(ylabel="seconds from publish to done", xlabel="seconds")
    for axes in (rates, left, below):
        axes.set_ylim(bottom=0)
        axes.legend(loc="best")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=120)
