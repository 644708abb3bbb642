"""Publish to a node (XEP-0060 7.1, with the queue's rules of idempotence)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto, unique
from typing import TYPE_CHECKING

from pubqueue.core import access
from pubqueue.core.access import Action
from pubqueue.core.decision import (
    AddItem,
    Announce,
    Change,
    Decision,
    Notice,
    Published,
    Refusal,
    RemoveItem,
    ReplacePayload,
    refuse,
)
from pubqueue.core.lifecycle import waiting
from pubqueue.core.model import Affiliation, State, later, seconds

if TYPE_CHECKING:
    from pubqueue.core.model import Asker, Draft, Item, Jid, Millis, Node, NodeName


@dataclass(frozen=True, slots=True)
class Publish:
    """Add these items to the node, all or none."""

    by: Asker
    node: NodeName
    drafts: tuple[Draft, ...]


@unique
class Known(Enum):
    """What the node knows of an id, next to the payload that is offered under it."""

    NEW = auto()
    """Nothing, or an id of finished work that no longer counts."""
    FINISHED = auto()
    """Finished within the deduplication window, with this payload."""
    SAME = auto()
    """There, with this payload."""
    OTHER = auto()
    """There, with another payload."""


@dataclass(frozen=True, slots=True)
class PublishFacts:
    """The node, the asker's rights, and per draft what is there already under its id."""

    now: Millis
    node: Node | None
    affiliation: Affiliation
    subscribed: bool
    existing: tuple[tuple[Known, Item | None], ...]
    audience: tuple[Jid, ...] = ()


def publish(request: Publish, facts: PublishFacts) -> Decision:
    """Decide a publish. The items count as published only once the changes are committed."""
    node = facts.node
    if node is None:
        return refuse(Refusal.NODE_NOT_FOUND)
    if (no := _refused(request, facts, node)) is not None:
        return no
    config = node.config
    changes: list[Change] = []
    for draft, (known, item) in zip(request.drafts, facts.existing, strict=True):
        if config.queueing and known is Known.OTHER and item and item.state is State.LOCKED:
            return refuse(Refusal.ITEM_LOCKED, f"item {draft.id} is being worked on")
        if config.queueing and known is Known.OTHER and item and item.state is State.DEAD:
            return refuse(
                Refusal.ITEM_EXISTS, f"item {draft.id} is dead here: redrive or retract it"
            )
        changes += _place(node, known, item, _add(request, facts, node, draft))
    added = sum(isinstance(change, AddItem) for change in changes)
    removed = sum(isinstance(change, RemoveItem) for change in changes)
    limit = config.max_items
    if limit is not None and added > removed and node.items + added - removed > limit:
        return refuse(Refusal.NODE_FULL, limit=limit)
    ids = tuple(draft.id for draft in request.drafts)
    return Decision(Published(node.name, ids), tuple(changes), _announce(request, facts, node))


def _refused(request: Publish, facts: PublishFacts, node: Node) -> Decision | None:
    affiliation = access.standing(request.by, facts.affiliation)
    if not access.may(affiliation, Action.PUBLISH, node, subscribed=facts.subscribed):
        return refuse(Refusal.FORBIDDEN)
    if node.config.publish_paused:
        return refuse(Refusal.PUBLISH_PAUSED, "publishing to this node is paused")
    limit = node.config.max_items
    if limit is not None and len(request.drafts) > limit:
        return refuse(Refusal.TOO_MANY_ITEMS, limit=limit)
    biggest = node.config.max_payload_size
    if any(len(draft.payload) > biggest for draft in request.drafts):
        return refuse(Refusal.PAYLOAD_TOO_BIG, limit=biggest)
    return None


def _place(node: Node, known: Known, item: Item | None, add: AddItem) -> list[Change]:
    """Return what one draft changes: nothing at all for work that is there or done already."""
    if not node.config.queueing:  # XEP-0060 7.1.2: overwritten, and the newest in the order
        return [add] if item is None else [RemoveItem(item), add]
    if known is Known.NEW:
        return [add]
    if known is Known.OTHER and item is not None:
        return [ReplacePayload(item, add.draft.payload, add.publisher)]
    return []


def _add(request: Publish, facts: PublishFacts, node: Node, draft: Draft) -> AddItem:
    now = facts.now
    state, due = waiting(now, draft.delay)
    lives = [span for span in (draft.ttl, _life(node)) if span is not None]
    expires = later(now, min(lives)) if lives else None
    return AddItem(node.name, draft, request.by.bare, now, state, due, expires)


def _life(node: Node) -> Millis | None:
    expire = node.config.item_expire
    return None if expire is None else seconds(expire)


def _announce(request: Publish, facts: PublishFacts, node: Node) -> tuple[Notice, ...]:
    """Tell the subscribers of a plain node; a queue's items are handed out, not announced."""
    if node.config.queueing:
        return ()
    publisher = request.by.bare
    return tuple(
        Announce(jid, node.name, draft, publisher)
        for draft in request.drafts
        for jid in facts.audience
    )
