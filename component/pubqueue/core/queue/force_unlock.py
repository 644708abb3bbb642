"""An owner ends locks of other accounts: of named items, or of one subscriber, whose subscription may end too.

Retract and unlock (`settle`) cannot do that: they apply to one's own work. This is for operators of
the queue, for workers that hang or have to be removed. No failure is counted, so the items wait again
at once, and avoid the same worker while another one is available.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.decision import Decision, Refusal, refuse
from pubqueue.core.model import Affiliation, State
from pubqueue.core.nodes.subscriptions.changes import EndSubscription
from pubqueue.core.notices import Unlocked
from pubqueue.core.queue.give_back import release
from pubqueue.core.reading.inspect import OWNERS, objection
from pubqueue.core.reading.summaries import Freed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.core.changes import Change
    from pubqueue.core.model import Item, ItemId, Jid, Millis, Node, NodeName, Principal

NOT_LOCKED: Final = "no worker holds item {}"


def absent(node: NodeName, ids: Sequence[ItemId]) -> str:
    """Return a sentence that names the first of the missing items."""
    more = f", and {len(ids) - 1} more of these" if len(ids) > 1 else ""
    return f"{node} has no item {ids[0]}{more}"


class FreeLocks(Struct, frozen=True, gc=False):
    """End the locks of these items, all or none."""

    by: Principal
    node: NodeName
    ids: tuple[ItemId, ...]


class Dismiss(Struct, frozen=True, gc=False):
    """End the subscription of exactly this JID, and with `freeing` the locks that it holds of the node."""

    by: Principal
    node: NodeName
    jid: Jid
    freeing: bool = True


class FreeHeld(Struct, frozen=True, gc=False):
    """Free the next of the items that the JID held in the node when it was dismissed: after `after`, with tokens below `unused`.

    `freed` were freed in the slices before.
    """

    node: NodeName
    jid: Jid
    unused: int
    after: int
    freed: int


class FreeFacts(Struct, frozen=True, gc=False):
    """The node, and the items that are named or held; None for an item that does not exist. `subscribed` is about the JID.

    The JID may hold more after the number `last`, None at the end; all locks given so far are below
    the token `unused`.
    """

    now: Millis
    node: Node | None
    affiliation: Affiliation = Affiliation.NONE
    items: tuple[Item | None, ...] = ()
    subscribed: bool = False
    last: int | None = None
    unused: int = 0


def free_locks(request: FreeLocks, facts: FreeFacts) -> Decision:
    """Decide whether the locks end; the holders are notified, as after an unlock (XEP-0254 2.4)."""
    node = _managed(request.by, facts)
    if isinstance(node, Decision):
        return node
    items = [item for item in facts.items if item is not None]
    if len(items) < len(facts.items):
        there = {item.id for item in items}
        gone = [name for name in request.ids if name not in there]
        return refuse(Refusal.ITEM_NOT_FOUND, absent(node.name, gone))
    for item in items:
        if item.state is not State.LOCKED:
            return refuse(Refusal.LOCK_LOST, NOT_LOCKED.format(item.id))
    return _freed(node, items, facts, ())


def dismiss(request: Dismiss, facts: FreeFacts) -> Decision:
    """Decide whether the subscription ends; without `freeing` its locks stay until settled or timed out."""
    node = _managed(request.by, facts)
    if isinstance(node, Decision):
        return node
    if not facts.subscribed:
        return refuse(Refusal.NOT_SUBSCRIBED, f"{request.jid} does not subscribe to {node.name}")
    items = [item for item in facts.items if item is not None and request.freeing]
    done = _freed(node, items, facts, (EndSubscription(node.name, request.jid),))
    if facts.last is None or not request.freeing:
        return done
    rest = FreeHeld(node.name, request.jid, facts.unused, facts.last, len(items))
    return replace(done, then=rest)


def free_held(request: FreeHeld, facts: FreeFacts) -> Decision:
    """Free a slice of the remaining items. Those that remain when the service is killed stay locked until settled or timed out."""
    if facts.node is None:
        return Decision(Freed(request.node, request.freed))
    items = [item for item in facts.items if item is not None and item.token < request.unused]
    count = request.freed + len(items)
    done = _freed(facts.node, items, facts, ())
    then = None if facts.last is None else replace(request, after=facts.last, freed=count)
    return replace(done, reply=Freed(request.node, count), then=then)


def _managed(by: Principal, facts: FreeFacts) -> Node | Decision:
    no = objection(by, facts.node, facts.affiliation)
    if no is not None or facts.node is None:
        return refuse(no or Refusal.NODE_NOT_FOUND, OWNERS if no is Refusal.FORBIDDEN else "")
    return facts.node


def _freed(node: Node, items: list[Item], facts: FreeFacts, first: tuple[Change, ...]) -> Decision:
    freed = tuple(release(item, node, facts.now) for item in items)
    held: dict[Jid, list[ItemId]] = {}
    for item in items:
        if item.holder is not None:
            held.setdefault(item.holder, []).append(item.id)
    notices = tuple(Unlocked(holder, node.name, tuple(ids)) for holder, ids in held.items())
    return Decision(Freed(node.name, len(items)), (*first, *freed), notices)
