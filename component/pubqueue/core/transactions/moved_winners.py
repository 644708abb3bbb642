"""The id of a winner that becomes a dead letter because its own is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.core.model import MAX_ID_LENGTH, ItemId

if TYPE_CHECKING:
    from pubqueue.core.model import Millis, NodeName

HEAD: Final = 100
"""Characters that are kept of a name that is too long."""


def id_elsewhere(
    node: NodeName, name: ItemId, at: Millis, winner: str, *, twice: bool = False
) -> ItemId:
    """Return an id made of the node, the id and the moment of the commit.

    `winner` distinguishes winners; it is appended if that id exists already (`twice`), and if the
    whole would be longer than an ItemID can be: then only the beginning is kept.
    """
    whole = f"{node}/{name}"
    found = f"{whole}.{at}.{winner}" if twice else f"{whole}.{at}"
    if len(found.encode()) > MAX_ID_LENGTH:
        found = f"{whole[:HEAD]}.{at}.{winner}"
    return ItemId(found)
