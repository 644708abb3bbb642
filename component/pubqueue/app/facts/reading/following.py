"""Facts for readers that follow a plain node: its items after a number, as many as fit into one answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.app.facts.nodes.managing import owners_to_notify
from pubqueue.app.facts.oldest import oldest
from pubqueue.app.store.item_listings import Items, NewestItem, NewestItems
from pubqueue.rules.retrieve import AskNewestFacts, ReadNewerFacts, no_page

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.rules.retrieve import AskNewest, ReadNewer

MAX_ITEMS: Final = 500
"""Up to how many items one answer has."""

LAST: Final = 1 << 62
"""A number that no item has; a higher one is not a number of the store."""


def for_newer(context: Context, request: ReadNewer) -> ReadNewerFacts:
    """Return the next items; none if the principal may not see any, and none of a queue."""
    rows = context.rows
    node = rows.node(request.node)
    rights = rows.rights(request.node, request.by.account)
    facts = ReadNewerFacts(node, *rights, owners=owners_to_notify(rows, node))
    if rows.lacking or no_page(request, facts) is not None:
        return facts
    newest = next(iter(rows.page(NewestItem(request.node, dead=False))), 0)
    if request.after is None:
        return replace(facts, newest=newest)
    after = max(0, min(request.after, LAST))
    limit = MAX_ITEMS if request.most is None else max(1, min(request.most, MAX_ITEMS))
    found = rows.page(Items(request.node, room=request.room), after, limit)
    kept = not after or _is_kept(rows, request, after)
    return replace(facts, items=tuple(found), newest=newest, kept=kept)


def _is_kept(rows: WorkingSet, request: ReadNewer, number: int) -> bool:
    """Return whether the item of the number is still in the node."""
    return [item.seq for item in oldest(rows, request.node, 1, number - 1)] == [number]


def for_newest(context: Context, request: AskNewest) -> AskNewestFacts:
    """Return the highest number in each of the nodes."""
    found = context.rows.page(NewestItems(request.nodes), None, len(request.nodes))
    return AskNewestFacts(tuple(found))
