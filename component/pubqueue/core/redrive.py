"""Redrive: dead items get another life, in the node they came from or in another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core import access
from pubqueue.core.access import Action
from pubqueue.core.changes import Revive
from pubqueue.core.decision import (
    Decision,
    Redriven,
    Refusal,
    refuse,
)
from pubqueue.core.model import State

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.core.model import Affiliation, Asker, Item, ItemId, Millis, Node, NodeName


class Redrive(Struct, frozen=True, gc=False):
    """Revive these dead items of the node, or all of them (None), in `to` or where they came from."""

    by: Asker
    node: NodeName
    ids: tuple[ItemId, ...] | None = None
    to: NodeName | None = None


class Grave(Struct, frozen=True, gc=False):
    """A dead item: where it came from, if it came from elsewhere, and whether its id is free there."""

    item: Item
    origin: NodeName | None
    taken: bool


class RedriveFacts(Struct, frozen=True, gc=False):
    """The node, its dead, the ids that were asked for in vain, and the nodes they may go to."""

    now: Millis
    node: Node | None
    affiliation: Affiliation
    graves: tuple[Grave, ...]
    missing: tuple[ItemId, ...]
    targets: Mapping[NodeName, tuple[Node, Affiliation]]


def redrive(request: Redrive, facts: RedriveFacts) -> Decision:
    """Decide a redrive, for owners who may publish where the items go.

    Named items go all or none. Without names, those go that can: not one whose node is gone, or has
    its id by now. The counters begin anew.
    """
    if facts.node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    affiliation = access.standing(request.by, facts.affiliation)
    if not access.may(affiliation, Action.MANAGE, facts.node):
        return refuse(Refusal.FORBIDDEN)
    if facts.missing:
        return refuse(Refusal.ITEM_NOT_FOUND)
    if request.to is not None and request.to not in facts.targets:
        return refuse(Refusal.NODE_NOT_FOUND)
    changes: list[Revive] = []
    for grave in facts.graves:
        to = request.to or grave.origin or grave.item.node
        no = _obstacle(request, facts, grave, to)
        if no is None:
            changes.append(Revive(grave.item, to))
        elif request.ids is not None:
            return refuse(no, f"item {grave.item.id} cannot go to {to}")
    return Decision(Redriven(facts.node.name, len(changes)), tuple(changes))


def _obstacle(request: Redrive, facts: RedriveFacts, grave: Grave, to: NodeName) -> Refusal | None:
    """Return why an item cannot go there, or None."""
    dead = grave.item.state is State.DEAD
    if grave.item.state is State.LOCKED:
        return Refusal.ITEM_LOCKED
    if not dead and (grave.origin is None or to == grave.item.node):
        return Refusal.ITEM_NOT_FOUND  # it lives
    if to == grave.item.node:
        return None
    if to not in facts.targets:
        return Refusal.NODE_NOT_FOUND
    node, affiliation = facts.targets[to]
    if not access.may(access.standing(request.by, affiliation), Action.PUBLISH, node):
        return Refusal.FORBIDDEN
    return Refusal.ITEM_EXISTS if grave.taken else None
