"""The rows of schedules, which no other rows refer to."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pubqueue.engine import listings as li
from pubqueue.model.schedules import Definition, Schedule, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pubqueue.stores.sql.session import SqlSession, Values


@lru_cache(maxsize=256)
def _definition(text: str) -> Definition:
    return msgspec.json.decode(text, type=Definition)


def schedule_of(row: Sequence[Any]) -> Schedule:
    """Make a schedule from its columns."""
    _name, definition, source, author, through, due, last, error, tries, paused, revision = row
    state = through, due, last, error, tries, paused != 0, revision
    return Schedule(_definition(definition), Source(source), author, *state)


def facts_of_schedule(one: Schedule) -> Values:
    """Return the columns of a schedule, without its name."""
    definition = msgspec.json.encode(one.definition).decode()
    state = one.fired_through, one.due, one.last, one.error, one.tries, int(one.paused)
    return definition, one.source.value, one.by, *state, one.revision


def _all(
    session: SqlSession, _which: li.Schedules, after: str | None, limit: int
) -> list[Schedule]:
    return [schedule_of(row) for row in session.rows("all_schedules", after or "", limit)]


def _due(session: SqlSession, which: li.DueSchedules, _after: object, limit: int) -> list[str]:
    return [row[0] for row in session.rows("due_schedules", which.now, limit)]


PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {
    li.Schedules: _all,
    li.DueSchedules: _due,
}
