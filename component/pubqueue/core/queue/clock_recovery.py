"""Locks that end later than one given now: after the machine's clock was set back they would last too long.

Such a lock gets the deadline of a new one, so that a holder that is gone costs no more than that. The same
happens, without harm, to locks given before their queue's lock timeout was lowered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.core.changes import Extend
from pubqueue.core.decision import Decision, Recovered
from pubqueue.core.model import later, seconds

if TYPE_CHECKING:
    from pubqueue.core.changes import Change
    from pubqueue.core.model import Item, Millis, Node


class Recover(Struct, frozen=True, gc=False):
    """Correct the effects of a clock that was set back, slice by slice.

    `before` is the deadline and the number of the last item that was looked at; the latest deadline comes first.
    """

    before: tuple[Millis, int] | None = None


class RecoverFacts(Struct, frozen=True, gc=False):
    """The next locked items, each with its node; there may be more after `rest`."""

    now: Millis
    locked: tuple[tuple[Item, Node], ...]
    rest: tuple[Millis, int] | None = None


def longest(node: Node, now: Millis) -> Millis:
    """Return when a lock given now ends."""
    return later(now, seconds(node.config.longest_lock))


def recover(_request: Recover, facts: RecoverFacts) -> Decision:
    """Limit locks to the deadline of a new one."""
    changes: list[Change] = []
    for item, node in facts.locked:
        end = longest(node, facts.now)
        if item.deadline is not None and item.deadline > end:
            changes.append(Extend(item, end))
    then = None if facts.rest is None else Recover(facts.rest)
    holders = {item.holder: None for item, _ in facts.locked if item.holder is not None}
    return Decision(Recovered(tuple(holders)), tuple(changes), then=then)
