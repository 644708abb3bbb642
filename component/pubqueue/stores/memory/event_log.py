"""The event log: events under numbers that rise by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.reading.pages import EventEntry
from pubqueue.stores.memory.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pubqueue.core.events import Event
    from pubqueue.core.model import Millis
    from pubqueue.stores.memory.table import Journal


class StoredEvent(Struct, frozen=True, gc=False):
    """An event with its time, and the number of its node: a later node of the name has another."""

    at: Millis
    node: int
    event: Event


class EventLog:
    """The events from the oldest to the newest; there is no gap between them."""

    def __init__(self, journal: Journal) -> None:
        self._entries: Table[int, StoredEvent] = Table(journal)
        self._ends: Table[str, int] = Table(journal)

    def ends(self) -> tuple[int, int]:
        """Return the numbers of the oldest and the newest event, 0 if there is none."""
        return self._ends.rows.get("oldest", 0), self._ends.rows.get("newest", 0)

    def add(self, event: Event, at: Millis, node: int) -> None:
        """Append an event."""
        oldest, newest = self.ends()
        self._entries.put(newest + 1, StoredEvent(at, node, event))
        self._ends.put("newest", newest + 1)
        if not oldest:
            self._ends.put("oldest", 1)

    def forget(self, through: int) -> None:
        """Remove events up to this number, but never the newest."""
        oldest, newest = self.ends()
        end = min(through + 1, newest)
        for number in range(oldest, end):
            self._entries.put(number, None)
        if end > oldest:
            self._ends.put("oldest", end)

    def between(self, after: int, until: int) -> Iterator[tuple[EventEntry, int]]:
        """Iterate over the events behind a number up to another, each with the number of its node."""
        oldest, newest = self.ends()
        for number in range(max(after + 1, oldest, 1), min(until, newest) + 1):
            entry = self._entries.rows[number]
            yield EventEntry(number, entry.at, entry.event), entry.node

    def aged(self, before: Millis, among: int) -> int | None:
        """Return the last of so many oldest events that is from before this moment."""
        oldest, newest = self.ends()
        for number in range(min(oldest + among - 1, newest), max(oldest, 1) - 1, -1):
            if self._entries.rows[number].at < before:
                return number
        return None
