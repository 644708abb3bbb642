"""Publish to a node (XEP-0060 7.1, with the queue's rules of idempotence)."""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.core.changes import (
    AddItem,
    Change,
    CreateNode,
    RemoveItem,
    ReplacePayload,
)
from pubqueue.core.decision import (
    Decision,
    Published,
    Refusal,
    Refused,
    refuse,
)
from pubqueue.core.headers import excess
from pubqueue.core.lifecycle import waiting
from pubqueue.core.limits.allowance import overdrawn
from pubqueue.core.model import Affiliation, NodeFull, State, later, seconds
from pubqueue.core.nodes import access, names, plain_publish
from pubqueue.core.nodes.access import Action, AutoCreation
from pubqueue.core.nodes.manage import make_node
from pubqueue.core.nodes.nodeconfig import Settings, agrees
from pubqueue.core.queue.publication import Known, Publish, PublishFacts

if TYPE_CHECKING:
    from pubqueue.core.model import (
        Draft,
        Headers,
        Item,
        ItemId,
        Millis,
        Node,
        NodeConfig,
        Principal,
    )


@unique
class Place(Enum):
    """What becomes of an item that is offered to a queue."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    ADD = auto()
    LEAVE = auto()
    """The work is there or done already: nothing changes."""
    REPLACE = auto()
    """Its payload replaces that of an item that is not locked."""
    BUSY = auto()
    DEAD = auto()


# fmt: off
PLACES: Final[dict[tuple[Known, State | None], Place]] = {
    (Known.NEW,      None):          Place.ADD,
    (Known.FINISHED, None):          Place.LEAVE,
    (Known.SAME,     State.QUEUED):  Place.LEAVE,
    (Known.SAME,     State.DELAYED): Place.LEAVE,
    (Known.SAME,     State.LOCKED):  Place.LEAVE,
    (Known.SAME,     State.DEAD):    Place.LEAVE,
    (Known.OTHER,    State.QUEUED):  Place.REPLACE,
    (Known.OTHER,    State.DELAYED): Place.REPLACE,
    (Known.OTHER,    State.LOCKED):  Place.BUSY,
    (Known.OTHER,    State.DEAD):    Place.DEAD,
}

TAKEN: Final[dict[Place, tuple[Refusal, str]]] = {
    Place.BUSY: (Refusal.ITEM_LOCKED, "item {} is in flight"),
    Place.DEAD: (Refusal.ITEM_EXISTS, "item {} is dead here: redrive or retract it"),
}
"""The places that refuse an item, with the text about its id."""
# fmt: on

OF_QUEUES: Final = "delay, priority and group apply only to queues"


def publish(request: Publish, facts: PublishFacts) -> Decision:
    """Decide a publish. The items count as published only once the changes are committed."""
    decision = _publish(request, facts)
    if facts.allowance is None or facts.node is None:
        return decision
    no = overdrawn(facts.allowance, decision.changes)
    return decision if no is None else Decision(no)


def _publish(request: Publish, facts: PublishFacts) -> Decision:
    node = facts.node
    if node is None:
        return _publish_anew(request, facts)
    if (no := inadmissible(request, facts, node)) is not None:
        return no
    if not node.config.queueing:
        return _publish_plainly(request, facts, node)
    if not request.drafts:
        return refuse(Refusal.ITEM_REQUIRED)
    changes: list[Change] = []
    left: list[ItemId] = []
    for draft, (known, item) in zip(request.drafts, facts.existing, strict=True):
        add = _add(request, facts, node, draft)
        place = PLACES[known, None if item is None else item.state]
        if place in TAKEN:
            refusal, words = TAKEN[place]
            return refuse(refusal, words.format(draft.id))
        if place is Place.LEAVE:
            left.append(draft.id)
        changes += _place(place, item, add)
    if node.config.max_items is not None:
        added = sum(isinstance(change, AddItem) for change in changes)
        removed = sum(isinstance(change, RemoveItem) for change in changes)
        if overfull(node, added, removed):
            return refuse(Refusal.NODE_FULL, limit=node.config.max_items)
    ids = tuple([draft.id for draft in request.drafts])
    dead = _dead(facts) if left else ()
    return Decision(Published(node.name, ids, dead, tuple(left)), tuple(changes))


def _publish_plainly(request: Publish, facts: PublishFacts, node: Node) -> Decision:
    if bool(request.drafts) is not node.config.keeps:  # XEP-0060 7.1.3.7
        return refuse(Refusal.ITEM_REQUIRED if node.config.keeps else Refusal.ITEM_FORBIDDEN)
    removed = sum(item is not None for _, item in facts.existing)
    rejects = node.config.publish_node_full is NodeFull.REJECT and node.config.persist_items
    if rejects and overfull(node, len(request.drafts), removed):
        return refuse(Refusal.NODE_FULL, limit=node.config.max_items)
    adds = [_add(request, facts, node, draft) for draft in request.drafts]
    return plain_publish.publish(request, facts, node, adds)


def _publish_anew(request: Publish, facts: PublishFacts) -> Decision:
    """Make the node that is published to, if that is the service's way (XEP-0060 7.1.4)."""
    wanted = request.options
    makes = facts.creation is AutoCreation.ALWAYS or (
        facts.creation is AutoCreation.WITH_OPTIONS and wanted is not None
    )
    if not makes or not access.may_create(request.by, facts.policy):
        return refuse(Refusal.NODE_NOT_FOUND)
    no = names.taken(request.by, request.node)
    if no is None and facts.allowance is not None:
        no = facts.allowance.refuses_node()
    if no is not None:
        return Decision(no)
    people = {request.by.account: Affiliation.OWNER}
    settings = wanted or Settings()
    made = make_node(request.node, settings, request.by, facts.now, people, facts.others)
    if isinstance(made.reply, Refused):
        return Decision(replace(made.reply, refusal=Refusal.PRECONDITION_NOT_MET))
    node = next(change.node for change in made.changes if isinstance(change, CreateNode))
    done = publish(
        replace(request, options=None),
        replace(
            facts,
            node=node,
            affiliation=Affiliation.OWNER,
            existing=((Known.NEW, None),) * len(request.drafts),
        ),
    )
    if isinstance(done.reply, Refused):
        return done
    return replace(done, changes=made.changes + done.changes)


