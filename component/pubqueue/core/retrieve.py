"""Retrieve items (XEP-0060 6.5). On a queue: all for owners and publishers, one's own for workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core import access
from pubqueue.core.access import Action
from pubqueue.core.decision import (
    Decision,
    Refusal,
    Retrieved,
    refuse,
)
from pubqueue.core.model import Affiliation, covers

if TYPE_CHECKING:
    from pubqueue.core.model import Asker, Item, ItemId, Node, NodeName


class Retrieve(Struct, frozen=True, gc=False):
    """Ask for these items, for the newest so many, or for the oldest page after an item."""

    by: Asker
    node: NodeName
    ids: tuple[ItemId, ...] = ()
    newest: int | None = None
    after: ItemId | None = None
    page: int | None = None


class RetrieveFacts(Struct, frozen=True, gc=False):
    """The node and the rows asked for, oldest first; `whole` says that none was left out."""

    node: Node | None
    affiliation: Affiliation
    subscribed: bool
    items: tuple[tuple[Item, bytes], ...]
    whole: bool
    after_missing: bool = False


def retrieve(request: Retrieve, facts: RetrieveFacts) -> Decision:
    """Decide what of the items the asker may see. Looking makes no lock and extends none (row 14)."""
    node = facts.node
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    affiliation = access.standing(request.by, facts.affiliation)
    if (closed := access.barred(affiliation, node, known=facts.subscribed)) is not None:
        return refuse(closed)
    if affiliation is Affiliation.PUBLISH_ONLY:
        return refuse(Refusal.FORBIDDEN)
    if facts.after_missing:
        return refuse(Refusal.ITEM_NOT_FOUND)
    items = facts.items
    if node.config.queueing and affiliation not in {Affiliation.OWNER, Affiliation.PUBLISHER}:
        items = tuple(_for_worker(row) for row in items if _holds(request.by, row[0]))
    elif not access.may(affiliation, Action.RETRIEVE, node) and not facts.subscribed:
        return refuse(Refusal.FORBIDDEN)
    return Decision(Retrieved(node, items, facts.whole))


def _for_worker(row: tuple[Item, bytes]) -> tuple[Item, bytes]:
    """Leave out how the item once died: that is for those who run the queue."""
    item, payload = row
    return replace(item, dead_letter=None), payload


def _holds(asker: Asker, item: Item) -> bool:
    return item.holder is not None and covers(item.holder, asker.jid)
