"""Touch: a holder extends its lock while the work goes on. An addition of ours to XEP-0254."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.changes import Extend
from pubqueue.core.decision import (
    Decision,
    Refusal,
    Touched,
    refuse,
)
from pubqueue.core.model import later, seconds
from pubqueue.core.notices import Unlocked
from pubqueue.core.queue.give_back import release
from pubqueue.core.queue.settle import Verb, judge, to_holders

if TYPE_CHECKING:
    from pubqueue.core.model import Item, ItemId, Millis, Node, NodeName, Principal
    from pubqueue.core.queue.settle import SettleFacts


class Touch(Struct, frozen=True, gc=False):
    """Hold these items for `span` from now on, None for the node's own lock timeout; all or none.

    The node may let a lock be extended for longer than its timeout (`lock_longest`).

    The lock timeout of a subscription is for new locks: its holder may touch them for as long as the node allows.

    `token` names the lock that is meant. With `exact` the deadline may come nearer too, and a span of 0
    releases the items at once, which is no failure.
    """

    by: Principal
    node: NodeName
    ids: tuple[ItemId, ...]
    span: Millis | None = None
    token: int | None = None
    exact: bool = False


def touch(request: Touch, facts: SettleFacts) -> Decision:
    """Decide a touch. A principal that may unlock may touch; only an exact touch brings a deadline nearer."""
    node = judge(request.by, Verb.UNLOCK, facts, token=request.token)
    if isinstance(node, Decision):
        return node
    if not node.config.queueing:
        return refuse(Refusal.NOT_A_QUEUE)
    span = request.span
    if span is None:
        span = seconds(node.config.lock_timeout)
    span = min(span, seconds(node.config.longest_lock))
    items = [item for item in facts.items if item is not None]
    if request.exact and not span:
        return _release(node, items, facts.now)
    end = later(facts.now, span)
    extended = tuple(
        [Extend(item, end if request.exact else _furthest(item, end)) for item in items]
    )
    entries = tuple((change.item.id, change.deadline) for change in extended)
    return Decision(Touched(node.name, entries), extended)


def _furthest(item: Item, wanted: Millis) -> Millis:
    return wanted if item.deadline is None else max(item.deadline, wanted)


def _release(node: Node, items: list[Item], now: Millis) -> Decision:
    """Release the items, as an unlock without an outcome does."""
    freed = tuple(release(item, node, now) for item in items)
    reply = Touched(node.name, tuple((item.id, now) for item in items))
    return Decision(reply, freed, to_holders(Unlocked, node.name, items))
