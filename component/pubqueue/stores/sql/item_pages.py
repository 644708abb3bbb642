"""Pages of items and of winners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pubqueue.engine import listings
from pubqueue.engine.listings import UNBOUNDED, NodeBytes, NodeWinners, WinnerClass
from pubqueue.engine.rows import Conflict
from pubqueue.model.entities import NO_TIME, Draft, Item, ItemId, NodeName, State
from pubqueue.model.joins import member_of, members_of
from pubqueue.model.replies import ItemEntry
from pubqueue.model.transactions import SWEPT_BYTES, Orphan, StagedItem, TakenId, WinnerRow
from pubqueue.stores.sql.columns import items_of, record_of, unpacked, unpacked_wait, with_payloads
from pubqueue.stores.sql.session import SqlSession, firsts, packed_keys, paged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pubqueue.engine.rows import Judged
    from pubqueue.model.transactions import Record, SetAside
    from pubqueue.stores.sql.session import Values


# Pages of items.

LAST_OF_ALL: Final = (1 << 62, 0)
"""Later than any deadline, with a number."""


BEHIND_ALL: Final = 1 << 62
"""Greater than the number of every item."""


BACK: Final = "_back"
"""The suffix of statements that page backward."""


def item_ids(
    session: SqlSession, which: listings.ItemIds, after: int | None, limit: int, back: str = ""
) -> list[ItemId]:
    """Return ids of items, in the order of publication or backward."""
    rows = session.rows(f"item_ids{back}", session.contents_of(which.node), after or 0, limit)
    return [ItemId(row[0]) for row in rows]


def _places(
    session: SqlSession, which: listings.Places, after: int | None, limit: int
) -> list[tuple[int, int]]:
    query = "created" if which.created else "modified"
    edge = BEHIND_ALL if which.backward else 0
    values = session.contents_of(which.node), after or edge, limit
    return session.rows(f"{query}{BACK}" if which.backward else query, *values)


def _place_of(
    session: SqlSession, which: listings.PlaceOf, _after: object, limit: int
) -> list[int]:
    return [row[0] for row in session.rows("place_of", which.number)][:limit]


def _items(
    session: SqlSession, which: listings.Items, after: int | None, limit: int
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


def _held(session: SqlSession, which: listings.Items, place: int) -> tuple[int, ...]:
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
        if room <= 0:
            break  # the next row may be as large, and would be loaded in vain
    return rows


def _without_sum(
    session: SqlSession, which: listings.WithoutSum, _after: object, limit: int
) -> list[tuple[Item, bytes]]:
    found = _fitting(session, "without_sum", (limit,), which.room)
    return with_payloads(
        session, found or _fitting(session, "done_without_sum", (limit,), which.room)
    )


def _contents(
    session: SqlSession, which: listings.Contents, after: tuple[int, int] | None, limit: int
) -> list[listings.Content]:
    return [
        listings.Content(
            *(
                (place, row),
                node,
                name,
                group,
                unpacked(headers),
                known,
                payload,
                unpacked_wait(wait),
            ),
            joins=0 if joins is None else member_of(joins, place),
        )
        for place, row, node, name, group, headers, known, payload, wait, joins in session.rows(
            f"contents_of_{which.table}", *(after or (-1, -1)), limit
        )
    ]


def _members(
    session: SqlSession, which: listings.MembersOf, _after: object, _limit: int
) -> list[tuple[int, int]]:
    many, dead = session.row("count_members", *members_of(which.join))
    return [(many, dead)]


def _done(
    session: SqlSession, which: listings.DoneItems, after: tuple[int, int] | None, limit: int
) -> list[Item]:
    place = after or (which.since, 0)
    return items_of(
        session, session.rows("done_items", session.contents_of(which.node), *place, limit)
    )


def _done_named(
    session: SqlSession, which: listings.DoneNamed, _after: object, limit: int
) -> list[Item]:
    named = session.contents_of(which.node), which.id, limit
    return items_of(session, session.rows("done_named", *named))


def _items_from_last(
    session: SqlSession, _which: listings.ItemsFromLast, after: tuple[int, int] | None, limit: int
) -> list[Item]:
    before = LAST_OF_ALL[0] if after is None else after[1]
    return items_of(session, session.rows("items_from_last", before, limit))


def _held_by(
    session: SqlSession, which: listings.HeldBy, after: int | None, limit: int
) -> list[Item]:
    contents = None if which.node is None else session.contents_of(which.node)
    return items_of(session, session.rows("held_by", which.holder, after or 0, contents, limit))


_SHOWN: Final[dict[State | None, str]] = {State.DEAD: "shown_dead", State.DONE: "shown_done"}


def _shown(
    session: SqlSession, which: listings.ItemEntries, after: int | None, limit: int
) -> list[ItemEntry]:
    query = _SHOWN.get(which.state, "shown")
    state = None if which.state is None else which.state.value
    contents = session.contents_of(which.node)
    values = contents, after or 0, which.until, state, which.payloads, limit
    rows = _fitting(session, query, values, which.room)
    items = items_of(session, rows)
    return [ItemEntry(item, *row[-2:]) for item, row in zip(items, rows, strict=True)]


def _held_of(session: SqlSession, which: listings.HeldOf, _after: object, limit: int) -> list[int]:
    keys = _group_keys(session, which.of[:limit])
    return [int(row[0]) for row in session.rows("held_of", packed_keys(keys))]


def _group_turns(
    session: SqlSession, which: listings.GroupTurns, _after: object, limit: int
) -> list[int]:
    keys = _group_keys(session, which.groups[:limit])
    return [int(row[0]) for row in session.rows("group_turns", packed_keys(keys))]


def _group_taken(
    session: SqlSession, which: listings.GroupTaken, _after: object, _limit: int
) -> list[Item]:
    return items_of(
        session, session.rows("group_taken", packed_keys(_group_keys(session, which.groups)))
    )


def _group_lines(
    session: SqlSession, which: listings.GroupLines, _after: object, limit: int
) -> list[Item]:
    keys = _group_keys(session, which.groups)
    return items_of(session, session.rows("group_lines", packed_keys(keys), limit))


def _groups_ready(
    session: SqlSession, which: listings.GroupsReady, _after: object, limit: int
) -> list[Item]:
    keys = packed_keys(_group_keys(session, which.groups))
    return items_of(session, session.rows("groups_ready", keys, which.now, which.size, limit))


def _group_keys(
    session: SqlSession, groups: Iterable[tuple[NodeName, str]]
) -> list[tuple[int, str]]:
    """Return groups, or accounts, with the contents of their nodes; a node that does not exist has none."""
    wanted = tuple(groups)
    ids = session.contents({node for node, _ in wanted})
    return [(ids.get(node, 0), group) for node, group in wanted]


def _newest_of_each(
    session: SqlSession, which: listings.NewestItems, _after: object, limit: int
) -> list[tuple[NodeName, int]]:
    return session.rows("newest_items", packed_keys(which.nodes), limit)


def _newest(
    session: SqlSession, which: listings.NewestItem, _after: object, limit: int
) -> list[int]:
    kind = "death" if which.dead else "done" if which.done else "item"
    query = f"newest_{kind}"
    return [int(session.row(query, session.contents_of(which.node))[0])][:limit]


def _beyond(
    session: SqlSession, which: listings.DeathBeyond, _after: object, limit: int
) -> list[int]:
    rows = session.rows("death_beyond", session.contents_of(which.node), limit)
    return [int(row[0]) for row in rows]


def _orphans(
    session: SqlSession, _which: listings.Orphans, _after: object, limit: int
) -> list[Orphan]:
    return [
        Orphan(
            *(seq, name, publisher, unpacked(headers), acquired, failed),
            joins=0 if joins is None else member_of(joins, seq),
            is_dead=dead != 0,
        )
        for seq, name, publisher, headers, acquired, failed, joins, dead in session.rows(
            "orphans", limit, SWEPT_BYTES
        )
    ]


# fmt: off
ITEM_PAGES: Final[dict[type, Callable[[SqlSession, Any, Any, int], list[Any]]]] = {
    listings.ItemIds:               item_ids,
    listings.Places:                _places,
    listings.PlaceOf:               _place_of,
    listings.Items:                 _items,
    listings.DeadItems:             paged("dead", 0, items_of, of=SqlSession.contents_of),
    listings.WithoutSum:            _without_sum,
    listings.Contents:              _contents,
    listings.MembersOf:             _members,
    listings.DoneItems:             _done,
    listings.DoneNamed:             _done_named,
    listings.LocksFromLast:         paged("locks_from_last", LAST_OF_ALL, items_of),
    listings.DelayedFromLast:       paged("delayed_from_last", LAST_OF_ALL, items_of),
    listings.ItemsFromLast:         _items_from_last,
    listings.Locks:                 paged("locks", (0, 0), items_of),
    listings.HeldBy:                _held_by,
    listings.HeldOf:                _held_of,
    listings.ItemEntries:           _shown,
    listings.Stride:                paged("number_further_on", 0, firsts, of=SqlSession.contents_of),
    listings.NewestItem:            _newest,
    listings.DeathBeyond:           _beyond,
    listings.NewestItems:           _newest_of_each,
    listings.GroupTurns:            _group_turns,
    listings.GroupTaken:            _group_taken,
    listings.GroupLines:            _group_lines,
    listings.GroupsReady:           _groups_ready,
    listings.GroupsWithTurns:       paged("groups_with_turns", "", firsts, of=SqlSession.contents_of),
    listings.Orphans:               _orphans,
    listings.WaitingGroups:         paged("waiting_groups", "", firsts, of=SqlSession.contents_of),
}
# fmt: on


# The winners of a version as rows, in slices: of an open version to inspect them, of a committed one to move them.

_STATES: Final = {state.value: state for state in State}


def rows(
    session: SqlSession, which: listings.WinnerRows, after: tuple[int, int] | None, limit: int
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


def _attempts(session: SqlSession, which: listings.WinnerRows) -> list[tuple[int, int, int]]:
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
    at, node, name, state, priority, pause, life, known, size, *content = row
    headers, group, known_sum, others, payload = content
    options = priority, pause or NO_TIME, life, unpacked(headers)
    draft = Draft(ItemId(name), payload, *options, group=group or "")
    item = StagedItem(draft, _STATES[state], pause, life, size, known=known != 0, sum=known_sum)
    superseded = others is not None and any(
        parts.get(int(other), -1) > part for other in str(others).split(",")
    )
    return WinnerRow(part, attempt, at, NodeName(node), item, superseded)


def unmoved(
    session: SqlSession, _which: listings.Unmoved, _after: object, limit: int
) -> list[Record]:
    """Return committed versions with rows that are still to be moved."""
    return [record_of(row) for row in session.rows("unmoved", limit)]


# The winners of one version. The only judgement made here is whether bytes are equal.

ALL = UNBOUNDED
"""No limit, as the statements take it."""


def begin(
    session: SqlSession, which: listings.Winners, _after: object, limit: int
) -> list[NodeWinners]:
    """Begin a commit of these attempts, (part, attempt): return each node with its rows and ids."""
    _choose(session, which)
    (transaction,) = session.row("open_version", which.app, which.version) or (0,)
    found = session.rows("node_winners", transaction, ALL)
    if any(rows > ids for _, rows, ids in found):
        session.run("add_conflicts_with_each_other", transaction)
    session.run("add_conflicts_with_items", transaction)
    return [NodeWinners(NodeName(node), rows, ids) for node, rows, ids in found[:limit]]


def _choose(session: SqlSession, which: listings.Winners) -> None:
    session.met.clear()
    session.run("forget_winners")
    session.run("empty_conflicts")
    attempts = session.rows("attempts_of", which.app, which.version, ALL)
    known = {(part, number): row_id for _, _, part, number, *_, row_id in attempts}
    chosen = [(part[0], known[part]) for part in which.parts if part in known]
    session.many("add_winner", chosen)


def conflicts(
    session: SqlSession, which: listings.Conflicts, _after: object, limit: int
) -> list[Conflict]:
    """Return winners that are still to be compared by meaning with what exists under their ids.

    Finished work is compared once: if it was judged to be other work, it does not conflict again.
    """
    if which.absorbing is not None and which.node not in session.met:
        session.met.add(which.node)
        span = which.absorbing, which.latest
        session.run("add_conflicts_with_finished", session.id(which.node), *span, which.node)
    return [
        Conflict((attempt, row), finished != 0, there, offered)
        for attempt, row, finished, there, offered in session.rows(
            "conflicts_to_compare", which.node, limit
        )
    ]


def judge(session: SqlSession, change: Judged) -> None:
    """Store whether these mean the same; finished work that does not is ignored from then on."""
    kept, gone = [], []
    for conflict, same in change.verdicts:
        if same or not conflict.finished:
            kept.append((same, *conflict.key))
        else:
            gone.append(conflict.key)
    session.each("note_compared", kept)
    session.each("drop_conflicts", gone)


def classes(
    session: SqlSession, which: listings.WinnerClasses, _after: object, limit: int
) -> list[WinnerClass]:
    """Return the classes of conflicts of a node's winners."""
    return [
        WinnerClass(state, same != 0, count, first)
        for state, same, count, first in session.rows("conflict_classes", which.node, limit)
    ]


