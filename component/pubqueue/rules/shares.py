"""Fair shares between the groups of a queue: which group is next, by how much of the workers' time each has used recently."""

from __future__ import annotations

import heapq
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from pubqueue.model.entities import MAX_GROUP_LENGTH, NO_TIME, Millis
from pubqueue_xeps.wire.names import is_clean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pubqueue.model.entities import Item


# In a queue with fair shares the next item is one of the group that has used the least.
#
# What a group uses is time: as long as one of its items is held, from delivery to the end of the lock, the group uses one
# millisecond in a millisecond. What it has used fades, by a factor of e in a minute. So a group that always holds n items comes to
# n minutes, and one that holds none is forgotten in a few minutes. Each item costs a little besides, so that groups whose items take
# no time have equal shares of them. The sum is divided by the weight of the group.
#
# An item that is held will be held for a while longer. It counts for as long as items of the queue are usually held, or else the
# group with the least would get all free workers at once, and the others would have to wait for them.
#
# A group that is new starts where the one with the least stands. It is served at once, and has no more than its share afterwards,
# or else a publisher would invent a new group for each item.

SPAN: Final = 60_000.0
"""Milliseconds in which what a group has used fades by a factor of e."""

COST: Final = 10.0
"""Milliseconds that an item costs in addition to the time for which it is held."""

LEARNED: Final = 1 / 16
"""How much one item changes what is known of how long items are held."""

NEVER_USED: Final = -math.inf
"""The level of a group that has used nothing."""


class Use(Struct, frozen=True, gc=False):
    """What a group has used: milliseconds as of the moment `at`, and how many of its items are held since."""

    spent: float = 0.0
    at: Millis = NO_TIME
    held: int = 0


NOTHING: Final = Use()


def used(use: Use, now: Millis) -> float:
    """Return what a group has used, as of now."""
    kept = math.exp(-max(0, now - use.at) / SPAN)
    return use.spent * kept + use.held * SPAN * (1 - kept)


def begun(use: Use, now: Millis) -> Use:
    """Return the use with one more item held."""
    return Use(used(use, now) + COST, now, use.held + 1)


def ended(use: Use, now: Millis) -> Use:
    """Return the use with one item less held."""
    return Use(used(use, now), now, max(0, use.held - 1))


def learned(usual: float, took: float) -> float:
    """Return for how many milliseconds items are usually held, after one was held for `took`; it counts for a minute at most."""
    return usual + LEARNED * (min(max(0.0, took), SPAN) - usual)


def level(use: Use, weight: int, usual: float, now: Millis) -> float:
    """Return where a group stands: the lower comes first. The level of a group that holds nothing does not change with time."""
    amount = (used(use, now) + use.held * usual) / weight
    return math.log(amount) + now / SPAN if amount > 0 else NEVER_USED


def starting(at: float, weight: int, now: Millis) -> Use:
    """Return the use of a new group that starts at a level."""
    return Use(0.0 if at == NEVER_USED else math.exp(at - now / SPAN) * weight, now)


# The order of the next deliveries.


class Line(Struct):
    """The next items of a group, in their order, and what it has used; `order` decides between groups at the same level.

    `whole`: there are no more of them.
    """

    use: Use
    weight: int
    order: int
    items: Sequence[Item]
    whole: bool = True


class Turn(Struct, frozen=True, gc=False):
    """The items to deliver next, in order; `more`: there are others, which cannot be compared with them yet."""

    items: list[Item]
    more: bool


def in_turn(
    lines: Iterable[Line],
    usual: float,
    now: Millis,
    *,
    most: int,
    byte_count: int,
    beyond: float = math.inf,
) -> Turn:
    """Return up to `most` items, each of the group that has the least by then, and one at least if there is any.

    They end when their sizes have `byte_count` bytes, at a group whose further items are not known, and at one that stands behind
    `beyond`: a group that is not among these comes before it. All items put aside come in addition.
    """
    heap = [(level(one.use, one.weight, usual, now), one.order, one, 0) for one in lines]
    heap = [entry for entry in heap if entry[2].items or not entry[2].whole]
    heapq.heapify(heap)
    found: list[Item] = []
    more = False
    while heap and not more:
        at, order, line, count = heapq.heappop(heap)
        if count == len(line.items):
            more = not line.whole
        elif most <= 0 or byte_count <= 0 or (found and at > beyond):
            more = True
            heap.append((at, order, line, count))
        else:
            item = line.items[count]
            found.append(item)
            most -= not item.aside
            byte_count -= item.size
            line.use = begun(line.use, now)
            again = level(line.use, line.weight, usual, now)
            heapq.heappush(heap, (again, order, line, count + 1))
    found += (item for *_, line, count in heap for item in line.items[count:] if item.aside)
    return Turn(found, more)


# The weights of groups: a setting of the node that is text, `group=weight` on each line; without a name, that of items without a group.

MAX_WEIGHTS: Final = 100
"""Groups with a weight of their own."""

HIGHEST: Final = 1000
"""The highest weight; the lowest is 1, that of all others."""


class WeightError(ValueError):
    """Text that is not a table of weights; the message says what is expected."""


def read_weights(text: str) -> dict[str, int]:
    """Return weights by groups.

    Raises:
        WeightError: a line is not `group=weight`, a group occurs twice, or there are too many.

    """
    found: dict[str, int] = {}
    for line in filter(None, (line.strip() for line in text.split("\n"))):
        group, sign, weight = line.rpartition("=")
        known = weight.isascii() and weight.isdigit() and len(weight) <= len(str(HIGHEST))
        if not sign or not known or not 1 <= int(weight) <= HIGHEST:
            raise WeightError(f"each line is group=weight, with a weight from 1 to {HIGHEST}")
        if not is_clean(group) or len(group.encode()) > MAX_GROUP_LENGTH:
            raise WeightError(
                f"a group is a name of up to {MAX_GROUP_LENGTH} bytes, without control characters"
            )
        if group in found:
            raise WeightError(f"{group!a} occurs twice")
        if len(found) == MAX_WEIGHTS:
            raise WeightError(f"at most {MAX_WEIGHTS} groups have a weight of their own")
        found[group] = int(weight)
    return found


def written_weights(weights: Mapping[str, int]) -> str:
    """Return weights as the text of the setting."""
    return "\n".join(f"{group}={weight}" for group, weight in sorted(weights.items()))


@lru_cache(maxsize=64)
def weights_of(text: str) -> Mapping[str, int]:
    """Return weights by groups; none if another program has written other text there."""
    try:
        return read_weights(text)
    except WeightError:
        return {}
