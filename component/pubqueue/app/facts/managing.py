"""For nodes, subscriptions and those around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app.listings import AffiliationsOf, AffiliationsOfAccount, ItemIds, Nodes
from pubqueue.core.addresses import account_of
from pubqueue.core.model import Affiliation
from pubqueue.core.nodes.account import AffiliationFacts, SubscriptionFacts
from pubqueue.core.nodes.manage import NodeFacts, NodeListFacts
from pubqueue.core.nodes.subscribe import SubscribeFacts

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.app.working_set import WorkingSet
    from pubqueue.core.model import Jid, Node, NodeName
    from pubqueue.core.nodes.account import ListMyAffiliations, ListMySubscriptions
    from pubqueue.core.nodes.declare import Declare
    from pubqueue.core.nodes.manage import (
        Configure,
        Create,
        Delete,
        Describe,
        GetAffiliations,
        ListItems,
        ListNodes,
        Purge,
        SetAffiliations,
    )
    from pubqueue.core.nodes.subscribe import SetOptions, Subscribe, Unsubscribe

SHOWN: Final = 1000
"""How many item ids a listing names at most."""

ALL: Final = 1 << 30


def for_subscription(
    context: Context, request: Subscribe | SetOptions | Unsubscribe
) -> SubscribeFacts:
    """Return the subscription that the request is about."""
    rows = context.rows
    subscription = rows.subscription(request.node, request.jid)
    return SubscribeFacts(
        now=context.now,
        node=rows.node(request.node),
        affiliation=rows.affiliation(request.node, request.by.account),
        subscription=subscription,
        held=0 if subscription else _held_in(rows, request.node, request.jid),
        of_account=rows.subscription_count(request.node, request.by.account),
        most=context.most_subscriptions,
    )


def _held_in(rows: WorkingSet, node: NodeName, jid: Jid) -> int:
    """Count what the JID still holds of the node, of an earlier subscription."""
    return sum(item.node == node for item in rows.held_by(jid))


def for_node(
    context: Context,
    request: Create
    | Declare
    | Describe
    | Configure
    | Delete
    | Purge
    | GetAffiliations
    | SetAffiliations,
) -> NodeFacts:
    """Return the node and everybody around it."""
    rows = context.rows
    node = rows.counted(request.node)
    affiliation = rows.affiliation(request.node, request.by.account)
    if node is None:
        return NodeFacts(context.now, None, affiliation, context.policy)
    everybody = rows.page(AffiliationsOf(request.node), None, ALL)
    return NodeFacts(
        now=context.now,
        node=node,
        affiliation=affiliation,
        policy=context.policy,
        audience=tuple(subscription.jid for subscription in rows.subscribers(request.node)),
        affiliations=tuple((row.account, row.affiliation) for row in everybody),
    )


def for_items(context: Context, request: ListItems) -> NodeFacts:
    """Return the node and the ids of its oldest items."""
    rows = context.rows
    node = rows.node(request.node)
    affiliation = rows.affiliation(request.node, request.by.account)
    ids = () if node is None else tuple(rows.page(ItemIds(request.node), None, SHOWN))
    return NodeFacts(context.now, node, affiliation, items=ids)


def all_nodes(rows: WorkingSet, account: Jid) -> list[tuple[Node, Affiliation]]:
    """Return every node, by name, each with what the account is to it."""
    roles = {
        row.node: row.affiliation for row in rows.page(AffiliationsOfAccount(account), None, ALL)
    }
    nodes = rows.page(Nodes(), None, ALL)
    return [(node, roles.get(node.name, Affiliation.NONE)) for node in nodes]


def for_nodes(context: Context, request: ListNodes) -> NodeListFacts:
    """Return every node, each with what the asker is to it."""
    return NodeListFacts(tuple(all_nodes(context.rows, request.by.account)))


def for_my_affiliations(context: Context, request: ListMyAffiliations) -> AffiliationFacts:
    """Return what the account is to the nodes asked about."""
    rows, account = context.rows, request.by.account
    if request.node is None:
        found = all_nodes(rows, account)
    else:
        node = rows.node(request.node)
        found = [] if node is None else [(node, rows.affiliation(node.name, account))]
    return AffiliationFacts(tuple((node.name, affiliation) for node, affiliation in found))


def for_my_subscriptions(context: Context, request: ListMySubscriptions) -> SubscriptionFacts:
    """Return the account's subscriptions to the nodes asked about."""
    rows, asked = context.rows, request.node
    mine = rows.subscriptions_of_account(account_of(request.by.jid))
    entries = tuple(one for one in mine if asked in {None, one.node})
    return SubscriptionFacts(asked is None or rows.node(asked) is not None, entries)
