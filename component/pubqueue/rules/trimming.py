"""Plain nodes (XEP-0060 4.3): publishing to them, and trimming them to narrower settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import AddItem, BeginTrim, CallGroups, EndTrim, RemoveItem, SetLife
from pubqueue.model.decision import Decision, Done, LookedThrough, Published, Request
from pubqueue.model.entities import NO_TIME, Jid, NodeFull, NodeName, State, later, seconds
from pubqueue.model.notices import NOBODY, Retracted, announce, notify
from pubqueue.rules.audience import ReviewSubscribers
from pubqueue.rules.room import (
    STATUS,
    Growth,
    first_to_go,
    growth_by,
    is_bounded,
    may_be_dropped,
    slice_of,
    status_item,
    surplus,
    truncates,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.model.changes import Change
    from pubqueue.model.decision import Reply
    from pubqueue.model.entities import Item, Millis, Node, NodeConfig
    from pubqueue.model.notices import Audience
    from pubqueue.rules.publication import Publish, PublishFacts


# Trim a node to its settings after these were narrowed: slice by slice, because it may be much.
#
# In a queue that now allows more items of a group in flight, more items get their turns, group after group.
#
# Items in excess of the limit of a plain node are removed, the oldest first. Lifetimes are shortened to what the node
# allows now; an item expires at its new time, which may be at once. A longer lifetime applies only to items published
# from then on. The trim is recorded with the settings, so it is completed whatever happens.

SLICE: Final = 200
"""Items that are looked at in one step."""


TURNS: Final = 500
"""Turns that begin in one step, approximately."""


class TrimItems(Request, frozen=True, gc=False):
    """Trim the node; lifetimes of items after `after` are shortened, then groups after `group` get their turns.

    `reply` is for the requester that waits for the end. With `review` its subscribers are reviewed afterwards, and then the
    `others` are trimmed.
    """

    node: NodeName
    reply: Reply | None = None
    after: int = 0
    review: bool = False
    group: str | None = None
    others: tuple[NodeName, ...] = ()


class TrimItemsFacts(Struct, frozen=True, gc=False):
    """The node, and the next of its items: from the beginning if some have to be removed, otherwise after `after`.

    Or the next of its `groups`, once these are processed.
    """

    node: Node | None
    items: tuple[Item, ...]
    audience: Audience = ()
    groups: tuple[str, ...] = ()
    now: Millis = NO_TIME
    service: Jid = Jid("")
    says_so: bool = False
    """Whether the item exists that reports that others were dropped."""


class ResumeTrims(Request, frozen=True, gc=False):
    """Continue with a trim that was not finished when the process ended."""


class ResumeTrimsFacts(Struct, frozen=True, gc=False):
    """A node that still has to be trimmed."""

    node: NodeName | None


def begins(before: NodeConfig, after: NodeConfig) -> bool:
    """Return whether the change to these settings requires a trim."""
    more = after.group_limit > before.group_limit or after.group_ahead != before.group_ahead
    return narrows(before, after) or (after.queueing and more)


def groups_of_slice(config: NodeConfig) -> int:
    """Return how many groups are processed in one step: so that about TURNS turns begin in it."""
    return max(1, TURNS // config.group_limit)


def narrows(before: NodeConfig, after: NodeConfig) -> bool:
    """Return whether items that fit the old settings may not fit the new ones."""
    if _is_less(after.item_expire, before.item_expire):
        return True
    if after.queueing:
        return _truncates_more(before, after)
    keeps_less = (before.persist_items, before.keeps) > (after.persist_items, after.keeps)
    drops = after.publish_node_full is not before.publish_node_full and is_bounded(after)
    less = _is_less(after.max_items, before.max_items) or _is_less(
        after.max_bytes, before.max_bytes
    )
    return keeps_less or drops or less


def _truncates_more(before: NodeConfig, after: NodeConfig) -> bool:
    if not truncates(after):
        return False
    less = _is_less(after.max_items, before.max_items) or _is_less(
        after.max_bytes, before.max_bytes
    )
    return less or (is_bounded(after) and not truncates(before))


def _is_less(now: int | None, before: int | None) -> bool:
    return now is not None and (before is None or now < before)


def excess(node: Node, *, says_so: bool = False) -> Growth | None:
    """Return how many items, and bytes, have to be removed; None if none. The item that reports drops does not count."""
    config = node.config
    if says_so:
        node = replace(node, items=node.items - 1, bytes=node.bytes - len(STATUS))
    if (config.queueing and not truncates(config)) or not node.items:
        return None
    room = (config.max_items, config.max_bytes) if config.queueing else room_for(node)
    over = surplus(node, *room)
    return over if over.items or over.bytes else None


def exceeds(node: Node, more: Growth) -> bool:
    """Return whether a plain node that grows by this has items that have to be removed."""
    grown = replace(node, items=node.items + more.items, bytes=node.bytes + more.bytes)
    return excess(grown) is not None


def trim(request: TrimItems, facts: TrimItemsFacts) -> Decision:
    """Trim a slice."""
    node = facts.node
    if node is None:
        return Decision(request.reply or Done())
    if request.group is not None:
        return _call(request, node, facts.groups)
    if (over := excess(node, says_so=facts.says_so)) is not None and facts.items:
        if node.config.queueing:
            return _truncate(request, facts, node, over)
        gone = slice_of(first_to_go(facts.items, over))
        loudly = node.config.persist_items and drops_loudly(node)
        what = Retracted(NOBODY, node.name, tuple(item.id for item in gone))
        notices = notify(node, facts.audience, what) if loudly and gone else ()
        return Decision(Done(), tuple(map(RemoveItem, gone)), notices, then=request)
    changes = _cut_lives(node, facts.items)
    if len(facts.items) == SLICE and node.config.item_expire is not None:
        return Decision(Done(), changes, then=replace(request, after=facts.items[-1].seq))
    if node.config.queueing:
        return Decision(Done(), changes, then=replace(request, group=""))
    return _end(request, node, changes)


def truncated(queues: Iterable[tuple[Node, Growth]], done: Decision) -> Decision:
    """Have the queues trimmed that a publish makes too large and that drop their oldest items."""
    over = [
        queue.name for queue, more in queues if truncates(queue.config) and exceeds(queue, more)
    ]
    if not over:
        return done
    then = TrimItems(over[0], done.reply, others=tuple(over[1:]))
    return replace(done, changes=(*done.changes, *map(BeginTrim, over)), then=then)


def _truncate(request: TrimItems, facts: TrimItemsFacts, node: Node, over: Growth) -> Decision:
    """Drop the oldest items of a queue that no worker holds, and report it; continue after this slice if it had too few of them."""
    found = first_to_go([item for item in facts.items if may_be_dropped(item)], over)
    gone = slice_of(found)
    changes: list[Change] = list(map(RemoveItem, gone))
    if gone and not facts.says_so:
        changes.append(status_item(node.name, facts.service, facts.now))
    goes_on = len(gone) < len(found)
    if len(facts.items) < SLICE and not goes_on:
        return _end(request, node, tuple(changes))
    then = replace(request, after=gone[-1].seq if goes_on else facts.items[-1].seq)
    return Decision(Done(), tuple(changes), then=then)


def _call(request: TrimItems, node: Node, groups: tuple[str, ...]) -> Decision:
    """Give turns to a slice of groups."""
    if not groups:
        return _end(request, node, ())
    then = replace(request, group=groups[-1])
    return Decision(Done(), (CallGroups(node.name, groups),), then=then)


def _end(request: TrimItems, node: Node, changes: tuple[Change, ...]) -> Decision:
    reply = request.reply or Done()
    then: ReviewSubscribers | TrimItems | None = None
    if request.review:
        then = ReviewSubscribers(node.name, reply)
    elif request.others:
        then = TrimItems(request.others[0], request.reply, others=request.others[1:])
    return Decision(reply, (*changes, EndTrim(node.name)), then=then)


def _cut_lives(node: Node, items: tuple[Item, ...]) -> tuple[Change, ...]:
    span = node.config.item_expire
    if span is None:
        return ()
    alive = (item for item in items if item.state is not State.DEAD)
    ends = ((item, later(item.published, seconds(span))) for item in alive)
    return tuple(
        SetLife(item, end) for item, end in ends if item.expires is None or item.expires > end
    )


def resume(_request: ResumeTrims, facts: ResumeTrimsFacts) -> Decision:
    """Continue with a node that still has to be trimmed."""
    return Decision(Done(), then=None if facts.node is None else TrimItems(facts.node))


# How long dead items are kept in a node, and how many: by `dead_ttl` and `dead_max`.
#
# A death is not delayed by this: what is too old, or too much, is deleted slice by slice from time to time, the oldest death first.

DEAD_SLICE: Final = 500
"""Dead items that one step looks at."""

DEAD_LOOKED_AT: Final = 100
"""Nodes that one step looks at."""


class DropDead(Request, frozen=True, gc=False):
    """Delete dead items that are no longer kept, in the next nodes behind `after`, by name."""

    after: NodeName = NodeName("")


class DropDeadFacts(Struct, frozen=True, gc=False):
    """The first node in which dead items have to go, and these; and where the next look begins, empty at the end."""

    items: tuple[Item, ...] = ()
    next: NodeName = NodeName("")


def outlived(config: NodeConfig, items: Iterable[Item], beyond: int, now: Millis) -> list[Item]:
    """Return those of a node's dead items that are too old, or whose deaths have the number `beyond` or a lower one."""
    end = None if config.dead_ttl is None else now - seconds(config.dead_ttl)
    return [
        item
        for item in items
        if (letter := item.dead_letter) is not None
        and item.state is not State.LOCKED
        and (letter.number <= beyond or (end is not None and letter.at <= end))
    ]


