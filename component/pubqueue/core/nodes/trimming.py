"""Bring what a node keeps to what its settings say, after these were narrowed: slice by slice, for it may be much.

In a queue of which more items of a group may be in flight than before, more take their turns, group after group.

Items beyond the number that a plain node may keep go, the oldest first. Lives are cut to what the node allows now; an
item whose life ends by that goes when its time comes, which may be at once. A longer life is for what is published from
then on. That a node is being trimmed is noted with its settings, and whatever happens it comes to its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.changes import CallGroups, EndTrim, RemoveItem, SetLife
from pubqueue.core.decision import Decision, Done
from pubqueue.core.model import State, later, seconds
from pubqueue.core.nodes.notifications import notify
from pubqueue.core.nodes.plain_publish import drops_loudly, room_for
from pubqueue.core.nodes.subscriptions.review import ReviewSubscribers
from pubqueue.core.notices import NOBODY, Retracted

if TYPE_CHECKING:
    from pubqueue.core.changes import Change
    from pubqueue.core.decision import Reply
    from pubqueue.core.model import Item, Node, NodeConfig, NodeName
    from pubqueue.core.notices import Audience

SLICE: Final = 200
"""Items that are looked at in one step."""


TURNS: Final = 500
"""Turns that come in one step, about."""


class TrimItems(Struct, frozen=True, gc=False):
    """Trim the node; lives are cut of items behind `after`, then groups behind `group` get their turns.

    `reply` is for who waits for the end. With `review` its subscribers are looked through afterwards.
    """

    node: NodeName
    reply: Reply | None = None
    after: int = 0
    review: bool = False
    group: str | None = None


class TrimItemsFacts(Struct, frozen=True, gc=False):
    """The node, and the next of its items: from the beginning where some have to go, else behind `after`.

    Or the next of its `groups`, as soon as it is about them.
    """

    node: Node | None
    items: tuple[Item, ...]
    audience: Audience = ()
    groups: tuple[str, ...] = ()


class ResumeTrims(Struct, frozen=True, gc=False):
    """Go on with what was not trimmed when the process ended."""


class ResumeTrimsFacts(Struct, frozen=True, gc=False):
    """A node that is still to be trimmed."""

    node: NodeName | None


def begins(before: NodeConfig, after: NodeConfig) -> bool:
    """Return whether there is something to do after the settings have become these."""
    return narrows(before, after) or (after.queueing and after.group_limit > before.group_limit)


def groups_of_slice(config: NodeConfig) -> int:
    """Return how many groups are looked at in one step: so that not many more turns than TURNS come in it."""
    return max(1, TURNS // config.group_limit)


def narrows(before: NodeConfig, after: NodeConfig) -> bool:
    """Return whether some of what is kept under the one does not fit the other."""
    if _is_less(after.item_expire, before.item_expire):
        return True
    if after.queueing:
        return False
    keeps_less = (before.persist_items, before.keeps) > (after.persist_items, after.keeps)
    drops = after.publish_node_full is not before.publish_node_full and after.max_items is not None
    return keeps_less or drops or _is_less(after.max_items, before.max_items)


def _is_less(now: int | None, before: int | None) -> bool:
    return now is not None and (before is None or now < before)


def excess(node: Node) -> int:
    """Return how many items have to go."""
    room = None if node.config.queueing else room_for(node)
    return 0 if room is None else max(0, node.items - room)


def trim(request: TrimItems, facts: TrimItemsFacts) -> Decision:
    """Trim a slice."""
    node = facts.node
    if node is None:
        return Decision(request.reply or Done())
    if request.group is not None:
        return _call(request, node, facts.groups)
    if (many := excess(node)) and facts.items:
        gone = facts.items[:many]
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


def _call(request: TrimItems, node: Node, groups: tuple[str, ...]) -> Decision:
    """Give turns to a slice of groups."""
    if not groups:
        return _end(request, node, ())
    then = replace(request, group=groups[-1])
    return Decision(Done(), (CallGroups(node.name, groups),), then=then)


def _end(request: TrimItems, node: Node, changes: tuple[Change, ...]) -> Decision:
    reply = request.reply or Done()
    then = ReviewSubscribers(node.name, reply) if request.review else None
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
    """Go on with a node that is still to be trimmed."""
    return Decision(Done(), then=None if facts.node is None else TrimItems(facts.node))
