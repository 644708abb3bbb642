"""The times that a cron line names in a time zone; cronsim reads the line, zoneinfo knows the zone.

Local time is wall-clock time, and when a zone changes its clocks the rules are Debian cron's. A
line whose minutes and hours are both fixed (neither begins with `*`) fires once for each local
time: a time that the change skips fires as soon as the clocks have changed, a time that the change
repeats fires the first time only. Any other line fires whenever the clocks show one of its times:
never for one that is skipped, twice for one that is repeated. No time fires twice: two that fall on
one moment are one.

cronsim walks over local times without a zone. Walking with one, it may go back over an hour again
and again if the clocks change by a part of an hour, or at a quarter to. Each walk is bounded,
whatever the line and the zone are.

The module depends only on its arguments and the zones that are installed.
"""

from __future__ import annotations

import errno
from collections import deque
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from pubqueue.model.entities import Millis

if TYPE_CHECKING:
    from collections.abc import Iterator


FIELDS: Final = 5
"""Minute, hour, day of the month, month, day of the week."""

ALIASES: Final = MappingProxyType(
    {
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
        "@monthly": "0 0 1 * *",
        "@weekly": "0 0 * * 0",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@hourly": "0 * * * *",
    }
)
"""Words for lines (crontab(5))."""

SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO})
"""Errors of reading a zone that do not come from its name: it is looked for again."""

MAX_WALK: Final = 10_000
"""Up to how many local times one walk looks at; a change of the clocks skips those of a day (the date line) at worst."""


def unfit(cron: str, zone: str) -> str:
    """Return the fault of the line or the zone in one sentence, empty if there is none."""
    if _zone(zone) is None:
        return f"zone {zone!r} is not a known time zone; an example is Europe/Berlin"
    cron = ALIASES.get(cron, cron)
    if len(cron.split()) != FIELDS:
        return f"cron {cron!r} must have five fields: minute, hour, day, month, day of the week; or be one of {', '.join(ALIASES)}"
    try:
        first = next(CronSim(cron, datetime(2000, 1, 1, tzinfo=UTC)), None)
    except CronSimError as problem:
        return f"cron {cron!r}: {str(problem).lower()}"
    return "" if first is not None else f"cron {cron!r} never matches a time"


def following(cron: str, zone: str, after: Millis) -> Millis | None:
    """Return the first time that is later than `after`; None if there is none, or the line is invalid."""
    return next(_forward(cron, zone, after), None)


def times(cron: str, zone: str, after: Millis, count: int) -> list[Millis]:
    """Return up to n times that are later than `after`."""
    return [moment for moment, _ in zip(_forward(cron, zone, after), range(count), strict=False)]


def latest(cron: str, zone: str, after: Millis, until: Millis, count: int) -> list[Millis]:
    """Return the last times, up to n, that are later than `after` and not later than `until`; the oldest first.

    The cost depends on `count` only, not on how long ago `after` is.
    """
    found: list[Millis] = []
    for moment in _backward(cron, zone, until):
        if moment <= after or len(found) == count:
            break
        found.append(moment)
    return found[::-1]


def _forward(cron: str, zone: str, after: Millis) -> Iterator[Millis]:
    last, cron = after, ALIASES.get(cron, cron)
    for moment in _in_order(cron, zone, after, reverse=False):
        if moment > last:
            yield moment
            last = moment


def _backward(cron: str, zone: str, until: Millis) -> Iterator[Millis]:
    last, cron = Millis(until + 1), ALIASES.get(cron, cron)
    for moment in _in_order(cron, zone, until, reverse=True):
        if moment < last:
            yield moment
            last = moment


def _in_order(cron: str, zone: str, begin: Millis, *, reverse: bool) -> Iterator[Millis]:
    """Yield the moments of the line from about `begin` on, in the order of time, some perhaps twice.

    The walk itself has no zone, so nothing can turn it around: it goes over local times, and each stands for the
    moments at which the clocks show it. In a repeated hour the moments of one of the two passes are kept back until
    those of the other have come.
    """
    once = _is_at_set_times(cron)
    known = _zone(zone) or UTC
    kept: deque[Millis] = deque()
    for local in _walk(cron, _first_local(begin, known, reverse=reverse), reverse=reverse):
        passes = _moments(local, known, once=once)
        for moment in passes[:1] if not reverse else passes[-1:]:
            while kept and (kept[0] > moment if reverse else kept[0] < moment):
                yield kept.popleft()
            yield moment
        kept.extend(passes[:-1] if reverse else passes[1:])
    yield from kept


def _walk(cron: str, begin: datetime, *, reverse: bool) -> Iterator[datetime]:
    """Yield the local times of the line after `begin`, or before it: as many as a walk may have."""
    if len(cron.split()) != FIELDS:
        return
    try:
        yield from islice(CronSim(cron, begin, reverse), MAX_WALK)
    except (CronSimError, OverflowError):  # invalid, or past the last year of the calendar
        return


def _first_local(moment: Millis, zone: tzinfo, *, reverse: bool) -> datetime:
    """Return the local time from which a walk finds all times after the moment, or not later than it.

    In a repeated hour that is where it begins, or ends: the local times of the other pass are moments
    too.
    """
    local = datetime.fromtimestamp(moment // 1000, UTC).astimezone(zone)
    first, second = (_offset(local.replace(fold=fold)) for fold in (0, 1))
    repeated = max(first - second, timedelta())
    begin = local.replace(tzinfo=None, fold=0)
    return begin + repeated + timedelta(seconds=1) if reverse else begin - repeated


def _moments(local: datetime, zone: tzinfo, *, once: bool) -> tuple[Millis, ...]:
    """Return the moments that a local time of a line stands for, the earlier one first."""
    first, second = (_at(local, zone, fold) for fold in (0, 1))
    if first == second:
        return (first,)
    if first < second:  # the clocks are set back: they show it twice
        return (first,) if once else (first, second)
    return (_change(second, first, zone),) if once else ()  # they are set forward over it


def _change(before: Millis, after: Millis, zone: tzinfo) -> Millis:
    """Return the moment between these two at which the clocks are set forward."""
    offset = _offset_at(before, zone)
    low, high = before // 1000, after // 1000
    while high - low > 1:
        middle = (low + high) // 2
        if _offset_at(Millis(middle * 1000), zone) == offset:
            low = middle
        else:
            high = middle
    return Millis(high * 1000)


def _at(local: datetime, zone: tzinfo, fold: int) -> Millis:
    return Millis(round(local.replace(tzinfo=zone, fold=fold).timestamp()) * 1000)


def _offset_at(moment: Millis, zone: tzinfo) -> timedelta:
    return _offset(datetime.fromtimestamp(moment // 1000, UTC).astimezone(zone))


def _offset(local: datetime) -> timedelta:
    return local.utcoffset() or timedelta()


def _is_at_set_times(cron: str) -> bool:
    """Return whether the line fires once for each local time: its minutes and hours are both fixed."""
    return not any(field.startswith("*") for field in cron.split()[:2])


@lru_cache(maxsize=256)
def _zone(name: str) -> tzinfo | None:
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError):
        return None
    except OSError as problem:
        if problem.errno in SCARCE:
            raise
        return None
