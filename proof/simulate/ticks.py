"""Schedules of a run, over a change of the clocks: what they publish, and what they should have."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

from harness.batches.facts import BOSS, who
from msgspec.structs import replace

from pubqueue.model.entities import Millis, NodeName
from pubqueue.model.schedules import Definition, Missed, draft_of
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Create
from pubqueue.rules.schedules import AddSchedule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pubqueue.engine.broker import Broker
    from pubqueue.model.entities import ItemId

EPOCH: Final = Millis(1_806_760_200_000)
"""When a run begins: ten minutes before it is a quarter to three once more in Chatham, 2027-04-03T13:50:00Z."""

CHANGE: Final = Millis(EPOCH + 600_000)
NIGHT: Final = 15
"""Minutes from the change until it is three."""

TICKS: Final = NodeName("ticks")
MINUTELY: Final = Definition(
    "minutely", "* * * * *", "UTC", TICKS, b"<tick xmlns='urn:x'/>", missed=Missed.ALL
)
NIGHTLY: Final = replace(MINUTELY, name="nightly", cron="* 2 * * *", zone="Pacific/Chatham")
MINUTE: Final = 60_000


def true_time() -> Millis:
    """Return the time by a clock that nobody sets: that of the loop, and of a server that keeps the store."""
    return Millis(EPOCH + round(asyncio.get_running_loop().time() * 1000))


async def begin(broker: Broker) -> None:
    """Make a plain node, and the schedules that publish to it."""
    boss = replace(who(BOSS), admin=True)
    settings = Settings({"event_log": True, "max_items": 1_000})
    await broker.handle(Create(boss, TICKS, settings))
    for definition in (MINUTELY, NIGHTLY):
        await broker.handle(AddSchedule(boss, definition))


def expected(until: Millis) -> Iterator[ItemId]:
    """Yield what has to be published by then."""
    for moment in range(EPOCH + MINUTE, until + 1, MINUTE):
        yield draft_of(MINUTELY, Millis(moment)).id
    for moment in range(CHANGE, min(until, CHANGE + (NIGHT - 1) * MINUTE) + 1, MINUTE):
        yield draft_of(NIGHTLY, Millis(moment)).id


class Ticks:
    """What the schedules have published."""

    def __init__(self) -> None:
        self._published: Counter[str | None] = Counter()

    def published(self, item: str | None) -> bool:
        """Take note of an item; say whether it is the first of its id."""
        self._published[item] += 1
        return self._published[item] == 1

    def missing(self, until: Millis) -> list[str]:
        """Return what should have been published by then, and was not."""
        return [item for item in expected(until) if item not in self._published]
