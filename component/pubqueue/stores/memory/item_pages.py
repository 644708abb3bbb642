"""Pages of items."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pubqueue.app import listings as l
from pubqueue.core.model import State
from pubqueue.core.reading.pages import ItemEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pubqueue.core.model import (
        Item,
        ItemId,
        Millis,
    )
    from pubqueue.stores.memory.contents import Contents

    Rows = Iterable[Any]


LAST: Final = 1 << 62
"""Behind every number of an item."""


def _item_ids(contents: Contents, which: l.ItemIds, after: int | None) -> Iterator[ItemId]:
    for seq in contents.items.folder(which.node).seqs.behind(after):
        yield contents.items.items.rows[seq].id


def _places(contents: Contents, which: l.Places, after: int | None) -> Iterator[tuple[int, int]]:
    items = contents.items
    seqs = items.folder(which.node).seqs
    every = ((items.place(seq) if which.created else seq, seq) for seq in seqs)
    for at, seq in sorted(every, reverse=which.backward):
        if after is None or (at < after if which.backward else at > after):
            yield at, seq


def _place_of(contents: Contents, which: l.PlaceOf, _after: object) -> Iterator[int]:
    yield contents.items.place(which.number)


def _items(contents: Contents, which: l.Items, after: int | None) -> Iterator[tuple[Item, bytes]]:
    return _fitting(_rows_of(contents, which, after), which.room)


def _fitting(rows: Iterable[tuple[Item, bytes]], room: int) -> Iterator[tuple[Item, bytes]]:
    """Let rows pass as long as there is room for their payloads, one at least."""
    for at, row in enumerate(rows):
        room -= len(row[1])
        if at and room < 0:
            return
        yield row


def _rows_of(contents: Contents, which: l.Items, after: int | None) -> Iterator[tuple[Item, bytes]]:
    if which.numbers is not None:
        for seq in which.numbers:
            if seq in contents.items.items.rows:
                yield contents.items.with_payload(seq)
        return
    if which.holders is None:
        for seq in contents.items.folder(which.node).seqs.behind(after):
            yield contents.items.with_payload(seq)
        return
    for seq in _held(contents, which):
        if after is None or seq > after:
            yield contents.items.with_payload(seq)


def _held(contents: Contents, which: l.Items) -> list[int]:
    holders = set(which.holders or ())
    held = (item for holder in holders for item in contents.items.held(holder))
    return sorted(item.seq for item in held if item.node == which.node)


def newest(
    contents: Contents,
    which: l.Items,
    place: Any,  # noqa: ANN401  # a number
    limit: int,
) -> list[tuple[Item, bytes]]:
    """Return the newest items in front of a place, the oldest of them first."""
    seqs: Iterable[int] = contents.items.folder(which.node).seqs.in_front_of(place)
    if which.holders is not None:
        seqs = (seq for seq in reversed(_held(contents, which)) if place is None or seq < place)
    rows = map(contents.items.with_payload, islice(seqs, limit))
    return list(_fitting(rows, which.room))[::-1]


def _dead_items(contents: Contents, which: l.DeadItems, after: int | None) -> Iterator[Item]:
    for seq in contents.items.folder(which.node).dead.behind(after):
        yield contents.items.items.rows[seq]


def _locks_from_last(
    contents: Contents, _which: l.LocksFromLast, after: tuple[int, int] | None
) -> Iterator[Item]:
    for key in reversed(contents.items.locks):
        if after is None or key < after:
            yield contents.items.items.rows[key[1]]


def _locks(contents: Contents, _which: l.Locks, after: tuple[Millis, int] | None) -> Iterator[Item]:
    for _, seq in contents.items.locks.behind(after):
        yield contents.items.items.rows[seq]


def _shown_items(
    contents: Contents, which: l.ItemEntries, after: int | None
) -> Iterator[ItemEntry]:
    used = 0
    for at, item in enumerate(_in_pages(contents, which, after)):
        payload = contents.items.payloads.rows[item.seq]
        used += len(payload) if which.payloads else 0
        if at and used > which.room:
            return
        yield ItemEntry(item, len(payload), payload if which.payloads else None)


def _in_pages(contents: Contents, which: l.ItemEntries, after: int | None) -> Iterator[Item]:
    folder, rows = contents.items.folder(which.node), contents.items.items.rows
    if which.state is State.DEAD:
        for number, seq in folder.dead_letters.behind(None if after is None else (after, LAST)):
            if number > which.until:
                return
            yield rows[seq]
        return
    for seq in folder.seqs.behind(after):
        if seq > which.until:
            return
        if which.state in {None, rows[seq].state}:
            yield rows[seq]


def stride(contents: Contents, which: l.Stride, after: Any, limit: int) -> list[int]:  # noqa: ANN401  # a number
    """Return the number of the item that is so many places behind, if there is one."""
    seqs = contents.items.folder(which.node).seqs
    return list(islice(seqs.behind(after), limit - 1, limit))


def _group_turns(contents: Contents, which: l.GroupTurns, _after: object) -> Iterator[int]:
    for node, group in which.groups:
        yield contents.items.folder(node).turns.get(group, 0)


def group_lines(contents: Contents, which: l.GroupLines, _after: object, limit: int) -> list[Item]:
    """Return the first items in line of each of the groups."""
    found: list[Item] = []
    for node, group in which.groups:
        line = contents.items.folder(node).lines.get(group, ())
        found += [contents.items.items.rows[seq] for seq in islice(line, limit)]
    return found


def _waiting_groups(contents: Contents, which: l.WaitingGroups, after: str | None) -> Iterator[str]:
    yield from contents.items.folder(which.node).groups.behind(after or None)


def _newest_item(contents: Contents, which: l.NewestItem, _after: object) -> Iterator[int]:
    folder = contents.items.folder(which.node)
    if not which.dead:
        yield folder.seqs.last() or 0
    else:
        last = folder.dead_letters.last()
        yield 0 if last is None else last[0]


# fmt: off
LISTINGS: Final[dict[type, Callable[[Contents, Any, Any], Rows]]] = {
    l.ItemIds:               _item_ids,
    l.Places:                _places,
    l.PlaceOf:               _place_of,
    l.Items:                 _items,
    l.DeadItems:             _dead_items,
    l.LocksFromLast:         _locks_from_last,
    l.Locks:                 _locks,
    l.ItemEntries:           _shown_items,
    l.NewestItem:            _newest_item,
    l.GroupTurns:            _group_turns,
    l.WaitingGroups:         _waiting_groups,
}
# fmt: on
