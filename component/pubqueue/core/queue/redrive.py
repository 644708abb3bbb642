"""Redrive: dead items are queued again, in the node they came from or in another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.changes import Revive
from pubqueue.core.decision import (
    Decision,
    Redriven,
    Refusal,
    refuse,
)
from pubqueue.core.model import State
from pubqueue.core.nodes import access
from pubqueue.core.nodes.access import Action
from pubqueue.core.nodes.room import left_in
from pubqueue.core.queue.cancel import LOOKED_AT
from pubqueue.core.queue.force_unlock import absent
from pubqueue.core.queue.publish import turned_away

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.core.limits.allowance import Allowance
    from pubqueue.core.model import (
        Affiliation,
        Item,
        ItemId,
        Jid,
        Millis,
        Node,
        NodeName,
        Principal,
    )


class Redrive(Struct, frozen=True, gc=False):
    """Redrive these dead items of the node, or all of them (None), to `to` or to the node they came from.

    With a `reason` (a pattern, `core.reading.reasons`) only those that died of it; then `after`, `looked`
    and `count` are sums of the steps before.
    """

    by: Principal
    node: NodeName
    ids: tuple[ItemId, ...] | None = None
    to: NodeName | None = None
    reason: str = ""
    after: int = 0
    looked: int = 0
    count: int = 0


class Candidate(Struct, frozen=True, gc=False):
    """An item to redrive, and whether its id is taken in the destination.

    For an item that goes to another node `size` and `space` are the bytes and the namespace of its
    payload.
    """

    item: Item
    taken: bool
    size: int = 1
    space: str = ""

    @property
    def origin(self) -> NodeName | None:
        """The node that it came from, if it died in another."""
        return self.item.dead_letter.origin if self.item.dead_letter else None


class RedriveFacts(Struct, frozen=True, gc=False):
    """The node, its dead, the requested ids that do not exist, and the destinations.

    With a reason, `looked` dead items were examined, up to the number `through`, and more may
    follow.
    """

    now: Millis
    node: Node | None
    affiliation: Affiliation
    candidates: tuple[Candidate, ...]
    missing: tuple[ItemId, ...]
    targets: Mapping[NodeName, tuple[Node, Affiliation]]
    looked: int = 0
    through: int = 0
    allowances: Mapping[NodeName, Allowance | None] = {}
    """Of the accounts that created the nodes that they may go to; None if they have no limits."""


class _Rooms:
    """How much more each node accepts, and each account that pays for some of them."""

    def __init__(self, facts: RedriveFacts) -> None:
        self._facts = facts
        self._nodes = {name: left_in(target) for name, (target, _) in facts.targets.items()}
        self._taken: dict[Jid, tuple[int, int]] = {}

    def take(self, item: Item, to: NodeName) -> Refusal | None:
        """Take room for the item in another node, or return why there is none."""
        if to == item.node:
            return None
        (room, left), allowance = self._nodes[to], self._facts.allowances.get(to)
        if (room is not None and room <= 0) or (left is not None and left < item.size):
            return Refusal.NODE_FULL
        if allowance is not None and self._is_another(allowance):
            account = allowance.holding.account
            items, size = self._taken.get(account, (0, 0))
            taken = items + 1, size + item.size
            if (no := allowance.refuses(*taken)) is not None:
                return no.refusal
            self._taken[account] = taken
        self._nodes[to] = (
            None if room is None else room - 1,
            None if left is None else left - item.size,
        )
        return None

    def _is_another(self, allowance: Allowance) -> bool:
        """Return whether another account pays for the item in its destination."""
        node = self._facts.node
        return node is None or node.creator != allowance.holding.account


def redrive(request: Redrive, facts: RedriveFacts) -> Decision:
    """Decide a redrive, for owners who may publish to the destinations.

    Named items go all or none. Without names, all possible ones go: not an item whose destination
    does not exist, is full, or already has its id. The counters restart at 0.
    """
    no = objection(request.by, facts.node, facts.affiliation)
    if no is not None or facts.node is None:
        return refuse(no or Refusal.NODE_NOT_FOUND)
    if facts.missing:
        return refuse(Refusal.ITEM_NOT_FOUND, absent(request.node, facts.missing))
    if request.to is not None and request.to not in facts.targets:
        return refuse(Refusal.NODE_NOT_FOUND)
    changes: list[Revive] = []
    rooms = _Rooms(facts)
    for candidate in facts.candidates:
        to = request.to or candidate.origin or candidate.item.node
        no = _obstacle(request, facts, candidate, to) or rooms.take(candidate.item, to)
        if no is None:
            changes.append(Revive(candidate.item, to))
        elif request.ids is not None:
            return refuse(no, _sentence(no, candidate.item, to))
    return _in_steps(request, facts, facts.node.name, tuple(changes))


def _in_steps(
    request: Redrive, facts: RedriveFacts, name: NodeName, changes: tuple[Revive, ...]
) -> Decision:
    """Continue at once with the next dead items that may have the reason, as many as one answer may have."""
    count, looked = request.count + len(changes), request.looked + facts.looked
    then = None
    if facts.through and looked < LOOKED_AT:
        then = replace(request, after=facts.through, looked=looked, count=count)
    return Decision(Redriven(name, count, facts.through), changes, then=then)


def objection(by: Principal, node: Node | None, affiliation: Affiliation) -> Refusal | None:
    """Return why the principal may not redrive anything here; no item has to be loaded for that."""
    if node is None:
        return Refusal.NODE_NOT_FOUND
    manages = access.may(access.standing(by, affiliation), Action.MANAGE, node)
    return None if manages else Refusal.FORBIDDEN


def _obstacle(
    request: Redrive, facts: RedriveFacts, candidate: Candidate, to: NodeName
) -> Refusal | None:
    """Return why an item cannot go there, or None."""
    dead = candidate.item.state is State.DEAD
    if candidate.item.state is State.LOCKED:
        return Refusal.ITEM_LOCKED
    if not dead and (candidate.origin is None or to == candidate.item.node):
        return Refusal.ITEM_NOT_FOUND  # it lives
    if to == candidate.item.node:
        return None
    if to not in facts.targets:
        return Refusal.NODE_NOT_FOUND
    node, affiliation = facts.targets[to]
    if request.to is None and node.created > candidate.item.published:
        return (
            Refusal.NODE_NOT_FOUND
        )  # another account has taken the name of the node that it came from
    what = candidate.item, candidate.size, candidate.space
    no = turned_away(request.by, affiliation, node, *what, subscribed=False)
    if no is not None:
        return no.refusal
    return Refusal.ITEM_EXISTS if candidate.taken else None


def _sentence(no: Refusal, item: Item, to: NodeName) -> str:
    if no is Refusal.ITEM_NOT_FOUND:
        return f"item {item.id} is not dead"
    return f"item {item.id} cannot go to {to}"
