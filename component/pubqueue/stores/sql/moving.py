"""The winners of a version as rows, in slices: of an open version to inspect them, of a committed one to move them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pubqueue.model.entities import NO_TIME, Draft, ItemId, NodeName, State
from pubqueue.model.transactions import StagedItem, WinnerRow
from pubqueue.stores.sql.columns import unpacked

if TYPE_CHECKING:
    from pubqueue.engine import listings as ve
    from pubqueue.stores.sql.session import SqlSession

_STATES: Final = {state.value: state for state in State}


def rows(
    session: SqlSession, which: ve.WinnerRows, after: tuple[int, int] | None, limit: int
) -> list[WinnerRow]:
    """Return the rows after a row of a part."""
    first, behind = after or (-1, -1)
    winners = _attempts(session, which)
    parts = {row_id: part for part, _, row_id in winners}
    found: list[WinnerRow] = []
    room = which.room
    for part, number, row_id in winners:
        if part < first or len(found) >= limit or room <= 0:
            continue
        start = behind if part == first else -1
        for row in session.stream("winner_rows", room, row_id, start, limit - len(found)):
            found.append(_winner(part, number, row, parts))
            room -= len(row[-1])
            if room <= 0:
                break
    return found


def _attempts(session: SqlSession, which: ve.WinnerRows) -> list[tuple[int, int, int]]:
    """Return the attempt that counts for each part, by part."""
    named = None if which.parts is None else set(which.parts)
    return [
        (part, number, row_id)
        for part, number, row_id, committed in session.rows(
            "winner_attempts", which.app, which.version
        )
        if (committed if named is None else (part, number) in named)
    ]


def _winner(part: int, attempt: int, row: Any, parts: dict[int, int]) -> WinnerRow:  # noqa: ANN401  # a row
    at, node, name, state, priority, pause, life, known, size, headers, group, others, payload = row
    options = priority, pause or NO_TIME, life, unpacked(headers)
    draft = Draft(ItemId(name), payload, *options, group=group or "")
    item = StagedItem(draft, _STATES[state], pause, life, size, known=known != 0)
    superseded = others is not None and any(
        parts.get(int(other), -1) > part for other in str(others).split(",")
    )
    return WinnerRow(part, attempt, at, NodeName(node), item, superseded)


def unmoved(
    session: SqlSession, _which: ve.Unmoved, _after: object, limit: int
) -> list[tuple[str, int]]:
    """Return committed versions with rows that are still to be moved."""
    return session.rows("unmoved", limit)
