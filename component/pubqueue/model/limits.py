"""The limits and budgets of an account."""

from __future__ import annotations

from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model.entities import Jid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pubqueue.model.records import Quota
    from pubqueue.model.transactions import Limits


# How much an account may have in progress at once, and how much its refusals may cost: one table, and one rule.
#
# In progress are requests that were accepted and are not answered. An account over a bound is refused with
# *wait*, without effect on others. The bounds are far above what the library's publishers and workers, Spark
# and a fleet of workers of one account have in progress.

MIB: Final = 1 << 20


class Budget(Struct, frozen=True, gc=False):
    """Bounds of requests in progress, and of the processor seconds that refused requests may have cost.

    `recovered` seconds of these are forgiven each second.
    """

    requests: int
    byte_count: int
    items: int
    reads: int
    refused: float
    recovered: float


ACCOUNT: Final = Budget(2048, 3 * MIB, 8192, 64, 0.15, 0.1)
"""Of one account: all its resources together."""

DOMAIN: Final = Budget(3072, 9 * MIB // 2, 12_288, 256, 0.3, 0.2)
"""Of all accounts of a foreign server, which may create any number of them."""

EVERYBODY: Final = Budget(4096, 24 * MIB, 32_768, 512, 0.0, 0.0)
"""The sum over all accounts. From this many requests or bytes on, reading stops until half of them
are answered; `reads` are refused.
"""


NEWCOMER: Final = 8
"""Requests that an account may have under way however little is left."""


def share(most: int, total: int, free: int) -> int:
    """Return how much one may have now, of which there is so much in total, and so much is free.

    It is `most` for one who is alone, and less the less is left. However many take all that they get, something is left for
    one who has nothing: with `most` at half of `total`, each of `n` gets `total / (n + 1)`.
    """
    return min(most, max(0, free) * most // (total - most))


class Used(Struct, gc=False):
    """What one of them has in progress. `since` is when the cost of refusals was last computed, in seconds."""

    requests: int = 0
    byte_count: int = 0
    items: int = 0
    reads: int = 0
    refused: float = 0.0
    since: float = 0.0

    def charge(self, seconds: float, budget: Budget, now: float) -> None:
        """Add the cost of a refused request."""
        self._forgive(budget, now)
        self.refused += seconds

    def beyond(self, budget: Budget, now: float) -> str:
        """Return the name of the exceeded bound, or "" if one more request may be read."""
        if self.refused:
            self._forgive(budget, now)
            if self.refused > budget.refused:
                return "this account's refused requests have used too much processor time"
        if self.requests >= budget.requests:
            return f"{budget.requests} requests are in progress"
        if self.byte_count >= budget.byte_count:
            return f"{budget.byte_count} bytes are in progress"
        if self.items >= budget.items:
            return f"{budget.items} items are in progress"
        return ""

    def has_its_share(self, budget: Budget, requests: int, byte_count: int) -> bool:
        """Return whether it has what it may have beside the others, while all together have so much in progress."""
        if requests <= budget.requests and byte_count <= budget.byte_count:
            return False  # there is enough for all: only its own bounds hold
        if self.requests < NEWCOMER:
            return False
        free, free_bytes = EVERYBODY.requests - requests, EVERYBODY.byte_count - byte_count
        return self.requests >= share(
            budget.requests, EVERYBODY.requests, free
        ) or self.byte_count >= share(budget.byte_count, EVERYBODY.byte_count, free_bytes)

    def _forgive(self, budget: Budget, now: float) -> None:
        self.refused = max(0.0, self.refused - (now - self.since) * budget.recovered)
        self.since = now


def payers(account: Jid, local: bool) -> tuple[tuple[Jid, Budget], ...]:  # noqa: FBT001 - a key
    """Return the budgets that a request counts in: the account's, and that of its server if it is a remote one."""
    if local or "@" not in account:
        return ((account, ACCOUNT),)
    return ((account, ACCOUNT), (Jid("@" + account.rpartition("@")[2]), DOMAIN))


# The limits of an account, all in one table, for requests that ask for them.
#
# The table only states the limits: each is enforced by its own rule.


@unique
class Whose(StrEnum):
    """What a limit applies to."""

    ACCOUNT = "an account"
    DOMAIN = "all accounts of a foreign server"
    EVERYBODY = "all together"


@unique
class Unit(StrEnum):
    """What a limit counts."""

    NUMBER = ""
    BYTES = "bytes"
    SECONDS = "s"


class Limit(Struct, frozen=True, gc=False):
    """A limit of this much, for each `whose`."""

    whose: Whose
    what: str
    most: float
    unit: Unit = Unit.NUMBER


BUDGETS: Final = (
    (Whose.ACCOUNT, ACCOUNT),
    (Whose.DOMAIN, DOMAIN),
    (Whose.EVERYBODY, EVERYBODY),
)


def limits(staged: Limits, subscriptions: int, quota: Quota) -> tuple[Limit, ...]:
    """Return every limit.

    `staged` are the limits of items that wait for commits, `subscriptions` is the number that an account may have,
    and `quota` is the default limit of its storage.
    """
    under_way = (limit for whose, budget in BUDGETS for limit in _under_way(whose, budget))
    kept = (
        Limit(Whose.ACCOUNT, "subscriptions", subscriptions),
        Limit(Whose.ACCOUNT, "items that wait for a commit", staged.items_per_account),
        Limit(Whose.ACCOUNT, "bytes that wait for a commit", staged.bytes_per_account, Unit.BYTES),
        Limit(Whose.ACCOUNT, "apps of transactions", staged.apps_per_account),
        Limit(Whose.EVERYBODY, "items that wait for a commit", staged.items),
        Limit(Whose.EVERYBODY, "bytes that wait for a commit", staged.bytes, Unit.BYTES),
    )
    return (*under_way, *kept, *_quotas(quota))


def _quotas(quota: Quota) -> Iterator[Limit]:
    """Yield the limits of an account's storage; 0 means no limit."""
    for what, most, unit in (
        ("nodes that it has created", quota.nodes, Unit.NUMBER),
        ("items in these", quota.items, Unit.NUMBER),
        ("bytes in these", quota.bytes, Unit.BYTES),
    ):
        if most:
            yield Limit(Whose.ACCOUNT, what, most, unit)


def _under_way(whose: Whose, budget: Budget) -> Iterator[Limit]:
    """Yield the bounds of a budget; a time of 0 sets no bound."""
    yield Limit(whose, "requests in progress", budget.requests)
    yield Limit(whose, "bytes in progress", budget.byte_count, Unit.BYTES)
    yield Limit(whose, "items in progress", budget.items)
    yield Limit(whose, "reads in progress", budget.reads)
    if budget.refused:
        yield Limit(whose, "processor time of refused requests", budget.refused, Unit.SECONDS)


def by_whose(found: Iterable[Limit]) -> dict[Whose, list[Limit]]:
    """Return the limits by what they apply to, in the order of the table."""
    grouped: dict[Whose, list[Limit]] = {}
    for limit in found:
        grouped.setdefault(limit.whose, []).append(limit)
    return grouped
