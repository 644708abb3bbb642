"""Deliveries that may never have been sent: after a crash they are sent again, under the same token.

A subscriber that has the item already knows the token, and works on it once; no other subscriber
gets it.
"""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003  # msgspec reads it
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.decision import Decision, Resent
from pubqueue.core.model import Level
from pubqueue.core.notices import Deliver

if TYPE_CHECKING:
    from pubqueue.core.model import Item, Millis

LOOKED_AT: Final = 250
"""Up to how many locks one step looks at."""

MAX_BYTES: Final = 1 << 20
"""Bytes of payload that one step sends again; the delivery that exceeds them is the last."""


class Resend(Struct, frozen=True, gc=False):
    """Send the locks with tokens in `span` again, a slice at a time after `after`.

    Without `span`: those with tokens that the process numbered `instance` has not recorded as sent,
    up to the newest.
    """

    span: tuple[int, int] | None = None
    after: tuple[Millis, int] | None = None
    instance: int = 0


class ResendFacts(Struct, frozen=True, gc=False):
    """The span, the slice of locks by deadline and number, and the payloads of those to be sent, by number.

    `subids` are those of their holders' subscriptions, by number of the item, if these exist.
    """

    now: Millis
    span: tuple[int, int]
    locks: tuple[Item, ...]
    payloads: dict[int, bytes]
    subids: Mapping[int, str] = {}
    levels: Mapping[int, Level] = {}
    """Of those whose deliveries are not messages, likewise."""


def is_undelivered(item: Item, span: tuple[int, int], now: Millis) -> bool:
    """Return whether the item is still locked and its delivery may never have been sent."""
    lasts = item.deadline is not None and item.deadline > now
    return lasts and span[0] <= item.token < span[1]


def resend(_request: Resend, facts: ResendFacts) -> Decision:
    """Send the deliveries again; the reply contains where the next slice begins."""
    sent = tuple(
        Deliver(
            item.holder,
            item,
            facts.payloads[item.seq],
            again=True,
            subid=facts.subids.get(item.seq, ""),
            level=facts.levels.get(item.seq, Level.UNACKNOWLEDGED),
        )
        for item in facts.locks
        if item.holder is not None and item.seq in facts.payloads
    )
    after = None
    if facts.locks and (last := facts.locks[-1]).deadline is not None:
        after = last.deadline, last.seq
    return Decision(Resent(facts.span, after), (), sent)
