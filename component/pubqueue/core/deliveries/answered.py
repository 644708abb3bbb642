"""The record of an answer to a delivery, for the instance that waits for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from pubqueue.core.model import Millis


class Answered(Struct, frozen=True, gc=False):
    """The delivery of a lock has `arrived`, or else its bytes were received; to be remembered until the lock is over."""

    token: int
    arrived: bool
    until: Millis
