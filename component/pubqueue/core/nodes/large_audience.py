"""Notices to the subscribers of a node with very many of them: read in pages, as fast as notices can be sent.

Notices are never made for all of them at once. While a page is being sent other requests are served, and the
next page is read when the previous one has been sent. The former subscribers of a deleted node are notified
in the same way; their subscriptions are removed page by page after the notices, so that a process that ends
in between leaves no subscriber out.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # msgspec reads it
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.changes import DropFormer
from pubqueue.core.decision import Decision
from pubqueue.core.model import Jid, Principal
from pubqueue.core.nodes.replies import SubscriberPage, Unnotified

if TYPE_CHECKING:
    from pubqueue.core.model import NodeName

CROWD: Final = 1000
"""From this number of subscribers on, they are notified in pages."""

PAGE: Final = 500
"""Subscribers that are read, notified and removed at once."""

SERVICE: Final = Principal(Jid(""))
"""The principal in whose name pages are read."""


class NextSubscribers(Struct, frozen=True, gc=False):
    """Read the next subscribers of the node, by JID."""

    node: NodeName
    after: Jid | None = None
    by: Principal = SERVICE


class NotifyFormer(Struct, frozen=True, gc=False):
    """Drop the former subscribers of deleted nodes of this name, up to `notified`, and read the next ones to notify."""

    node: NodeName
    notified: Jid | None = None


class ListUnnotified(Struct, frozen=True, gc=False):
    """List the deleted nodes that still have subscribers to notify, numbered after `after`."""

    after: int = 0
    by: Principal = SERVICE


class UnnotifiedFacts(Struct, frozen=True, gc=False):
    """The next of them, with their numbers."""

    nodes: tuple[tuple[int, NodeName], ...]


class PageFacts(Struct, frozen=True, gc=False):
    """The next subscribers; `again` are those that subscribe to a new node of the same name.

    `notified` are those of the page that are to be notified, if not all are. `subids` are the ids
    of those that subscribe several times.
    """

    page: tuple[Jid, ...]
    again: frozenset[Jid] = frozenset()
    notified: tuple[Jid, ...] | None = None
    subids: Mapping[Jid, tuple[str, ...]] = {}


def next_subscribers(_request: NextSubscribers, facts: PageFacts) -> Decision:
    """Return the next subscribers, and where there may be more."""
    more = len(facts.page) >= PAGE
    notified = facts.page if facts.notified is None else facts.notified
    return Decision(SubscriberPage(notified, facts.page[-1] if more else None, facts.subids))


def notify_former(request: NotifyFormer, facts: PageFacts) -> Decision:
    """Return the next ones to notify.

    A subscriber of a new node of that name is left out: it would take the notice for one about the
    new node.
    """
    page = tuple(jid for jid in facts.page if jid not in facts.again)
    if not facts.page:
        return Decision(SubscriberPage((), None), (DropFormer(request.node, None),))
    parted = () if request.notified is None else (DropFormer(request.node, request.notified),)
    return Decision(SubscriberPage(page, facts.page[-1]), parted)


def list_unnotified(_request: ListUnnotified, facts: UnnotifiedFacts) -> Decision:
    """Return them."""
    more = len(facts.nodes) >= PAGE
    names = tuple(name for _, name in facts.nodes)
    return Decision(Unnotified(names, facts.nodes[-1][0] if more else None))
