"""How many items of a node may be delivered now, if its owner has limited the rate.

The only state is one moment: until when the deliveries so far have used the rate up (GCRA, the
generic cell rate algorithm). Every item moves it on by the time that one item takes at the rate. It
may be ahead of the clock by up to a second, or by one item if an item takes longer. So unused rate
is saved for one second, and no more: in any `w` seconds up to `rate * (w + 1)` items are delivered,
or `rate * w + 1` at a rate below one a second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.core.model import Millis

if TYPE_CHECKING:
    from pubqueue.core.model import Node

SECOND: Final = 1_000_000
"""Microseconds, the unit of these calculations: at a thousand a second, milliseconds would be too coarse."""

TOGETHER: Final = Millis(20)
"""Deliveries that become free within this time are made together, so that dispatch does not wake a thousand times a second."""


def _step(rate: float) -> int:
    """Return the time that one item uses, rounded up: the rate is never exceeded."""
    return -int(-SECOND // rate)


def _ahead(rate: float) -> int:
    return max(SECOND, _step(rate))


def _begin(rate: float, spent: int, now: Millis) -> int:
    """Return from when on the rate is free; a clock that was set back, or a lower rate before, costs no more than full use."""
    at = now * 1000
    return min(max(spent, at), at + _ahead(rate))


def allowed(node: Node, now: Millis) -> int | None:
    """Return how many items of the node may be delivered now, None for any number."""
    rate = node.config.rate
    if rate is None:
        return None
    return (now * 1000 + _ahead(rate) - _begin(rate, node.spent, now)) // _step(rate)


def spend(node: Node, now: Millis, count: int) -> int:
    """Return until when the rate is used up once this many items are delivered now."""
    rate = node.config.rate
    if rate is None:
        return node.spent
    return _begin(rate, node.spent, now) + count * _step(rate)


def free_again(node: Node, now: Millis) -> Millis:
    """Return when the next deliveries may be possible, if none is now."""
    rate = node.config.rate
    if rate is None:
        return now
    free = _begin(rate, node.spent, now) + _step(rate) - _ahead(rate)
    return Millis(max(-(-free // 1000), now + TOGETHER))
