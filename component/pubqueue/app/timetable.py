"""The times that a cron line names in a time zone; cronsim reads the line, zoneinfo knows the zone.

Local time is wall-clock time, and where a zone changes its clocks the rules are Debian cron's. A line whose minutes and
hours both are fixed (neither begins with `*`) comes once for each local time: one that the change skips comes as soon as
the clocks have changed, one that the change repeats comes the first time only. Any other line goes by the hours that
really pass. No time comes twice: two that fall on one moment are one.

It depends on nothing but its arguments and the zones that are installed.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from pubqueue.core.model import Millis

if TYPE_CHECKING:
    from collections.abc import Iterator

FIELDS: Final = 5
"""Minute, hour, day of the month, month, day of the week."""

_FOLD: Final = timedelta(hours=3)
"""More than any zone has ever put its clocks back by, but for those that crossed the date line."""


def unfit(cron: str, zone: str) -> str:
    """Return what is wrong with the line or the zone in one sentence, empty if nothing is."""
    if _zone(zone) is None:
        return f"zone {zone!r} is no time zone that is known here; one is called Europe/Berlin"
    if len(cron.split()) != FIELDS:
        return f"cron {cron!r} has to have five fields: minute, hour, day, month, day of the week"
    try:
        first = next(CronSim(cron, datetime(2000, 1, 1, tzinfo=UTC)), None)
    except CronSimError as problem:
        return f"cron {cron!r}: {str(problem).lower()}"
    return "" if first is not None else f"cron {cron!r} names no time that ever comes"


def following(cron: str, zone: str, after: Millis) -> Millis | None:
    """Return the first time that is later than `after`; None if there is none, or the line is unfit."""
    return next(_forward(cron, zone, after), None)


def times(cron: str, zone: str, after: Millis, count: int) -> list[Millis]:
    """Return so many times that are later than `after`."""
    return [moment for moment, _ in zip(_forward(cron, zone, after), range(count), strict=False)]


def latest(cron: str, zone: str, after: Millis, until: Millis, count: int) -> list[Millis]:
    """Return the last times, so many at most, that are later than `after` and not later than `until`; the oldest first.

    What it costs depends on `count` alone, not on how long ago `after` is.
    """
    found: list[Millis] = []
    for moment in _backward(cron, zone, until):
        if moment <= after or len(found) == count:
            break
        found.append(moment)
    return found[::-1]


def _forward(cron: str, zone: str, after: Millis) -> Iterator[Millis]:
    last = after
    for moment in _walk(cron, _local(after, zone), reverse=False):
        if moment > last:  # a repeated hour begins once more in front of `after`
            yield moment
            last = moment


def _backward(cron: str, zone: str, until: Millis) -> Iterator[Millis]:
    last = Millis(until + 1)
    begin = _local(until, zone)
    # In a repeated hour the times of both passes are to be met.
    begin = (begin.astimezone(UTC) + (_FOLD if begin.fold else timedelta(seconds=1))).astimezone(
        begin.tzinfo
    )
    for moment in _walk(cron, begin, reverse=True):
        if moment < last:
            yield moment
            last = moment


def _walk(cron: str, begin: datetime, *, reverse: bool) -> Iterator[Millis]:
    if len(cron.split()) != FIELDS:
        return
    try:
        for moment in CronSim(cron, begin, reverse):
            yield Millis(round(moment.timestamp()) * 1000)
    except (CronSimError, OverflowError):  # unfit, or past the last year that there is
        return


def _local(moment: Millis, zone: str) -> datetime:
    whole = datetime.fromtimestamp(moment // 1000, UTC)
    return whole.astimezone(_zone(zone) or UTC)


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo | None:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None
