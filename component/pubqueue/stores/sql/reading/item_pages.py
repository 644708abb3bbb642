"""Pages of items."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pubqueue.engine import listings as it
from pubqueue.model.entities import Item, ItemId, State
from pubqueue.model.replies import ItemEntry
from pubqueue.stores.sql.columns import items_of, with_payloads
from pubqueue.stores.sql.node_ids import packed_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.model.entities import NodeName
    from pubqueue.stores.sql.session import SqlSession, Values


LAST_OF_ALL: Final = (1 << 62, 0)
"""Later than any deadline, with a number."""


BEHIND_ALL: Final = 1 << 62
"""Greater than the number of every item."""


BACK: Final = "_back"
"""The suffix of statements that page backward."""


def item_ids(
    session: SqlSession, which: it.ItemIds, after: int | None, limit: int, back: str = ""
) -> list[ItemId]:
    """Return ids of items, in the order of publication or backward."""
    rows = session.rows(f"item_ids{back}", session.contents_of(which.node), after or 0, limit)
    return [ItemId(row[0]) for row in rows]


def _places(
    session: SqlSession, which: it.Places, after: int | None, limit: int
) -> list[tuple[int, int]]:
    query = "created" if which.created else "modified"
    edge = BEHIND_ALL if which.backward else 0
    values = session.contents_of(which.node), after or edge, limit
    return session.rows(f"{query}{BACK}" if which.backward else query, *values)


def _place_of(session: SqlSession, which: it.PlaceOf, _after: object, limit: int) -> list[int]:
    return [row[0] for row in session.rows("place_of", which.number)][:limit]


def _items(
    session: SqlSession, which: it.Items, after: int | None, limit: int
) -> list[tuple[Item, bytes]]:
    numbers, place = which.numbers, after or (BEHIND_ALL if which.newest else 0)
    if which.holders is not None:
        numbers = _held(session, which, place)
    if numbers is not None:
        rows = _fitting(session, "numbered", (packed_keys(numbers[:limit]),), which.room)
    else:
        query = "newest" if which.newest else "oldest"
        values = session.contents_of(which.node), place, limit
        rows = _fitting(session, query, values, which.room)
    return with_payloads(session, reversed(rows) if which.newest else rows)


def _held(session: SqlSession, which: it.Items, place: int) -> tuple[int, ...]:
    """Return the numbers of the items that the holders hold, the newest first if the listing is backward."""
    rows = session.rows("held_numbers", session.contents_of(which.node), packed_keys(which.holders))
    if which.newest:
        return tuple(sorted((row[0] for row in rows if row[0] < place), reverse=True))
    return tuple(sorted(row[0] for row in rows if row[0] > place))


def _fitting(session: SqlSession, query: str, values: Values, room: int) -> list[Any]:
    """Return rows until the payloads in their last column exceed `room` bytes, at least one."""
    rows: list[Any] = []
    for row in session.stream(query, room, *values):
        room -= len(row[-1] or b"")
        if room < 0 and rows:
            break
        rows.append(row)
    return rows


def _dead(session: SqlSession, which: it.DeadItems, after: int | None, limit: int) -> list[Item]:
    return items_of(
        session, session.rows("dead", session.contents_of(which.node), after or 0, limit)
    )


def _done(
    session: SqlSession, which: it.DoneItems, after: tuple[int, int] | None, limit: int
) -> list[Item]:
    place = after or (which.since, 0)
    return items_of(
        session, session.rows("done_items", session.contents_of(which.node), *place, limit)
    )


def _locks_from_last(
    session: SqlSession, _which: it.LocksFromLast, after: tuple[int, int] | None, limit: int
) -> list[Item]:
    return items_of(session, session.rows("locks_from_last", *(after or LAST_OF_ALL), limit))


def _locks(
    session: SqlSession, _which: it.Locks, after: tuple[int, int] | None, limit: int
) -> list[Item]:
    return items_of(session, session.rows("locks", *(after or (0, 0)), limit))


def _held_by(session: SqlSession, which: it.HeldBy, after: int | None, limit: int) -> list[Item]:
    contents = None if which.node is None else session.contents_of(which.node)
    return items_of(session, session.rows("held_by", which.holder, after or 0, contents, limit))


def _shown(
    session: SqlSession, which: it.ItemEntries, after: int | None, limit: int
) -> list[ItemEntry]:
    query = "shown_dead" if which.state is State.DEAD else "shown"
    state = None if which.state is None else which.state.value
    contents = session.contents_of(which.node)
    values = contents, after or 0, which.until, state, which.payloads, limit
    rows = _fitting(session, query, values, which.room)
    items = items_of(session, rows)
    return [ItemEntry(item, *row[-2:]) for item, row in zip(items, rows, strict=True)]


def _stride(session: SqlSession, which: it.Stride, after: int | None, limit: int) -> list[int]:
    rows = session.rows("number_further_on", session.contents_of(which.node), after or 0, limit)
    return [row[0] for row in rows]


def _held_of(session: SqlSession, which: it.HeldOf, _after: object, limit: int) -> list[int]:
    keys = _group_keys(session, which.of[:limit])
    return [int(row[0]) for row in session.rows("held_of", packed_keys(keys))]


def _group_turns(
    session: SqlSession, which: it.GroupTurns, _after: object, limit: int
) -> list[int]:
    keys = _group_keys(session, which.groups[:limit])
    return [int(row[0]) for row in session.rows("group_turns", packed_keys(keys))]


def _group_lines(
    session: SqlSession, which: it.GroupLines, _after: object, limit: int
) -> list[Item]:
    keys = _group_keys(session, which.groups)
    return items_of(session, session.rows("group_lines", packed_keys(keys), limit))


def _group_keys(
    session: SqlSession, groups: Iterable[tuple[NodeName, str]]
) -> list[tuple[int, str]]:
    """Return groups, or accounts, with the contents of their nodes; a node that does not exist has none."""
    wanted = tuple(groups)
    ids = session.contents({node for node, _ in wanted})
    return [(ids.get(node, 0), group) for node, group in wanted]


def _waiting_groups(
    session: SqlSession, which: it.WaitingGroups, after: str | None, limit: int
) -> list[str]:
    rows = session.rows("waiting_groups", session.contents_of(which.node), after or "", limit)
    return [row[0] for row in rows]


def _newest_of_each(
    session: SqlSession, which: it.NewestItems, _after: object, limit: int
) -> list[tuple[NodeName, int]]:
    return session.rows("newest_items", packed_keys(which.nodes), limit)


def _newest(session: SqlSession, which: it.NewestItem, _after: object, limit: int) -> list[int]:
    query = "newest_death" if which.dead else "newest_item"
    return [int(session.row(query, session.contents_of(which.node))[0])][:limit]


# fmt: off
PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {
    it.ItemIds:               item_ids,
    it.Places:                _places,
    it.PlaceOf:               _place_of,
    it.Items:                 _items,
    it.DeadItems:             _dead,
    it.DoneItems:             _done,
    it.LocksFromLast:         _locks_from_last,
    it.Locks:                 _locks,
    it.HeldBy:                _held_by,
    it.HeldOf:                _held_of,
    it.ItemEntries:           _shown,
    it.Stride:                _stride,
    it.NewestItem:            _newest,
    it.NewestItems:           _newest_of_each,
    it.GroupTurns:            _group_turns,
    it.GroupLines:            _group_lines,
    it.WaitingGroups:         _waiting_groups,
}
# fmt: on
