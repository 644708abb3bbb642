"""The meaning of a target's answer: a table of statuses. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum, unique
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_RETRY: Final = 3600.0
"""The maximum seconds for which a target may pause its pushes."""


@unique
class Verdict(Enum):
    """The effect on the message, and on the registration."""

    DONE = "done"
    FOLLOW = "follow"
    """The target names another URL, which is called at once."""
    LATER = "later"
    """The message is released, and nothing is pushed for a while."""
    GONE = "gone"
    """The registration ends."""
    BAD = "bad"
    """The message is rejected, and dies."""
    DISABLED = "disabled"
    """The message is released, and the registration is disabled."""
    AGAIN = "again"
    """The message is released for a while, without a failure of its own; it counts as one of the registration."""
    FAILED = "failed"
    """The attempt is a failure of the message."""


class Outcome(Struct, frozen=True):
    """The result of a push: the verdict, its reason for operators, seconds to wait, and the URL for the next message."""

    verdict: Verdict
    reason: str = ""
    wait: float = 0.0
    following: str = ""


BAD: Final = frozenset({400, *range(411, 417), 422})
DISABLING: Final = frozenset({401, 402, 403, 405, 407, 417, 505})
DONE: Final = frozenset({*range(200, 300), 303, 304})
FOLLOWED: Final = frozenset({307, 308})
BUSY: Final = frozenset({429, 503})
GONE: Final = 410


def verdict_of(status: int, *, has_retry: bool = False) -> Verdict:
    """Return the meaning of a status."""
    if status in DONE:
        return Verdict.DONE
    if status in FOLLOWED:
        return Verdict.FOLLOW
    if status in BUSY and has_retry:
        return Verdict.LATER
    if status == GONE:
        return Verdict.GONE
    if status in BAD:
        return Verdict.BAD
    return Verdict.DISABLED if status in DISABLING else Verdict.FAILED


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds of `Retry-After`, up to an hour, None without one that can be read (RFC 9110 10.2.3)."""
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal() and text.isascii():
        return min(float(text[:9]), MAX_RETRY)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(0.0, (moment - datetime.fromtimestamp(now, UTC)).total_seconds()), MAX_RETRY)
