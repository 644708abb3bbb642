"""Locks that end later than one given now: after the machine's clock was set back they would last too long.

Such a lock gets the time that a new one would have, so that a holder who is gone costs no more than that.
The same happens, without harm, to locks given before their queue's lock timeout was lowered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.changes import Extend
from pubqueue.core.decision import (
    Decision,
    Done,
)
from pubqueue.core.model import later, seconds

if TYPE_CHECKING:
    from pubqueue.core.model import Item, Millis, Node


class Recover(Struct, frozen=True, gc=False):
    """Put right what a clock that was set back has left."""


class RecoverFacts(Struct, frozen=True, gc=False):
    """Every queue with its locks that end after `longest` from `now`."""

    now: Millis
    late: tuple[tuple[Node, tuple[Item, ...]], ...]


def longest(node: Node, now: Millis) -> Millis:
    """Return when a lock given now ends."""
    return later(now, seconds(node.config.lock_timeout))


def recover(_request: Recover, facts: RecoverFacts) -> Decision:
    """Let no lock last longer than a new one."""
    changes = [
        Extend(item, longest(node, facts.now)) for node, items in facts.late for item in items
    ]
    return Decision(Done(), tuple(changes))
