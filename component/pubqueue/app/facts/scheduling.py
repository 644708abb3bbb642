"""For schedules: which of their times have come, and what is to be known to publish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.app import timetable
from pubqueue.app.facts.publishing import for_publish
from pubqueue.app.listings import DueSchedules, Schedules
from pubqueue.core.schedules.fire import DueFacts, FireFacts, chosen, is_due, publish_of
from pubqueue.core.schedules.keep import (
    DeclareFacts,
    KeepFacts,
    SchedulesFacts,
    fault_of,
    from_when,
)
from pubqueue.core.schedules.model import MOST_MISSED, MOST_SCHEDULES

if TYPE_CHECKING:
    from pubqueue.app.facts.context import Context
    from pubqueue.core.model import Millis
    from pubqueue.core.schedules.fire import FireNow, FireSchedule, ListDue
    from pubqueue.core.schedules.keep import (
        AddSchedule,
        ChangeSchedule,
        DeclareSchedules,
        ListSchedules,
        PauseSchedule,
        RemoveSchedule,
    )
    from pubqueue.core.schedules.model import Definition, Schedule

AT_ONCE: Final = 100
"""Schedules that have their turn one after the other before others are looked for."""

SHOWN: Final = 50
"""Schedules in one answer."""


def for_due(context: Context, _request: ListDue) -> DueFacts:
    """Return which schedules have something to do."""
    return DueFacts(tuple(context.rows.page(DueSchedules(context.now), None, AT_ONCE)))


def for_fire(context: Context, request: FireSchedule) -> FireFacts:
    """Return which times of the schedule have come, and what is there under the id of the one that is its turn."""
    now, schedule = context.now, context.rows.schedule(request.name)
    if schedule is None or not is_due(schedule, now):
        return FireFacts(now, context.service, schedule)
    definition = schedule.definition
    line = definition.cron, definition.zone
    found = timetable.latest(*line, schedule.fired_through, now, MOST_MISSED + 1)
    pending = tuple(found[-MOST_MISSED:])
    moment = chosen(definition.missed, pending, now)
    publish = None
    if moment is not None:
        publish = for_publish(context, publish_of(definition, moment, context.service))
    behind = max(now, schedule.fired_through)
    return FireFacts(
        now,
        context.service,
        schedule,
        pending,
        earlier=len(found) > len(pending),
        following=timetable.following(*line, behind),
        publish=publish,
    )


def for_fire_now(context: Context, request: FireNow) -> FireFacts:
    """Return what is to be known to publish for this very moment."""
    now, schedule = context.now, context.rows.schedule(request.name)
    publish = None
    if schedule is not None:
        publish = for_publish(context, publish_of(schedule.definition, now, context.service))
    return FireFacts(now, context.service, schedule, publish=publish)


def for_list(context: Context, request: ListSchedules) -> SchedulesFacts:
    """Return the next schedules, for those who may see them."""
    if not request.by.admin:
        return SchedulesFacts(context.now, ())
    if request.name is not None:
        known = context.rows.schedule(request.name)
        return SchedulesFacts(context.now, () if known is None else (known,))
    most = SHOWN if request.max is None else min(request.max, SHOWN)
    found = context.rows.page(Schedules(), request.after, most + 1)
    return SchedulesFacts(context.now, tuple(found[:most]), len(found) > most)


def for_keep(context: Context, request: AddSchedule | ChangeSchedule) -> KeepFacts:
    """Return what is there under the name, and the wanted one's next time."""
    definition, now = request.definition, context.now
    known = context.rows.schedule(definition.name)
    unfit = fault_of(definition) or timetable.unfit(definition.cron, definition.zone)
    if unfit or not request.by.admin:
        return KeepFacts(now, known, unfit)
    node = context.rows.node(definition.node)
    count = 0 if known else len(context.rows.page(Schedules(), None, MOST_SCHEDULES))
    return KeepFacts(
        now,
        known,
        following=_next(known, definition, now),
        has_node=node is not None,
        full=count >= MOST_SCHEDULES,
    )


def for_named(context: Context, request: RemoveSchedule | PauseSchedule) -> KeepFacts:
    """Return the schedule of the name, and its next time if it counts from now on."""
    now, known = context.now, context.rows.schedule(request.name)
    if known is None:
        return KeepFacts(now, None)
    definition = known.definition
    behind = max(now, known.fired_through)
    next_time = timetable.following(definition.cron, definition.zone, behind)
    return KeepFacts(now, known, following=next_time)


def for_declare(context: Context, request: DeclareSchedules) -> DeclareFacts:
    """Return all schedules, and the next time of each that is declared."""
    all_of_them = context.rows.page(Schedules(), None, 2 * MOST_SCHEDULES)
    known = {one.name: one for one in all_of_them}
    following = {
        one.name: _next(known.get(one.name), one, context.now) for one in request.definitions
    }
    return DeclareFacts(context.now, known, following)


def _next(known: Schedule | None, definition: Definition, now: Millis) -> Millis | None:
    after = from_when(known, definition, now)
    return timetable.following(definition.cron, definition.zone, after)
