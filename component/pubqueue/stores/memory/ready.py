"""What can be handed out, in its order; items whose life is over are passed over, so many at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from pubqueue.app.rows import Passed, Ready, up_to

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.app.rows import Rank, Reach
    from pubqueue.core.model import Item, Millis, NodeName
    from pubqueue.stores.memory.items import ItemTable
    from pubqueue.stores.memory.order import Order


def ready(
    items: ItemTable, rooms: Mapping[NodeName, int], now: Millis, octets: int, reach: Reach
) -> Ready:
    """Return the next items of each node, until their payloads are so many bytes; one at least."""
    found = Ready([])
    for node, room in rooms.items():
        if room <= 0:
            continue
        folder, begin = items.folder(node), reach.behind.get(node, Passed())
        look = _Look(items, now, room, room + max(1, reach.places // len(rooms)))
        queued, queued_end = look.along(folder.ready, begin.queued)
        aside, aside_end = look.along(folder.aside, begin.aside)
        for item in (*queued, *aside):
            found.rows.append(items.with_payload(item.seq))
            octets -= len(found.rows[-1][1])
            if octets <= 0:
                return found
        if len(queued) < room and (queued_end or aside_end):
            ends = queued_end or begin.queued, aside_end or begin.aside
            found.passed[node] = Passed(*ends)
    return found


class _Look(Struct):
    """Looks for so many living items, at so many places."""

    items: ItemTable
    now: Millis
    room: int
    places: int

    def along(self, order: Order[Rank], begin: Rank) -> tuple[list[Item], Rank | None]:
        """Return what lives at the next places, and up to where nothing does if all of them were looked at."""
        living: list[Item] = []
        looked, last = 0, begin
        for looked, last in enumerate(order.behind(begin), 1):
            item = self.items.at(last)
            if item.expires is None or item.expires > self.now:
                living.append(item)
            if looked == self.places or len(living) == self.room:
                break
        if looked < self.places:
            return living, None
        return living, up_to(living[0]) if living else last
