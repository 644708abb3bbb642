"""Facts for notices to very many subscribers: the next page of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.facts.queue.publishing import by_presence, here
from pubqueue.app.store.listings import (
    FormerSubscribers,
    Reviews,
    SeveralOf,
    SubscriberRoles,
    Subscribers,
    UnnotifiedNodes,
)
from pubqueue.model.several_subscriptions import subids_of
from pubqueue.rules.audience import PAGE, PageFacts, ResumeReviewFacts, ReviewFacts, UnnotifiedFacts
from pubqueue.rules.subscribers import stands_now

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.rules.audience import (
        ListUnnotified,
        NextSubscribers,
        NotifyFormer,
        ResumeReviews,
        ReviewSubscribers,
    )


def for_next_subscribers(context: Context, request: NextSubscribers) -> PageFacts:
    """Return the next subscribers of the node; of a node that has been deleted since, its former subscribers."""
    rows, node = context.rows, context.rows.node(request.node)
    which = FormerSubscribers(request.node) if node is None else Subscribers(request.node)
    page = tuple(rows.page(which, request.after, PAGE))
    if node is None or not page:
        return PageFacts(page)
    several = rows.page(SeveralOf(request.node, page[-1]), request.after, PAGE)
    notified = here(context, page) if by_presence(node) else None
    return PageFacts(page, notified=notified, subids=subids_of(several))


def for_former(context: Context, request: NotifyFormer) -> PageFacts:
    """Return former subscribers of the deleted node, and those of them that subscribe to a new node of that name."""
    rows = context.rows
    there = rows.node(request.node) is not None
    page = tuple(rows.page(FormerSubscribers(request.node), request.notified, PAGE))
    again = [jid for jid in page if there and rows.subscription(request.node, jid) is not None]
    return PageFacts(page, frozenset(again))


def for_review(context: Context, request: ReviewSubscribers) -> ReviewFacts:
    """Return the next subscribers with their affiliations."""
    rows, node = context.rows, context.rows.node(request.node)
    page = rows.page(SubscriberRoles(request.node), request.after, PAGE)
    for jid, is_a, state in page:
        if node is not None and stands_now(state, is_a, node):
            rows.subscription(request.node, jid)  # its row is about to change
    return ReviewFacts(node, tuple(page))


def for_resume(context: Context, _request: ResumeReviews) -> ResumeReviewFacts:
    """Return a node whose subscribers are to be reviewed."""
    return ResumeReviewFacts(next(iter(context.rows.page(Reviews())), None))


def for_unnotified(context: Context, request: ListUnnotified) -> UnnotifiedFacts:
    """Return the next deleted nodes that still have subscribers to notify."""
    return UnnotifiedFacts(tuple(context.rows.page(UnnotifiedNodes(), request.after, PAGE)))
