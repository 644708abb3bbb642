"""The table of commands: each row can be offered, executed and shown; and the forms of schedules."""

import dataclasses
import re

import pytest
from harness.batches.facts import NIGHTLY, NOW, who
from lxml import etree
from msgspec.structs import replace

from pubqueue.faces.xmpp.commands.handler import command
from pubqueue.faces.xmpp.commands.operation_forms import choose_node, command_of, node_of
from pubqueue.faces.xmpp.commands.steps import CommandTable, Field, Form, Result
from pubqueue.faces.xmpp.commands.table import COMMANDS, ORDER
from pubqueue.faces.xmpp.xml.refusals import StanzaError
from pubqueue.model.entities import Jid, Node, NodeConfig, NodeName, Principal, seconds
from pubqueue.model.replies import Described, Freed, Power, Powers
from pubqueue.model.schedules import Definition, Missed, SchedulePage, Source
from pubqueue.operations.model import NODE, Given, Parameter, ParameterKind, count, span
from pubqueue.operations.table import OPERATIONS
from pubqueue.rules.schedules import AddSchedule, ChangeSchedule
from pubqueue_xeps.wire import ns

BOSS = Principal(Jid("boss@x/desk"))


def queues(*names, **config):
    return tuple(
        Node(NodeName(name), NodeConfig(queueing=True, **config), Jid("boss@x"), 0)
        for name in names
    )


def test_a_command_is_named_so_that_no_other_node_is_called_like_it():
    named = re.compile(rf"({ns.PUBQUEUE}|{ns.PUBSUB})#[a-z-]+")
    assert [node for node in COMMANDS if not named.fullmatch(node)] == []
    assert [node for node, command in COMMANDS.items() if not command.stages] == []


def test_no_two_commands_have_one_label():
    labels = [command.label for command in COMMANDS.values()]
    assert len(set(labels)) == len(labels)


ANYBODYS = {
    *("ReadNodes", "ReadSurvey", "AskService", "ListSchedules", "ReadConnections", "ListMessages"),
    *("ReadDeaths", "ReadDefinitions"),
    "ListRegistrations",  # one's own, and those of one's nodes
    "ReadAlerts",  # the rule itself refuses others than administrators
}


def test_every_command_begins_with_a_question_about_rights():
    asked = {node: one.stages[0].ask(BOSS, Given()) for node, one in COMMANDS.items()}
    assert {node for node, one in asked.items() if one.by is not BOSS} == set()
    wrong = {
        node
        for node, one in asked.items()
        if getattr(one, "needed", None) is not COMMANDS[node].power
        and type(one).__name__ not in ANYBODYS
    }
    assert wrong == set()


def test_few_nodes_are_a_list_and_one_of_them_is_required():
    show = choose_node("Title", "Words")
    form = show(Powers((Power.NODES,), queues("a", "b")), Given())
    assert form.fields == (
        Field("node", "list-single", "Node", ("a",), (("a", "a"), ("b", "b")), required=True),
    )


def test_many_nodes_leave_room_for_the_name_of_another():
    show = choose_node("Title", "Words")
    form = show(Powers((Power.NODES,), queues("a"), more=True), Given())
    assert [(field.var, field.required) for field in form.fields] == [
        ("node", False),
        ("other_node", False),
    ]
    only = choose_node("Title", "Words", fits=lambda _node: False)
    form = only(Powers((Power.NODES,), queues("a"), more=True), Given())
    assert [field.var for field in form.fields] == ["other_node"]
    assert node_of(Given(node=("a",), other_node=("z",))) == "z"


def test_a_lack_of_fitting_entries_is_reported():
    assert choose_node("Title", "Words", none="None.")(Powers(()), Given()) == Result("None.")


@pytest.mark.parametrize(
    ("millis", "words"),
    [
        *((-5, "0 s"), (999, "0 s"), (12_000, "12 s"), (65_000, "1 min 5 s"), (60_000, "1 min")),
        *((3_600_000, "1 h"), (90_061_000, "1 d 1 h"), (86_401_000, "1 d 1 s")),
    ],
)
def test_a_span_has_two_units_at_most(millis, words):
    assert span(millis) == words


def test_numbers_have_their_nouns():
    assert [count(n, "item") for n in (0, 1, 2)] == ["0 items", "1 item", "2 items"]
    assert count(2, "entry", "entries") == "2 entries"


def test_everything_that_is_shown_is_escaped():
    bad = "<&\"'>"
    shown = [
        Form(bad, bad, (Field("v", "list-single", bad, (bad,), ((bad, bad),), hint=bad),)),
        Result(bad, title=bad, table=CommandTable((("v", bad),), ((bad,),))),
        Result(bad, facts=(Field("v", "text-single", bad, (bad,)),)),
    ]
    for each in shown:
        tree = etree.fromstring(command(bad, bad, "executing", each, actions=("next",)))
        assert tree.get("node") == tree.get("sessionid") == bad
        texts = [text for text in tree.itertext() if text.strip()]
        assert set(texts) == {bad}


def frobbing(**changes):
    """Return an operation that is not in the table: its form needs no code."""
    return dataclasses.replace(
        OPERATIONS["release"],
        name="frob",
        label="Frob a node",
        about="It is frobbed.",
        nodes=None,
        parameters=(NODE, Parameter("deep", ParameterKind.FLAG, "Deeply", usual="1", hint="Hm.")),
        **changes,
    )


def test_an_operation_is_a_command_by_itself():
    made = command_of(frobbing())
    first, last = made.stages
    form = first.show(Powers((Power.NODES,), queues("a")), Given())
    assert (form.title, form.instructions) == ("Frob a node", "It is frobbed.")
    assert [(field.var, field.kind, field.value) for field in form.fields] == [
        ("node", "list-single", ("a",)),
        ("deep", "boolean", ("1",)),
    ]
    assert last.show(Freed(NodeName("a"), 2), Given()).note.startswith("2 locks of a ended")


def test_what_cannot_be_undone_is_confirmed_with_its_count():
    _, confirm, last = command_of(frobbing(sure="{} will be frobbed.")).stages
    (node,) = queues("a")
    form = confirm.show(Described(replace(node, items=3)), Given(node=("a",)))
    assert (form.title, form.instructions) == ("Frob a", "a has 3 items. a will be frobbed.")
    assert last.ask(BOSS, Given(node=("a",), sure=("0",))).kind == "warn"


def test_a_whole_list_leaves_no_room_for_another_name():
    made = COMMANDS[f"{ns.PUBQUEUE}#schedule-fire"].stages[0]
    shown = made.show(SchedulePage(NOW, (NIGHTLY,)), Given())
    assert [(field.var, field.required) for field in shown.fields] == [("schedule", True)]


def test_every_operation_has_a_command_and_those_of_the_order_come_first():
    names = [node.partition("#")[2] for node in COMMANDS]
    assert names[: len(ORDER)] == list(ORDER)
    assert set(names) == {*OPERATIONS, "get-pending"}


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
