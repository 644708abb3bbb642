"""Schedules: list, add, change and remove them, pause and resume them, and publish an item now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pubqueue.faces.xmpp.commands.operation_forms import (
    OTHER,
    ask_powers,
    doing,
    field_of,
    listed,
    rows_in_words,
    table_of,
)
from pubqueue.faces.xmpp.commands.steps import CommandStep, Field, Form, Result, of
from pubqueue.faces.xmpp.xml.payload import to_text
from pubqueue.model.schedules import Source
from pubqueue.operations.model import stamp
from pubqueue.operations.schedules import (
    ADD,
    CHANGE,
    DEFINING,
    FIRE,
    NAME,
    PAUSE,
    REMOVE,
    RESUME,
    SCHEDULE,
    SCHEDULES,
    SHOW,
    state_of,
)
from pubqueue.rules.schedules import ListSchedules

if TYPE_CHECKING:
    from collections.abc import Callable

    from pubqueue.faces.xmpp.commands.steps import Command, Shown
    from pubqueue.model.decision import Request
    from pubqueue.model.entities import Principal
    from pubqueue.model.replies import Powers
    from pubqueue.model.schedules import Definition, Schedule, SchedulePage
    from pubqueue.operations.model import Given, Operation

AFTER: Final = "after"

HINTS: Final = {
    "cron": "Minute, hour, day of the month, month, day of the week; 0 3 * * * means every night at three.",
    "zone": "For example Europe/Berlin.",
    "payload": "An XML element in a namespace, or JSON.",
    "headers": "One per line, such as name: value.",
}


# --- the list ------------------------------------------------------------------------------------


def _show_list(page: SchedulePage, given: Given) -> Result:
    answer = SCHEDULES.answer(page, given)
    after = given.one(AFTER)
    return Result(
        answer.note,
        title=f"Schedules after {after}" if after else "Schedules",
        facts=rows_in_words((one.name, _in_words(one)) for one in page.schedules),
        table=table_of(SCHEDULES, answer),
        more={AFTER: (answer.through,)} if answer.more else {},
    )


def _in_words(one: Schedule) -> str:
    words = [f"{state_of(one)}, to {one.definition.node}"]
    words += [f"next {stamp(one.due)}"] if one.due is not None else []
    words += [f"last {stamp(one.last)}"] if one.last is not None else []
    words += [one.error] if one.error else []
    return listed(words)


# --- making and changing -------------------------------------------------------------------------


def _defining() -> tuple[Field, ...]:
    return tuple(field_of(one, hint=HINTS.get(one.name, "")) for one in DEFINING)


def _show_new(_powers: Powers, _given: Given) -> Form:
    return Form(ADD.label, ADD.about, (field_of(NAME), *_defining()))


def _ask_one(by: Principal, given: Given) -> Request:
    return ListSchedules(by, name=_chosen(given))


def _show_one(page: SchedulePage, given: Given) -> Shown:
    values = _field_values(page.schedules[0].definition)
    fields = tuple(replace(field, value=values[field.var]) for field in _defining())
    return Form(f"Change {_chosen(given)}", CHANGE.about, fields)


def _field_values(what: Definition) -> dict[str, tuple[str, ...]]:
    """Return the settings of a schedule as values of form fields."""
    return {
        "cron": (what.cron,),
        "zone": (what.zone,),
        "node": (what.node,),
        "payload": tuple(to_text(what.payload).split("\n")),
        "missed": (what.missed.value,),
        "priority": (str(what.priority),),
        "ttl": () if what.ttl is None else (f"{what.ttl / 1000:.15g}",),
        "headers": tuple(f"{name}: {value}" for name, value in what.headers),
        "group": (what.group,) if what.group else (),
    }


# --- choosing ------------------------------------------------------------------------------------


def _chosen(given: Given) -> str:
    return given.one(OTHER + SCHEDULE.name) or given.one(SCHEDULE.name)


def _ask_all(by: Principal, _given: Given) -> Request:
    return ListSchedules(by)


def _choosing(operation: Operation, fits: Callable[[Schedule], bool], none: str) -> CommandStep:
    """Return the stage that asks for a schedule which fits. If there are too many, its form has a field for the name of another."""

    def show(page: SchedulePage, _given: Given) -> Shown:
        named = [one.name for one in page.schedules if fits(one)]
        if not named and not page.more:
            return Result(none)
        options = tuple((name, name) for name in named)
        pick = Field(
            *(SCHEDULE.name, "list-single", SCHEDULE.label, tuple(named[:1]), options),
            required=not page.more,
        )
        other = Field(OTHER + SCHEDULE.name, "text-single", "Or the name of another schedule")
        fields = ((pick,) if named else ()) + ((other,) if page.more else ())
        return Form(operation.label, operation.about, fields)

    return CommandStep(_ask_all, show)


def _with_one(operation: Operation, fits: Callable[[Schedule], bool], none: str) -> Command:
    """Return the command of an operation on a schedule."""
    return of(operation, _choosing(operation, fits, none), doing(operation))


def _is_any(_one: Schedule) -> bool:
    return True


def _is_from_command(one: Schedule) -> bool:
    return one.source is Source.COMMAND


NONE: Final = "No schedules."
NONE_HERE: Final = "No schedules that were created by command."

COMMANDS: Final = (
    of(SCHEDULES, doing(SCHEDULES, _show_list)),
    _with_one(SHOW, _is_any, NONE),
    of(ADD, CommandStep(ask_powers(ADD.power), _show_new), doing(ADD)),
    of(
        CHANGE,
        _choosing(CHANGE, _is_from_command, NONE_HERE),
        CommandStep(_ask_one, _show_one),
        doing(CHANGE),
    ),
    _with_one(REMOVE, _is_from_command, NONE_HERE),
    _with_one(PAUSE, lambda one: not one.paused, "No schedule is running."),
    _with_one(RESUME, lambda one: one.paused, "No schedule is paused."),
    _with_one(FIRE, _is_any, NONE),
)
