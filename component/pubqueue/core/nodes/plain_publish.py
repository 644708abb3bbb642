"""Publishing to a plain node (XEP-0060 4.3, 7.1).

A persistent node keeps its newest items, up to its limit; at the limit it drops its oldest, or
refuses new ones. A transient node keeps only the last one, for requests and later subscribers
(12.10). A transient node that delivers no payloads keeps nothing: the notice only says that
something has happened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pubqueue.core.changes import AddItem, RemoveItem
from pubqueue.core.decision import Decision, Published
from pubqueue.core.model import NodeFull
from pubqueue.core.nodes.notifications import announce, notify
from pubqueue.core.nodes.room import Growth, first_to_go, growth_by, is_bounded, surplus
from pubqueue.core.notices import NOBODY, Retracted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.core.changes import Change
    from pubqueue.core.model import Item, Node
    from pubqueue.core.queue.publication import Publish, PublishFacts


def publish(request: Publish, facts: PublishFacts, node: Node, adds: Sequence[AddItem]) -> Decision:
    """Decide what happens to the items, which may be published to this node."""
    changes, dropped = _changes(facts, node, adds)
    ids = tuple([draft.id for draft in request.drafts])
    by, audience = request.by.account, facts.audience
    announced = [news for draft in request.drafts for news in announce(node, audience, draft, by)]
    if not request.drafts:
        announced += announce(node, audience, None, by)
    if dropped and drops_loudly(node):
        gone = tuple(item.id for item in dropped)
        announced += notify(node, audience, Retracted(NOBODY, node.name, gone))
    replaced = tuple([item.id for _, item in facts.existing if item is not None])
    return Decision(Published(node.name, ids, replaced=replaced), tuple(changes), tuple(announced))


def _changes(
    facts: PublishFacts, node: Node, adds: Sequence[AddItem]
) -> tuple[list[Change], Sequence[Item]]:
    """Return the changes, and which items have to be removed for lack of room."""
    if not node.config.persist_items:
        kept = adds[-1:] if node.config.keeps else ()
        last = {item.seq: item for item in facts.oldest}
        last |= {item.seq: item for _, item in facts.existing if item is not None}
        return [*map(RemoveItem, last.values()), *kept], ()
    replaced = [item for _, item in facts.existing if item is not None]
    dropped = _for_want_of_room(facts, node, adds, replaced)
    # XEP-0060 7.1.2: an item that is overwritten is the newest in the order
    pairs = zip(adds, facts.existing, strict=True)
    comes = [replace(add, instead=item.seq) if item else add for add, (_, item) in pairs]
    return [*map(RemoveItem, (*replaced, *dropped)), *comes], dropped


def _for_want_of_room(
    facts: PublishFacts, node: Node, adds: Sequence[AddItem], replaced: Sequence[Item]
) -> Sequence[Item]:
    """Return the oldest items, which are removed; if those that were loaded are not enough, a trim removes the others."""
    if not is_bounded(node.config):
        return ()
    more = growth_by([add.draft for add in adds], replaced)
    over = surplus(node, *room_for(node), more)
    items = min(len(adds), over.items) if more.items > 0 else 0
    over = Growth(items, over.bytes if more.bytes > 0 else 0)
    stay = {item.seq for item in replaced}
    others = [item for item in facts.oldest if item.seq not in stay]
    return first_to_go(others, over)


def drops_loudly(node: Node) -> bool:
    """Return whether subscribers are notified of items that are dropped because the node is full (XEP-0060 7.1.2.5)."""
    config = node.config
    return config.notify_retract and config.publish_node_full is NodeFull.RETRACT_OLDEST


def room_for(node: Node) -> tuple[int | None, int | None]:
    """Return how many items, and bytes, a plain node keeps; None for any number."""
    config = node.config
    if not config.persist_items:
        return (1 if config.keeps else 0), None
    if config.publish_node_full is NodeFull.REJECT:
        return None, None
    return config.max_items, config.max_bytes
