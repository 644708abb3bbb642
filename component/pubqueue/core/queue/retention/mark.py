"""The record of a seek that is under way: enough for any process to go on with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from pubqueue.core.model import Millis, NodeName


class SeekMark(Struct, frozen=True, gc=False):
    """A seek of the queue to the moment `since`, asked for at `at`, when its newest item had the number `through`.

    It holds for what was there when it was asked for: so each step may be made again.
    """

    node: NodeName
    since: Millis
    at: Millis
    through: int
