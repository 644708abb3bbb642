"""Groups: items of a queue that belong together, of which only a limited number is in flight at a time, in their order.

The order in which the queue delivers never holds more items of a group than may be in flight. An item of a group is in
one of two places. It waits in its group, by the time of its publish, or it has the group's turn: then it is in the
queue's order, by its priority and the number `turn`, which is assigned when its turn begins. Numbers only rise, so when
an item of a group is done, the group's next item is placed after all items that were ready before. Groups alternate,
and one with a million items does not block others. Dispatch never looks at the waiting items.

A turn lasts until the item leaves: it is done, dead, or moved to another node. An item that was released, has failed,
or waits for another try keeps its turn, and the group waits for it, as the order requires. An item that its publisher
has delayed joins its group only when its time has come, at its old place. A priority moves a turn ahead of other
groups; it has no effect within the group, which has an order of its own.
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
    """Return the items whose turn begins, if `turns` of `limit` are in progress: the first that wait.

    A lower limit ends no turn: no new one begins until fewer are in progress.
    """
    return sorted(line, key=_publish)[: max(0, limit - turns)]


def _publish(item: Item) -> int:
    return item.seq