def _dead(facts: PublishFacts) -> tuple[Item, ...]:
    """Return those that exist, but are dead. Their last holder is not the publisher's business."""
    return tuple(
        [
            replace(item, dead_letter=replace(item.dead_letter, holder=None))
            for _, item in facts.existing
            if item is not None and item.state is State.DEAD and item.dead_letter is not None
        ]
    )


def overfull(node: Node, added: int, removed: int) -> bool:
    """Return whether the node has no room; an item that replaces another needs none."""
    limit = node.config.max_items
    return limit is not None and added > removed and node.items + added - removed > limit


def inadmissible(request: Publish, facts: PublishFacts, node: Node) -> Decision | None:
    """Refuse what needs no look at other items: no right, too many, too big."""
    if (
        no := _closed(request.by, facts.affiliation, node, subscribed=facts.subscribed)
    ) is not None:
        return no
    if not node.config.queueing and any(d.delay or d.priority or d.group for d in request.drafts):
        return refuse(Refusal.BAD_REQUEST, OF_QUEUES)
    options = request.options
    if options is not None and (unmet := agrees(node.config, options)) is not None:
        return Decision(unmet)
    limit = node.config.max_items
    if limit is not None and len(request.drafts) > limit:
        return refuse(Refusal.TOO_MANY_ITEMS, limit=limit)
    for draft in request.drafts:
        if (no := _misfit(len(draft.payload), draft.type, draft.headers, node.config)) is not None:
            return no
    return None


def turned_away(  # noqa: PLR0917  # who, what that is to the node, and what is to go there
    by: Principal,
    affiliation: Affiliation,
    node: Node,
    item: Item,
    size: int,
    space: str,
    *,
    subscribed: bool,
) -> Refused | None:
    """Return why a publish by this account would be refused for an item of another node; None if it would not.

    `size` and `space` are the bytes and the namespace of its payload. Whether there is room, and
    whether the id is taken, is not judged.
    """
    if (no := _closed(by, affiliation, node, subscribed=subscribed)) is None:
        if not node.config.queueing and (item.priority or item.group):
            return Refused(Refusal.BAD_REQUEST, OF_QUEUES)
        no = _misfit(size, space, item.headers, node.config)
    return no.reply if no is not None and isinstance(no.reply, Refused) else None


def _closed(
    by: Principal, affiliation: Affiliation, node: Node, *, subscribed: bool
) -> Decision | None:
    """Refuse a publisher without the right, or any publisher at this time."""
    standing = access.standing(by, affiliation)
    if not access.may(standing, Action.PUBLISH, node, subscribed=subscribed):
        return refuse(Refusal.FORBIDDEN)
    if node.config.publish_paused:
        return refuse(Refusal.PUBLISH_PAUSED, "publishing to this node is paused")
    return None


def _misfit(size: int, space: str, headers: Headers, config: NodeConfig) -> Decision | None:
    """Refuse an item that the node's settings do not allow for any publisher."""
    if size > config.max_payload_size:
        return refuse(Refusal.PAYLOAD_TOO_BIG, limit=config.max_payload_size)
    if not size:
        return (
            refuse(Refusal.PAYLOAD_REQUIRED) if config.queueing or config.deliver_payloads else None
        )
    if config.type and space != config.type:  # XEP-0060 7.1.3.6
        reason = f"payloads of this node are in the namespace {config.type}"
        return refuse(Refusal.WRONG_PAYLOAD, reason)
    if headers and (too_much := excess(headers)) is not None:
        return refuse(Refusal.HEADERS_TOO_BIG, too_much)
    return None


def _place(place: Place, item: Item | None, add: AddItem) -> list[Change]:
    """Return what one draft changes in a queue: nothing at all for work that is there or done."""
    if place is Place.ADD:
        return [add]
    if place is Place.REPLACE and item is not None:
        return [ReplacePayload(item, add.draft.payload, add.publisher, add.draft.headers)]
    return []


def _add(request: Publish, facts: PublishFacts, node: Node, draft: Draft) -> AddItem:
    now = facts.now
    state, due = waiting(now, draft.delay)
    life = life_of(draft, node)
    expires = None if life is None else later(now, life)
    return AddItem(node.name, draft, request.by.account, now, state, due, expires)


def life_of(draft: Draft, node: Node) -> Millis | None:
    """Return the item's lifetime: the shorter of the publisher's and the node's."""
    expire = node.config.item_expire
    if expire is None:
        return draft.ttl
    return seconds(expire) if draft.ttl is None else min(draft.ttl, seconds(expire))
