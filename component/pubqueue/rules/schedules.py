"""Schedules: create, change, pause and end them; a schedule's turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.model.changes import Change, DropRow, PutRow
from pubqueue.model.decision import (
    Decision,
    Done,
    Read,
    Refusal,
    Refused,
    Request,
    in_words,
    refuse,
)
from pubqueue.model.entities import MAX_GROUP_LENGTH, Millis, excess, later, seconds
from pubqueue.model.schedules import (
    MAX_NAME_LENGTH,
    MAX_SCHEDULES,
    ON_TIME,
    Fired,
    Missed,
    Schedule,
    SchedulePage,
    SchedulesDeclared,
    Source,
    Times,
    TimesWanted,
    draft_of,
)
from pubqueue.rules.damage import ROW_DAMAGED
from pubqueue.rules.publication import Publish
from pubqueue.rules.publish import publish_at_once
from pubqueue.rules.validity import (
    HIGHEST_PRIORITY,
    MAX_SPAN,
    NO_HEADER,
    has_clean_names,
    is_group,
    is_node,
)
from pubqueue_xeps.wire.names import is_clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pubqueue.model.entities import Jid, NodeName, Principal
    from pubqueue.model.schedules import Definition
    from pubqueue.rules.publication import PublishFacts


# Create, change, pause and end schedules: those of the file by the file, the others by administrators.
#
# A schedule publishes in the name of the service, regardless of a node's publish model, so it is for
# administrators only.

FOR: Final = "only administrators of the service may do this"
OF_THE_FILE: Final = (
    "the configuration file declares the schedule {!r}: it is changed and ended there"
)


class ListSchedules(Read, frozen=True, gc=False):
    """Request up to `max` schedules by name, after the name `after`; or the one called `name`."""

    after: str | None = None
    name: str | None = None
    max: int | None = None


class SchedulesFacts(Struct, frozen=True, gc=False):
    """Some of them."""

    now: Millis
    schedules: tuple[Schedule, ...]
    more: bool = False


class AddSchedule(Request, frozen=True, gc=False):
    """Create a schedule with a name that is not taken."""

    by: Principal
    definition: Definition

    @property
    def node(self) -> NodeName:
        """The node that it publishes to."""
        return self.definition.node


class ChangeSchedule(Request, frozen=True, gc=False):
    """Change the schedule of this name. If its times change, they count from now on."""

    by: Principal
    definition: Definition

    @property
    def node(self) -> NodeName:
        """The node that it publishes to."""
        return self.definition.node


class KeepFacts(Struct, frozen=True, gc=False):
    """The existing schedule under the name, and the facts about the requested one.

    `unfit` is the fault of its times, empty if there is none. `following` is its first time after
    `now`, None if it has not been calculated: then its turn comes at once, and calculates it.
    `full` means that the maximum number of schedules exists.
    """

    now: Millis
    schedule: Schedule | None
    unfit: str = ""
    following: Millis | None = None
    has_node: bool = True
    full: bool = False


class RemoveSchedule(Request, frozen=True, gc=False):
    """End the schedule. The items that it has published stay."""

    by: Principal
    name: str


class PauseSchedule(Request, frozen=True, gc=False):
    """Pause or resume the schedule: it continues with its next time, because nothing was missed meanwhile."""

    by: Principal
    name: str
    paused: bool


class DeclareSchedules(Request, frozen=True, gc=False):
    """Replace the schedules of the file by these. `following` are their next times, in the same order."""

    by: Principal
    definitions: tuple[Definition, ...]
    following: tuple[Millis | None, ...]


class DeclareFacts(Struct, frozen=True, gc=False):
    """All schedules by name."""

    now: Millis
    schedules: Mapping[str, Schedule]


def list_schedules(request: ListSchedules, facts: SchedulesFacts) -> Decision:
    """Decide whether the principal may see the schedules."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR)
    if request.name is not None and not facts.schedules:
        return _unknown(request.name)
    return Decision(SchedulePage(facts.now, facts.schedules, facts.more))


