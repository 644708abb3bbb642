"""A requested publish, and the facts for its rule."""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.nodes.access import AutoCreation, CreationPolicy
from pubqueue.core.nodes.references import NOTHING_NAMED, Others

if TYPE_CHECKING:
    from pubqueue.core.limits.allowance import Allowance
    from pubqueue.core.model import (
        Affiliation,
        Draft,
        Item,
        ItemId,
        Millis,
        Node,
        NodeName,
        Principal,
    )
    from pubqueue.core.nodes.nodeconfig import Settings
    from pubqueue.core.notices import Audience
    from pubqueue.core.publishing.keys import KeyFacts, PublishKey


class Publish(Struct, frozen=True, gc=False):
    """Add these items to the node, all or none.

    `options` are settings that the node must have, or is created with if it does not exist (XEP-0060 7.1.5). Under a `key` it is
    done once. With `queueing` only a node of that kind is meant, and none is created. With `only_new` an item is not replaced by
    one with its id.
    """

    by: Principal
    node: NodeName
    drafts: tuple[Draft, ...]
    options: Settings | None = None
    key: PublishKey | None = None
    queueing: bool | None = None
    only_new: bool = False


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
    """A queue that the node feeds, and what it knows of each draft's id: None for drafts that its filter leaves out."""

    queue: Node
    met: tuple[Met | None, ...]
    allowance: Allowance | None = None
    """Of the account that created the queue; None if it has no limits."""


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
    """The queues that a plain node feeds."""
    allowance: Allowance | None = None
    """Of the account that created the node, or is to create it; None if it has no limits."""
    key: KeyFacts | None = None
    """What is known of the request's key, if it has one."""
