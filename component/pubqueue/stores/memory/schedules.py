"""Schedules, by name and by when they have something to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pubqueue.app import listings as l
from pubqueue.stores.memory.order import Order
from pubqueue.stores.memory.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pubqueue.core.model import Millis
    from pubqueue.core.schedules.model import Schedule
    from pubqueue.stores.memory.contents import Contents
    from pubqueue.stores.memory.table import Journal


class ScheduleTable:
    """The table of schedules."""

    def __init__(self, journal: Journal) -> None:
        self.schedules: Table[str, Schedule] = Table(journal, self._changed)
        self.names: Order[str] = Order()
        self.dues: Order[tuple[Millis, str]] = Order()

    def _changed(self, name: str, before: Schedule | None, now: Schedule | None) -> None:
        if before is not None:
            self.names.remove(name)
            if before.due is not None:
                self.dues.remove((before.due, name))
        if now is not None:
            self.names.add(name)
            if now.due is not None:
                self.dues.add((now.due, name))


def _all(contents: Contents, _which: l.Schedules, after: str | None) -> Iterator[Schedule]:
    rows = contents.schedules.schedules.rows
    return (rows[name] for name in contents.schedules.names.behind(after))


def _due(contents: Contents, which: l.DueSchedules, _after: object) -> Iterator[str]:
    for due, name in contents.schedules.dues:
        if due > which.now:
            break
        yield name


LISTINGS: Final[dict[type, Callable[[Contents, Any, Any], Any]]] = {
    l.Schedules: _all,
    l.DueSchedules: _due,
}
