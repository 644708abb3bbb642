"""Facts for deliveries that are answered, or are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.app.store.rows import ANSWERED
from pubqueue.model.entities import account_of
from pubqueue.rules.deliveries import (
    DeliveryAnswerFacts,
    FeatureFacts,
    GiveUpFacts,
    UnansweredFacts,
    has_answer,
    is_held,
)

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.app.working_set.working_set import WorkingSet
    from pubqueue.model.entities import Item, Jid, Node
    from pubqueue.rules.deliveries import (
        AskUnanswered,
        GiveUpUnanswered,
        Lock,
        NoteDeliveryAnswer,
        NoteFeatures,
    )


def for_unanswered(context: Context, request: AskUnanswered) -> UnansweredFacts:
    """Return the item, its payload if it is still locked so, and the answer that another instance has noted."""
    rows = context.rows
    item, answered = rows.item_at(request.seq), rows.row(ANSWERED, request.token)
    if item is None or not is_held(item, request.by.jid, request.token):
        return UnansweredFacts(item, answered=answered)
    payload = b"" if request.received else rows.payload(item)
    return UnansweredFacts(item, payload, answered)


def for_delivery_answer(context: Context, request: NoteDeliveryAnswer) -> DeliveryAnswerFacts:
    """Return the item, what is known of the answer, and the holder's subscription."""
    rows = context.rows
    item, answered = rows.item_at(request.seq), rows.row(ANSWERED, request.token)
    if item is None or not is_held(item, request.jid, request.token):
        return DeliveryAnswerFacts(context.now, item, answered)
    one = rows.subscription(item.node, request.jid)
    return DeliveryAnswerFacts(context.now, item, answered, "" if one is None else one.subid)


def for_giving_up(context: Context, request: GiveUpUnanswered) -> GiveUpFacts:
    """Return what is still locked so without an answer, and the subscriptions under which it was delivered."""
    rows, to = context.rows, request.to
    found = [_held(rows, to, lock) for lock in request.locks]
    if found and found[0] is None:
        return GiveUpFacts(context.now, ())
    held = tuple(each for each in found if each is not None)
    nodes = dict.fromkeys(item.node for item, _ in held)
    subscriptions = [rows.subscription(node, to) for node in nodes]
    return GiveUpFacts(context.now, held, tuple(one for one in subscriptions if one is not None))


def _held(rows: WorkingSet, to: Jid, lock: Lock) -> tuple[Item, Node] | None:
    item, answered = rows.item_at(lock.seq), rows.row(ANSWERED, lock.token)
    node = None if item is None else rows.node(item.node)
    if item is None or node is None or item.deadline != lock.deadline:
        return None
    if not is_held(item, to, lock.token):
        return None
    return None if has_answer(answered, received=lock.received) else (item, node)


def for_features(context: Context, request: NoteFeatures) -> FeatureFacts:
    """Return whether the JID is here, and what is known of its client."""
    rows = context.rows
    rows.cache.passers_by.append((request.jid, None))
    is_here = request.jid in rows.resources(account_of(request.jid))
    return FeatureFacts(is_here, rows.is_able(request.jid))
