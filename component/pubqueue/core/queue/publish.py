"""Publish to a node (XEP-0060 7.1, with the queue's rules of idempotence)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pubqueue.core.changes import (
    BeginTrim,
    Change,
    CreateNode,
)
from pubqueue.core.decision import (
    Decision,
    Published,
    Refusal,
    Refused,
    refuse,
)
from pubqueue.core.model import Affiliation, NodeFull, State
from pubqueue.core.nodes import access, names, plain_publish
from pubqueue.core.nodes.access import Action, AutoCreation
from pubqueue.core.nodes.manage import make_node
from pubqueue.core.nodes.nodeconfig import Settings, agrees
from pubqueue.core.nodes.room import full, growth, growth_by, is_bounded, never_fits
from pubqueue.core.nodes.trimming import TrimItems, exceeds, truncated
from pubqueue.core.publishing.feeding import fed_on
from pubqueue.core.publishing.once import once
from pubqueue.core.publishing.places import PLACES, TAKEN, Place, misfit, new_item, placed
from pubqueue.core.queue.publication import Known, Publish, PublishFacts

if TYPE_CHECKING:
    from pubqueue.core.model import (
        Draft,
        Item,
        ItemId,
        Node,
        NodeConfig,
        Principal,
    )


OF_QUEUES: Final = "delay, priority and group apply only to queues"
"""A group also to a node that only passes items on, to the queues that it feeds."""

ANOTHER: Final = "there is another item {}"


def publish(request: Publish, facts: PublishFacts) -> Decision:
    """Decide a publish. The items count as published only once the changes are committed."""
    if request.key is not None:
        return once(publish, request, facts)
    decision = publish_alone(request, facts)
    if facts.node is None:
        return decision
    if facts.node.config.feeds:
        return fed_on(request, facts, facts.node, decision)
    if facts.allowance is None:
        return decision
    more = growth(decision.changes)
    no = facts.allowance.refuses(more.items, more.bytes)
    return decision if no is None else Decision(no)


def publish_alone(request: Publish, facts: PublishFacts) -> Decision:
    """Decide a publish without a key, and without the queues that the node feeds."""
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
    replaced: list[ItemId] = []
    for draft, (known, item) in zip(request.drafts, facts.existing, strict=True):
        add = new_item(draft, node, request.by.account, facts.now)
        place = PLACES[known, None if item is None else item.state]
        if place in TAKEN:
            refusal, words = TAKEN[place]
            return refuse(refusal, words.format(draft.id))
        if place is Place.LEAVE:
            left.append(draft.id)
        elif place is Place.REPLACE:
            replaced.append(draft.id)
        changes += placed(place, item, add)
    bounded = node.config.max_items or node.config.max_bytes
    if bounded and (no_room := full(node, growth(changes))) is not None:
        return Decision(no_room)
    ids = tuple([draft.id for draft in request.drafts])
    dead = _dead(facts) if left else ()
    reply = Published(node.name, ids, dead, tuple(left), replaced=tuple(replaced))
    done = Decision(reply, tuple(changes))
    return truncated([(node, growth(changes))], done) if bounded else done


def _unmet(request: Publish, facts: PublishFacts, node: Node) -> Decision | None:
    """Refuse a publish that is for nodes of the other kind, or that would replace an item and must not."""
    if request.queueing is not None and request.queueing is not node.config.queueing:
        return refuse(Refusal.NODE_NOT_FOUND)
    if not request.only_new:
        return None
    for draft, (known, item) in zip(request.drafts, facts.existing, strict=True):
        state = None if item is None else item.state
        replaces = PLACES[known, state] is Place.REPLACE if node.config.queueing else item
        if replaces:
            return refuse(Refusal.PRECONDITION_NOT_MET, ANOTHER.format(draft.id))
    return None


def _publish_plainly(request: Publish, facts: PublishFacts, node: Node) -> Decision:
    if bool(request.drafts) is not node.config.keeps:  # XEP-0060 7.1.3.7
        return refuse(Refusal.ITEM_REQUIRED if node.config.keeps else Refusal.ITEM_FORBIDDEN)
    if _rejects(node.config):
        replaced = (item for _, item in facts.existing if item is not None)
        if (no_room := full(node, growth_by(request.drafts, replaced))) is not None:
            return Decision(no_room)
    drafts = [replace(one, group="") if one.group else one for one in request.drafts]
    adds = [new_item(draft, node, request.by.account, facts.now) for draft in drafts]
    done = plain_publish.publish(request, facts, node, adds)
    return done if node.config.max_bytes is None else _trimmed(node, done)


def _trimmed(node: Node, done: Decision) -> Decision:
    """Have more of the oldest items dropped, a slice at a time, if many small ones make room for a large one."""
    if not exceeds(node, growth(done.changes)):
        return done
    then = TrimItems(node.name, done.reply)
    return replace(done, changes=(*done.changes, BeginTrim(node.name)), then=then)


def _rejects(config: NodeConfig) -> bool:
    """Return whether a full plain node refuses items; others drop their oldest ones."""
    rejects = config.publish_node_full is NodeFull.REJECT and config.persist_items
    return rejects and is_bounded(config)


def _publish_anew(request: Publish, facts: PublishFacts) -> Decision:
    """Create the node of the publish, if the service's settings allow it (XEP-0060 7.1.4)."""
    wanted = request.options
    if request.queueing is not None:
        return refuse(Refusal.NODE_NOT_FOUND)
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


def inadmissible(request: Publish, facts: PublishFacts, node: Node) -> Decision | None:
    """Refuse what can be judged without looking at other items, unless the request requires one: no right, too many, too large."""
    if (
        no := _closed(request.by, facts.affiliation, node, subscribed=facts.subscribed)
    ) is not None:
        return no
    if not node.config.queueing and any(_is_of_queues(d, node) for d in request.drafts):
        return refuse(Refusal.BAD_REQUEST, OF_QUEUES)
    options = request.options
    if options is not None and (unmet := agrees(node.config, options)) is not None:
        return Decision(unmet)
    bounded = node.config.max_items or node.config.max_bytes  # for each item: without a call
    if bounded and (never := never_fits(node.config, request.drafts)) is not None:
        return Decision(never)
    for draft in request.drafts:
        unfit = misfit(len(draft.payload), draft.type, draft.headers, node.config)
        if unfit is not None:
            return Decision(unfit)
    is_demanding = request.only_new or request.queueing is not None
    return _unmet(request, facts, node) if is_demanding else None


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

    `size` and `space` are the bytes and the namespace of its payload. Whether there is room, and whether the
    id is taken, is not judged.
    """
    if (no := _closed(by, affiliation, node, subscribed=subscribed)) is not None:
        return no.reply if isinstance(no.reply, Refused) else None
    of_queues = item.priority or item.group
    if of_queues and not node.config.queueing and node.config.persist_items:
        return Refused(Refusal.BAD_REQUEST, OF_QUEUES)
    return misfit(size, space, item.headers, node.config)


def _is_of_queues(draft: Draft, node: Node) -> bool:
    """Return whether a draft has options that mean nothing in a plain node; a group has a meaning in the queues that a transient node feeds."""
    return bool(draft.delay or draft.priority or (draft.group and node.config.persist_items))


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
