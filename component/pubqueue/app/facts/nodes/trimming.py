"""Facts for trims, and for publishes to a full node: the first items of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.facts.oldest import oldest
from pubqueue.app.facts.queue.publishing import audience
from pubqueue.app.store.item_listings import WaitingGroups
from pubqueue.app.store.listings import Trims
from pubqueue.rules import trimming
from pubqueue.rules.room import STATUS_ID, truncates
from pubqueue.rules.trimming import ResumeTrimsFacts, TrimItemsFacts

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.rules.trimming import ResumeTrims, TrimItems


def for_trim(context: Context, request: TrimItems) -> TrimItemsFacts:
    """Return the items that have to be removed next, or those whose lifetimes are to be shortened."""
    rows = context.rows
    node = rows.counted(request.node)
    if node is None:
        return TrimItemsFacts(None, ())
    if request.group is not None:
        limit = trimming.groups_of_slice(node.config)
        groups = rows.page(WaitingGroups(node.name), request.group, limit)
        return TrimItemsFacts(node, (), groups=tuple(groups))
    says_so = truncates(node.config) and rows.item(node.name, STATUS_ID) is not None
    if (over := trimming.excess(node, says_so=says_so)) is not None:
        if node.config.queueing:
            found = oldest(rows, node.name, trimming.SLICE, request.after)
            service = context.service.account
            return TrimItemsFacts(node, found, (), (), context.now, service, says_so)
        many = trimming.SLICE if over.bytes else min(over.items, trimming.SLICE)
        gone = oldest(rows, node.name, many)
        return TrimItemsFacts(node, gone, audience(context, node))
    if node.config.item_expire is None:
        return TrimItemsFacts(node, ())
    return TrimItemsFacts(node, oldest(rows, node.name, trimming.SLICE, request.after))


def for_resume(context: Context, _request: ResumeTrims) -> ResumeTrimsFacts:
    """Return a node that has to be trimmed."""
    return ResumeTrimsFacts(next(iter(context.rows.page(Trims())), None))