def fault_of(definition: Definition) -> str:
    """Return the fault of a definition apart from its times, empty if there is none."""
    name = definition.name
    if not 0 < len(name.encode()) <= MAX_NAME_LENGTH or not is_clean(name):
        return f"name has to be 1 to {MAX_NAME_LENGTH} bytes, without control characters"
    if not is_node(definition.node):
        return "node is not a valid NodeID"
    if not definition.payload:
        return "a payload is required"
    if abs(definition.priority) > HIGHEST_PRIORITY:
        return f"priority goes from -{HIGHEST_PRIORITY} to {HIGHEST_PRIORITY}"
    if definition.ttl is not None and not 0 <= definition.ttl <= MAX_SPAN:
        return "ttl must be a number of seconds, up to a hundred years"
    if definition.group and not is_group(definition.group):
        return f"group has to be 1 to {MAX_GROUP_LENGTH} bytes, without control characters"
    if not has_clean_names(definition.headers):
        return f"{NO_HEADER.reason}"
    return excess(definition.headers) or ""


def from_when(schedule: Schedule | None, definition: Definition, now: Millis) -> Millis:
    """Return the moment after which the times of the definition count: now if they are new, else the last settled time."""
    if schedule is None:
        return now
    if schedule.runs and schedule.definition.times_as(definition):
        return schedule.fired_through
    return max(now, schedule.fired_through)


def add_schedule(request: AddSchedule, facts: KeepFacts) -> Decision:
    """Decide on a new schedule."""
    if (no := _unkeepable(request.by, request.definition, facts)) is not None:
        return Decision(no)
    if facts.schedule is not None:
        name = request.definition.name
        return refuse(Refusal.ITEM_EXISTS, f"the schedule {name!r} exists already: change that one")
    if facts.full:
        return refuse(
            Refusal.TOO_MUCH_STAGED, f"there are {MAX_SCHEDULES} schedules, the most there may be"
        )
    made = _made(None, request.definition, Source.COMMAND, request.by.account, facts)
    return Decision(Done(), (PutRow(made),))


def change_schedule(request: ChangeSchedule, facts: KeepFacts) -> Decision:
    """Decide on a change of a schedule."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR)
    known = facts.schedule
    if (no := _untouchable(request.definition.name, known)) is not None or known is None:
        return no or Decision(Done())
    if (bad := _unkeepable(request.by, request.definition, facts)) is not None:
        return Decision(bad)
    made = _made(known, request.definition, Source.COMMAND, request.by.account, facts)
    return Decision(Done(), (PutRow(made),))


def remove_schedule(request: RemoveSchedule, facts: KeepFacts) -> Decision:
    """Decide on the end of a schedule."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR)
    no = _untouchable(request.name, facts.schedule)
    return no or Decision(Done(), (DropRow(Schedule, request.name),))


def pause_schedule(request: PauseSchedule, facts: KeepFacts) -> Decision:
    """Decide on a pause, or its end: a schedule of the file may be paused as well, and stays paused whatever the file declares."""
    if not request.by.admin:
        return refuse(Refusal.FORBIDDEN, FOR)
    known = facts.schedule
    if known is None:
        return _unknown(request.name)
    if known.damaged and not request.paused:
        return ROW_DAMAGED
    if known.paused == request.paused:
        return Decision(Done())
    after = replace(known, paused=request.paused, tries=0, revision=known.revision + 1)
    through = max(facts.now, known.fired_through)
    due = facts.now if after.runs else None
    return Decision(Done(), (PutRow(replace(after, fired_through=through, due=due)),))


def _unkeepable(by: Principal, definition: Definition, facts: KeepFacts) -> Refused | None:
    if not by.admin:
        return Refused(Refusal.FORBIDDEN, FOR)
    if unfit := fault_of(definition) or facts.unfit:
        return Refused(Refusal.BAD_REQUEST, unfit)
    if not facts.has_node:
        return Refused(Refusal.NODE_NOT_FOUND, f"there is no node {definition.node!r}")
    return None


def _untouchable(name: str, schedule: Schedule | None) -> Decision | None:
    if schedule is None:
        return _unknown(name)
    if schedule.source is Source.FILE:
        return refuse(Refusal.ITEM_EXISTS, OF_THE_FILE.format(name))
    return None


