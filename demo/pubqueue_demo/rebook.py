"""What the demo's workers do with an item: find another way for the passengers of a late flight."""

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
    """The next flight on the route, and how many minutes sooner it left than the late one did.

    `flight` is None when waiting was the quicker way; `minutes` is 0 then.
    """

    flight: str | None
    minutes: int


class Timetable:
    """Who flew where and when, by route."""

    def __init__(self, flights: Iterable[Flight]) -> None:
        routes: defaultdict[tuple[str, str], list[Flight]] = defaultdict(list)
        for flight in flights:
            routes[flight.origin, flight.destination].append(flight)
        for route in routes.values():
            route.sort(key=_BY_SCHEDULE)
        self._routes = dict(routes)

    def rebook(self, late: Flight) -> Rebooking:
        """Put the passengers on the next flight of the route, if it left before theirs did."""
        route = self._routes.get((late.origin, late.destination), [])
        at = bisect_right(route, late.scheduled, key=_BY_SCHEDULE)
        if at == len(route) or route[at].scheduled > late.scheduled + DAY:
            return Rebooking(None, 0)
        other = route[at]
        if other.departed >= late.departed:
            return Rebooking(None, 0)
        return Rebooking(other.number, late.departed - other.departed)


def read_payload(payload: Element) -> Flight:
    """Return the flight that a work item is about; ValueError says in one sentence why not."""
    if payload.tag != f"{{{NAMESPACE}}}{ELEMENT}":
        raise ValueError(f"a work item of the demo is a {ELEMENT}, not {payload.tag}")
    columns = {child.tag.rpartition("}")[2]: child.text or "" for child in payload}
    flight = Flight.from_columns(columns)
    if flight is None:
        raise ValueError("a flight that never left cannot be late")
    return flight
