"""Who hears of what happens in a node with very many subscribers: they are read in pages, as they can be told.

Nothing that is told to a crowd is made for all of them at once. While a page is being told others are served, and the
next page is read when the one before has left. Those who subscribed to a node that is deleted are told in the same way;
their subscriptions go page by page as they have been told, so that a process that ends meanwhile leaves nobody out.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # msgspec reads it
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.changes import DropFormer
from pubqueue.core.decision import Decision, SubscriberPage, Unnotified
from pubqueue.core.model import Jid, Principal

if TYPE_CHECKING:
    from pubqueue.core.model import NodeName

CROWD: Final = 1000
"""Subscribers from which on they are not told of at once."""

PAGE: Final = 500
"""Subscribers that are read, told and parted with at once."""

SERVICE: Final = Principal(Jid(""))
"""In whose name pages are read."""


class NextSubscribers(Struct, frozen=True, gc=False):
    """Read the next subscribers of the node, by JID."""

    node: NodeName
    after: Jid | None = None
    by: Principal = SERVICE


class NotifyFormer(Struct, frozen=True, gc=False):
    """Part with those who subscribed to deleted nodes of this name, up to `notified`, and read who is to be told next."""

    node: NodeName
    notified: Jid | None = None


class ListUnnotified(Struct, frozen=True, gc=False):
    """Read which deleted nodes there are of whose end not everybody has been told, numbered behind `after`."""

    after: int = 0
    by: Principal = SERVICE


class UnnotifiedFacts(Struct, frozen=True, gc=False):
    """The next of them, with their numbers."""

    nodes: tuple[tuple[int, NodeName], ...]


class PageFacts(Struct, frozen=True, gc=False):
    """The next of them; `again` are those who subscribe to a new node of the same name.

    `notified` are those who are to be told of the page, where these are not all. `subids` are the ids of those who subscribe
    several times.
    """

    page: tuple[Jid, ...]
    again: frozenset[Jid] = frozenset()
    notified: tuple[Jid, ...] | None = None
    subids: Mapping[Jid, tuple[str, ...]] = {}


def next_subscribers(_request: NextSubscribers, facts: PageFacts) -> Decision:
    """Name the next subscribers, and where there may be more."""
    more = len(facts.page) >= PAGE
    notified = facts.page if facts.notified is None else facts.notified
    return Decision(SubscriberPage(notified, facts.page[-1] if more else None, facts.subids))


def notify_former(request: NotifyFormer, facts: PageFacts) -> Decision:
    """Name who is to be told next. Whoever subscribes to a new node of that name would take it for the end of that."""
    page = tuple(jid for jid in facts.page if jid not in facts.again)
    if not facts.page:
        return Decision(SubscriberPage((), None), (DropFormer(request.node, None),))
    parted = () if request.notified is None else (DropFormer(request.node, request.notified),)
    return Decision(SubscriberPage(page, facts.page[-1]), parted)


def list_unnotified(_request: ListUnnotified, facts: UnnotifiedFacts) -> Decision:
    """Name them."""
    more = len(facts.nodes) >= PAGE
    names = tuple(name for _, name in facts.nodes)
    return Decision(Unnotified(names, facts.nodes[-1][0] if more else None))
