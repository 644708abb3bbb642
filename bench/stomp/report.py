"""The tables of a run: each figure, and the ratio of ours to it in the same round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table

from bench.report import spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
