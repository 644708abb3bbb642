"""How many items of a node may be handed out now, where its owner has bounded how many a second that are.

All that is kept is one moment: until when what was handed out has used the rate up (GCRA, the generic cell rate algorithm).
Every item moves it on by the time that it stands for, and it may be ahead of the clock by a second at most, or by one item
where an item stands for more. So what was not used for long is worth one second, and no more: in any `w` seconds at most
`rate * (w + 1)` items go out, and of less than one a second `rate * w + 1`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.core.model import Millis

if TYPE_CHECKING:
    from pubqueue.core.model import Node

SECOND: Final = 1_000_000
"""Microseconds, in which all of this is counted: of a thousand a second milliseconds could not tell one from another."""

TOGETHER: Final = Millis(20)
"""What becomes free within this time goes out together: nobody is woken a thousand times a second."""


def _step(rate: float) -> int:
    """Return the time that one item stands for, rounded up: the rate is never exceeded."""
    return -int(-SECOND // rate)


def _ahead(rate: float) -> int:
    return max(SECOND, _step(rate))


def _begin(rate: float, spent: int, now: Millis) -> int:
    """Return from when on the rate is free; a clock that was set back, or a lower rate before, costs no more than full use."""
    at = now * 1000
    return min(max(spent, at), at + _ahead(rate))


def allowed(node: Node, now: Millis) -> int | None:
    """Return how many items of the node may be handed out now, None for any number."""
    rate = node.config.rate
    if rate is None:
        return None
    return (now * 1000 + _ahead(rate) - _begin(rate, node.spent, now)) // _step(rate)


def spend(node: Node, now: Millis, count: int) -> int:
    """Return until when the rate is used up once so many items are handed out now."""
    rate = node.config.rate
    if rate is None:
        return node.spent
    return _begin(rate, node.spent, now) + count * _step(rate)


def free_again(node: Node, now: Millis) -> Millis:
    """Return when it is worth a look whether something more may be handed out, if nothing may be now."""
    rate = node.config.rate
    if rate is None:
        return now
    free = _begin(rate, node.spent, now) + _step(rate) - _ahead(rate)
    return Millis(max(-(-free // 1000), now + TOGETHER))
