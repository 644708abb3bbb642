"""Writes the rows that wait for commits: apps, open versions, attempts, accounts, and the staged items."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from pubqueue.engine.ports import StaleError
from pubqueue.stores.sql.columns import packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.engine.rows import StagedKey, StagedRow, Write
    from pubqueue.model.transactions import Attempt, StagedItem, StagedTotals, Version
    from pubqueue.stores.sql.session import SqlSession, Values


def write_versions(session: SqlSession, _kind: object, writes: Sequence[Write[Version]]) -> None:
    """Write open versions."""
    for write in writes:
        before, now = write.before, write.after
        if before is None and now is not None:
            facts = now.owner, now.number, int(now.immediate), now.began, now.until
            session.must("add_version", 1, *facts, now.items, now.bytes, now.app)
        elif before is not None:
            key = before.app, before.number
            if now is None:
                session.run("drop_attempts_at_version", *key)
                session.must("drop_version", 1, *key)
            else:
                more = now.items - before.items, now.bytes - before.bytes
                session.must("change_version", 1, *more, now.until, *key)


def write_attempts(session: SqlSession, _kind: object, writes: Sequence[Write[Attempt]]) -> None:
    """Write attempts."""
    for write in writes:
        before, now = write.before, write.after
        if before is None and now is not None:
            facts = now.part, now.number, now.items, now.bytes, now.known, now.grouped
            session.must("add_attempt", 1, *facts, now.app, now.version)
        elif before is not None:
            key = before.app, before.version, before.part, before.number
            if now is None:
                session.must("drop_attempt", 1, *key)
            else:
                more = now.items - before.items, now.bytes - before.bytes
                counts = now.known - before.known, now.grouped - before.grouped
                session.must("change_attempt", 1, *more, *counts, *key)


def write_waiting(
    session: SqlSession, _kind: object, writes: Sequence[Write[StagedTotals]]
) -> None:
    """Write how much waits, by account."""
    for write in writes:
        before, now = write.before, write.after
        if before is None and now is not None:
            session.must("add_staged_totals", 1, now.account, now.items, now.bytes)
        elif before is not None:
            if now is None:
                session.must("drop_staged_totals", 1, before.account)
            else:
                more = now.items - before.items, now.bytes - before.bytes
                session.must("change_staged_totals", 1, *more, now.account)


def write_staged(session: SqlSession, rows: Sequence[StagedRow]) -> None:
    """Write staged items in their order: an item may be staged more than once, and the last one counts."""
    places: dict[tuple[object, ...], list[int]] = {}
    for again, some in groupby(rows, key=lambda staged: staged.row.over is not None):
        if again:
            last = {staged.key: staged for staged in some}  # an item may be staged more than once
            session.each(
                "replace_staged", [_again(session, places, each) for each in last.values()]
            )
        else:
            session.each("add_staged", [_at_the_end(session, places, staged) for staged in some])


def _place(
    session: SqlSession, places: dict[tuple[object, ...], list[int]], key: StagedKey
) -> list[int]:
    """Return the attempt, its version and its next row; looked up once for many items."""
    attempt = key.app, key.version, key.part, key.attempt
    found = places.get(attempt)
    if found is None:
        row = session.row("place", *attempt)
        if row is None:
            raise StaleError("attempt", attempt)
        found = places[attempt] = list(row)
    return found


def _at_the_end(
    session: SqlSession, places: dict[tuple[object, ...], list[int]], staged: StagedRow
) -> Values:
    place = _place(session, places, staged.key)
    attempt, version, number = place
    place[2] += 1
    return *_values(staged.row), version, staged.key.node, staged.key.id, attempt, number


def _again(
    session: SqlSession, places: dict[tuple[object, ...], list[int]], staged: StagedRow
) -> Values:
    attempt, version, _ = _place(session, places, staged.key)
    return *_values(staged.row), version, staged.key.node, staged.key.id, attempt


def _values(row: StagedItem) -> Values:
    draft = row.draft
    times = row.state._value_, draft.priority, row.pause, row.life
    what = packed(draft.headers), draft.group or None, draft.payload
    return *times, int(row.known), row.size, *what
