"""A schedule's turn: publish for its time, and record in the same commit that this time is settled.

A crash cannot separate the two, and of several processes that see a time come one commits first:
the others find it settled. So each time is published at most once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.changes import PutRow
from pubqueue.core.decision import Decision, Refusal, Refused, in_words, refuse
from pubqueue.core.model import Millis, later, seconds
from pubqueue.core.queue.publication import Publish
from pubqueue.core.queue.publish import publish
from pubqueue.core.schedules.model import (
    ON_TIME,
    Fired,
    Missed,
    Schedule,
    Times,
    TimesWanted,
    draft_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pubqueue.core.model import Principal
    from pubqueue.core.queue.publication import PublishFacts
    from pubqueue.core.schedules.model import Definition

RETRY_FIRST: Final = seconds(1)
MAX_RETRY: Final = seconds(60)
"""The pause after a node has refused: doubled with every refusal in a row, up to this."""


class FireSchedule(Struct, frozen=True, gc=False):
    """Give the schedule its turn. Without its times, or with those of an earlier revision, the reply asks for the right ones."""

    name: str
    times: Times | None = None


class FireNow(Struct, frozen=True, gc=False):
    """Publish the schedule's item at once, in addition to its times."""

    by: Principal
    name: str


class FireFacts(Struct, frozen=True, gc=False):
    """The schedule, its times as far as they are calculated, and the facts for a publish.

    `service` is the service itself, in whose name the item is published.
    """

    now: Millis
    service: Principal
    schedule: Schedule | None
    times: Times | None = None
    publish: PublishFacts | None = None


def chosen(missed: Missed, pending: Sequence[Millis], now: Millis) -> Millis | None:
    """Return which of the times that have come is published next, None if none of them is."""
    if not pending:
        return None
    match missed:
        case Missed.ALL:
            return pending[0]
        case Missed.ONCE:
            return pending[-1]
        case Missed.SKIP:
            return pending[-1] if now - pending[-1] < ON_TIME else None


def publish_of(definition: Definition, moment: Millis, by: Principal) -> Publish:
    """Return the publish of a time."""
    return Publish(by, definition.node, (draft_of(definition, moment),))


def is_due(schedule: Schedule | None, now: Millis) -> bool:
    """Return whether the schedule is due."""
    return (
        schedule is not None and schedule.runs and schedule.due is not None and schedule.due <= now
    )


def fire(request: FireSchedule, facts: FireFacts) -> Decision:
    """Decide a schedule's turn. If it has nothing left to do, another process was faster, and nothing changes."""
    schedule, now = facts.schedule, facts.now
    if schedule is None or not is_due(schedule, now):
        return Decision(Fired(request.name))
    times = facts.times
    if times is None:
        return Decision(_wanted(schedule, now))
    if times.fault:
        return _put_off(schedule, times.fault, now)
    moment = chosen(schedule.definition.missed, times.pending, now)
    if moment is None or facts.publish is None:
        through = max((schedule.fired_through, *times.pending))
        passed = settle(schedule, through, times.following)
        return Decision(Fired(schedule.name, skipped=bool(times.pending)), (PutRow(passed),))
    done = publish(publish_of(schedule.definition, moment, facts.service), facts.publish)
    if isinstance(done.reply, Refused):
        return _put_off(schedule, in_words(done.reply), now)
    left = [time for time in times.pending if time > moment]
    settled = settle(schedule, moment, left[0] if left else times.following)
    after = replace(settled, last=moment, error="")
    draft = draft_of(schedule.definition, moment)
    fired = Fired(schedule.name, draft.id, skipped=_leaves_out(schedule, times))
    return Decision(fired, (*done.changes, PutRow(after)), done.notices, done.then)


def _wanted(schedule: Schedule, now: Millis) -> TimesWanted:
    line = schedule.definition.cron, schedule.definition.zone
    return TimesWanted(schedule.name, *line, schedule.fired_through, now, schedule.revision)


def _leaves_out(schedule: Schedule, times: Times) -> bool:
    """Return whether times that have come get no item, except for the one that is published now."""
    match schedule.definition.missed:
        case Missed.ONCE:
            return False
        case Missed.SKIP:
            return times.earlier or len(times.pending) > 1
        case Missed.ALL:
            return times.earlier


def settle(schedule: Schedule, through: Millis, due: Millis | None) -> Schedule:
    """Return the schedule with all times up to `through` settled; `due` is the next one."""
    revision = schedule.revision + 1
    return replace(schedule, fired_through=through, due=due, tries=0, revision=revision)


def _put_off(schedule: Schedule, error: str, now: Millis) -> Decision:
    """Keep the time, and try again later: the node may have room, be open, or exist by then."""
    tries = schedule.tries + 1
    pause = Millis(min(MAX_RETRY, RETRY_FIRST << min(schedule.tries, 10)))
    after = replace(
        schedule,
        due=later(now, pause),
        error=error,
        tries=tries,
        revision=schedule.revision + 1,
    )
    first = tries == 1
    return Decision(Fired(schedule.name, error=error, first=first), (PutRow(after),))


def fire_now(request: FireNow, facts: FireFacts) -> Decision:
    """Decide a publish in addition to the schedule's times; it settles none of them."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, "only administrators of the service may do this")
    schedule = facts.schedule
    if schedule is None or facts.publish is None:
        return refuse(Refusal.ITEM_NOT_FOUND, f"there is no schedule {request.name!r}")
    done = publish(publish_of(schedule.definition, facts.now, facts.service), facts.publish)
    if isinstance(done.reply, Refused):
        return done
    fired = Fired(schedule.name, draft_of(schedule.definition, facts.now).id)
    return Decision(fired, done.changes, done.notices, done.then)
