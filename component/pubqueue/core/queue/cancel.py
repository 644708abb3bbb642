"""Cancel: remove items from a queue before they are done, by their ids, or discard its dead items with a reason.

The row *retract* of the table SETTLE decides which principals may cancel which items. An owner may cancel in
any state; the holder of a locked item is notified, as after any retract by an owner (XEP-0254 2.3). The author
of an item may cancel its own. Unlike a retract this does what is possible: ids that do not exist, perhaps
because the work is done, are named in the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.changes import RemoveItem
from pubqueue.core.decision import Cancelled, Decision, Refusal, refuse
from pubqueue.core.model import State
from pubqueue.core.nodes import access
from pubqueue.core.nodes.access import Action
from pubqueue.core.notices import Retracted
from pubqueue.core.queue.settle import Verb, judge, to_holders
from pubqueue.core.reading.inspect import OWNERS, objection
from pubqueue.core.reading.reasons import matches

if TYPE_CHECKING:
    from pubqueue.core.model import Affiliation, Item, ItemId, Node, NodeName, Principal
    from pubqueue.core.queue.settle import SettleFacts

SLICE: Final = 500
"""Dead items that are looked at in one step."""

LOOKED_AT: Final = 10_000
"""Dead items that are looked at for one answer, in steps between which other requests are served."""


class Cancel(Struct, frozen=True, gc=False):
    """Remove those of these items that exist from the queue; with `dead`, only those that are dead."""

    by: Principal
    node: NodeName
    ids: tuple[ItemId, ...]
    dead: bool = False


class Discard(Struct, frozen=True, gc=False):
    """Remove dead items after the number `after` whose reasons match; `looked` and `count` are sums of the steps before."""

    by: Principal
    node: NodeName
    reason: str = ""
    after: int = 0
    looked: int = 0
    count: int = 0


class DiscardFacts(Struct, frozen=True, gc=False):
    """The node, and the next of its dead items."""

    node: Node | None
    affiliation: Affiliation
    items: tuple[Item, ...] = ()


def cancel(request: Cancel, facts: SettleFacts) -> Decision:
    """Decide which items are removed."""
    there = tuple(item for item in facts.items if item is not None)
    node = _open_to(request.by, facts, there)
    if isinstance(node, Decision):
        return node
    if not node.config.queueing:
        return refuse(Refusal.NOT_A_QUEUE)
    gone = tuple(item for item in there if is_dead(item) or not request.dead)
    known = {item.id for item in gone}
    missing = tuple(name for name in request.ids if name not in known)
    held = sum(item.state is State.LOCKED for item in gone)
    changes = tuple(map(RemoveItem, gone))
    reply = Cancelled(node.name, len(gone), held, missing)
    return Decision(reply, changes, to_holders(Retracted, node.name, gone))


def _open_to(by: Principal, facts: SettleFacts, there: tuple[Item, ...]) -> Node | Decision:
    """Return the node if the principal may retract all of the items, otherwise the refusal."""
    if facts.node is not None and access.may(
        access.standing(by, facts.affiliation), Action.MANAGE, facts.node
    ):
        return facts.node  # it means to, whether or not it has held the items itself
    return judge(by, Verb.RETRACT, replace(facts, items=there) if there else facts)


def is_dead(item: Item) -> bool:
    """Return whether an item is dead, here or in its original node, and not locked."""
    return item.dead_letter is not None and item.state is not State.LOCKED


def discard(request: Discard, facts: DiscardFacts) -> Decision:
    """Decide a step: which of these dead items are removed, and whether another step follows at once."""
    no = objection(request.by, facts.node, facts.affiliation)
    if no is not None or facts.node is None:
        return refuse(no or Refusal.NODE_NOT_FOUND, OWNERS if no is Refusal.FORBIDDEN else "")
    gone = tuple(item for item in facts.items if is_of(request.reason, item))
    count, looked = request.count + len(gone), request.looked + len(facts.items)
    more = len(facts.items) == SLICE
    through = facts.items[-1].seq if more else 0
    then = None
    if more and looked < LOOKED_AT:
        then = replace(request, after=through, looked=looked, count=count)
    reply = Cancelled(facts.node.name, count, through=through)
    return Decision(reply, tuple(map(RemoveItem, gone)), then=then)


def is_of(reason: str, item: Item) -> bool:
    """Return whether a dead item has died for this reason."""
    return item.dead_letter is not None and matches(reason, item.dead_letter.reason)
