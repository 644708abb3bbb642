"""A publish that is asked for, and what its rule has to know."""

from __future__ import annotations

from enum import Enum, auto, unique
from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.nodes.access import AutoCreation, CreationPolicy
from pubqueue.core.nodes.references import NOTHING_NAMED, Others

if TYPE_CHECKING:
    from pubqueue.core.limits.allowance import Allowance
    from pubqueue.core.model import Affiliation, Draft, Item, Millis, Node, NodeName, Principal
    from pubqueue.core.nodes.nodeconfig import Settings
    from pubqueue.core.notices import Audience


class Publish(Struct, frozen=True, gc=False):
    """Add these items to the node, all or none.

    `options` are settings that the node has to have, or is made with if it is not there (XEP-0060 7.1.5).
    """

    by: Principal
    node: NodeName
    drafts: tuple[Draft, ...]
    options: Settings | None = None


@unique
class Known(Enum):
    """What the node knows of an id, next to the payload that is offered under it."""

    __hash__ = object.__hash__  # an enumeration's own is a call in Python

    NEW = auto()
    """Nothing, or an id of finished work that no longer counts."""
    FINISHED = auto()
    """Finished within the deduplication window, with this payload."""
    SAME = auto()
    """There, with this payload."""
    OTHER = auto()
    """There, with another payload."""


class PublishFacts(Struct, frozen=True, gc=False):
    """The node, the principal's rights, and per draft the item that already has its id.

    `oldest` are the first items of a plain node that has to drop some, as many as may have to go.
    If the node does not exist, `policy` and `creation` decide whether the publish creates it, and
    `others` are the nodes that its settings would name.
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
    allowance: Allowance | None = None
    """Of the account that has made the node, or is to make it; None where it may have any number."""
