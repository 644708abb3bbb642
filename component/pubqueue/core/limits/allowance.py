"""The rule of quotas: the storage of an account compared with its limits (`core.limits.quotas`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.decision import Refusal, Refused
from pubqueue.core.nodes.room import NOTHING, Growth
from pubqueue.core.reading.summaries import Fullness

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pubqueue.core.limits.quotas import Holding, Quota
    from pubqueue.core.model import Jid, NodeName


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
