"""Load: the raw facts that each rule asks for, and no more. Nothing here decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct, field
from msgspec.structs import replace

from pubqueue.app.events import EventLog
from pubqueue.core.ending import Case, DeadLetterPlace
from pubqueue.core.expire import ArriveFacts, ExpireFacts, LeaveFacts, ReturnFacts
from pubqueue.core.manage import ListFacts, NodeFacts
from pubqueue.core.mine import AffiliationFacts, SubscriptionFacts
from pubqueue.core.model import Affiliation, Millis, NodeName, State, bare
from pubqueue.core.model import digest as digest_of
from pubqueue.core.publish import Known, PublishFacts
from pubqueue.core.recover import RecoverFacts, longest
from pubqueue.core.settle import Outcome, SettleFacts, Verb
from pubqueue.core.subscribe import SubscribeFacts
from pubqueue.core.transactions import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.ports import Transaction
    from pubqueue.core.access import CreationPolicy
    from pubqueue.core.expire import Arrive, Leave, Return
    from pubqueue.core.manage import (
        Configure,
        Create,
        Declare,
        Delete,
        Describe,
        GetAffiliations,
        ListItems,
        ListNodes,
        Purge,
        SetAffiliations,
    )
    from pubqueue.core.mine import ListMyAffiliations, ListMySubscriptions
    from pubqueue.core.model import Draft, Item, Jid, Node
    from pubqueue.core.publish import Publish
    from pubqueue.core.settle import Settle
    from pubqueue.core.subscribe import SetOptions, Subscribe, Unsubscribe
    from pubqueue.core.touch import Touch
    from pubqueue.core.transactions import Limits

AT_ONCE: Final = 1000
"""How many items one batch ends at most for the clock's sake; the rest follows in the next."""

SHOWN: Final = 1000
"""How many item ids a listing names at most."""


class Context(Struct, frozen=True, gc=False):
    """What a load needs beside the request: the transaction, the time, the service's settings."""

    tx: Transaction
    now: Millis
    policy: CreationPolicy
    same_payload: Callable[[bytes, bytes], bool]
    limits: Limits = DEFAULTS
    log: EventLog = field(default_factory=EventLog)
    fingerprint: Callable[[bytes], bytes] = digest_of


def for_publish(context: Context, request: Publish) -> PublishFacts:
    """Load what is there under each draft's id."""
    tx = context.tx
    node = tx.node(request.node)
    if node is None:
        return PublishFacts(context.now, None, Affiliation.NONE, subscribed=False, existing=())
    existing = tuple(_existing(context, node, draft) for draft in request.drafts)
    return PublishFacts(
        now=context.now,
        node=node,
        affiliation=tx.affiliation(node.name, request.by.bare),
        subscribed=tx.subscribed(node.name, request.by.bare),
        existing=existing,
        audience=_audience(tx, node),
        deaths=tuple(
            death
            for _, item in existing
            if item is not None and item.state is State.DEAD
            for death in tx.deaths(node.name, item, item)
        ),
    )


def _existing(context: Context, node: Node, draft: Draft) -> tuple[Known, Item | None]:
    item = context.tx.item(node.name, draft.id)
    if item is not None:
        same = context.same_payload(context.tx.payload(item), draft.payload)
        return (Known.SAME if same else Known.OTHER), item
    if node.config.dedup_window:
        digest = context.tx.finished(node.name, draft.id, context.now)
        if digest is not None and digest == context.fingerprint(draft.payload):
            return Known.FINISHED, None
    return Known.NEW, None


def _audience(tx: Transaction, node: Node) -> tuple[Jid, ...]:
    if node.config.queueing:
        return ()
    return tuple(subscription.jid for subscription in tx.subscribers(node.name))


def for_settle(context: Context, request: Settle | Touch) -> SettleFacts:
    """Load the items that are to be settled, and who held them."""
    tx, asker = context.tx, request.by
    node = tx.node(request.node)
    if node is None:
        return SettleFacts(context.now, None, Affiliation.NONE, (), frozenset(), subscribed=False)
    items = tuple(tx.item(node.name, item) for item in request.ids)
    jids = (asker.jid, asker.bare)
    receipts = frozenset(
        (item.seq, jid) for item in items if item and _was_held(item) for jid in tx.held(item, jids)
    )
    return SettleFacts(
        now=context.now,
        node=node,
        affiliation=tx.affiliation(node.name, asker.bare),
        items=items,
        receipts=receipts,
        subscribed=tx.subscribed(node.name, asker.bare),
        audience=_audience(tx, node),
    )


def for_unlock_outcome(context: Context, request: Settle) -> SettleFacts:
    """Load the same, and what the end of the items needs: their places if they die, their digests."""
    facts = for_settle(context, request)
    if request.verb is Verb.RETRACT:
        return _with_digests(context, facts)
    if request.outcome is Outcome.RELEASE or facts.node is None:
        return facts
    node, tx = facts.node, context.tx
    places = tuple(None if item is None else _tomb(tx, node, item) for item in facts.items)
    return replace(facts, places=places)


def _with_digests(context: Context, facts: SettleFacts) -> SettleFacts:
    if facts.node is None or not facts.node.config.dedup_window:
        return facts
    there = [item for item in facts.items if item is not None]
    digests = tuple(context.fingerprint(context.tx.payload(item)) for item in there)
    return replace(facts, digests=digests)


def _was_held(item: Item) -> bool:
    """Say whether any lock of the item has ended, so that there can be receipts."""
    return item.acquired > (1 if item.state is State.LOCKED else 0)


