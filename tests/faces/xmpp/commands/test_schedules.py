"""The forms of schedules: what is filled in becomes a definition, or is said to be unfit."""

import pytest
from harness.batches.facts import NIGHTLY, NOW, who
from msgspec.structs import replace

from pubqueue.faces.xmpp.commands.steps import Form
from pubqueue.faces.xmpp.commands.table import COMMANDS
from pubqueue.faces.xmpp.xml.refusals import StanzaError
from pubqueue.model.entities import seconds
from pubqueue.model.schedules import Definition, Missed, SchedulePage, Source
from pubqueue.operations.model import Given
from pubqueue.rules.schedules import AddSchedule, ChangeSchedule

BY = who("boss@x/desk", admin=True)
COMMAND = {command.node.partition("#")[2]: command for command in COMMANDS.values()}
WHOLE = {
    "name": ("weekly",),
    "cron": ("  0  3 * * MON",),
    "zone": ("Europe/Berlin",),
    "node": ("jobs",),
    "payload": ("<job xmlns='urn:x'>", "a</job>"),
    "missed": ("all",),
    "priority": ("-2",),
    "ttl": ("1.5",),
    "headers": ("kind: a:b", "", "kind:c"),
    "group": (" reports ",),
}
MEANT = Definition(
    name="weekly",
    cron="0 3 * * MON",
    zone="Europe/Berlin",
    node="jobs",
    payload=b'<job xmlns="urn:x">\na</job>',
    type="urn:x",
    priority=-2,
    ttl=seconds(1.5),
    headers=(("kind", "a:b"), ("kind", "c")),
    missed=Missed.ALL,
    group="reports",
)


def asked(node, given, stage=-1):
    return COMMAND[node].stages[stage].ask(BY, Given(given))


def shown(node, stage, reply, given=()):
    return COMMAND[node].stages[stage].show(reply, Given(given))


def test_a_form_that_is_filled_in_is_a_schedule():
    assert asked("schedule-add", WHOLE) == AddSchedule(BY, MEANT)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("priority", "high", "priority: a number"),
        ("ttl", "soon", "ttl: a number"),
        ("headers", "kind", "a header is a name, a colon, a value"),
        ("headers", ": a", "a header is a name, a colon, a value"),
        ("missed", "never", "missed: one of once, skip, all"),
        ("payload", "a", "payload: the payload is neither an XML element nor JSON"),
    ],
)
def test_invalid_options_are_reported(field, value, words):
    for node in ("schedule-add", "schedule-change"):
        found = asked(node, WHOLE | {field: (value,), "schedule": ("weekly",)})
        assert isinstance(found, StanzaError)
        assert words in found.text


def test_a_change_begins_with_what_is_there_and_sent_back_changes_nothing():
    known = replace(NIGHTLY, definition=MEANT)
    form = shown("schedule-change", 1, SchedulePage(NOW, (known,)), {"schedule": ("weekly",)})
    assert isinstance(form, Form)
    back = {field.var: field.value for field in form.fields} | {"schedule": ("weekly",)}
    assert asked("schedule-change", back) == ChangeSchedule(BY, MEANT)


def test_where_there_are_very_many_another_can_be_named():
    page = SchedulePage(NOW, (NIGHTLY,), more=True)
    form = shown("schedule-fire", 0, page)
    assert [(field.var, field.required) for field in form.fields] == [
        ("schedule", False),
        ("other_schedule", False),
    ]
    request = asked("schedule-fire", {"schedule": ("nightly",), "other_schedule": ("far",)})
    assert request.name == "far"


STATES = [
    ({}, "running"),
    ({"tries": 2, "error": "node full"}, "tries again"),
    ({"paused": True, "tries": 2}, "paused"),
    ({"definition": replace(NIGHTLY.definition, enabled=False)}, "not enabled"),
]


@pytest.mark.parametrize(("changes", "state"), STATES)
def test_the_list_has_the_state_of_each(changes, state):
    one = replace(NIGHTLY, **changes, source=Source.FILE, due=None, last=NOW)
    result = shown("schedules", 0, SchedulePage(NOW, (one,), more=True))
    assert result.table.rows == (
        (
            *("nightly", state, "jobs", "0 3 * * * (UTC)", "", "1970-01-01T00:16:40.000Z"),
            *(one.error, "the configuration file"),
        ),
    )
    assert result.more == {"after": ("nightly",)}
    assert result.note == "1 schedule, and there are more."
