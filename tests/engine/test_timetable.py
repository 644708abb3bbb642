"""The times of a cron line: local time, clock changes, and both directions."""

import errno
import os
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubqueue.engine import cron_times
from pubqueue.model.schedules import stamp

BERLIN = "Europe/Berlin"

ZONES = (
    *("UTC", BERLIN, "America/New_York", "America/Santiago", "Africa/Cairo", "Asia/Beirut"),
    *("Asia/Kathmandu", "Pacific/Apia", "America/Sao_Paulo"),
)
LINES = (
    *("* * * * *", "*/5 * * * *", "0 3 * * *", "30 2 * * *", "0,30 2 * * *", "15 */3 * * *"),
    *("0 0 * * *", "30 0 1 * *", "* 2 * * *", "5 4 * * MON", "0 */6 * * *", "0 12 L * *"),
    *("59 23 * * SUN#2", "0 0 29 2 *"),
)


def at(text, zone="UTC"):
    moment = datetime.fromisoformat(text)
    return round(moment.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC).timestamp()) * 1000


def named(line, zone, begin, count):
    return [stamp(moment) for moment in cron_times.times(line, zone, begin, count)]


def test_times_are_those_of_the_wall_clock():
    begin = at("2026-10-24T12:00")
    assert named("0 3 * * *", BERLIN, begin, 2) == ["2026-10-25T02:00:00Z", "2026-10-26T02:00:00Z"]
    begin = at("2026-10-23T12:00")
    assert named("0 3 * * *", BERLIN, begin, 1) == ["2026-10-24T01:00:00Z"]


def test_a_time_that_the_clocks_skip_comes_when_they_have_changed():
    begin = at("2026-03-28T12:00")  # at two it is three in the night that follows
    assert named("30 2 * * *", BERLIN, begin, 2) == ["2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]


def test_several_times_that_are_skipped_come_once():
    begin = at("2026-03-28T12:00")
    found = named("0,20,40 2 * * *", BERLIN, begin, 2)
    assert found == ["2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]


def test_a_time_that_the_clocks_repeat_comes_the_first_time_only():
    begin = at("2026-10-24T12:00")  # at three it is two once more in the night that follows
    expected = ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
    assert named("30 2 * * *", BERLIN, begin, 2) == expected
    between = at("2026-10-25T01:10")  # ten past two for the second time
    assert named("30 2 * * *", BERLIN, between, 1) == expected[1:]
    assert cron_times.latest("30 2 * * *", BERLIN, begin, between, 9) == [at("2026-10-25T00:30")]


def test_a_line_with_a_star_goes_by_the_hours_that_pass():
    begin = at("2026-10-24T23:30")
    found = named("0 * * * *", BERLIN, begin, 4)
    assert found == [f"2026-10-25T0{hour}:00:00Z" for hour in range(4)]


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
def test_a_word_of_cron_is_its_line(word, line):
    begin, end = at("2026-10-24T23:30"), at("2031-01-01T00:00")
    assert cron_times.unfit(word, BERLIN) == ""
    assert (
        cron_times.times(word, BERLIN, begin, 5) == cron_times.times(line, BERLIN, begin, 5) != []
    )
    assert cron_times.latest(word, BERLIN, 0, end, 5) == cron_times.latest(line, BERLIN, 0, end, 5)


def test_the_last_times_are_found_however_long_ago_the_first_was():
    until = at("2026-11-22T03:00")
    found = cron_times.latest("* * * * *", "UTC", 0, until, 100)
    assert found == [until - 60_000 * ago for ago in range(99, -1, -1)]


@pytest.mark.parametrize(
    ("line", "zone", "sentence"),
    [
        ("0 3 * * *", "Europe/Nowhere", "zone 'Europe/Nowhere' is not a known time zone"),
        ("0 3 * * *", "../etc", "zone '../etc' is not a known time zone"),
        ("0 3 * *", "UTC", "cron '0 3 * *' must have five fields"),
        ("0 0 3 * * *", "UTC", "cron '0 0 3 * * *' must have five fields"),
        ("@reboot", "UTC", "cron '@reboot' must have five fields"),
        ("61 3 * * *", "UTC", "cron '61 3 * * *': bad minute"),
        ("0 3 31 2 *", "UTC", "cron '0 3 31 2 *': bad day-of-month"),
    ],
)
def test_an_expression_without_times_is_refused_in_one_sentence(line, zone, sentence):
    assert cron_times.unfit(line, zone).startswith(sentence)
    assert cron_times.unfit("0 3 * * *", BERLIN) == ""


@given(
    line=st.sampled_from(LINES),
    zone=st.sampled_from(ZONES),
    begin=st.integers(1_672_531_200_000, 1_861_920_000_000),
    spans=st.lists(st.integers(0, 12), min_size=1, max_size=3),
    late=st.sampled_from([0, 1, 999, 1000, 59_999]),
)
def test_forward_and_backward_name_the_same_times_and_each_once(line, zone, begin, spans, late):
    found = cron_times.times(line, zone, begin, 40)
    assert found == sorted(set(found))
    assert not found or found[0] > begin
    for span in spans:
        known = found[: span + 1]
        until = known[-1] + late
        expected = [moment for moment in found if moment <= until]
        assert cron_times.latest(line, zone, begin, until, 100) == expected
    assert cron_times.following(line, zone, found[0]) == found[1]


def test_a_zone_that_could_not_be_read_is_looked_for_again(monkeypatch):
    """A zone that is known is kept, so this is one of no other test: of zones with the same rules, they take another name."""

    def fail(_name):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as scarce:
        scarce.setattr(cron_times, "ZoneInfo", fail)
        with pytest.raises(OSError, match="Too many open files"):
            cron_times.unfit("0 3 * * *", "Europe/Vatican")
    assert cron_times.unfit("0 3 * * *", "Europe/Vatican") == ""
    assert cron_times.unfit("0 3 * * *", "Pacific").startswith("zone 'Pacific' is not a known")