def drop_dead(request: DropDead, facts: DropDeadFacts) -> Decision:
    """Delete a slice, and look again; or return how far everything was looked through."""
    if not facts.items:
        return Decision(LookedThrough(facts.next))
    gone = tuple(map(RemoveItem, slice_of(facts.items)))
    return Decision(LookedThrough(request.after), gone, then=request)


# Publishing to a plain node (XEP-0060 4.3, 7.1).
#
# A persistent node keeps its newest items, up to its limit; at the limit it drops its oldest, or
# refuses new ones. A transient node keeps only the last one, for requests and later subscribers
# (12.10). A transient node that delivers no payloads keeps nothing: the notice only says that
# something has happened.


def publish(request: Publish, facts: PublishFacts, node: Node, adds: Sequence[AddItem]) -> Decision:
    """Decide what happens to the items, which may be published to this node."""
    changes, dropped = _changes(facts, node, adds)
    ids = tuple([draft.id for draft in request.drafts])
    by, audience = request.by.account, facts.audience
    announced = [news for draft in request.drafts for news in announce(node, audience, draft, by)]
    if not request.drafts:
        announced += announce(node, audience, None, by)
    if dropped and drops_loudly(node):
        gone = tuple(item.id for item in dropped)
        announced += notify(node, audience, Retracted(NOBODY, node.name, gone))
    replaced = tuple([item.id for _, item in facts.existing if item is not None])
    return Decision(Published(node.name, ids, replaced=replaced), tuple(changes), tuple(announced))


