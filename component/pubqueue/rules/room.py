"""Whether there is room: in a node (`max_items`, `max_bytes`), and in an account's quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model.changes import AddItem, RemoveItem, ReplacePayload
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import AtExpiry, Draft, ItemId, State
from pubqueue.model.records import weight
from pubqueue.model.replies import Fullness
from pubqueue.model.transactions import SWEPT_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pubqueue.model.changes import Change
    from pubqueue.model.entities import Item, Jid, Millis, Node, NodeConfig, NodeName
    from pubqueue.model.records import Holding, Quota


# Whether a node has room for more items (`max_items`) and bytes (`max_bytes`).
#
# Bytes are counted by `model.records.weight`: payloads, and names and values of headers. A change that makes a node no larger
# is never refused, even if the node exceeds its limits since its settings were changed.


class Growth(Struct, frozen=True, gc=False):
    """How many more items and bytes a node has afterwards; less than 0 if fewer."""

    items: int = 0
    bytes: int = 0

    def __add__(self, other: Growth) -> Growth:
        """Return the sum."""
        return Growth(self.items + other.items, self.bytes + other.bytes)


NOTHING = Growth()


def is_bounded(config: NodeConfig) -> bool:
    """Return whether the node has a limit."""
    return config.max_items is not None or config.max_bytes is not None


def growth(changes: Iterable[Change]) -> Growth:
    """Return how much changes of items in one node add."""
    items = size = 0
    for change in changes:
        if type(change) is AddItem:
            items += 1
            size += weight(change.draft.payload, change.draft.headers)
        elif type(change) is RemoveItem:
            items -= 1
            size -= change.item.size
        elif type(change) is ReplacePayload:
            size += weight(change.payload, change.headers) - change.item.size
    return Growth(items, size)


def growth_by(drafts: Sequence[Draft], removed: Iterable[Item]) -> Growth:
    """Return how much is added by items that take the places of others."""
    gone = tuple(removed)
    size = sum(weight(draft.payload, draft.headers) for draft in drafts)
    return Growth(len(drafts) - len(gone), size - sum(item.size for item in gone))


def full(node: Node, more: Growth) -> Refused | None:
    """Refuse items for which the node has no room. One that drops its oldest items has room."""
    config = node.config
    if truncates(config):
        return None
    limit = config.max_items
    if limit is not None and more.items > 0 and node.items + more.items > limit:
        return Refused(Refusal.NODE_FULL, limit=limit)
    limit = config.max_bytes
    if limit is not None and more.bytes > 0 and node.bytes + more.bytes > limit:
        reason = f"the items of this node may have up to {limit} bytes, and have {node.bytes}"
        return Refused(Refusal.NODE_FULL, reason)
    return None


def never_fits(config: NodeConfig, drafts: Sequence[Draft]) -> Refused | None:
    """Refuse items that the node could not hold even if it were empty."""
    limit = config.max_items
    if limit is not None and len(drafts) > limit:
        return Refused(Refusal.TOO_MANY_ITEMS, limit=limit)
    limit = config.max_bytes
    if limit is None or not drafts:
        return None
    size = sum(weight(draft.payload, draft.headers) for draft in drafts)
    if size <= limit:
        return None
    reason = f"the node holds up to {limit} bytes, and this has {size}"
    return Refused(Refusal.PAYLOAD_TOO_BIG, reason)


def left_in(node: Node) -> tuple[int | None, int | None]:
    """Return how many more items, and bytes, the node accepts; None for any number."""
    config = node.config
    if truncates(config):
        return None, None
    items = None if config.max_items is None else max(0, config.max_items - node.items)
    size = None if config.max_bytes is None else max(0, config.max_bytes - node.bytes)
    return items, size


def surplus(node: Node, room: int | None, byte_room: int | None, more: Growth = NOTHING) -> Growth:
    """Return how many items, and bytes, have to be removed from a node with this limit that is to grow by `more`."""
    items = 0 if room is None else max(0, node.items + more.items - room)
    size = 0 if byte_room is None else max(0, node.bytes + more.bytes - byte_room)
    return Growth(items, size)


def first_to_go(oldest: Sequence[Item], over: Growth) -> Sequence[Item]:
    """Return the oldest of these that have to be removed: this many items, and at least this many bytes."""
    count, left = over.items, over.bytes - sum(item.size for item in oldest[: over.items])
    while left > 0 and count < len(oldest):
        left -= oldest[count].size
        count += 1
    return oldest[:count]


def slice_of(items: Sequence[Item], most: int = SWEPT_BYTES) -> Sequence[Item]:
    """Return the first of the items, of up to so many bytes, and at least one: what one step ends.

    A store frees the bytes of an item when it ends, which takes some of them as long as a write.
    """
    left = most
    for at, item in enumerate(items):
        left -= item.size
        if left < 0:
            return items[: max(1, at)]
    return items


def beyond_share(mine: int, used: int, more: int, most: int) -> bool:
    """Return whether an account that has `mine` of the `used` part may not have more of what all share.

    Beside others it has at most as much as is left for the rest, so that no few accounts have all of it.
    """
    return more > 0 and (mine if used > mine else 0) + more > most - used


# The rule of quotas: the storage of an account compared with its limits (`model.records`).


class Allowance(Struct, frozen=True, gc=False):
    """What an account has stored here, and its limits."""

    holding: Holding
    quota: Quota

    def refuses_node(self) -> Refused | None:
        """Refuse one more node, if the account has the maximum number."""
        limit = self.quota.nodes
        if not limit or self.holding.nodes < limit:
            return None
        reason = f"this account has created {self.holding.nodes} nodes, and may have {limit}: delete some first"
        return Refused(Refusal.TOO_MANY_NODES, reason)

    def refuses(self, items: int, size: int) -> Refused | None:
        """Refuse this many more items and bytes in nodes of the account; a request that adds nothing is never refused."""
        has, may = self.holding, self.quota
        for what, used, more, limit in (
            ("items", has.items, items, may.items),
            ("bytes", has.bytes, size, may.bytes),
        ):
            if more > 0 and limit and used + more > limit:
                reason = f"all nodes of the account that created this one may hold up to {limit} {what}, and hold {used}"
                return Refused(Refusal.TOO_MUCH_KEPT, reason)
        return None

    def fullness(self) -> Fullness:
        """Return the largest share of a limit that is used; 0 if there is no limit."""
        shares = (
            (getattr(self.holding, what) / limit, what)
            for what in ("nodes", "items", "bytes")
            if (limit := getattr(self.quota, what))
        )
        share, what = max(shares, default=(0.0, "nodes"))
        return Fullness(share, what, self.holding)

    def left(self) -> tuple[int | None, int | None]:
        """Return how many more items and bytes are allowed; None for any number."""
        has, may = self.holding, self.quota
        items = max(0, may.items - has.items) if may.items else None
        return items, max(0, may.bytes - has.bytes) if may.bytes else None


def overdrawn_of_each(
    comes: Iterable[tuple[NodeName, Allowance | None, Growth]],
) -> tuple[NodeName, Refused] | None:
    """Refuse items that enter several nodes at once: name the first node whose creator may not have all of its share."""
    of_account: dict[Jid, tuple[NodeName, Allowance, Growth]] = {}
    for node, allowance, more in comes:
        if allowance is not None:
            known = of_account.get(allowance.holding.account, (node, allowance, NOTHING))
            of_account[allowance.holding.account] = (*known[:2], known[2] + more)
    for node, allowance, more in of_account.values():
        if (no := allowance.refuses(more.items, more.bytes)) is not None:
            return node, no
    return None


def overdrawn_together(comes: Iterable[tuple[Allowance | None, int]], size: int) -> Refused | None:
    """Refuse items that enter several nodes at once: the items of each node, and the bytes of all of them together.

    How the bytes are divided between the nodes is not known: each account that gets any of them needs room for all.
    """
    items: dict[Jid, int] = {}
    payers: dict[Jid, Allowance] = {}
    for allowance, more in comes:
        if allowance is not None and more:
            account = allowance.holding.account
            payers[account] = allowance
            items[account] = items.get(account, 0) + more
    refusals = (payers[account].refuses(more, size) for account, more in items.items())
    return next((no for no in refusals if no is not None), None)


# The item that reports that others were dropped from a queue: the oldest, because of their age or for lack of room, or all of them.
#
# It is added in the commit that drops them, unless it waits there already. It is published by the service, and is delivered and
# settled like any other. It does not expire.

STATUS_ID: Final = ItemId("truncated")
STATUS: Final = b"<truncated xmlns='urn:x-pubqueue:data:0'/>"


def truncates(config: NodeConfig) -> bool:
    """Return whether a queue drops its oldest items when it is full, and reports it."""
    return config.queueing and config.expired is AtExpiry.TRUNCATE


def drops(config: NodeConfig) -> bool:
    """Return whether items that are too old are deleted: in a plain node always, in a queue if that is set."""
    return not config.queueing or config.expired is not AtExpiry.DEAD


def may_be_dropped(item: Item) -> bool:
    """Return whether no worker holds the item, and it is not the one that reports that others were dropped."""
    return item.state is not State.LOCKED and item.id != STATUS_ID


def status_item(node: NodeName, service: Jid, now: Millis) -> AddItem:
    """Return the change that adds the item."""
    return AddItem(node, Draft(STATUS_ID, STATUS), service, now, State.QUEUED, None, None)
