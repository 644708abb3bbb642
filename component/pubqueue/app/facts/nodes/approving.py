"""Facts for owners that approve subscriptions, or see and change them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.facts.nodes.listing import next_part, subscriptions_part, total_of
from pubqueue.app.facts.nodes.managing import last_to_send, owners_to_notify
from pubqueue.app.store.listings import Nodes, NodesOfAccount, SubscriptionsOf
from pubqueue.model.entities import AccessModel, Affiliation, SubscriptionState, account_of
from pubqueue.model.several_subscriptions import counted
from pubqueue.rules import nodes
from pubqueue.rules.subscribers import AT_ONCE, AnswerFacts, Named, PendingFacts, SubscribersFacts

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.rules.subscribers import (
        Answer,
        GetSubscriptions,
        ReadPending,
        SendPending,
        SetSubscriptions,
    )


def for_answer(context: Context, request: Answer) -> AnswerFacts:
    """Return the subscription that an owner's answer is about."""
    rows = context.rows
    node = rows.node(request.node)
    return AnswerFacts(
        node,
        rows.affiliation(request.node, request.by.account),
        None if node is None else rows.subscription(node.name, request.jid),
        owners_to_notify(rows, node),
        last_to_send(rows, node) if request.allow else None,
    )


def for_pending(context: Context, request: ReadPending) -> PendingFacts:
    """Return the subscriptions that wait at the node, or the nodes whose subscriptions the principal approves."""
    rows, by, page = context.rows, request.by, request.page
    if request.node is None:
        return _nodes_of(context, request)
    node, affiliation = rows.node(request.node), rows.affiliation(request.node, by.account)
    if node is None or not nodes.manages(by, node, affiliation):
        return PendingFacts(node, affiliation)
    listing = SubscriptionsOf(node.name, SubscriptionState.PENDING)
    found, part = next_part(rows, listing, page, lambda: total_of(rows, listing))
    return PendingFacts(node, affiliation, tuple(found), part=part)


def _nodes_of(context: Context, request: ReadPending) -> PendingFacts:
    rows, by = context.rows, request.by
    model = AccessModel.AUTHORIZE
    if by.admin:
        every = Nodes(model)
        nodes, part = next_part(rows, every, request.page, lambda: total_of(rows, every))
    else:
        mine = NodesOfAccount(by.account, (Affiliation.OWNER,), (model,))
        pairs, part = next_part(rows, mine, request.page, lambda: total_of(rows, mine))
        nodes = [node for node, _ in pairs]
    names = tuple((node.name, node.config.title) for node in nodes)
    return PendingFacts(None, Affiliation.NONE, names=names, part=part)


def for_send(context: Context, request: SendPending) -> PendingFacts:
    """Return the subscriptions that wait at the node, as many as are sent at once."""
    rows, by = context.rows, request.by
    node, affiliation = rows.node(request.node), rows.affiliation(request.node, by.account)
    if node is None or not nodes.manages(by, node, affiliation):
        return PendingFacts(node, affiliation)
    listing = SubscriptionsOf(node.name, SubscriptionState.PENDING)
    return PendingFacts(node, affiliation, tuple(rows.page(listing, None, AT_ONCE)))


def for_get_subscriptions(context: Context, request: GetSubscriptions) -> SubscribersFacts:
    """Return the subscribers of the node, if the principal may know them."""
    rows, by = context.rows, request.by
    node, affiliation = rows.node(request.node), rows.affiliation(request.node, by.account)
    if node is None or not nodes.manages(by, node, affiliation):
        return SubscribersFacts(node, affiliation)
    listing = SubscriptionsOf(node.name)
    found, part = subscriptions_part(rows, listing, request.page)
    return SubscribersFacts(node, affiliation, tuple(found), part)


def for_set_subscriptions(context: Context, request: SetSubscriptions) -> SubscribersFacts:
    """Return the facts about each named JID, if the principal may change anything."""
    rows, by = context.rows, request.by
    node, affiliation = rows.node(request.node), rows.affiliation(request.node, by.account)
    if node is None or not nodes.manages(by, node, affiliation):
        return SubscribersFacts(node, affiliation)
    named = tuple(
        Named(
            rows.subscription(node.name, wish.jid),
            rows.affiliation(node.name, account_of(wish.jid)),
            counted(rows.subscriptions_in(node.name, account_of(wish.jid))),
        )
        for wish in request.wishes
    )
    owners = owners_to_notify(rows, node) if node.config.notify_sub else ()
    most = context.terms.max_subscriptions
    return SubscribersFacts(node, affiliation, named=named, owners=owners, most=most)
