"""What is read of items in pages: those of a node, of a holder, of a group."""

from __future__ import annotations

from typing import Any, Final

from pubqueue.app.store.listings import UNBOUNDED, Listing
from pubqueue.model.entities import NO_TIME, Item, ItemId, Jid, Millis, NodeName, State
from pubqueue.model.replies import ItemEntry


class GroupTurns(Listing[int], frozen=True, gc=False):
    """How many current turns each of these groups has, in their order."""

    groups: tuple[tuple[NodeName, str], ...]


class GroupLines(Listing[Item], frozen=True, gc=False):
    """The first waiting items of each of these groups, up to `limit` of each, in the order of their publish."""

    groups: tuple[tuple[NodeName, str], ...]


class WaitingGroups(Listing[str], frozen=True, gc=False):
    """Groups of a node with waiting items, by name; `after` is a name."""

    node: NodeName


class DoneItems(Listing[Item], frozen=True, gc=False):
    """What is done in a queue, by its publish, from the moment `since` on; `after` is a moment and a number."""

    node: NodeName
    since: Millis = NO_TIME


class ItemIds(Listing[ItemId], frozen=True, gc=False):
    """The ids of a node's items, oldest first; `after` is a sequence number."""

    node: NodeName


class Places(Listing[tuple[int, int]], frozen=True, gc=False):
    """The items of a plain node as (place, number), by place; `after` is one.

    In the order of their modification the place is the number; in that of their creation, the number of the first item of
    that id, whatever has overwritten it since. `backward`: in front of `after`, the nearest first.
    """

    node: NodeName
    created: bool
    backward: bool = False


class PlaceOf(Listing[int], frozen=True, gc=False):
    """One row: the place of the item of this number among the created ones."""

    number: int


class Items(Listing[tuple[Item, bytes]], frozen=True, gc=False):
    """A node's items with payloads, oldest first; `after` is a sequence number.

    `holders`: only items that are locked to one of these. `numbers`: only the items of these
    numbers, in their order. `newest`: the last n, still oldest first, and `after` is the number
    that they are before. The payloads are limited to `room` bytes, at which the page ends, but it
    has at least one item.
    """

    node: NodeName
    holders: tuple[Jid, ...] | None = None
    newest: bool = False
    numbers: tuple[int, ...] | None = None
    room: int = UNBOUNDED


class DeadItems(Listing[Item], frozen=True, gc=False):
    """Items that died here or were moved here dead, and are not locked, oldest first; `after` is a number."""

    node: NodeName


class LocksFromLast(Listing[Item], frozen=True, gc=False):
    """All locked items, the last to end first; `after` is the deadline and the number of one."""


class Locks(Listing[Item], frozen=True, gc=False):
    """Every locked item, by deadline and then number; `after` is such a pair."""


class HoldersOf(Listing[Jid], frozen=True, gc=False):
    """Addresses that hold items and look like connections of an instance to a service, each once, by address, of which `after` is one.

    To read it walks the holders of all locks.
    """

    service: Jid
    instance: int


class FullHolders(Listing[Jid], frozen=True, gc=False):
    """Full JIDs that hold items, each once, by address, of which `after` is one.

    To read it walks the holders of all locks.
    """


class HeldOf(Listing[int], frozen=True, gc=False):
    """How many items of each of these nodes all addresses of an account hold, in their order."""

    of: tuple[tuple[NodeName, Jid], ...]


class HeldBy(Listing[Item], frozen=True, gc=False):
    """Items locked to exactly this JID, in any node or in one, oldest first; `after` is a number."""

    holder: Jid
    node: NodeName | None = None


class ItemEntries(Listing[ItemEntry], frozen=True, gc=False):
    """A node's items numbered up to `until`; `after` is a number.

    The numbers are those of the items, or with the state DEAD those of their dead letters, and the order is theirs.
    Payloads are limited to `room` bytes, at which the page ends, but it has at least one item.
    """

    node: NodeName
    until: int
    state: State | None
    payloads: bool
    room: int


class Stride(Listing[int], frozen=True, gc=False):
    """At most one row: the number of the item `limit` places after `after` in the node; none if there are fewer."""

    node: NodeName


class NewestItems(Listing[tuple[NodeName, int]], frozen=True, gc=False):
    """The highest number of an item in each of these nodes, if there is any."""

    nodes: tuple[NodeName, ...]


class NewestItem(Listing[int], frozen=True, gc=False):
    """One row: the highest number of an item of the node, or of a dead letter; 0 if there is none."""

    node: NodeName
    dead: bool


class Counted(Listing[tuple[int, Any]], frozen=True, gc=False):
    """One row: how many of a node's items in this state, queued or dead, are at the next `limit` places of their order.

    And the last of these places, None if there are none after it; `after` is such a place.
    """

    node: NodeName
    state: State


SIZES: Final = 20_000
"""Items whose sizes are looked at for one count."""


class TooLarge(Listing[int], frozen=True, gc=False):
    """How many of the first `SIZES` ready items of a queue have payloads of more than so many bytes."""

    node: NodeName
    byte_count: int
