"""Facts for schedules: the schedule under a name, and the facts for its publish."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pubqueue.engine import cron_times
from pubqueue.engine.facts.publishing import for_publish
from pubqueue.engine.listings import Schedules
from pubqueue.engine.rows import SCHEDULES
from pubqueue.model.schedules import MAX_SCHEDULES
from pubqueue.rules import schedules

if TYPE_CHECKING:
    from pubqueue.engine.context import Context


SHOWN: Final = 50
"""Schedules in one answer."""


def for_fire(context: Context, request: schedules.FireSchedule) -> schedules.FireFacts:
    """Return the times of the schedule if they are of this revision, and the item that has the id of its turn."""
    now, schedule = context.now, context.rows.row(SCHEDULES, request.name)
    if schedule is None or not schedules.is_due(schedule, now):
        return schedules.FireFacts(now, context.service, schedule)
    times = request.times
    if times is None or times.revision != schedule.revision:
        return schedules.FireFacts(now, context.service, schedule)
    definition = schedule.definition
    moment = schedules.chosen(definition.missed, times.pending, now)
    publish = None
    if moment is not None:
        publish = for_publish(context, schedules.publish_of(definition, moment, context.service))
    return schedules.FireFacts(now, context.service, schedule, times, publish)


def for_fire_now(context: Context, request: schedules.FireNow) -> schedules.FireFacts:
    """Return the facts for a publish at this very moment."""
    now, schedule = context.now, context.rows.row(SCHEDULES, request.name)
    publish = None
    if schedule is not None:
        publish = for_publish(
            context, schedules.publish_of(schedule.definition, now, context.service)
        )
    return schedules.FireFacts(now, context.service, schedule, publish=publish)


def for_list_schedules(
    context: Context, request: schedules.ListSchedules
) -> schedules.SchedulesFacts:
    """Return the next schedules, for principals that may see them."""
    if not request.by.admin:
        return schedules.SchedulesFacts(context.now, ())
    if request.name is not None:
        known = context.rows.row(SCHEDULES, request.name)
        return schedules.SchedulesFacts(context.now, () if known is None else (known,))
    most = SHOWN if request.max is None else min(request.max, SHOWN)
    found = context.rows.page(Schedules(), request.after, most + 1)
    return schedules.SchedulesFacts(context.now, tuple(found[:most]), len(found) > most)


def for_keep_schedule(
    context: Context, request: schedules.AddSchedule | schedules.ChangeSchedule
) -> schedules.KeepFacts:
    """Return the schedule under the name, and the fault of the requested one's times."""
    definition, now = request.definition, context.now
    known = context.rows.row(SCHEDULES, definition.name)
    unfit = schedules.fault_of(definition) or cron_times.unfit(definition.cron, definition.zone)
    if unfit or not request.by.admin:
        return schedules.KeepFacts(now, known, unfit)
    node = context.rows.node(definition.node)
    count = 0 if known else len(context.rows.page(Schedules(), None, MAX_SCHEDULES))
    return schedules.KeepFacts(
        now,
        known,
        has_node=node is not None,
        full=count >= MAX_SCHEDULES,
    )


def for_schedule(
    context: Context, request: schedules.RemoveSchedule | schedules.PauseSchedule
) -> schedules.KeepFacts:
    """Return the schedule of the name."""
    return schedules.KeepFacts(context.now, context.rows.row(SCHEDULES, request.name))


def for_declare(context: Context, _request: schedules.DeclareSchedules) -> schedules.DeclareFacts:
    """Return all schedules."""
    all_of_them = context.rows.page(Schedules(), None, 2 * MAX_SCHEDULES)
    return schedules.DeclareFacts(context.now, {one.name: one for one in all_of_them})
