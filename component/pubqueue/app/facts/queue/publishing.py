"""Facts for publishes, staged ones too: the items that already have the ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pubqueue.app.facts.oldest import oldest
from pubqueue.app.store.rows import AFFILIATIONS
from pubqueue.core.addresses import account_of
from pubqueue.core.model import Affiliation, NodeConfig, NodeFull
from pubqueue.core.nodes.access import AutoCreation, may_create
from pubqueue.core.nodes.large_audience import CROWD
from pubqueue.core.nodes.nodeconfig import Settings, configure
from pubqueue.core.nodes.references import NOTHING_NAMED, Other, Others, named
from pubqueue.core.notices import EVERYBODY, Several
from pubqueue.core.queue.publication import Known, PublishFacts
from pubqueue.core.transactions.model import Usage
from pubqueue.core.transactions.staging import StageFacts, done

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.core.limits.allowance import Allowance
    from pubqueue.core.model import Draft, Item, Jid, Node, NodeName, Principal, Subscription
    from pubqueue.core.notices import Audience, Everybody
    from pubqueue.core.queue.publication import Publish
    from pubqueue.core.transactions.staging import StagePublish


def for_publish(context: Context, request: Publish) -> PublishFacts:
    """Return the items that already have the drafts' ids."""
    rows = context.rows
    node = rows.node(request.node)
    if node is None:
        return PublishFacts(
            *(context.now, None, Affiliation.NONE, False, ()),
            policy=context.policy,
            creation=context.auto_creation,
            others=others(context, request.by, NodeConfig(), request.options),
            allowance=_of_maker(context, request.by),
        )
    plain = not node.config.queueing
    return PublishFacts(
        context.now,
        node,
        *rows.rights(node.name, request.by.account),
        tuple([existing(context, node, draft) for draft in request.drafts]),
        audience(rows, node) if plain else (),
        _oldest(rows, node, request) if plain else (),
        allowance=context.allowance(node.creator),
    )


def _of_maker(context: Context, by: Principal) -> Allowance | None:
    """Return the limits of an account that would create a node by publishing to it."""
    makes = context.auto_creation is not AutoCreation.NEVER and may_create(by, context.policy)
    return context.allowance(by.account) if makes else None


def others(context: Context, by: Principal, config: NodeConfig, wanted: Settings | None) -> Others:
    """Return the other nodes that new settings name."""
    after = config if wanted is None else configure(config, wanted)
    if not isinstance(after, NodeConfig):
        return NOTHING_NAMED
    rows, account = context.rows, by.account
    nodes = {
        name: Other(rows.node(name), *rows.rights(name, account))
        for _, name in named(config, after)
    }
    return Others(nodes, context.policy) if nodes else NOTHING_NAMED


def _oldest(rows: WorkingSet, node: Node, request: Publish) -> tuple[Item, ...]:
    """Return the first items of a plain node, as many as may have to go."""
    config, many = node.config, 2 * len(request.drafts)
    if not config.persist_items:
        return oldest(rows, node.name, many)
    if config.max_items is None or node.items + len(request.drafts) <= config.max_items:
        return ()
    return () if config.publish_node_full is NodeFull.REJECT else oldest(rows, node.name, many)


def ahead(context: Context, request: Publish) -> None:
    """Return the needs of a later publish in the batch, in short form if these are only its ids."""
    rows, cache = context.rows, context.rows.cache
    name, node = request.node, context.rows.cache.nodes.get(request.node)
    key = name, request.by.account
    known = key in cache.of[AFFILIATIONS] and key in cache.of_account
    if node is None or not known or node.config.dedup_window or not node.config.queueing:
        for_publish(context, request)
        return
    for draft in request.drafts:
        rows.item(name, draft.id)


def existing(context: Context, node: Node, draft: Draft) -> tuple[Known, Item | None]:
    """Return what the node knows of the draft's id."""
    rows = context.rows
    item = rows.item(node.name, draft.id)
    if item is not None:
        if not node.config.queueing:
            return Known.OTHER, item  # it is overwritten, whatever it is
        there = rows.payload(item)
        same = not rows.lacking and context.same_payload(there, draft.payload)
        return (Known.SAME if same else Known.OTHER), item
    if node.config.dedup_window:
        digest = rows.finished(node.name, draft.id, context.now)
        if digest is not None and digest == context.fingerprint(draft.payload):
            return Known.FINISHED, None
    return Known.NEW, None


def audience(rows: WorkingSet, node: Node) -> Audience:
    """Return the audience of a plain node; a queue's items are delivered."""
    return () if node.config.queueing else subscribers(rows, node)


def subscribers(rows: WorkingSet, node: Node) -> Audience:
    """Return the subscribers of the node that are to be notified; a large audience is not loaded."""
    if node.subscriptions > CROWD:
        return EVERYBODY
    everybody = rows.audience(node.name)
    if not by_presence(node):
        return everybody
    if isinstance(everybody, Several):
        return Several(here(rows, everybody.jids), everybody.subids)
    return here(rows, everybody)


def by_presence(node: Node) -> bool:
    """Return whether only subscribers that are known to be online are notified (XEP-0060 12.6)."""
    return node.config.presence_based_delivery and not node.config.queueing


def here(rows: WorkingSet, jids: tuple[Jid, ...]) -> tuple[Jid, ...]:
    """Return those of the JIDs that we saw come: a full JID itself, of an account any of its resources."""
    present = [(jid, rows.resources(account_of(jid))) for jid in jids]
    return tuple(
        [jid for jid, there in present if jid in there or (there and account_of(jid) == jid)]
    )


def all_subscriptions(rows: WorkingSet, node: Node) -> tuple[Subscription, ...] | Everybody:
    """Return all subscriptions to the node, those that wait too; a crowd is not named."""
    return EVERYBODY if node.subscriptions > CROWD else tuple(rows.subscribers(node.name))


def for_stage(context: Context, request: StagePublish) -> StageFacts:
    """Return the node, how far the app is, and what the attempt has staged already."""
    rows, mark, wanted = context.rows, request.mark, request.publish
    app, open_version = rows.standing(mark.app, mark.version)
    skips = done(app, mark.version)
    looks = replace(wanted, drafts=wanted.drafts if mark.immediate and not skips else ())
    return StageFacts(
        publish=for_publish(context, looks),
        app=app,
        open=open_version,
        usage=Usage() if skips else rows.usage(wanted.by.account),
        limits=context.limits,
        sizes=tuple(
            None if open_version is None else rows.staged_size(mark, wanted.node, draft.id)
            for draft in wanted.drafts
        ),
        noted=_noted(context, request) if mark.immediate else (),
    )


def _noted(context: Context, request: StagePublish) -> tuple[tuple[bool, bool] | None, ...]:
    """Compare what the open version has published already with what is offered again."""
    node: NodeName = request.publish.node
    seen: list[tuple[bool, bool] | None] = []
    for draft in request.publish.drafts:
        noted = context.rows.noted(request.mark, node, draft.id)
        same = noted is not None and context.same_payload(noted.payload, draft.payload)
        seen.append(None if noted is None else (same, noted.known))
    return tuple(seen)
