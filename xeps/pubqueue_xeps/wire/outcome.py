"""Whose fault it is that an item is given back, and what a handler raises to say so.

An unlock may carry an outcome to a service that knows `urn:x-pubqueue:0`; to any other it is a plain
unlock (XEP-0254 section 2.4), which is the same as a release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pubqueue_xeps.wire.times import until
from pubqueue_xeps.wire.xml_escape import ILLEGAL

if TYPE_CHECKING:
    from pubqueue_xeps.wire.times import When

MAX_REASON: Final = 1023

# ruff: noqa: N818 - the names say what shall happen to the item


@dataclass(frozen=True, slots=True, init=False)
class Outcome:
    """What an unlock says about the work.

    release: it is nobody's fault, and the item goes out again. failed: it counts as a failure, and
    the item is dead when it has failed too often. reject: it is dead at once. `delay` is how long a
    released or failed item waits at least, given as seconds, a timedelta or an aware datetime, and read as
    seconds; `reason` is kept with a dead item, where the
    owners of the queue read it: put no payload into it. Of a reason, the first 1023 characters are
    sent, and U+FFFD for each that XML forbids.
    """

    type: Literal["release", "failed", "reject"] = "release"
    delay: float | None = None
    reason: str | None = None

    def __init__(
        self,
        type: Literal["release", "failed", "reject"] = "release",  # noqa: A002 - the attribute's
        delay: When | None = None,
        reason: str | None = None,
    ) -> None:
        put = object.__setattr__  # it is frozen
        put(self, "type", type)
        put(self, "delay", None if delay is None else until("delay", delay))
        put(self, "reason", reason)

    def attributes(self) -> dict[str, str]:
        """Return it as the attributes of an `outcome` element."""
        written: dict[str, str] = {"type": self.type}
        if self.delay is not None:
            written["delay"] = f"{math.ceil(self.delay * 1000) / 1000:.3f}"
        if self.reason is not None:
            written["reason"] = ILLEGAL.sub("\ufffd", self.reason)[:MAX_REASON]
        return written


class Verdict(Exception):
    """What a handler raises to say itself what becomes of its item."""

    def __init__(self, sentence: str, outcome: Outcome) -> None:
        super().__init__(sentence)
        self.outcome = outcome


class Release(Verdict):
    """Raised by a handler to give the item back: not now, or not by me, and nobody's fault.

    It goes out again after `delay` (seconds, a timedelta, or an aware datetime until when), or when the service
    thinks fit. `reason`, if there is one, stands in the node's event log, which owners read; put no payload into it.
    """

    def __init__(self, delay: When | None = None, reason: str | None = None) -> None:
        super().__init__("The item is given back.", Outcome("release", delay, reason))


class Failed(Verdict):
    """Raised by a handler to count a failure: as any other exception does, with words of its own.

    The item goes out again after `delay` at least (given as for Release), or is dead when it has failed too often.
    `reason` is kept with one that is dead, and read by the owners of the queue; put no payload into it.
    """

    def __init__(self, reason: str, delay: When | None = None) -> None:
        super().__init__(reason, Outcome("failed", delay, reason))


class Reject(Verdict):
    """Raised by a handler to have no worker try the item again: it is dead at once.

    `reason` is kept with it, and read by the owners of the queue; put no payload into it.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason, Outcome("reject", reason=reason))


def outcome_of(error: BaseException) -> Outcome:
    """Return what an exception that ends the work on an item says about it.

    Release, Failed and Reject say it themselves. Any other is a failure with the name of its class as
    the reason, never its text, which may hold what was in the payload. What ends the program or the
    task, cancellation above all, is nobody's fault.
    """
    if isinstance(error, Verdict):
        return error.outcome
    if isinstance(error, Exception):
        return Outcome("failed", reason=type(error).__name__)
    return Outcome("release")