def _unknown(name: str) -> Decision:
    return refuse(Refusal.ITEM_NOT_FOUND, f"there is no schedule {name!r}")


def _made(
    known: Schedule | None,
    definition: Definition,
    source: Source,
    by: Jid,
    facts: KeepFacts,
) -> Schedule:
    through = from_when(known, definition, facts.now)
    if known is None:
        made = Schedule(definition, source, by, through)
    else:
        made = replace(
            known,
            definition=definition,
            source=source,
            by=by,
            fired_through=max(through, known.fired_through),
            tries=0,  # the cause may be fixed: the next try is at once
            revision=known.revision + 1,
            damaged=False,
        )
    return replace(made, due=_due(known, made, facts))


def _due(known: Schedule | None, made: Schedule, facts: KeepFacts) -> Millis | None:
    """Return when the schedule has something to do next.

    If its times have not changed, its due time only comes nearer: by changes that the authorities of its zone have
    made since.
    """
    if not made.runs:
        return None
    following = facts.now if facts.following is None else facts.following
    if (
        known is None
        or known.tries
        or not known.runs
        or not known.definition.times_as(made.definition)
    ):
        return following
    if facts.following is None or known.due is None:
        return known.due
    return min(known.due, following)


def declare_schedules(request: DeclareSchedules, facts: DeclareFacts) -> Decision:
    """Decide on the schedules of the file; one whose name an administrator's schedule has becomes the file's."""
    changes: list[Change] = []
    new, changed = [], []
    declared = {definition.name for definition in request.definitions}
    for definition, following in zip(request.definitions, request.following, strict=True):
        name = definition.name
        known = facts.schedules.get(name)
        kept = KeepFacts(facts.now, known, following=following)
        made = _made(known, definition, Source.FILE, request.by.account, kept)
        if known is None:
            new.append(name)
        elif known.definition != definition or known.source is not Source.FILE:
            changed.append(name)
        elif made.due == known.due or known.tries:
            continue
        changes.append(PutRow(made))
    ended = [
        name
        for name, known in facts.schedules.items()
        if known.source is Source.FILE and name not in declared
    ]
    changes += [DropRow(Schedule, name) for name in ended]
    reply = SchedulesDeclared(tuple(new), tuple(changed), tuple(ended))
    return Decision(reply, tuple(changes))


# A schedule's turn: publish for its time, and record in the same commit that this time is settled.
#
# A crash cannot separate the two, and of several processes that see a time come one commits first:
# the others find it settled. So each time is published at most once.

RETRY_FIRST: Final = seconds(1)
MAX_RETRY: Final = seconds(60)
"""The pause after a node has refused: doubled with every refusal in a row, up to this."""


class FireSchedule(Request, frozen=True, gc=False):
    """Give the schedule its turn. Without its times, or with those of an earlier revision, the reply asks for the right ones."""

    name: str
    times: Times | None = None


class FireNow(Request, frozen=True, gc=False):
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
    if schedule is not None and schedule.damaged and schedule.due is not None:
        stopped = PutRow(replace(schedule, due=None))
        return Decision(Fired(request.name, error=schedule.error, first=True), (stopped,))
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
    done = publish_at_once(publish_of(schedule.definition, moment, facts.service), facts.publish)
    if isinstance(done.reply, Refused):
        return _put_off(schedule, in_words(done.reply), now)
    left = [time for time in times.pending if time > moment]
    settled = settle(schedule, moment, left[0] if left else times.following)
    after = replace(settled, last=moment, error="")
    draft = draft_of(schedule.definition, moment)
    fired = Fired(schedule.name, draft.id, skipped=_leaves_out(schedule, times))
    return replace(done, reply=fired, changes=(*done.changes, PutRow(after)))


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
    if schedule.damaged:
        return ROW_DAMAGED
    done = publish_at_once(publish_of(schedule.definition, facts.now, facts.service), facts.publish)
    if isinstance(done.reply, Refused):
        return done
    fired = Fired(schedule.name, draft_of(schedule.definition, facts.now).id)
    return replace(done, reply=fired)
