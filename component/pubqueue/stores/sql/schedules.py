"""Schedules: rows of their own, which nothing else refers to."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pubqueue.app.store import listings as li
from pubqueue.core.schedules.model import Definition, Schedule, Source
from pubqueue.stores.sql.node_ids import packed_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pubqueue.app.store.rows import Needs, Rows, Write
    from pubqueue.stores.sql.session import SqlSession, Values


@lru_cache(maxsize=256)
def _definition(text: str) -> Definition:
    return msgspec.json.decode(text, type=Definition)


def _schedule_of(row: Sequence[Any]) -> Schedule:
    _name, definition, source, author, through, due, last, error, tries, paused, revision = row
    state = through, due, last, error, tries, paused != 0, revision
    return Schedule(_definition(definition), Source(source), author, *state)


def load_schedules(session: SqlSession, needs: Needs, rows: Rows) -> Iterator[None]:
    """Ask for schedules by name, and on the second step make them."""
    asked = session.ask("schedules", packed_keys(needs.schedules))
    yield
    rows.schedules = [_schedule_of(row) for row in asked]


def write_schedules(session: SqlSession, writes: Sequence[Write[Schedule]]) -> None:
    """Write schedules, each guarded by the revision that was believed."""
    for write in writes:
        before, now = write.before, write.after
        guard = () if before is None else (before.name, before.revision)
        if now is None:
            session.must("drop_schedule", 1, *guard)
        elif before is None:
            session.must("add_schedule", 1, *_columns(now), now.name)
        else:
            session.must("change_schedule", 1, *_columns(now), *guard)


def _columns(one: Schedule) -> Values:
    definition = msgspec.json.encode(one.definition).decode()
    state = one.fired_through, one.due, one.last, one.error, one.tries, int(one.paused)
    return definition, one.source.value, one.by, *state, one.revision


def _all(
    session: SqlSession, _which: li.Schedules, after: str | None, limit: int
) -> list[Schedule]:
    return [_schedule_of(row) for row in session.rows("all_schedules", after or "", limit)]


def _due(session: SqlSession, which: li.DueSchedules, _after: object, limit: int) -> list[str]:
    return [row[0] for row in session.rows("due_schedules", which.now, limit)]


PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {
    li.Schedules: _all,
    li.DueSchedules: _due,
}
