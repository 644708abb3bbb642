"""Appends to the event log, each entry under the next number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.model.records import Event, EventKind
from pubqueue.rules.event_log import REPLACED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.model.entities import Millis
    from pubqueue.model.records import LogEntry, PublishedByCommit
    from pubqueue.stores.sql.session import SqlSession, Values


def record(session: SqlSession, entries: Sequence[LogEntry], at: Millis) -> None:
    """Append the entries. A node that does not exist has no log."""
    run: list[Values] = []
    ids = session.ids({entry.node for entry in entries})
    for entry in entries:
        if entry.node not in ids:
            continue
        if isinstance(entry, Event):
            run.append(_values(entry, ids[entry.node], at))
        else:
            session.many("add_event", run)
            run = []
            _record_winners(session, entry, at)
    session.many("add_event", run)


def _values(event: Event, node: int, at: Millis) -> Values:
    return (
        *(at, event.kind._value_, node, event.item, event.attempt, event.worker, event.publisher),
        *(event.age, event.held, event.origin, event.to, event.detail),
    )


def _record_winners(session: SqlSession, winners: PublishedByCommit, at: Millis) -> None:
    where = winners.node, winners.queueing, REPLACED
    session.run("add_superseded", at, EventKind.RETRACTED.value, *where)
    session.run("add_winners", at, EventKind.PUBLISHED.value, *where, winners.publisher)
