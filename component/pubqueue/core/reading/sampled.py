"""A sample: the contents and the events of a queue in one minute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.core.model import Millis

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.core.model import NodeName

SLOT: Final = 60_000
"""Milliseconds of a sample."""

KEPT: Final = 6 * 3_600_000
"""Milliseconds for which a sample is kept."""


class Sample(Struct, frozen=True, gc=False):
    """A node in the minute that begins `at`.

    Levels at its end: items that are `queued`, `locked`, `delayed` and `dead`. Events in it: items
    that were `published`, `delivered`, `completed`, and locks that ended in a failure (`failed`).
    `waited` is the sum of the milliseconds from publish to done over the completed items, and
    `longest` the time of the slowest one.
    """

    node: NodeName
    at: Millis
    queued: int = 0
    locked: int = 0
    delayed: int = 0
    dead: int = 0
    published: int = 0
    delivered: int = 0
    completed: int = 0
    failed: int = 0
    waited: int = 0
    longest: int = 0


class SamplePage(Struct, frozen=True, gc=False):
    """Samples by node and time, as of `now`."""

    samples: tuple[Sample, ...]
    now: Millis

    def of(self, node: NodeName) -> Sequence[Sample]:
        """Return those of a node, the oldest first."""
        return [sample for sample in self.samples if sample.node == node]


def slot_of(now: Millis) -> Millis:
    """Return when the minute began."""
    return Millis(now - now % SLOT)
