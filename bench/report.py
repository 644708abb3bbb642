"""The table at the end of a run of the benchmark."""

from __future__ import annotations

import statistics
from itertools import groupby
from typing import TYPE_CHECKING, Final

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from bench.measure import Sample

REFERENCE: Final = "lean"
NOTE: Final = """\
An item's life is publish, delivery and retract: six stanzas of the component. CPU is what the
component used, user and system, all threads. Figures are the median of the rounds
(smallest-largest). "% of lean" and "x lean" are ratios in the same round; "busy" is how much of one processor the
component, the server and this program's clients took. pubqueue has every item on disk before it
answers, twice, in groups; the others store nothing. same-words is lean with the words of pubqueue: the
limit that they set."""


def table(samples: Sequence[Sample]) -> Table:
    """Show every contestant in every place, in the order of their first round."""
    columns = (
        "behind",
        "component",
        "items/s",
        f"% of\n{REFERENCE}",
        "CPU\nµs/item",
        f"x {REFERENCE}",
        "server CPU\nµs/item",
        f"x {REFERENCE}",
        "busy",
    )
    shown = Table(title=f"{len(samples)} rounds of {samples[0].items} items")
    for number, name in enumerate(columns):
        shown.add_column(name, justify="right" if number > 1 else "left", no_wrap=True)
    for place, here in groupby(samples, key=lambda sample: sample.place):
        by_name: dict[str, list[Sample]] = {}
        for sample in here:
            by_name.setdefault(sample.contestant, []).append(sample)
        for name, own in by_name.items():
            shown.add_row(place, name, *_figures(own, by_name.get(REFERENCE)))
        shown.add_section()
    return shown


def _figures(own: Sequence[Sample], reference: Sequence[Sample] | None) -> tuple[str, ...]:
    pairs = list(zip(own, reference or (), strict=False))
    served = [sample for sample in own if sample.server]
    return (
        spread([sample.rate for sample in own], "{:.0f}".format),
        spread([100 * one.rate / other.rate for one, other in pairs], "{:.0f}".format),
        spread([sample.cost for sample in own], "{:.0f}".format),
        spread([one.cost / other.cost for one, other in pairs], "{:.1f}".format),
        spread([sample.server_cost for sample in served], "{:.0f}".format),
        spread(
            [one.server / other.server for one, other in pairs if other.server], "{:.2f}".format
        ),
        "/".join(
            f"{statistics.median(shares):.0%}"
            for shares in zip(*(_shares(sample) for sample in own), strict=True)
        ),
    )


def _shares(sample: Sample) -> tuple[float, ...]:
    return tuple(spent / sample.seconds for spent in (sample.component, sample.server, sample.load))


def spread(values: Iterable[float], written: Callable[[float], str]) -> str:
    """Write a median with the smallest and the largest value; a dash if there are no values."""
    ordered = sorted(values)
    if not ordered:
        return "-"
    middle, least, most = statistics.median(ordered), ordered[0], ordered[-1]
    return f"{written(middle)} ({written(least)}-{written(most)})"
