"""Groups: items of a queue that belong together, of which only so many are in flight at a time, in their order.

The queue's own order, in which items are handed out, never holds more of a group than may be in flight. An item of a group is
in one of two places: in the line of its group, by the time of its publish, or it is the group's turn with it. Then it stands
in the queue's order, by its priority and the number `turn`, which it gets when its turn comes. Numbers only rise, so a group
whose item is done stands behind all that were ready before: groups take turns, and one of a million items lets others go
by. Nobody who hands out has to look at those that wait.

A turn lasts until the item leaves: it is done, dead, or moved to another node. Given back, failed, or waiting for another
try it keeps its turn, and the group waits for it, as order asks. What its publisher has delayed is in line only when its
time has come, and then in its old place. A priority says how far ahead of others a turn is; within the group it says
nothing, for that has an order of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubqueue.core.model import State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.core.model import Item


def in_line(item: Item) -> bool:
    """Return whether the item waits for a turn of its group."""
    return item.state is State.QUEUED and item.group != "" and not item.turn


def next_turns(limit: int, turns: int, line: Sequence[Item]) -> list[Item]:
    """Return the items whose turn comes, where `turns` of `limit` are under way: the first in line.

    A limit that was lowered takes no turn away: none comes until there are fewer again.
    """
    return sorted(line, key=_publish)[: max(0, limit - turns)]


def _publish(item: Item) -> int:
    return item.seq
