"""A fictional hour: samples of a queue, as its plots show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.operators.page_service import SERVICE

from pubqueue.model.entities import Millis
from pubqueue.model.records import SLOT, Sample, slot_of
from pubqueue.rules.survey import KeepSamples, ReadSamples

if TYPE_CHECKING:
    from harness.operators.page_service import Shown

    from pubqueue.model.entities import NodeName


async def an_hour(service: Shown, node: NodeName, size: int = 40) -> None:
    """Store an hour of samples of this queue, which has up to this many items."""
    (page,) = await service.do(ReadSamples(SERVICE, (), Millis(0)))
    begin = slot_of(page.now)
    samples = tuple(
        Sample(
            *(node, Millis(begin - minute * SLOT), (minute * 7) % size, minute % 3, 0),
            dead=minute // 20,
            published=minute % 9,
            delivered=minute % 8,
            completed=minute % 7,
            failed=minute % 2,
            waited=2_500 * (minute % 7),
            longest=9_000,
        )
        for minute in range(60)
    )
    await service.do(KeepSamples(SERVICE, samples))
