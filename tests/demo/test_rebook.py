from xml.etree.ElementTree import Element, fromstring

import pytest

from pubqueue_demo.flights import DAY, Flight
from pubqueue_demo.rebook import ELEMENT, NAMESPACE, Rebooking, Timetable, read_payload

NOON = 735_000 * DAY + 720


def flight(number: str, after: int, delay: int = 0, to: str = "BOS") -> Flight:
    """One that was to leave so many minutes after noon."""
    return Flight(number, "JFK", to, NOON + after, NOON + after + delay)


LATE = flight("AA1", 0, delay=300)


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ([], Rebooking(None, 0)),
        ([flight("BB1", 60)], Rebooking("BB1", 240)),
        ([flight("BB2", 120), flight("BB1", 60, delay=10)], Rebooking("BB1", 230)),
        # the next flight counts, not the quickest one
        ([flight("BB1", 60, delay=200), flight("BB2", 90)], Rebooking("BB1", 40)),
        ([flight("BB1", 60, delay=240)], Rebooking(None, 0)),  # left when ours did
        ([flight("BB1", 299, delay=60)], Rebooking(None, 0)),  # left later than ours
        ([flight("BB1", -60, delay=90)], Rebooking(None, 0)),  # was to leave before ours
        ([flight("BB1", 60, to="LAX")], Rebooking(None, 0)),
        ([flight("BB1", DAY + 1)], Rebooking(None, 0)),
    ],
)
def test_passengers_take_the_next_flight_of_the_route_that_leaves_before_theirs(others, expected):
    assert Timetable([LATE, *others]).rebook(LATE) == expected


def test_a_flight_more_than_a_day_away_is_no_help():
    late = flight("AA1", 0, delay=2 * DAY)
    assert Timetable([late, flight("BB1", DAY)]).rebook(late) == Rebooking("BB1", DAY)
    assert Timetable([late, flight("BB1", DAY + 1)]).rebook(late) == Rebooking(None, 0)


def test_a_payload_is_the_flight_that_its_columns_say():
    columns = (
        "<year>2013</year><month>1</month><day>1</day><hour>6</hour><minute>30</minute>"
        "<dep_delay>101</dep_delay><carrier>MQ</carrier><flight>4576</flight>"
        "<origin>LGA</origin><dest>CLT</dest><tailnum/>"
    )
    payload = fromstring(f"<{ELEMENT} xmlns='{NAMESPACE}'>{columns}</{ELEMENT}>")
    scheduled = 734_869 * DAY + 6 * 60 + 30
    assert read_payload(payload) == Flight("MQ4576", "LGA", "CLT", scheduled, scheduled + 101)


def test_a_foreign_payload_is_refused_in_one_sentence():
    with pytest.raises(ValueError, match="a work item of the demo is a delayed-flight, not job"):
        read_payload(Element("job"))


def test_a_flight_that_never_left_is_refused():
    payload = Element(f"{{{NAMESPACE}}}{ELEMENT}")
    name = f"{{{NAMESPACE}}}dep_delay"
    payload.append(Element(name))
    payload[0].text = "NA"
    with pytest.raises(ValueError, match="a flight that never left cannot be late"):
        read_payload(payload)
