"""The schedules of the configuration file: changed to match it, and shown by `pubqueue check`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.config.settings import ConfigError
from pubqueue.engine import cron_times
from pubqueue.engine.listings import Nodes
from pubqueue.faces.xmpp.settings import sentence
from pubqueue.faces.xmpp.xml.payload_text import UnfitPayloadError, from_json, from_xml
from pubqueue.model.decision import Refused
from pubqueue.model.entities import NodeName, seconds
from pubqueue.model.schedules import MAX_SCHEDULES, Definition, Missed, SchedulesDeclared, stamp
from pubqueue.rules.schedules import DeclareSchedules, fault_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from pubqueue.config.settings import ScheduleSettings
    from pubqueue.engine.broker import Broker
    from pubqueue.engine.ports import Transaction
    from pubqueue.model.entities import Millis, Principal

log = structlog.get_logger(__name__)

ALL: Final = 1 << 30

SHOWN: Final = 3
"""How many of a schedule's next times `check` prints."""


def read(one: ScheduleSettings) -> Definition:
    """Return the definition of a schedule of the file.

    Raises:
        ConfigError: it is invalid.

    """
    try:
        if one.payload is not None and one.json is None:
            payload, space = from_xml(one.payload)
        elif one.payload is None and one.json is not None:
            payload, space = from_json(one.json)
        else:
            raise ConfigError(
                f"schedule {one.name!r}: set either payload or json, not both",
                key="schedule",
                value=one.name,
            )
    except UnfitPayloadError as problem:
        raise ConfigError(
            f"schedule {one.name!r}: {problem}", key="schedule", value=one.name
        ) from None
    definition = Definition(
        name=one.name,
        cron=" ".join(one.cron.split()),
        zone=one.zone,
        node=NodeName(one.node),
        payload=payload,
        type=space,
        priority=one.priority,
        ttl=None if one.ttl is None else seconds(one.ttl),
        headers=tuple(one.headers.items()),
        missed=Missed(one.missed),
        enabled=one.enabled,
        group=one.group,
    )
    if unfit := fault_of(definition) or cron_times.unfit(definition.cron, definition.zone):
        raise ConfigError(f"schedule {one.name!r}: {unfit}", key="schedule", value=one.name)
    return definition


def read_all(schedules: Iterable[ScheduleSettings]) -> tuple[Definition, ...]:
    """Return the definitions of all schedules of the file.

    Raises:
        ConfigError: one of them is invalid.

    """
    found = tuple(map(read, schedules))
    if len(found) > MAX_SCHEDULES:
        raise ConfigError(
            f"there are {len(found)} schedules; up to {MAX_SCHEDULES} are allowed",
            key="schedule",
            value=len(found),
        )
    return found


async def bring_schedules(
    broker: Broker, schedules: Iterable[ScheduleSettings], by: Principal
) -> None:
    """Create or change the file's schedules, end those that were removed from it, and log the changes.

    Raises:
        ConfigError: one of them is invalid, and nothing is changed; or the store refuses them.

    """
    definitions = read_all(schedules)
    following = await asyncio.to_thread(_following, definitions, broker.now())
    reply = await broker.handle(DeclareSchedules(by, definitions, following))
    if isinstance(reply, Refused):
        raise ConfigError(
            f"schedules: {sentence(reply) or reply.refusal.name.lower()}", key="schedule"
        )
    assert isinstance(reply, SchedulesDeclared)
    for event, names in (
        ("schedule.made", reply.made),
        ("schedule.changed", reply.changed),
        ("schedule.ended", reply.ended),
    ):
        for name in names:
            log.info(event, schedule=name)


def _following(definitions: Iterable[Definition], now: Millis) -> tuple[Millis | None, ...]:
    return tuple(cron_times.following(one.cron, one.zone, now) for one in definitions)


class Preview:
    """The output of `pubqueue check` about the schedules of the file. Raises ConfigError if one is invalid."""

    def __init__(
        self, schedules: Iterable[ScheduleSettings], declared: Collection[str], now: Millis
    ) -> None:
        self._definitions = read_all(schedules)
        self._declared = declared
        self._now = now

    def lines(self, tx: Transaction) -> list[str]:
        """Return a line for each schedule, and one more if its node is neither declared nor stored."""
        there = {node.name for node in tx.page(Nodes(), None, ALL)} if self._definitions else set()
        return [line for one in self._definitions for line in self._about(one, there)]

    def _about(self, one: Definition, there: Collection[str]) -> Iterator[str]:
        times = cron_times.times(one.cron, one.zone, self._now, SHOWN)
        when = f"next {', '.join(map(stamp, times))}" if one.enabled else "not enabled"
        yield f"schedule {one.name!r}: {when}"
        if one.node not in there and one.node not in self._declared:
            yield f"schedule {one.name!r}: its node {one.node!r} does not exist; the schedule waits until it does"
