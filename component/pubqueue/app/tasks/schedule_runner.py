"""Gives schedules their turns, and logs the results.

Their times are calculated here, in a thread and beside the batches: the cost of a calendar, or a
fault in it, affects one schedule only.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import structlog

from pubqueue.app.facts.schedules import cron_times
from pubqueue.model.schedules import MAX_MISSED, Fired, Times, TimesWanted
from pubqueue.rules.schedules import FireSchedule

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from pubqueue.model.decision import Reply

    Beside = Callable[[Callable[[TimesWanted], Times], TimesWanted], Awaitable[Times]]

log = structlog.get_logger(__name__)

TURNS: Final = 3
"""How often the times of a schedule are computed in one turn, if others change it meanwhile."""

TIMEOUT: Final = 5.0
"""Seconds that computing the times of one schedule may take; it takes milliseconds, because each walk is bounded."""

FAULT: Final = "its times could not be computed"
"""The error text of a schedule whose calendar has failed; the log has the fault."""


async def fire(
    names: Iterable[str], do: Callable[[FireSchedule], Awaitable[Reply]], beside: Beside
) -> None:
    """Give each schedule its turn, one after the other: a failure of one does not affect the others.

    `beside` runs a function with its argument without blocking the loop: in a thread.
    """
    for name in names:
        _log(await turn(name, do, beside))


async def turn(
    name: str, do: Callable[[FireSchedule], Awaitable[Reply]], beside: Beside = asyncio.to_thread
) -> Reply:
    """Give a schedule its turn: compute the times that it asks for, as often as others change it meanwhile."""
    reply = await do(FireSchedule(name))
    for _ in range(TURNS):
        if not isinstance(reply, TimesWanted):
            break
        reply = await do(FireSchedule(name, await _times(reply, beside)))
    return reply


async def _times(wanted: TimesWanted, beside: Beside) -> Times:
    try:
        async with asyncio.timeout(TIMEOUT):
            return await beside(worked_out, wanted)
    except (
        Exception
    ):  # the boundary of a calendar: the schedule is postponed, and all others continue
        log.exception("schedule.calendar_failed", schedule=wanted.name)
        return Times(wanted.revision, fault=FAULT)


def worked_out(wanted: TimesWanted) -> Times:
    """Return the times that a schedule asks for."""
    line = wanted.cron, wanted.zone
    found = cron_times.latest(*line, wanted.after, wanted.until, MAX_MISSED + 1)
    pending = tuple(found[-MAX_MISSED:])
    following = cron_times.following(*line, max(wanted.after, wanted.until))
    return Times(wanted.revision, pending, len(found) > len(pending), following)


def _log(reply: Reply) -> None:
    if not isinstance(reply, Fired):
        return  # logged where it failed
    if reply.skipped:
        log.warning("schedule.missed", schedule=reply.name)
    if reply.id is not None:
        log.info("schedule.fired", schedule=reply.name, item=reply.id)
    if reply.error and reply.first:
        log.warning("schedule.refused", schedule=reply.name, why=reply.error)
