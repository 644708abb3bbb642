"""Operations on schedules: list, create, change, end and pause them, and publish an item of one at once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pubqueue.model.entities import NodeName, seconds
from pubqueue.model.replies import Power
from pubqueue.model.schedules import Definition, Missed, Source
from pubqueue.operations.items import SHOWN
from pubqueue.operations.model import (
    AFTER,
    MAX_ROWS,
    NODE,
    Action,
    Answer,
    Cell,
    Column,
    Of,
    Offer,
    Operation,
    Parameter,
    ParameterKind,
    UnfitError,
    count,
)
from pubqueue.operations.searching import answered, searched, searches
from pubqueue.rules import schedules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pubqueue.model.decision import Done, Request
    from pubqueue.model.entities import Headers, Principal
    from pubqueue.model.schedules import Schedule, SchedulePage
    from pubqueue.operations.model import Given, Row


MISSED: Final = (
    (Missed.ONCE.value, "one item for all that were missed"),
    (Missed.SKIP.value, "none"),
    (Missed.ALL.value, "one item for each of the last hundred"),
)

SOURCES: Final = {
    Source.FILE: "the configuration file",
    Source.COMMAND: "a command",
}

NAME: Final = Parameter("name", ParameterKind.TEXT, "Name of the schedule", required=True)

DEFINING: Final = (
    Parameter(
        *("cron", ParameterKind.TEXT, "Times, as a cron line or a word such as @daily"),
        required=True,
        option="--cron",
        metavar="LINE",
        help="Minute, hour, day of the month, month, day of the week.",
        hint="Minute, hour, day of the month, month, day of the week; 0 3 * * * means every night at three.",
    ),
    Parameter(
        *("zone", ParameterKind.TEXT, "Time zone"),
        required=True,
        usual="UTC",
        help="The time zone of the times, such as Europe/Berlin (default: UTC).",
        hint="For example Europe/Berlin.",
    ),
    replace(NODE, option="--node", help="The node to publish to."),
    Parameter(
        *("payload", ParameterKind.PAYLOAD, "Payload"),
        required=True,
        option="--payload",
        help="An XML element in a namespace, or JSON; - reads standard input.",
        hint="An XML element in a namespace, or JSON.",
    ),
    Parameter(
        *("missed", ParameterKind.CHOICE, "For times that were missed"),
        choices=MISSED,
        usual=Missed.ONCE.value,
        help="What happens to missed times (default: once).",
    ),
    Parameter(
        *("priority", ParameterKind.NUMBER, "Priority"),
        usual="0",
        whole=True,
        help="The priority of the items.",
    ),
    Parameter(
        *("ttl", ParameterKind.NUMBER, "Seconds that an item may wait"),
        metavar="SECONDS",
        help="How long an item may wait.",
    ),
    Parameter(
        *("headers", ParameterKind.LINES, "Headers"),
        hint="One per line, such as name: value.",
        option="--header",
        metavar="'NAME: VALUE'",
        help="A header, delivered with the payload; repeatable.",
    ),
    Parameter("group", ParameterKind.TEXT, "Group", help="The group of the items."),
)
"""The parameters that define a schedule, except its name."""


# --- what there is ------------------------------------------------------------------------------


def state_of(one: Schedule) -> str:
    """Return the current state of a schedule, in words."""
    if not one.definition.enabled:
        return "not enabled"
    if one.paused:
        return "paused"
    return "tries again" if one.tries else "running"


def _page(page: SchedulePage, _given: Given) -> Answer:
    rows = tuple(map(_row, page.schedules))
    note = f"{count(len(rows), 'schedule')}{', and there are more' if page.more else ''}."
    through = page.schedules[-1].name if rows else ""
    return Answer(note, rows, through, more=page.more and bool(rows))


def _row(one: Schedule) -> Row:
    what = one.definition
    stands = one.due, one.last, one.error or None, SOURCES[one.source]
    times = f"{what.cron} ({what.zone})"
    return one.name, state_of(one), what.node, times, *stands, *_beside(one)


def _beside(one: Schedule) -> Row:
    """Return the parameters except its node and its payload, and the administrator."""
    what = one.definition
    return (
        what.cron,
        what.zone,
        what.missed.value,
        what.priority,
        None if what.ttl is None else what.ttl / 1000,
        tuple(f"{name}: {value}" for name, value in what.headers),
        what.group or None,
        one.by,
    )


_STANDS: Final = (
    Column("next", "Next", Cell.MOMENT),
    Column("last", "Last", Cell.MOMENT),
    Column("error", "Last error"),
    Column("source", "Declared by"),
)

_BESIDE: Final = (
    Column("cron", "Times, as a cron line"),
    Column("zone", "Time zone"),
    Column("missed", "For times that were missed"),
    Column("priority", "Priority", Cell.COUNT),
    Column("ttl", "Seconds that an item may wait", Cell.RATE),
    Column("headers", "Headers", Cell.NAMES),
    Column("group", "Group"),
    Column("by", "Created or changed by"),
)

SCHEDULES: Final = Operation(
    "schedules",
    "List the schedules",
    "The schedules, with their next and last times and their last errors.",
    Power.SERVICE,
    (
        *searches(schedules.ListSchedules, "their names or nodes", reason=True),
        *(AFTER, MAX_ROWS),
    ),
    (
        Column("schedule", "Schedule"),
        Column("state", "State"),
        Column("node", "Node"),
        Column("times", "Times"),
        *_STANDS,
        *(replace(one, more=True) for one in _BESIDE),
    ),
    searched(
        lambda by, given, after: schedules.ListSchedules(by, after or None, max=given.number("max"))
    ),
    answered(_page),
    place="schedule",
    command="schedule list",
    manual="List the schedules.\n\n"
    "Shows for each its next and its last time, why its node last refused an item, and whether the configuration file or a command defines"
    " it.",
)


def _schedule(none: str, fits: Callable[[Schedule], bool]) -> Parameter:
    """Return the parameter that names a schedule; a form offers those that fit."""

    def values(page: SchedulePage) -> Iterator[tuple[str, str]]:
        return ((one.name, one.name) for one in page.schedules if fits(one))

    return Parameter(
        *("schedule", ParameterKind.TEXT, "Schedule"),
        required=True,
        metavar="NAME",
        offer=Offer(SCHEDULES, values, none, "Or the name of another schedule", whole=True),
    )


ANY: Final = _schedule("No schedules.", lambda _one: True)
COMMANDED: Final = _schedule(
    "No schedules that were created by command.", lambda one: one.source is Source.COMMAND
)


def _shown(page: SchedulePage, _given: Given) -> Answer:
    (one,) = page.schedules
    what = one.definition
    stands = one.due, one.last, one.error or None, SOURCES[one.source]
    payload = what.payload.decode("utf-8", "replace")[:SHOWN]
    row = one.name, state_of(one), what.node, *stands, *_beside(one), payload
    return Answer("", (row,))


SHOW: Final = Operation(
    "schedule-show",
    "Look at a schedule",
    "All settings of a schedule, and what it publishes.",
    Power.SERVICE,
    (ANY,),
    (
        Column("schedule", "Schedule"),
        Column("state", "State"),
        Column("node", "Node"),
        *_STANDS,
        *_BESIDE,
        Column("payload", "Payload"),
    ),
    lambda by, given: schedules.ListSchedules(by, name=given.one("schedule")),
    _shown,
    single=True,
    command="schedule show",
    manual="Show a schedule, and what it publishes.\n\nUp to 48 KiB of the payload are shown.",
)


# --- making and changing ------------------------------------------------------------------------


def _definition(name: str, given: Given) -> Definition:
    """Return the parameters as a definition.

    Raises:
        UnfitError: it is invalid.

    """
    payload, space = given["payload"]
    priority, ttl = given.one("priority"), given.one("ttl")
    if float(priority) % 1:
        raise UnfitError("priority: a whole number")
    return Definition(
        name=name,
        cron=" ".join(given.one("cron").split()),
        zone=given.one("zone"),
        node=NodeName(given.one("node")),
        payload=payload.encode(),
        type=space,
        priority=int(float(priority)),
        ttl=seconds(float(ttl)) if ttl else None,
        headers=_headers(given),
        missed=Missed(given.one("missed")),
        group=given.one("group"),
    )


def _headers(given: Given) -> Headers:
    pairs = [line.partition(":") for line in given.lines("headers")]
    if not all(name.strip() and colon for name, colon, _ in pairs):
        raise UnfitError("headers: a header is a name, a colon, a value")
    return tuple((name.strip(), value.strip()) for name, _, value in pairs)


ADD: Final = Operation(
    "schedule-add",
    "Add a schedule",
    "At each of its times the service publishes one item, with the name and the time as its id.",
    Power.SERVICE,
    (NAME, *DEFINING),
    (),
    lambda by, given: schedules.AddSchedule(by, _definition(given.one("name"), given)),
    lambda _reply, given: Answer(f"The schedule {given.one('name')} was created."),
    changes=True,
    command="schedule add",
    manual="Create a schedule.\n\n"
    "At each of its times the service publishes one item, whose id is the schedule's name and the time. The schedule stays until you"
    " remove it.",
)

CHANGE: Final = Operation(
    "schedule-change",
    "Change a schedule",
    "A new cron line or zone takes effect now, other changes from the next time on. To change schedules of the configuration"
    " file, edit the file.",
    Power.SERVICE,
    (COMMANDED, *DEFINING),
    (),
    lambda by, given: schedules.ChangeSchedule(by, _definition(given.one("schedule"), given)),
    lambda _reply, given: Answer(f"The schedule {given.one('schedule')} was updated."),
    changes=True,
    command="schedule change",
    manual="Change a schedule that a command has created.\n\n"
    "Options that you leave out stay as they are; an empty value removes them: --ttl '', --group '', --header ''. A new cron line or zone"
    " applies from now on. Schedules of the configuration file are changed there.",
)


# --- what is done to one ------------------------------------------------------------------------


def _action(button: str) -> Action:
    return Action(Of.SCHEDULE, button, f"Yes, {button.lower()} it", by_admins=True)


def _to_one(
    name: str,
    label: str,
    about: str,
    schedule: Parameter,
    *,
    ask: Callable[[Principal, str], Request],
    done: str,
    manual: str,
    question: str,
    button: str,
    takes_away: bool = False,
) -> Operation:
    """Return an operation with a schedule as its only parameter; `done` is the text of the answer, `button` that of the page."""

    def answer(_reply: Done, given: Given) -> Answer:
        return Answer(done.format(given.one("schedule")))

    return Operation(
        *(name, label, about, Power.SERVICE, (schedule,), ()),
        lambda by, given: ask(by, given.one("schedule")),
        answer,
        changes=True,
        takes_away=takes_away,
        question=question,
        actions=(_action(button),),
        command=name.replace("-", " "),
        manual=manual,
    )


REMOVE: Final = _to_one(
    "schedule-remove",
    "Remove a schedule",
    "It publishes no more items; those that it has published stay. To end schedules of the configuration file, remove them from the file.",
    COMMANDED,
    ask=schedules.RemoveSchedule,
    done="The schedule {} was removed.",
    question="Remove {}? It publishes no more items; those that it has published stay.",
    button="Remove",
    takes_away=True,
    manual="Remove a schedule that a command has created.\n\n"
    "The items that it has published stay. To remove a schedule of the configuration file, delete it there.",
)

PAUSE: Final = _to_one(
    "schedule-pause",
    "Pause a schedule",
    "It publishes nothing until it is resumed. Times in between do not count as missed.",
    _schedule("No schedule is running.", lambda one: not one.paused),
    ask=lambda by, name: schedules.PauseSchedule(by, name, paused=True),
    done="{} is paused.",
    question="Pause {} until you resume it? Times in between do not count as missed.",
    button="Pause",
    manual="Pause a schedule until you resume it.\n\n"
    "This works for schedules of the configuration file too. Times during the pause do not count as missed.",
)

RESUME: Final = _to_one(
    "schedule-resume",
    "Resume a paused schedule",
    "It publishes again from its next time on.",
    _schedule("No schedule is paused.", lambda one: one.paused),
    ask=lambda by, name: schedules.PauseSchedule(by, name, paused=False),
    done="{} publishes again from its next time on.",
    question="Resume {} from its next time on?",
    button="Resume",
    manual="Resume a paused schedule, from its next time on.",
)


FIRE: Final = Operation(
    "schedule-fire",
    "Publish an item of a schedule now",
    "One extra item is published now; the schedule's times do not change.",
    Power.SERVICE,
    (ANY,),
    (Column("id", "Item"),),
    lambda by, given: schedules.FireNow(by, given.one("schedule")),
    lambda reply, _given: Answer(f"{reply.id} is published.", ((reply.id,),)),
    single=True,
    changes=True,
    question="Publish one more item of {} now?",
    actions=(Action(Of.SCHEDULE, "Run now", "Yes, publish it", by_admins=True),),
    command="schedule fire",
    manual="Publish a schedule's item now.\n\n"
    "This is one additional item; the schedule's own times do not change.",
)

OPERATIONS: Final = (SCHEDULES, SHOW, ADD, CHANGE, REMOVE, PAUSE, RESUME, FIRE)
