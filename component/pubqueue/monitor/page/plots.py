"""Plots, and numbers and times for people."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model.entities import NO_TIME, Millis
from pubqueue.model.records import SLOT
from pubqueue.operations import model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.model.records import Sample


# Formats numbers, times and durations for people.


def span(millis: float) -> str:
    """Return a duration in up to two units: 2 d 3 h, 4 min 5 s, 12 s, 40 ms."""
    if millis < 1_000:  # noqa: PLR2004  # a second
        return f"{max(0, int(millis))} ms"
    if millis < 10_000 and millis % 1_000:  # noqa: PLR2004  # so short that the tenths matter
        return f"{millis / 1000:.1f} s"
    return model.span(int(millis))


def moment(millis: int) -> str:
    """Return a time in UTC, with seconds: 2026-11-22 14:45:00."""
    return f"{datetime.fromtimestamp(millis // 1000, UTC):%Y-%m-%d %H:%M:%S}"


def clock(millis: float) -> str:
    """Return the time of day in UTC: 14:45."""
    return f"{datetime.fromtimestamp(millis // 1000, UTC):%H:%M}"


def number(value: float) -> str:
    """Return a number with separators for thousands: 12,345; 0.4."""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:,.1f}"  # noqa: PLR2004  # then nobody needs the tenths


def count(value: int, one: str) -> str:
    """Return a number with its noun: 1 item, 2 items."""
    return f"{value:,} {model.noun(value, one)}"


# Plots: samples become lines in a picture of fixed size, with a few numbers beside it.
#
# A sample is valid for its minute. A minute without a sample is one in which nothing happened. A level (waiting items)
# keeps its value in it, a count (items published) is 0, and a duration is unknown.

WIDTH: Final = 600
HEIGHT: Final = 120


@unique
class Between(Enum):
    """The value in a minute without a sample."""

    AS_BEFORE = auto()
    NOTHING = auto()
    UNKNOWN = auto()


class Series(Struct, frozen=True):
    """A plotted value: its label, and its value in a sample, None if there is none."""

    label: str
    value: Callable[[Sample], float | None]


class PlotKind(Struct, frozen=True):
    """A picture: its title, its lines, the value between samples, and the format of its values."""

    title: str
    series: tuple[Series, ...]
    between: Between
    written: Callable[[float], str] = number


class PlotLine(Struct, frozen=True):
    """A line: the path of an SVG, its last and its highest value as text; its number selects its style."""

    label: str
    style: int
    path: str
    last: str
    most: str


class Plot(Struct, frozen=True):
    """A picture, with the labels at its edges."""

    title: str
    lines: tuple[PlotLine, ...]
    top: str
    begin: str
    middle: str
    end: str

    @property
    def summary(self) -> str:
        """The picture as text, for users who do not see it."""
        lines = (f"{one.label}: last {one.last}, most {one.most}" for one in self.lines)
        return f"{self.title} from {self.begin} to {self.end} UTC. {'; '.join(lines)}."


def _mean(sample: Sample) -> float | None:
    return sample.waited / sample.completed if sample.completed else None


def _longest(sample: Sample) -> float | None:
    return float(sample.longest) if sample.completed else None


KINDS: Final = (
    PlotKind(
        "Items in the queue",
        (
            Series("waiting", lambda sample: sample.queued),
            Series("in flight", lambda sample: sample.locked),
            Series("delayed", lambda sample: sample.delayed),
            Series("dead", lambda sample: sample.dead),
        ),
        Between.AS_BEFORE,
    ),
    PlotKind(
        "Items per minute",
        (
            Series("published", lambda sample: sample.published),
            Series("delivered", lambda sample: sample.delivered),
            Series("done", lambda sample: sample.completed),
            Series("failed", lambda sample: sample.failed),
        ),
        Between.NOTHING,
    ),
    PlotKind(
        "From publish to done",
        (Series("mean", _mean), Series("longest", _longest)),
        Between.UNKNOWN,
        span,
    ),
)

SMALL: Final = PlotKind("Waiting", (KINDS[0].series[0],), Between.AS_BEFORE)
"""One line alone, for the list."""


def draw(
    kind: PlotKind,
    samples: Sequence[Sample],
    begin: Millis,
    end: Millis,
    now: Sample,
    *,
    made: Millis = NO_TIME,
) -> Plot:
    """Return the plot of these minutes; `samples` are in order, and `now` has the current values. The node was `made` then."""
    minutes = begin, end
    values = [_values(kind, one, samples, minutes, now, made=made) for one in kind.series]
    top = max((value for line in values for value in line if value is not None), default=0)
    lines = tuple(
        _line(kind, series.label, place, line, top or 1)
        for place, (series, line) in enumerate(zip(kind.series, values, strict=True))
    )
    middle = (begin + end) / 2
    return Plot(kind.title, lines, kind.written(top), clock(begin), clock(middle), clock(end))


def _values(
    kind: PlotKind,
    series: Series,
    samples: Sequence[Sample],
    minutes: tuple[Millis, Millis],
    now: Sample,
    *,
    made: Millis,
) -> list[float | None]:
    begin, end = minutes
    known = {sample.at: series.value(sample) for sample in samples}
    if kind.between is not Between.AS_BEFORE:
        missing = 0 if kind.between is Between.NOTHING else None
        return [known.get(Millis(at), missing) for at in range(begin, end, SLOT)]
    if not known:  # nothing has happened since: the value is unchanged
        there = series.value(now)
        return [None if at + SLOT <= made else there for at in range(begin, end, SLOT)]
    value = next((series.value(one) for one in reversed(samples) if one.at < begin), None)
    values: list[float | None] = []
    for at in range(begin, end, SLOT):
        value = known.get(Millis(at), value)
        values.append(value)
    values[-1] = series.value(now)
    return values


def _line(
    kind: PlotKind, label: str, style: int, values: list[float | None], top: float
) -> PlotLine:
    known = [value for value in values if value is not None]
    last = kind.written(known[-1]) if known else "none"
    return PlotLine(label, style, _path(values, top), last, kind.written(max(known, default=0)))


def _path(values: Sequence[float | None], top: float) -> str:
    """Return steps: each value is as wide as its minute."""
    parts: list[str] = []
    wide = WIDTH / max(1, len(values))
    before: float | None = None
    for place, value in enumerate(values):
        if value is not None:
            high = f"{HEIGHT - value / top * HEIGHT:.1f}"
            if before is None:
                parts.append(f"M{place * wide:.1f} {high}")
            elif value != before:
                parts.append(f"H{place * wide:.1f}V{high}")
            following = values[place + 1] if place + 1 < len(values) else None
            if following is None:
                parts.append(f"H{(place + 1) * wide:.1f}")
        before = value
    return "".join(parts)
