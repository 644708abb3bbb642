"""What is published at set times: see it, make, change and end it, stop it for a while, and have it published at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pubqueue.app.operations.words import count
from pubqueue.core.model import NodeName, seconds
from pubqueue.core.reading.overviews import Power
from pubqueue.core.schedules.fire import FireNow
from pubqueue.core.schedules.keep import (
    AddSchedule,
    ChangeSchedule,
    ListSchedules,
    PauseSchedule,
    RemoveSchedule,
)
from pubqueue.core.schedules.model import Definition, Missed, Source
from pubqueue.faces.xmpp.commands.stages import (
    Command,
    Field,
    Form,
    Result,
    Shown,
    Stage,
    Table,
    own,
)
from pubqueue.faces.xmpp.commands.words import ask_powers, fact, listed, unfit
from pubqueue.faces.xmpp.text import stamp
from pubqueue.faces.xmpp.written import UnfitPayloadError, from_text, to_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.app.operations.given import Given
    from pubqueue.app.rules import Request
    from pubqueue.core.decision import Done
    from pubqueue.core.model import Asker, Headers, Millis
    from pubqueue.core.reading.overviews import Powers
    from pubqueue.core.schedules.model import Fired, Schedule, SchedulePage
    from pubqueue.faces.xmpp.refusals import StanzaError

AFTER: Final = "after"
SCHEDULE: Final = "schedule"
OTHER: Final = "other_schedule"
NAME: Final = "name"
CRON: Final = "cron"
ZONE: Final = "zone"
NODE: Final = "node"
PAYLOAD: Final = "payload"
MISSED: Final = "missed"
PRIORITY: Final = "priority"
TTL: Final = "ttl"
HEADERS: Final = "headers"
GROUP: Final = "group"

COLUMNS: Final = (
    (SCHEDULE, "Schedule"),
    ("state", "State"),
    (NODE, "Node"),
    ("times", "Times"),
    ("next", "Next"),
    ("last", "Last"),
    ("error", "Last error"),
    ("source", "Declared by"),
)

MISSED_WORDS: Final = (
    (Missed.ONCE.value, "one item for all that were missed"),
    (Missed.SKIP.value, "none"),
    (Missed.ALL.value, "one item for each of the last hundred"),
)

SOURCES: Final = {
    Source.FILE: "the configuration file",
    Source.COMMAND: "a command",
}

BLANK: Final = Definition("", "", "UTC", NodeName(""), b"")


# --- the list ------------------------------------------------------------------------------------


def _ask_list(by: Asker, given: Given) -> Request:
    return ListSchedules(by, given.one(AFTER) or None)


def _show_list(page: SchedulePage, given: Given) -> Result:
    after = given.one(AFTER)
    rows = tuple(map(_row, page.schedules))
    note = f"{count(len(rows), 'schedule')}{', and there are more' if page.more else ''}."
    facts = tuple(
        fact(f"row{at}", one.name, _in_words(one)) for at, one in enumerate(page.schedules, 1)
    )
    more = {AFTER: (page.schedules[-1].name,)} if page.more else {}
    title = f"Schedules behind {after}" if after else "Schedules"
    return Result(note, title=title, facts=facts, table=Table(COLUMNS, rows), more=more)


def _row(one: Schedule) -> tuple[str, ...]:
    what = one.definition
    return (
        one.name,
        _state(one),
        what.node,
        f"{what.cron} ({what.zone})",
        _time(one.due),
        _time(one.last),
        one.error,
        SOURCES[one.source],
    )


def _in_words(one: Schedule) -> str:
    words = [f"{_state(one)}, to {one.definition.node}"]
    words += [f"next {_time(one.due)}"] if one.due is not None else []
    words += [f"last {_time(one.last)}"] if one.last is not None else []
    words += [one.error] if one.error else []
    return listed(words)


def _state(one: Schedule) -> str:
    if not one.definition.enabled:
        return "not enabled"
    if one.paused:
        return "paused"
    return "tries again" if one.tries else "running"


def _time(moment: Millis | None) -> str:
    return "" if moment is None else stamp(moment)


# --- what one is ---------------------------------------------------------------------------------


def _fields(what: Definition) -> tuple[Field, ...]:
    """Return what a schedule is made of, as it stands."""
    payload = tuple(to_text(what.payload).split("\n")) if what.payload else ()
    headers = tuple(f"{name}: {value}" for name, value in what.headers)
    ttl = () if what.ttl is None else (_plain(what.ttl),)
    order = (
        "Minute, hour, day of the month, month, day of the week; 0 3 * * * is each night at three."
    )
    either = "An XML element in a namespace, or JSON."
    # fmt: off
    return (
        Field(CRON, "text-single", "Times, as a cron line", _given(what.cron), required=True, hint=order),
        Field(ZONE, "text-single", "Time zone", _given(what.zone), required=True, hint="As in Europe/Berlin."),
        Field(NODE, "text-single", "Node", _given(what.node), required=True),
        Field(PAYLOAD, "text-multi", "Payload", payload, required=True, hint=either),
        Field(MISSED, "list-single", "For times that were missed", (what.missed.value,), MISSED_WORDS),
        Field(PRIORITY, "text-single", "Priority", (str(what.priority),)),
        Field(TTL, "text-single", "Seconds that an item may wait", ttl),
        Field(HEADERS, "text-multi", "Headers", headers, hint="One on a line, as in name: value."),
        Field(GROUP, "text-single", "Group", _given(what.group)),
    )
    # fmt: on


def _given(text: str) -> tuple[str, ...]:
    return (text,) if text else ()


def _plain(span: Millis) -> str:
    return f"{span / 1000:g}" if span % 1000 else str(span // 1000)


def _definition(name: str, given: Given) -> Definition | StanzaError:
    """Read what was filled in."""
    try:
        payload, space = from_text("\n".join(given.get(PAYLOAD, ())))
        ttl = given.one(TTL)
        return Definition(
            name=name,
            cron=" ".join(given.one(CRON).split()),
            zone=given.one(ZONE),
            node=NodeName(given.one(NODE)),
            payload=payload,
            type=space,
            priority=int(given.one(PRIORITY) or "0"),
            ttl=seconds(float(ttl)) if ttl else None,
            headers=_headers(given),
            missed=Missed(given.one(MISSED) or Missed.ONCE),
            group=given.one(GROUP),
        )
    except UnfitPayloadError as problem:
        return unfit(str(problem))
    except (ValueError, OverflowError):
        return unfit("priority and the seconds are numbers; a header is a name, a colon, a value")


def _headers(given: Given) -> Headers:
    pairs = (line.partition(":") for line in given.get(HEADERS, ()) if line.strip())
    found = tuple((name.strip(), colon, value.strip()) for name, colon, value in pairs)
    if not all(name and colon for name, colon, _ in found):
        raise ValueError(HEADERS)
    return tuple((name, value) for name, _, value in found)


# --- making and changing -------------------------------------------------------------------------


def _show_new(_powers: Powers, _given: Given) -> Form:
    name = Field(NAME, "text-single", "Name of the schedule", required=True)
    words = (
        "At each of its times the service publishes one item, whose id is the name and the time."
    )
    return Form("Add a schedule", words, (name, *_fields(BLANK)))


def _ask_add(by: Asker, given: Given) -> Request | StanzaError:
    wanted = _definition(given.one(NAME), given)
    return AddSchedule(by, wanted) if isinstance(wanted, Definition) else wanted


def _show_added(_reply: Done, given: Given) -> Result:
    return Result(f"The schedule {given.one(NAME)} is there.")


def _ask_one(by: Asker, given: Given) -> Request:
    return ListSchedules(by, name=_chosen(given))


def _show_one(page: SchedulePage, given: Given) -> Shown:
    if not page.schedules:
        return Result(f"There is no schedule {_chosen(given)}.")
    words = "Another cron line or zone counts from now on; all else holds from its next time on."
    return Form(f"Change {_chosen(given)}", words, _fields(page.schedules[0].definition))


def _ask_change(by: Asker, given: Given) -> Request | StanzaError:
    wanted = _definition(_chosen(given), given)
    return ChangeSchedule(by, wanted) if isinstance(wanted, Definition) else wanted


# --- choosing ------------------------------------------------------------------------------------


def _chosen(given: Given) -> str:
    return given.one(OTHER) or given.one(SCHEDULE)


def _ask_all(by: Asker, _given: Given) -> Request:
    return ListSchedules(by)


def _choose(
    title: str, instructions: str, fits: Callable[[Schedule], bool], none: str
) -> Callable[[SchedulePage, Given], Shown]:
    """Return how the schedules that fit are shown to choose from; where there are very many, another may be named."""

    def show(page: SchedulePage, _given: Given) -> Shown:
        named = [one.name for one in page.schedules if fits(one)]
        if not named and not page.more:
            return Result(none)
        options = tuple((name, name) for name in named)
        pick = Field(
            *(SCHEDULE, "list-single", "Schedule", tuple(named[:1]), options),
            required=not page.more,
        )
        other = Field(OTHER, "text-single", "Or another schedule, by its name")
        fields = ((pick,) if named else ()) + ((other,) if page.more else ())
        return Form(title, instructions, fields)

    return show


def _with_one(
    node: str,
    label: str,
    instructions: str,
    *,
    fits: Callable[[Schedule], bool],
    none: str,
    ask: Callable[[Asker, str], Request],
    done: Callable[[str, Any], str],
) -> Command:
    """Return a command that does something with a schedule that is chosen."""
    stages = (
        Stage(_ask_all, _choose(label, instructions, fits, none)),
        Stage(
            lambda by, given: ask(by, _chosen(given)),
            lambda reply, given: Result(done(_chosen(given), reply)),
        ),
    )
    return Command(own(node), label, Power.SERVICE, stages)


def _is_changed_here(one: Schedule) -> bool:
    return one.source is Source.COMMAND


def _show_changed(_reply: Done, given: Given) -> Result:
    return Result(f"The schedule {_chosen(given)} is changed.")


def _fired(_name: str, reply: Fired) -> str:
    return f"{reply.id} is published."


NONE_HERE: Final = "There is no schedule that a command has made."

COMMANDS: Final = (
    Command(own("schedules"), "List the schedules", Power.SERVICE, (Stage(_ask_list, _show_list),)),
    Command(
        own("schedule-add"),
        "Add a schedule",
        Power.SERVICE,
        (Stage(ask_powers(Power.SERVICE), _show_new), Stage(_ask_add, _show_added)),
    ),
    Command(
        own("schedule-change"),
        "Change a schedule",
        Power.SERVICE,
        (
            Stage(
                _ask_all,
                _choose(
                    "Change a schedule",
                    "Those of the configuration file are changed there.",
                    _is_changed_here,
                    NONE_HERE,
                ),
            ),
            Stage(_ask_one, _show_one),
            Stage(_ask_change, _show_changed),
        ),
    ),
    _with_one(
        "schedule-remove",
        "Remove a schedule",
        "It publishes nothing more; what it has published stays. Those of the configuration file end when they leave it.",
        fits=_is_changed_here,
        none=NONE_HERE,
        ask=RemoveSchedule,
        done=lambda name, _reply: f"The schedule {name} is gone.",
    ),
    _with_one(
        "schedule-pause",
        "Pause a schedule",
        "It publishes nothing until it is resumed, and misses nothing meanwhile.",
        fits=lambda one: not one.paused,
        none="No schedule is running.",
        ask=lambda by, name: PauseSchedule(by, name, paused=True),
        done=lambda name, _reply: f"{name} publishes nothing until it is resumed.",
    ),
    _with_one(
        "schedule-resume",
        "Resume a paused schedule",
        "It publishes again from its next time on.",
        fits=lambda one: one.paused,
        none="No schedule is paused.",
        ask=lambda by, name: PauseSchedule(by, name, paused=False),
        done=lambda name, _reply: f"{name} publishes again from its next time on.",
    ),
    _with_one(
        "schedule-fire",
        "Publish what a schedule says now",
        "It is published once, at once, beside its times.",
        fits=lambda _one: True,
        none="There is no schedule.",
        ask=FireNow,
        done=_fired,
    ),
)
