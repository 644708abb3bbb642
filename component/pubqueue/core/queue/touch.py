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
from pubqueue.core.queue.settle import Verb, judge

if TYPE_CHECKING:
    from pubqueue.core.model import Item, ItemId, Millis, NodeName, Principal
    from pubqueue.core.queue.settle import SettleFacts


class Touch(Struct, frozen=True, gc=False):
    """Hold these items for `span` from now on, None for the node's own lock timeout; all or none."""

    by: Principal
    node: NodeName
    ids: tuple[ItemId, ...]
    span: Millis | None = None


def touch(request: Touch, facts: SettleFacts) -> Decision:
    """Decide a touch. A principal that may unlock may touch; a touch never brings a deadline nearer."""
    node = judge(request.by, Verb.UNLOCK, facts)
    if isinstance(node, Decision):
        return node
    if not node.config.queueing:
        return refuse(Refusal.NOT_A_QUEUE)
    longest = seconds(node.config.lock_timeout)
    span = longest if request.span is None else min(request.span, longest)
    items = [item for item in facts.items if item is not None]
    extended = tuple(Extend(item, _deadline(item, later(facts.now, span))) for item in items)
    entries = tuple((change.item.id, change.deadline) for change in extended)
    return Decision(Touched(node.name, entries), extended)


def _deadline(item: Item, wanted: Millis) -> Millis:
    return wanted if item.deadline is None else max(item.deadline, wanted)
