"""Create, change, pause and end schedules: those of the file by the file, the others by administrators.

A schedule publishes in the name of the service, regardless of a node's publish model, so it is for
administrators only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from pubqueue.core.changes import Change, DropRow, PutRow
from pubqueue.core.decision import Decision, Done, Refusal, Refused, refuse
from pubqueue.core.headers import excess
from pubqueue.core.schedules.model import (
    MAX_NAME_LENGTH,
    MAX_SCHEDULES,
    Schedule,
    SchedulePage,
    SchedulesDeclared,
    Source,
)
from pubqueue.core.validity import (
    HIGHEST_PRIORITY,
    MAX_GROUP_LENGTH,
    MAX_SPAN,
    is_group,
    is_node,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pubqueue.core.model import Jid, Millis, NodeName, Principal
    from pubqueue.core.schedules.model import Definition

FOR: Final = "only administrators of the service may do this"
OF_THE_FILE: Final = (
    "the configuration file declares the schedule {!r}: it is changed and ended there"
)


class ListSchedules(Struct, frozen=True, gc=False):
    """Request up to `max` schedules by name, after the name `after`; or the one called `name`."""

    by: Principal
    after: str | None = None
    name: str | None = None
    max: int | None = None


class SchedulesFacts(Struct, frozen=True, gc=False):
    """Some of them."""

    now: Millis
    schedules: tuple[Schedule, ...]
    more: bool = False


class AddSchedule(Struct, frozen=True, gc=False):
    """Create a schedule with a name that is not taken."""

    by: Principal
    definition: Definition

    @property
    def node(self) -> NodeName:
        """The node that it publishes to."""
        return self.definition.node


class ChangeSchedule(Struct, frozen=True, gc=False):
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


class RemoveSchedule(Struct, frozen=True, gc=False):
    """End the schedule. The items that it has published stay."""

    by: Principal
    name: str


class PauseSchedule(Struct, frozen=True, gc=False):
    """Pause or resume the schedule: it continues with its next time, because nothing was missed meanwhile."""

    by: Principal
    name: str
    paused: bool


class DeclareSchedules(Struct, frozen=True, gc=False):
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
    if not 0 < len(name.encode()) <= MAX_NAME_LENGTH or not name.isprintable():
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
