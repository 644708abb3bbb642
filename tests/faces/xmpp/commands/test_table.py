"""The table of commands: each row can be offered, executed and shown."""

import dataclasses
import re

import pytest
from harness.batches.facts import NIGHTLY, NOW
from lxml import etree
from msgspec.structs import replace

from pubqueue.faces.xmpp.commands.handler import command
from pubqueue.faces.xmpp.commands.operation_forms import choose_node, command_of, node_of
from pubqueue.faces.xmpp.commands.steps import CommandTable, Field, Form, Result
from pubqueue.faces.xmpp.commands.table import COMMANDS, ORDER
from pubqueue.model.entities import Jid, Node, NodeConfig, NodeName, Principal
from pubqueue.model.replies import Described, Freed, Power, Powers
from pubqueue.model.schedules import SchedulePage
from pubqueue.operations.model import NODE, Given, Parameter, ParameterKind, count, span
from pubqueue.operations.table import OPERATIONS
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
    "ListRegistrations",  # one's own, and those of one's nodes
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