def for_subscription(
    context: Context, request: Subscribe | SetOptions | Unsubscribe
) -> SubscribeFacts:
    """Load the subscription that the request is about."""
    tx = context.tx
    return SubscribeFacts(
        now=context.now,
        node=tx.node(request.node),
        affiliation=tx.affiliation(request.node, request.by.bare),
        subscription=tx.subscription(request.node, request.jid),
        held=tx.held_count(request.node, request.jid),
    )


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
    """Load the node and everybody around it."""
    tx = context.tx
    return NodeFacts(
        now=context.now,
        node=tx.node(request.node),
        affiliation=tx.affiliation(request.node, request.by.bare),
        policy=context.policy,
        audience=tuple(subscription.jid for subscription in tx.subscribers(request.node)),
        affiliations=tuple(tx.affiliations(request.node)),
    )


def for_items(context: Context, request: ListItems) -> NodeFacts:
    """Load the node and the ids of its oldest items."""
    tx = context.tx
    return NodeFacts(
        now=context.now,
        node=tx.node(request.node),
        affiliation=tx.affiliation(request.node, request.by.bare),
        items=tuple(tx.item_ids(request.node, SHOWN)),
    )


def for_nodes(context: Context, request: ListNodes) -> ListFacts:
    """Load every node, each with what the asker is to it."""
    tx, account = context.tx, request.by.bare
    return ListFacts(tuple((node, tx.affiliation(node.name, account)) for node in tx.nodes()))


def for_my_affiliations(context: Context, request: ListMyAffiliations) -> AffiliationFacts:
    """Load what the account is to the nodes asked about."""
    tx, account, asked = context.tx, request.by.bare, request.node
    found = tx.nodes() if asked is None else [node for node in (tx.node(asked),) if node]
    return AffiliationFacts(
        tuple((node.name, tx.affiliation(node.name, account)) for node in found)
    )


def for_my_subscriptions(context: Context, request: ListMySubscriptions) -> SubscriptionFacts:
    """Load the account's subscriptions to the nodes asked about."""
    tx, asked = context.tx, request.node
    mine = tx.subscriptions_of_account(request.by.bare)
    entries = tuple(one for one in mine if asked in {None, one.node})
    return SubscriptionFacts(asked is None or tx.node(asked) is not None, entries)


def for_recovery(context: Context, _request: object) -> RecoverFacts:
    """Load the locks that end later than they could."""
    tx, now = context.tx, context.now
    queues = [node for node in tx.nodes() if node.config.queueing]
    late = ((node, tuple(tx.locks_beyond(node.name, longest(node, now)))) for node in queues)
    return RecoverFacts(now, tuple(late))


def for_expiry(context: Context, _request: object) -> ExpireFacts:
    """Load what has run out."""
    tx, now = context.tx, context.now
    locks = tx.expired_locks(now, AT_ONCE)
    cases = _cases(tx, locks + tx.expired_lives(now, AT_ONCE))
    kept_since = Millis(now - context.limits.kept_for)
    return ExpireFacts(
        now=now,
        ripe=tuple(tx.ripe(now)),
        locks=cases[: len(locks)],
        lives=cases[len(locks) :],
        overdue=tuple(tx.staging.overdue(now, AT_ONCE)),
        litter=kept_since if tx.staging.litter(kept_since) else None,
    )


def for_arrive(context: Context, request: Arrive) -> ArriveFacts:
    """Load what the arrived subscribes to, under its full JID and its bare one."""
    jids = dict.fromkeys((request.jid, bare(request.jid)))
    tx = context.tx
    return ArriveFacts(tuple(tx.subscriptions_of(jids)), tuple(tx.resources(bare(request.jid))))


def for_leave(context: Context, request: Leave) -> LeaveFacts:
    """Load what the leaver holds, under its full JID and under its bare one, and who else is here."""
    tx = context.tx
    jids = tuple(dict.fromkeys((request.jid, bare(request.jid))))
    subscriptions = tx.subscriptions_of(jids)
    paired = [(subscription, tx.node(subscription.node)) for subscription in subscriptions]
    return LeaveFacts(
        now=context.now,
        held=_cases(tx, tx.held_by(jids)),
        subscriptions=tuple((s, node) for s, node in paired if node is not None),
        resources=tuple(tx.resources(bare(request.jid))),
    )


def for_return(context: Context, request: Return) -> ReturnFacts:
    """Load the item of a delivery that came back, if that very lock is still on it."""
    tx = context.tx
    item = tx.item_at(request.seq)
    node = None if item is None else tx.node(item.node)
    if item is None or node is None:
        return ReturnFacts(context.now, None, None)
    locked = item.state is State.LOCKED and item.token == request.token
    return ReturnFacts(
        now=context.now,
        case=Case(item, node) if locked else None,
        subscription=tx.subscription(item.node, request.to),
    )


def _cases(tx: Transaction, items: list[Item]) -> tuple[Case, ...]:
    """Put each item beside its node and its place."""
    paired = [(item, tx.node(item.node)) for item in items]
    return tuple(Case(item, node, _tomb(tx, node, item)) for item, node in paired if node)


def _tomb(tx: Transaction, node: Node, item: Item) -> DeadLetterPlace | None:
    name = NodeName(node.config.dead_letter_node)
    if not name:
        return None
    exists = tx.node(name) is not None
    return DeadLetterPlace(name, exists, taken=exists and tx.item(name, item.id) is not None)
