"""Ends subscriptions that are no longer allowed after a node is closed, if there are very many: page by page.

The settings hold at once, so that no new ones are made. The review is stored with the settings, so
that it will be completed whatever happens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.decision import Decision, Done
from pubqueue.core.model import SubscriptionState
from pubqueue.core.nodes import access
from pubqueue.core.nodes.access import Action
from pubqueue.core.nodes.large_audience import PAGE
from pubqueue.core.nodes.subscriptions.changes import Approve, EndReview, EndSubscriptions
from pubqueue.core.nodes.subscriptions.pending import stands_now
from pubqueue.core.notices import NOBODY, SubscriptionChanged, to_each

if TYPE_CHECKING:
    from pubqueue.core.changes import Change
    from pubqueue.core.decision import Reply
    from pubqueue.core.model import Affiliation, Jid, Node, NodeName
    from pubqueue.core.notices import News


class ReviewSubscribers(Struct, frozen=True, gc=False):
    """Review the subscribers of the node after `after`; the requester is sent `reply` after the last page."""

    node: NodeName
    reply: Reply | None = None
    after: Jid | None = None


class ReviewFacts(Struct, frozen=True, gc=False):
    """The next of them by JID, each with its account's affiliation and the state of its subscription."""

    node: Node | None
    page: tuple[tuple[Jid, Affiliation, SubscriptionState], ...]


class ResumeReviews(Struct, frozen=True, gc=False):
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
