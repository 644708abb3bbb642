"""What the demo's workers do with an item: find another flight for the passengers of a late one."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pubqueue_demo.flights import DAY, Flight

if TYPE_CHECKING:
    from collections.abc import Iterable
    from xml.etree.ElementTree import Element

# Namespace and name of the payload; the columns of the table are its children.
NAMESPACE: Final = "urn:x-pubqueue:demo"
ELEMENT: Final = "delayed-flight"

_BY_SCHEDULE = attrgetter("scheduled")


@dataclass(frozen=True, slots=True)
class Rebooking:
    """The next flight on the route, and how many minutes before the late one it left.

    `flight` is None, and `minutes` 0, if waiting was quicker.
    """

    flight: str | None
    minutes: int


class Timetable:
    """All flights, by route."""

    def __init__(self, flights: Iterable[Flight]) -> None:
        routes: defaultdict[tuple[str, str], list[Flight]] = defaultdict(list)
        for flight in flights:
            routes[flight.origin, flight.destination].append(flight)
        for route in routes.values():
            route.sort(key=_BY_SCHEDULE)
        self._routes = dict(routes)

    def rebook(self, late: Flight) -> Rebooking:
        """Return the next flight of the route, if it left before the late one."""
        route = self._routes.get((late.origin, late.destination), [])
        at = bisect_right(route, late.scheduled, key=_BY_SCHEDULE)
        if at == len(route) or route[at].scheduled > late.scheduled + DAY:
            return Rebooking(None, 0)
        other = route[at]
        if other.departed >= late.departed:
            return Rebooking(None, 0)
        return Rebooking(other.number, late.departed - other.departed)


def read_payload(payload: Element) -> Flight:
    """Return the flight of a work item; raise ValueError, with one sentence, if there is none."""
    if payload.tag != f"{{{NAMESPACE}}}{ELEMENT}":
        raise ValueError(f"a work item of the demo is a {ELEMENT}, not {payload.tag}")
    columns = {child.tag.rpartition("}")[2]: child.text or "" for child in payload}
    flight = Flight.from_columns(columns)
    if flight is None:
        raise ValueError("a flight that never left cannot be late")
    return flight
