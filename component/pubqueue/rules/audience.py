"""Nodes with very many subscribers: notices to them, and the end of subscriptions that are no longer allowed."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # msgspec reads it
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import Approve, DropFormer, EndReview, EndSubscriptions
from pubqueue.model.decision import Decision, Done, Read, Request
from pubqueue.model.entities import Jid, Principal, SubscriptionState
from pubqueue.model.notices import NOBODY, SubscriptionChanged, to_each
from pubqueue.model.replies import SubscriberPage, Unnotified
from pubqueue.rules import access
from pubqueue.rules.access import Action
from pubqueue.rules.subscribers import stands_now

if TYPE_CHECKING:
    from pubqueue.model.changes import Change
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Affiliation, Node, NodeName
    from pubqueue.model.notices import News


# Notices to the subscribers of a node with very many of them: read in pages, as fast as notices can be sent.
#
# Notices are never made for all of them at once. While a page is being sent other requests are served, and the
# next page is read when the previous one has been sent. The former subscribers of a deleted node are notified
# in the same way; their subscriptions are removed page by page after the notices, so that a process that ends
# in between leaves no subscriber out.

CROWD: Final = 1000
"""From this number of subscribers on, they are notified in pages."""

PAGE: Final = 500
"""Subscribers that are read, notified and removed at once."""

SERVICE: Final = Principal(Jid(""))
"""The principal in whose name pages are read."""


class NextSubscribers(Read, frozen=True, gc=False):
    """Read the next subscribers of the node, by JID."""

    node: NodeName
    after: Jid | None = None


class NotifyFormer(Request, frozen=True, gc=False):
    """Drop the former subscribers of deleted nodes of this name, up to `notified`, and read the next ones to notify."""

    node: NodeName
    notified: Jid | None = None


class ListUnnotified(Read, frozen=True, gc=False):
    """List the deleted nodes that still have subscribers to notify, numbered after `after`."""

    after: int = 0


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


# Ends subscriptions that are no longer allowed after a node is closed, if there are very many: page by page.
#
# The settings hold at once, so that no new ones are made. The review is stored with the settings, so
# that it will be completed whatever happens.


class ReviewSubscribers(Request, frozen=True, gc=False):
    """Review the subscribers of the node after `after`; the requester is sent `reply` after the last page."""

    node: NodeName
    reply: Reply | None = None
    after: Jid | None = None


class ReviewFacts(Struct, frozen=True, gc=False):
    """The next of them by JID, each with its account's affiliation and the state of its subscription."""

    node: Node | None
    page: tuple[tuple[Jid, Affiliation, SubscriptionState], ...]


class ResumeReviews(Request, frozen=True, gc=False):
    """Continue with a review that was not finished when the process ended."""


class ResumeReviewFacts(Struct, frozen=True, gc=False):
    """A node whose subscribers are still to be reviewed."""

    node: NodeName | None


def review(request: ReviewSubscribers, facts: ReviewFacts) -> Decision:
    """End the subscriptions on this page that would be refused now, and approve those that need no approval."""
    node, reply = facts.node, request.reply or Done()
    if node is None:
        return Decision(reply)
    ended = tuple(
        jid for jid, is_a, _ in facts.page if not access.may(is_a, Action.SUBSCRIBE, node)
    )
    stand = tuple(
        jid
        for jid, is_a, state in facts.page
        if access.may(is_a, Action.SUBSCRIBE, node) and stands_now(state, is_a, node)
    )
    changes: tuple[Change, ...] = tuple(Approve(node.name, jid) for jid in stand)
    changes += (EndSubscriptions(node.name, ended),) if ended else ()
    announced = _announcements(node, ended, SubscriptionState.NONE)
    announced += _announcements(node, stand, SubscriptionState.SUBSCRIBED)
    if len(facts.page) < PAGE:
        return Decision(reply, (*changes, EndReview(node.name)), announced)
    return Decision(reply, changes, announced, then=replace(request, after=facts.page[-1][0]))


def _announcements(node: Node, jids: tuple[Jid, ...], state: SubscriptionState) -> tuple[News, ...]:
    return to_each(jids, SubscriptionChanged(NOBODY, node.name, state))


def resume(_request: ResumeReviews, facts: ResumeReviewFacts) -> Decision:
    """Continue with a node whose subscribers are still to be reviewed."""
    then = None if facts.node is None else ReviewSubscribers(facts.node)
    return Decision(Done(), then=then)
