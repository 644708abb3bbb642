"""The limits of an account, all in one table, for requests that ask for them.

The table only states the limits: each is enforced by its own rule.
"""

from __future__ import annotations

from enum import StrEnum, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.limits import budgets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pubqueue.core.limits.budgets import Budget
    from pubqueue.core.limits.quotas import Quota
    from pubqueue.core.transactions.model import Limits


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
    (Whose.ACCOUNT, budgets.ACCOUNT),
    (Whose.DOMAIN, budgets.DOMAIN),
    (Whose.EVERYBODY, budgets.EVERYBODY),
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
