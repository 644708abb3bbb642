"""Facts for principals that create, change and look at one node, or subscribe to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.app.facts.queue.publishing import all_subscriptions, others, others_of, subscribers
from pubqueue.app.store.item_listings import Items
from pubqueue.app.store.listings import AffiliationsOf, SubscriptionsOf
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    NodeConfig,
    NodeName,
    SendLast,
    SubscriptionState,
    account_of,
)
from pubqueue.model.notices import Everybody
from pubqueue.model.several_subscriptions import counted
from pubqueue.rules import access, nodes
from pubqueue.rules.access import NOTHING_NAMED
from pubqueue.rules.declare import Declare
from pubqueue.rules.discovery import Describe
from pubqueue.rules.feed import Feeder
from pubqueue.rules.nodeconfig import configure
from pubqueue.rules.nodes import Configure, Create, Delete, NodeFacts, Purge
from pubqueue.rules.subscribe import DefaultFacts, Subscribe, SubscribeFacts
from pubqueue.rules.subscribers import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.app.facts.context import Context
    from pubqueue.app.store.rows import AffiliationRow
    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.model.entities import Item, Jid, Node, Principal
    from pubqueue.rules.access import Others
    from pubqueue.rules.nodeconfig import Settings
    from pubqueue.rules.nodes import SetAffiliations
    from pubqueue.rules.subscribe import GetDefaultOptions, SetOptions, Unsubscribe

    Pairs = tuple[tuple[Jid, Affiliation], ...]

MAX_OWNERS: Final = 100
"""Up to how many owners, and publishers, a description of a node names."""

ALL: Final = 1 << 30


def for_subscription(
    context: Context, request: Subscribe | SetOptions | Unsubscribe
) -> SubscribeFacts:
    """Return the subscription that the request names."""
    rows = context.rows
    subscription = rows.subscription(request.node, request.jid)
    node = rows.node(request.node)
    anew = not subscription or (node is not None and node.config.multi_subscribe)
    return SubscribeFacts(
        now=context.now,
        node=node,
        affiliation=rows.affiliation(request.node, request.by.account),
        subscription=subscription,
        held=0 if subscription else rows.count_held(request.jid, request.node),
        of_account=counted(rows.subscriptions_in(request.node, request.by.account)),
        most=context.terms.max_subscriptions,
        last=last_to_send(rows, node) if isinstance(request, Subscribe) and anew else None,
        owners=owners_to_notify(rows, node),
        came=context.came(request.by.account) if isinstance(request, Subscribe) else (),
        here=tuple(rows.resources(request.by.account)) if isinstance(request, Subscribe) else (),
    )


def last_to_send(rows: WorkingSet, node: Node | None) -> tuple[Item, bytes] | None:
    """Return the newest item of a node that sends it to new subscribers."""
    if node is None or node.config.send_last_published_item is not SendLast.ON_SUB:
        return None
    return next(iter(rows.page(Items(node.name, newest=True))), None)


def owners_to_notify(rows: WorkingSet, node: Node | None) -> tuple[Jid, ...]:
    """Return owners of a node, if they or their rosters decide on subscriptions, or the node notifies them of these."""
    if node is None:
        return ()
    model = node.config.access_model
    asks = model is AccessModel.AUTHORIZE or model in access.OF_ROSTERS
    if not asks and not node.config.notify_sub:
        return ()
    return tuple(jid for jid, _ in _first(rows, node, _OWNER))


def for_defaults(context: Context, request: GetDefaultOptions) -> DefaultFacts:
    """Return the requested node."""
    if request.node is None:
        return DefaultFacts(None, Affiliation.NONE)
    rows = context.rows
    affiliation = rows.affiliation(request.node, request.by.account)
    return DefaultFacts(rows.node(request.node), affiliation)


def for_node(
    context: Context, request: Create | Declare | Describe | Configure | Delete | Purge
) -> NodeFacts:
    """Return the node, and of its accounts those that the request needs, if the principal may do this."""
    rows, by = context.rows, request.by
    node = rows.counted(request.node)
    affiliation = rows.affiliation(request.node, by.account)
    known = NodeFacts(context.now, node, affiliation, context.terms.policy)
    if isinstance(request, Create | Declare | Configure):
        before = NodeConfig() if node is None else node.config
        known = replace(known, others=others(context, by, before, request.settings))
    if isinstance(request, Create) and access.may_create(by, context.terms.policy):
        known = replace(known, allowance=context.allowance(by.account))
    if node is None or isinstance(request, Create):
        return known
    if isinstance(request, Describe) and not request.manage:
        return replace(known, affiliations=_first(rows, node, _OWNER, *_PUBLISHERS))
    if not nodes.manages(by, node, affiliation):
        return known
    if isinstance(request, Delete):
        known = replace(known, others=around(context, by, node))
    if isinstance(request, Configure | Declare) and node.config.feeds:
        known = replace(known, feeders=feeders(context, node))
    if isinstance(request, Describe):
        return replace(known, affiliations=_first(rows, node, _OWNER))
    if isinstance(request, Configure) and not _is_announced(node, request.settings):
        return known
    return _with_people(context, node, request, known)


def _with_people(
    context: Context, node: Node, request: Declare | Configure | Delete | Purge, known: NodeFacts
) -> NodeFacts:
    """Add the subscribers that are to be notified, or whose subscriptions may have to end."""
    rows = context.rows
    if isinstance(request, Delete | Purge):
        service = context.service.account
        return replace(known, audience=subscribers(context, node), service=service)
    known = replace(
        known,
        audience=subscribers(context, node),
        subscriptions=all_subscriptions(rows, node),
    )
    if isinstance(request, Declare):
        everybody = rows.page(AffiliationsOf(node.name), None, ALL)
        return replace(known, affiliations=_pairs(everybody))
    if isinstance(known.subscriptions, Everybody):
        return known
    accounts = dict.fromkeys(account_of(one.jid) for one in known.subscriptions)
    roles = tuple((account, rows.affiliation(node.name, account)) for account in accounts)
    return replace(known, affiliations=roles)


def around(context: Context, by: Principal, node: Node) -> Others:
    """Return the nodes that feed a node, or that it feeds."""
    source = (NodeName(node.config.source),) if node.config.source else ()
    return others_of(context, by, (*source, *(feed.queue for feed in node.config.feeds)))


def feeders(context: Context, node: Node) -> tuple[Feeder, ...]:
    """Return the queues that a plain node feeds, and the accounts that have set that."""
    rows = context.rows
    return tuple(
        Feeder(
            rows.node(feed.queue),
            feed,
            context.principal(feed.by),
            *rows.rights(node.name, feed.by),
        )
        for feed in node.config.feeds
    )


_OWNER: Final = Affiliation.OWNER
_PUBLISHERS: Final = (Affiliation.PUBLISHER, Affiliation.PUBLISH_ONLY)


def _first(rows: WorkingSet, node: Node, *roles: Affiliation) -> Pairs:
    """Return the first accounts with each of these affiliations."""
    found = (rows.page(AffiliationsOf(node.name, (role,)), None, MAX_OWNERS) for role in roles)
    return tuple(pair for some in found for pair in _pairs(some))


def _pairs(found: Iterable[AffiliationRow]) -> Pairs:
    return tuple((row.account, row.affiliation) for row in found)


def _is_announced(node: Node, settings: Settings) -> bool:
    """Return whether these settings may shut subscribers out, or subscribers are notified of them."""
    after = configure(node.config, settings)
    if not isinstance(after, NodeConfig):
        return False
    return after.notify_config or after.access_model is not node.config.access_model


def for_affiliations(context: Context, request: SetAffiliations) -> NodeFacts:
    """Return the affiliations of the named accounts, and enough owners that another one is among them."""
    rows = context.rows
    node = rows.counted(request.node)
    affiliation = rows.affiliation(request.node, request.by.account)
    known = NodeFacts(context.now, node, affiliation, context.terms.policy)
    if node is None or not nodes.manages(request.by, node, affiliation):
        return known
    named = tuple(dict.fromkeys(account_of(jid) for jid, _ in request.entries))
    listing = AffiliationsOf(node.name, (Affiliation.OWNER,))
    owners = dict(_pairs(rows.page(listing, None, len(named) + 1)))
    roles = {account: rows.affiliation(node.name, account) for account in named}
    there = {account: role for account, role in roles.items() if role is not Affiliation.NONE}
    mine = [rows.subscriptions_in(node.name, account) for account in named]
    asks = node.config.access_model is AccessModel.AUTHORIZE
    asks &= any(is_a is Affiliation.OWNER for _, is_a in request.entries)
    pending = SubscriptionsOf(node.name, SubscriptionState.PENDING)
    return replace(
        known,
        affiliations=tuple((owners | there).items()),
        subscriptions=tuple(one for group in mine for one in group),
        waiting=tuple(rows.page(pending, None, AT_ONCE)) if asks else (),
        feeders=feeders(context, node) if node.config.feeds else (),
        others=around(context, request.by, node) if node.config.source else NOTHING_NAMED,
    )
