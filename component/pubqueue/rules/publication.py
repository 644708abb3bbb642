"""A requested publish: the facts for its rule, and the place of each item in the node."""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model.after import waiting
from pubqueue.model.changes import AddItem, Change, ReplacePayload
from pubqueue.model.decision import Refusal, Refused, Request
from pubqueue.model.entities import State, excess, later, seconds
from pubqueue.model.joins import Join
from pubqueue.model.waits import Wait
from pubqueue.rules.access import NOTHING_NAMED, AutoCreation, CreationPolicy, Others

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.model.entities import (
        Affiliation,
        Draft,
        Headers,
        Item,
        ItemId,
        Jid,
        Millis,
        Node,
        NodeConfig,
        NodeName,
        Principal,
    )
    from pubqueue.model.notices import Audience
    from pubqueue.model.records import KeyFacts, PublishKey
    from pubqueue.rules.nodeconfig import Settings
    from pubqueue.rules.room import Allowance


# A requested publish, and the facts for its rule.


class Publish(Request, frozen=True, gc=False):
    """Add these items to the node, all or none.

    `options` are settings that the node must have, or is created with if it does not exist (XEP-0060 7.1.5). Under a `key` it is
    done once. With `queueing` only a node of that kind is meant, and none is created. With `only_new` an item is not replaced by
    one with its id. With `guests_follow` the queues of guests get the items after the commit (`rules.feed`): it is one of many
    publishes in a commit.
    """

    by: Principal
    node: NodeName
    drafts: tuple[Draft, ...]
    options: Settings | None = None
    key: PublishKey | None = None
    queueing: bool | None = None
    only_new: bool = False
    guests_follow: bool = False


@unique
class Known(Enum):
    """What the node knows of an id, compared with the payload that is offered under it."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    NEW = auto()
    """Nothing, or an id of finished work that no longer counts."""
    FINISHED = auto()
    """Finished within the deduplication window, with this payload."""
    SAME = auto()
    """Exists, with this payload."""
    OTHER = auto()
    """Exists, with another payload."""


class Met(Struct, frozen=True, gc=False):
    """What a fed queue knows of a draft's id.

    If the id is taken, `elsewhere` is the id under which the draft is added; `repeated` means that it has been added
    before.
    """

    known: Known
    item: Item | None
    elsewhere: ItemId | None = None
    repeated: bool = False


class Fed(Struct, frozen=True, gc=False):
    """A queue that the node feeds, and what it knows of each draft's id: None for drafts that its filter leaves out.

    That of a guest refuses nothing (`rules.feed`).
    """

    queue: Node
    met: tuple[Met | None, ...]
    allowance: Allowance | None = None
    """Of the account that created the queue; None if it has no limits."""
    is_guest: bool = False


class JoinMet(Struct, frozen=True, gc=False):
    """A join that a publish names, None if it does not exist; its node, and what the publisher is to that."""

    node: Node | None
    affiliation: Affiliation
    item: Item | None


class PublishFacts(Struct, frozen=True, gc=False):
    """The node, the principal's rights, and per draft the item that already has its id.

    `oldest` are the first items of a plain node that has to drop some, as many as may have to be
    dropped. If the node does not exist, `policy` and `creation` decide whether the publish creates
    it, and `others` are the nodes that its settings would name.
    """

    now: Millis
    node: Node | None
    affiliation: Affiliation
    subscribed: bool
    existing: tuple[tuple[Known, Item | None], ...]
    audience: Audience = ()
    oldest: tuple[Item, ...] = ()
    policy: CreationPolicy = CreationPolicy.ADMINS
    creation: AutoCreation = AutoCreation.NEVER
    others: Others = NOTHING_NAMED
    fed: tuple[Fed, ...] = ()
    """The queues that a plain node feeds, except for those that get the items after the commit."""
    hosts: int = 0
    """How many of all the queues that it feeds may refuse the publish."""
    followers: tuple[NodeName, ...] = ()
    mark: str = ""
    """The queues that get the items after the commit, and a mark for that, which no other publish has."""
    allowance: Allowance | None = None
    """Of the account that created the node, or is to create it; None if it has no limits."""
    joins: Mapping[tuple[NodeName, ItemId], JoinMet] = {}
    """By node and id the joins that the drafts name."""
    key: KeyFacts | None = None
    """What is known of the request's key, if it has one."""