def byte_counts(
    session: SqlSession, _which: listings.WinningBytes, _after: object, limit: int
) -> list[NodeBytes]:
    """Return how many bytes the winners add to each node."""
    return [NodeBytes(*row) for row in session.rows("winning_bytes")[:limit]]


def taken(
    session: SqlSession, which: listings.TakenWinners, _after: object, limit: int
) -> list[TakenId]:
    """Return the winners of a node that cannot have their ids."""
    rows = session.rows("conflicts_in_the_way", which.node, limit)
    return [TakenId(which.node, name, State(state)) for name, state in rows]


def set_aside(session: SqlSession, change: SetAside) -> None:
    """Drop winners that cannot have their ids, or move them to another node."""
    if change.to is None:
        session.run("drop_winners")
    else:
        session.run("move_winners_elsewhere", change.to, change.at)
        session.run("drop_conflicts_of_node")


def drafts(
    session: SqlSession, which: listings.WinningDrafts, _after: object, limit: int
) -> list[tuple[Draft, int | None]]:
    """Return the winners of a node, in their order."""
    rows = session.rows("winning_drafts", which.node, limit)
    return [
        (Draft(name, payload, priority, pause, life, unpacked(headers)), known)
        for name, payload, priority, pause, life, headers, known in rows
    ]
