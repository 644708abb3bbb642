"""Samples of the last hours, a row for each node and minute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pubqueue.engine import listings as li
from pubqueue.model.records import Sample
from pubqueue.stores.sql.node_ids import packed_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.model.changes import NoteSamples
    from pubqueue.stores.sql.session import SqlSession


def note_samples(session: SqlSession, change: NoteSamples) -> None:
    """Add samples to the stored ones, and drop the oldest."""
    ids = session.ids({sample.node for sample in change.samples})
    rows = [
        (
            *(ids[one.node], one.at, one.queued, one.locked, one.delayed, one.dead),
            *(one.published, one.delivered, one.completed, one.failed, one.waited, one.longest),
        )
        for one in change.samples
        if one.node in ids
    ]
    session.many("add_sample", rows)
    session.run("drop_samples", change.before, change.limit)


def _samples(session: SqlSession, which: li.Samples, _after: object, limit: int) -> list[Sample]:
    rows = session.rows("samples", packed_keys(sorted(set(which.nodes))), which.since, limit)
    return [Sample(*row) for row in rows]


PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {li.Samples: _samples}