# What a published item becomes in a node: its place, its lifetime, and the limits for any publisher.

MAX_COPIES: Final = 2_000
MAX_BYTES: Final = 32 << 20
"""The maximum items, and bytes of payloads, that one publish, or one death, adds to all fed queues together: others wait for this commit."""


@unique
class Place(Enum):
    """What a published item becomes in a queue."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    ADD = auto()
    LEAVE = auto()
    """The work already exists or is done: nothing changes."""
    REPLACE = auto()
    """Its payload replaces that of an unlocked item."""
    BUSY = auto()
    HELD = auto()
    """The item is held: what it waits for belongs to its payload."""
    DEAD = auto()


# fmt: off
PLACES: Final[dict[tuple[Known, State | None], Place]] = {
    (Known.NEW,      None):          Place.ADD,
    (Known.FINISHED, None):          Place.LEAVE,
    (Known.SAME,     State.QUEUED):  Place.LEAVE,
    (Known.SAME,     State.DELAYED): Place.LEAVE,
    (Known.SAME,     State.LOCKED):  Place.LEAVE,
    (Known.SAME,     State.HELD):    Place.LEAVE,
    (Known.SAME,     State.DEAD):    Place.LEAVE,
    (Known.OTHER,    State.QUEUED):  Place.REPLACE,
    (Known.OTHER,    State.DELAYED): Place.REPLACE,
    (Known.OTHER,    State.LOCKED):  Place.BUSY,
    (Known.OTHER,    State.HELD):    Place.HELD,
    (Known.OTHER,    State.DEAD):    Place.DEAD,
}

TAKEN: Final[dict[Place, tuple[Refusal, str]]] = {
    Place.BUSY: (Refusal.ITEM_LOCKED, "item {} is in flight"),
    Place.HELD: (Refusal.ITEM_LOCKED, "item {} is held until a signal comes, or its time is over"),
    Place.DEAD: (Refusal.ITEM_EXISTS, "item {} is dead here: redrive or retract it"),
}
"""The places that refuse an item, with the text about its id."""
# fmt: on


def misfit(size: int, space: str, headers: Headers, config: NodeConfig) -> Refused | None:
    """Refuse an item that the node's settings do not allow for any publisher."""
    if size > config.max_payload_size:
        return Refused(Refusal.PAYLOAD_TOO_BIG, limit=config.max_payload_size)
    if not size:
        required = config.queueing or config.deliver_payloads
        return Refused(Refusal.PAYLOAD_REQUIRED) if required else None
    if config.type and space != config.type:  # XEP-0060 7.1.3.6
        reason = f"payloads of this node are in the namespace {config.type}"
        return Refused(Refusal.WRONG_PAYLOAD, reason)
    if headers and (too_much := excess(headers)) is not None:
        return Refused(Refusal.HEADERS_TOO_BIG, too_much)
    return None


def placed(place: Place, item: Item | None, add: AddItem) -> list[Change]:
    """Return the changes of one draft in a queue: none for work that exists or is done."""
    if place is Place.ADD:
        return [add]
    if place is Place.REPLACE and item is not None:
        return [ReplacePayload(item, add.draft.payload, add.publisher, add.draft.headers)]
    return []


def new_item(draft: Draft, node: Node, publisher: Jid, now: Millis) -> AddItem:
    """Return the change that adds a draft to a node as a new item."""
    state, due = waiting(now, draft.delay)
    life = life_of(draft, node)
    expires = None if life is None else later(now, life)
    if (hold := draft.hold) is None:
        return AddItem(node.name, draft, publisher, now, state, due, expires)
    due = None if hold.within is None else later(now, hold.within)
    join = Join(is_open=hold.is_open) if hold.is_join else None
    wait = Wait(hold.signals, now, hold.then, join=join)
    return AddItem(node.name, draft, publisher, now, State.HELD, due, expires, wait=wait)


def life_of(draft: Draft, node: Node) -> Millis | None:
    """Return the item's lifetime: the shorter of the publisher's and the node's."""
    expire = node.config.item_expire
    if expire is None:
        return draft.ttl
    return seconds(expire) if draft.ttl is None else min(draft.ttl, seconds(expire))
