"""The rule of quotas: the storage of an account compared with its limits (`core.limits.quotas`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.changes import AddItem, RemoveItem, ReplacePayload
from pubqueue.core.decision import Refusal, Refused
from pubqueue.core.limits.quotas import Holding, Quota, weight
from pubqueue.core.reading.summaries import Fullness

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.core.changes import Change
    from pubqueue.core.model import Jid


class Allowance(Struct, frozen=True, gc=False):
    """What an account has here, and what it may have."""

    holding: Holding
    quota: Quota

    def refuses_node(self) -> Refused | None:
        """Refuse one more node, if there are as many as may be."""
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
        """Return the largest share of what it may have; 0 where nothing is bounded."""
        shares = (
            (getattr(self.holding, what) / limit, what)
            for what in ("nodes", "items", "bytes")
            if (limit := getattr(self.quota, what))
        )
        share, what = max(shares, default=(0.0, "nodes"))
        return Fullness(share, what, self.holding)

    def left(self) -> tuple[int | None, int | None]:
        """Return how many more items and bytes there may be; None for any number."""
        has, may = self.holding, self.quota
        items = max(0, may.items - has.items) if may.items else None
        return items, max(0, may.bytes - has.bytes) if may.bytes else None


def overdrawn(allowance: Allowance | None, changes: Iterable[Change]) -> Refused | None:
    """Refuse changes in one node that bring more items or bytes than the account that pays for it may have."""
    if allowance is None:
        return None
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
    return allowance.refuses(items, size)


def overdrawn_together(comes: Iterable[tuple[Allowance | None, int]], size: int) -> Refused | None:
    """Refuse what comes into several nodes at once: of each the items, and the bytes of all of them together.

    How they are shared between the nodes is not asked: each account that is to have any of it needs room for all of it.
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
