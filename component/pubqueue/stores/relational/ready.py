"""What can be handed out, and what has run out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pubqueue.app.rows import Due
from pubqueue.core.model import Millis
from pubqueue.stores.relational.columns import items_of, with_payloads
from pubqueue.stores.relational.node_ids import packed_keys

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.core.model import Item, NodeName
    from pubqueue.stores.relational.session import Session


def ready(
    session: Session, rooms: Mapping[NodeName, int], now: Millis, octets: int
) -> list[tuple[Item, bytes]]:
    """Return the next items of each node, until their payloads are so many bytes; one at least."""
    ids = session.contents(rooms)
    here = {ids[node]: room for node, room in rooms.items() if room > 0 and node in ids}
    if not here:
        return []
    if len(here) == 1:
        ((node, room),) = here.items()
        return with_payloads(session, _of_one(session, node, room, now, octets))
    return _of_many(session, here, now, octets)


def _of_one(session: Session, node: int, room: int, now: Millis, octets: int) -> list[Any]:
    """Read row by row, so that no payload is read in vain."""
    rows = []
    for row in session.stream("ready", octets, node, now, room):
        rows.append(row)
        octets -= len(row[-1])
        if octets <= 0:
            break
    return rows


def _of_many(
    session: Session, rooms: Mapping[int, int], now: Millis, octets: int
) -> list[tuple[Item, bytes]]:
    """Look first where the items of all nodes stand, for they do not come in the order of any one."""
    most = max(rooms.values())
    places = session.rows("ready_places", packed_keys(list(rooms)), now, most)
    by_node: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for node, aside, *rank in places:
        by_node.setdefault((node, aside), []).append(tuple(rank))
    chosen: list[int] = []
    for node, room in rooms.items():
        for aside in (0, 1):
            for _, seq, size in sorted(by_node.get((node, aside), ()))[:room]:
                if octets <= 0 and chosen:
                    break
                chosen.append(seq)
                octets -= size
    rows = {row[1]: row for row in session.rows("ready_items", packed_keys(chosen))}
    return with_payloads(session, [rows[seq] for seq in chosen])


def due(session: Session, now: Millis, limit: int) -> Due:
    """Return what has run out by now."""
    return Due(
        locks=items_of(session, session.rows("due_locks", now, limit)),
        lives=items_of(session, session.rows("due_lives", now, limit)),
        delayed=items_of(session, session.rows("due_delayed", now, limit)),
        versions=session.rows("due_versions", now, limit),
    )


def next_due(session: Session) -> Millis | None:
    """Return when the next lock, pause, life or wait for a commit ends; the past if there is litter."""
    moment = session.row("next_due")[0]
    return None if moment is None else Millis(moment)