def _changes(
    facts: PublishFacts, node: Node, adds: Sequence[AddItem]
) -> tuple[list[Change], Sequence[Item]]:
    """Return the changes, and which items have to be removed for lack of room."""
    if not node.config.persist_items:
        kept = adds[-1:] if node.config.keeps else ()
        last = {item.seq: item for item in facts.oldest}
        last |= {item.seq: item for _, item in facts.existing if item is not None}
        return [*map(RemoveItem, last.values()), *kept], ()
    replaced = [item for _, item in facts.existing if item is not None]
    dropped = _for_want_of_room(facts, node, adds, replaced)
    # XEP-0060 7.1.2: an item that is overwritten is the newest in the order
    pairs = zip(adds, facts.existing, strict=True)
    comes = [replace(add, instead=item.seq) if item else add for add, (_, item) in pairs]
    return [*map(RemoveItem, (*replaced, *dropped)), *comes], dropped


def _for_want_of_room(
    facts: PublishFacts, node: Node, adds: Sequence[AddItem], replaced: Sequence[Item]
) -> Sequence[Item]:
    """Return the oldest items, which are removed; if those that were loaded are not enough, a trim removes the others."""
    if not is_bounded(node.config):
        return ()
    more = growth_by([add.draft for add in adds], replaced)
    over = surplus(node, *room_for(node), more)
    items = min(len(adds), over.items) if more.items > 0 else 0
    over = Growth(items, over.bytes if more.bytes > 0 else 0)
    stay = {item.seq for item in replaced}
    others = [item for item in facts.oldest if item.seq not in stay]
    return first_to_go(others, over)


def drops_loudly(node: Node) -> bool:
    """Return whether subscribers are notified of items that are dropped because the node is full (XEP-0060 7.1.2.5)."""
    config = node.config
    return config.notify_retract and config.publish_node_full is NodeFull.RETRACT_OLDEST


def room_for(node: Node) -> tuple[int | None, int | None]:
    """Return how many items, and bytes, a plain node keeps; None for any number."""
    config = node.config
    if not config.persist_items:
        return (1 if config.keeps else 0), None
    if config.publish_node_full is NodeFull.REJECT:
        return None, None
    return config.max_items, config.max_bytes
