"""All clock changes of ten years, in all zones, compared with a walk from minute to minute in UTC."""

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from zoneinfo import TZPATH, ZoneInfo, available_timezones

import pytest
from cronsim import CronSim
from harness.alarm import alarm
from harness.depth import DEEP, depth

from pubqueue.engine import cron_times

BEGIN, END = datetime(2020, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)
AROUND = timedelta(hours=5)
MINUTE = timedelta(minutes=1)
LINES = (
    *("* * * * *", "*/20 * * * *", "0 * * * *", "* 2 * * *", "*/10 3 * * *", "15 */2 * * *"),
    *("0 0 * * *", "45 2 * * *", "30 2 * * *", "0,20,50 1-3 * * *", "15 3 * * SUN", "59 23 * * *"),
)
PARTS = 12
"""Tests that the zones are dealt to."""
ALARM = 10
"""Seconds of processor time for the lines of one zone, which take some hundredths: a walk in a circle is cut here."""


def changes_of(zone):
    """Yield the moments at which the zone changes its offset."""
    day, offset = BEGIN, BEGIN.astimezone(zone).utcoffset()
    while day < END:
        following = day + timedelta(days=1)
        if following.astimezone(zone).utcoffset() != offset:
            low, high = day, following
            while high - low > MINUTE:
                middle = low + (high - low) // MINUTE // 2 * MINUTE
                if middle.astimezone(zone).utcoffset() == offset:
                    low = middle
                else:
                    high = middle
            yield high
            offset = following.astimezone(zone).utcoffset()
        day = following


@cache
def fields(line):
    """Return a line as a test of local times; only its days are read by cronsim, like in the walk."""
    read = CronSim(line, BEGIN)
    return lambda local: (
        local.minute in read.minutes and local.hour in read.hours and read.match_day(local.date())
    )


def minutes_of(zone, begin, end):
    """Yield each minute after `begin`, up to `end`: the moment, the local time, and the skipped local times."""
    local, moment = begin.astimezone(zone).replace(tzinfo=None), begin
    while moment < end:
        moment += MINUTE
        shown = moment.astimezone(zone)
        before, local = local, shown.replace(tzinfo=None, fold=0)
        skipped = [before + MINUTE * n for n in range(1, (local - before) // MINUTE)]
        yield round(moment.timestamp()) * 1000, local, shown.fold, skipped


def plainly(line, minutes):
    """Return the times of the line among these minutes."""
    once = not any(field.startswith("*") for field in line.split()[:2])
    names = fields(line)
    return [
        moment
        for moment, local, fold, skipped in minutes
        if (names(local) and not (once and fold)) or (once and any(map(names, skipped)))
    ]


def signature(zone, change):
    """Return the identity of a change: its moment, and the offsets on both sides."""
    offsets = (moment.astimezone(zone).utcoffset() for moment in (change - MINUTE, change))
    return (change, *offsets)


def rules_of(name):
    """Return the identity of a zone for all of its names: the file, if there is one."""
    files = (Path(folder, name) for folder in TZPATH)
    return next((file.read_bytes() for file in files if file.is_file()), name)


@cache
def all_changes():
    """Return the changes of all zones by the name of a zone, each change once."""
    zones = {
        rules_of(name): name for name in sorted(available_timezones() - {"localtime"}, reverse=True)
    }
    seen = {}
    for name in sorted(zones.values()):
        for change in changes_of(ZoneInfo(name)):
            seen.setdefault(signature(ZoneInfo(name), change), (name, change))
    by_zone = {}
    for name, change in seen.values():
        by_zone.setdefault(name, []).append(change)
    return by_zone


def test_the_zones_that_are_installed_change_their_clocks():
    changes = [
        (ZoneInfo(name), change) for name, found in all_changes().items() for change in found
    ]
    assert len(changes) > 300
    minutes = {change.astimezone(zone).minute for zone, change in changes}
    assert {0, 45, 30} <= minutes  # Chatham changes at a quarter to, Lord Howe by half an hour


# the changes are counted in a test, for each process that collects the tests would count them
@pytest.mark.parametrize("part", range(PARTS))
def test_no_walk_turns_in_a_circle_and_each_is_the_plain_one(part):
    for name in sorted(all_changes())[:: DEEP // depth()][part::PARTS]:
        compare(name, all_changes()[name])


def compare(name, changes):
    """Compare the walk over these changes of a zone with the plain one."""
    zone = ZoneInfo(name)
    with alarm(ALARM):
        for change in changes:
            begin, end = change - AROUND, change + AROUND
            first, last = (round(one.timestamp()) * 1000 for one in (begin, end))
            minutes = list(minutes_of(zone, begin, end))
            for line in LINES:
                expected = plainly(line, minutes)
                found = cron_times.times(line, name, first, len(expected) + 1)
                assert found[:-1] == expected, (line, change)
                assert found[-1] > last, (line, change)
                assert cron_times.latest(line, name, first, last, 1_000) == expected, (line, change)
