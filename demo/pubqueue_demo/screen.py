"""The output of the demo: a live view on a terminal, plain lines elsewhere, and a table at the end."""

from __future__ import annotations

import math
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from rich.console import RenderableType

    from pubqueue_demo.tally import Figures, Spread, WorkerCount

PLAIN_EVERY: Final = 2.0
RATE_OVER: Final = 2.0
PICTURES_A_SECOND: Final = 8


@dataclass(frozen=True, slots=True)
class WorkerView:
    """One line of the view."""

    name: str
    state: str
    count: WorkerCount


@dataclass(frozen=True, slots=True)
class View:
    """One state of the view. `total` is None until the Spark job has counted its rows."""

    total: int | None
    depth: int
    in_flight: int
    done: int
    rate: float
    workers: Sequence[WorkerView]


class Rate:
    """Items a second over the last two seconds."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def now(self, done: int, at: float) -> float:
        """Record the count at this time and return the rate."""
        self._seen.append((at, done))
        while self._seen[0][0] < at - RATE_OVER:
            self._seen.popleft()
        first_at, first_done = self._seen[0]
        return (done - first_done) / (at - first_at) if at > first_at else 0.0


class Screen:
    """Shows a run. A context manager, which removes the live view at the end."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        live = self._console.is_terminal and not self._console.is_dumb_terminal
        self._live = (
            Live(console=self._console, refresh_per_second=PICTURES_A_SECOND, transient=True)
            if live
            else None
        )
        self._began = time.monotonic()
        self._last_line = -math.inf
        self._last_text = ""

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live:
            self._live.stop()

    @property
    def elapsed(self) -> float:
        """Seconds since the screen was made."""
        return time.monotonic() - self._began

    def note(self, text: str) -> None:
        """Print a line about an event; it stays on the screen."""
        line = Text.assemble((f"{self.elapsed:6.1f} s  ", "dim"), text)
        # a file has no width, and its lines must not be wrapped
        self._console.print(line, soft_wrap=not self._console.is_terminal)

    def show(self, view: View) -> None:
        """Show the current state."""
        if self._live:
            self._live.update(_picture(view))
        elif self.elapsed - self._last_line >= PLAIN_EVERY:
            self._show_plainly(_plain(view))

    def _show_plainly(self, text: str) -> None:
        if text != self._last_text:
            self._last_line, self._last_text = self.elapsed, text
            self.note(text)

    def end(self, figures: Figures) -> None:
        """Print the table of the run."""
        self._console.print(_final(figures))


def _plain(view: View) -> str:
    of = "" if view.total is None else f" of {view.total:,}"
    workers = ", ".join(f"{w.name} {w.count.done:,}" for w in view.workers)
    return (
        f"depth {view.depth:,}, in flight {view.in_flight:,}, done {view.done:,}{of},"
        f" {view.rate:,.0f} items/s ({workers})"
    )


def _picture(view: View) -> RenderableType:
    sizes = Table.grid(padding=(0, 3))
    sizes.add_row(
        f"depth [bold]{view.depth:,}[/]",
        f"in flight [bold]{view.in_flight:,}[/]",
        f"[bold green]{view.done:,}[/] done"
        + ("" if view.total is None else f" of {view.total:,}"),
        f"[bold]{view.rate:,.0f}[/] items/s",
    )
    bar = Table.grid()
    bar.add_row(ProgressBar(total=view.total or 1, completed=view.done, width=72))
    return Group("", bar, sizes, "", _workers(view.workers))


def _workers(workers: Sequence[WorkerView]) -> Table:
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("worker")
    table.add_column("state", min_width=10)
    for heading in ("delivered", "done", "unlocked", "lost locks"):
        table.add_column(heading, justify="right")
    for worker in workers:
        count = worker.count
        numbers = (count.delivered, count.done, count.unlocked, count.lost_locks)
        style = "" if worker.state == "working" else "yellow"
        table.add_row(
            worker.name, Text(worker.state, style), *(f"{number:,}" for number in numbers)
        )
    return table


def _final(figures: Figures) -> Table:
    table = Table(title="The run", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in _rows(figures):
        table.add_row(name, value)
    return table


def _rows(figures: Figures) -> list[tuple[str, str | Text]]:
    bad = "" if figures.lost == 0 else "bold red"
    rows: list[tuple[str, str | Text]] = [
        ("published", f"{figures.published:,}"),
        ("completed", f"{figures.completed:,}"),
        ("  of these, confirmation lost in a crash", f"{figures.unconfirmed:,}"),
        ("redelivered", f"{figures.redelivered:,}"),
        ("duplicates seen by workers", f"{figures.duplicates:,}"),
        ("lost", Text(f"{figures.lost:,}", bad)),
        ("items/s", f"{figures.rate:,.0f}"),
        *_spread("publish to delivery", figures.publish_to_delivery),
        *_spread("delivery to done", figures.delivery_to_done),
        ("hours won for passengers", f"{figures.minutes / 60:,.0f}"),
    ]
    if figures.remaining:
        rows.insert(3, ("still in the queue", Text(f"{figures.remaining:,}", "bold red")))
    return rows


def _spread(name: str, spread: Spread) -> list[tuple[str, str | Text]]:
    return [
        (f"{name}, {part}", _seconds(value))
        for part, value in (("p50", spread.p50), ("p99", spread.p99))
    ]


def _seconds(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value * 1000:,.1f} ms" if value < 1 else f"{value:,.2f} s"
