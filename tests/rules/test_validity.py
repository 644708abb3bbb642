"""The validity of requests, independent of the store: each bound at its edge, on both sides."""

from types import SimpleNamespace

import pytest
from harness.batches.facts import ETL, JOBS, draft, who

from pubqueue.engine.table import RULES
from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Jid, Millis, NodeName, Principal
from pubqueue.model.transactions import Mark, Totals
from pubqueue.rules.access import is_hidden
from pubqueue.rules.commit import CommitVersion, Part
from pubqueue.rules.dead_letters import Redrive
from pubqueue.rules.declare import Declare
from pubqueue.rules.discovery import Describe, ListMySubscriptions
from pubqueue.rules.nodes import Create, Delete
from pubqueue.rules.publication import Publish
from pubqueue.rules.settle import Settle, Verb
from pubqueue.rules.staging import AbortVersion, AskLastVersion, ListTransactions, StagePublish
from pubqueue.rules.unlock import Touch
from pubqueue.rules.validity import (
    HIGHEST_NUMBER,
    MAX_SPAN,
    is_name,
    of_abort,
    of_app,
    of_commit,
    of_description,
    of_node,
    of_publish,
    of_records,
    of_redrive,
    of_settle,
    of_stage,
    of_touch,
)

PRINCIPAL = who(ETL)
LINES = NodeName("a\nb")
NO_NODE = Refused(Refusal.BAD_REQUEST, "a node name has 1 to 1023 bytes and no control characters")
TWICE = Refused(Refusal.BAD_REQUEST, "an item id occurs twice in one request")
SPAN = "a duration is a number of seconds, up to a hundred years"


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("jobs", True),
        ("a b/ü'\"<", True),
        ("n" * 1023, True),
        ("n" * 1024, False),
        ("é" * 511, True),
        ("é" * 512, False),
        ("", False),
        ("a\nb", False),
        ("a\u202eb", True),
        ("a\u0085b", False),
    ],
)
def test_a_name_is_short_and_on_one_line(text, good):
    assert is_name(text) is good


@pytest.mark.parametrize("name", ["", LINES, "n" * 1024])
def test_a_node_is_named_by_a_name(name):
    ids = ("i1",)
    assert of_node(Delete(PRINCIPAL, name)) == NO_NODE
    assert of_publish(Publish(PRINCIPAL, name, (draft(),))) == NO_NODE
    assert of_settle(Settle(PRINCIPAL, name, ids, Verb.RETRACT)) == NO_NODE
    assert of_touch(Touch(PRINCIPAL, name, ids)) == NO_NODE
    assert of_redrive(Redrive(PRINCIPAL, name, ids, JOBS)) == NO_NODE
    assert of_redrive(Redrive(PRINCIPAL, name, ids, LINES)) == NO_NODE
    assert of_description(Describe(PRINCIPAL, name, manage=True)) == NO_NODE


def test_an_account_that_only_discovers_gets_node_not_found():
    assert of_description(Describe(PRINCIPAL, LINES, manage=False)) is None


def test_a_request_about_all_nodes_names_none():
    assert of_node(ListMySubscriptions(PRINCIPAL, None)) is None
    assert of_node(ListMySubscriptions(PRINCIPAL, JOBS)) is None


def test_items_go_where_there_is_a_name():
    assert of_redrive(Redrive(PRINCIPAL, JOBS, None, JOBS)) is None
    no = Refused(Refusal.BAD_REQUEST, "to is not a valid NodeID")
    assert of_redrive(Redrive(PRINCIPAL, JOBS, None, LINES)) == no


def published(*drafts):
    request = Publish(PRINCIPAL, JOBS, drafts)
    no = of_publish(request)
    assert of_stage(StagePublish(request, Mark("app", 1))) == no
    return no


@pytest.mark.parametrize("name", ["", LINES, "n" * 1024])
def test_an_item_is_named_by_a_name(name):
    assert published(draft(), draft(name)) == Refused(
        Refusal.BAD_REQUEST, "an item id has 1 to 1023 bytes and no control characters"
    )


@pytest.mark.parametrize("priority", [1_000_000, -1_000_000, 0])
def test_a_priority_may_reach_its_bounds(priority):
    assert published(draft(priority=priority)) is None


@pytest.mark.parametrize("group", ["", "g", "x" * 255, "é" * 127, "customer 17/ü"])
def test_a_group_is_a_name_or_none(group):
    assert published(draft(group=group)) is None


@pytest.mark.parametrize("group", ["x" * 256, "é" * 128, "a\nb", "a\u2028b"])
def test_a_group_is_no_other_text(group):
    no = Refused(
        Refusal.BAD_REQUEST,
        "group: a name of 1 to 255 bytes, without control characters",
        setting="group",
    )
    assert published(draft(group=group)) == no


@pytest.mark.parametrize("priority", [1_000_001, -1_000_001])
def test_a_priority_has_bounds(priority):
    reason = "priority: a priority goes from -1000000 to 1000000"
    no = Refused(Refusal.BAD_REQUEST, reason, setting="priority")
    assert published(draft(priority=priority)) == no


@pytest.mark.parametrize("span", [0, 1, MAX_SPAN])
def test_a_span_may_reach_its_bounds(span):
    assert published(draft(delay=span, ttl=span)) is None
    assert of_touch(Touch(PRINCIPAL, JOBS, ("i1",), span)) is None
    assert of_settle(Settle(PRINCIPAL, JOBS, ("i1",), Verb.UNLOCK, delay=span)) is None


@pytest.mark.parametrize("span", [Millis(-1), Millis(MAX_SPAN + 1)])
def test_a_span_has_bounds(span):
    for name in ("delay", "ttl"):
        no = Refused(Refusal.BAD_REQUEST, f"{name}: {SPAN}", setting=name)
        assert published(draft(**{name: span})) == no
    no = Refused(Refusal.BAD_REQUEST, SPAN)
    assert of_touch(Touch(PRINCIPAL, JOBS, ("i1",), span)) == no
    assert of_settle(Settle(PRINCIPAL, JOBS, ("i1",), Verb.UNLOCK, delay=span)) == no


def test_an_item_is_named_once():
    twice, once = ("i1", "i2", "i1"), ("i1", "i2")
    assert published(*map(draft, twice)) == TWICE
    assert published(*map(draft, once)) is None
    for ids, said in ((twice, TWICE), (once, None)):
        assert of_settle(Settle(PRINCIPAL, JOBS, ids, Verb.RETRACT)) == said
        assert of_touch(Touch(PRINCIPAL, JOBS, ids)) == said
        assert of_redrive(Redrive(PRINCIPAL, JOBS, ids)) == said


def test_a_part_is_named_once():
    one, other = Part(1, 0, 1), Part(1, 2, 1)
    assert of_commit(CommitVersion(PRINCIPAL, "app", 1, (one,))) is None
    no = Refused(Refusal.BAD_REQUEST, "commit: a part is named twice")
    assert of_commit(CommitVersion(PRINCIPAL, "app", 1, (one, other))) == no


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("a b/ü", True),
        ("n" * 255, True),
        ("n" * 256, False),
        ("é" * 128, False),
        ("", False),
        ("a\nb", False),
    ],
)
def test_the_name_of_an_app_has_bounds(name, good):
    no = Refused(
        Refusal.BAD_REQUEST, "app has to be a name of 1 to 255 bytes, without control characters"
    )
    publishes = Publish(PRINCIPAL, JOBS, (draft("i"),))
    said = [
        of_app(AskLastVersion(PRINCIPAL, name)),
        of_abort(AbortVersion(PRINCIPAL, name, 1)),
        of_records(ListTransactions(PRINCIPAL, open=True, app=name)),
        of_commit(CommitVersion(PRINCIPAL, name, 1, ())),
        of_stage(StagePublish(publishes, Mark(name, 1))),
    ]
    assert said == [None if good else no] * len(said)


def test_records_of_every_app_need_no_name():
    assert of_records(ListTransactions(PRINCIPAL, open=True)) is None


@pytest.mark.parametrize(
    ("number", "good"),
    [(0, True), (HIGHEST_NUMBER, True), (HIGHEST_NUMBER + 1, False), (-1, False)],
)
def test_numbers_of_transactions_have_bounds(number, good):
    publishes = Publish(PRINCIPAL, JOBS, (draft("i"),))
    one = Part(1, 1, 1)
    said = {
        "version": of_commit(CommitVersion(PRINCIPAL, "a", number, ())),
        "n": of_commit(CommitVersion(PRINCIPAL, "a", 1, (Part(number, 1, 1),))),
        "attempt": of_commit(CommitVersion(PRINCIPAL, "a", 1, (Part(1, number, 1),))),
        "items": of_commit(CommitVersion(PRINCIPAL, "a", 1, (Part(1, 1, number),))),
        "skipped": of_commit(CommitVersion(PRINCIPAL, "a", 1, (one,), Totals(number, 1, None))),
        "after": of_records(ListTransactions(PRINCIPAL, open=True, after=number)),
        "part": of_stage(StagePublish(publishes, Mark("a", 1, number))),
    }
    for name, no in said.items():
        reason = f"{name} has to be a whole number from 0 to {HIGHEST_NUMBER}"
        expected = None if good else Refused(Refusal.BAD_REQUEST, reason)
        assert no == expected, name
    assert (of_abort(AbortVersion(PRINCIPAL, "a", number)) is None) is good


# --- names of projects ---------------------------------------------------------------------------

SHOPS = NodeName("projects/shop/topics/orders")
THEIRS = Principal(Jid("eve@x"), projects=frozenset({"eves"}))


class AnyRequest(SimpleNamespace):
    """A request with these fields, whatever its kind; all others are empty."""

    def __getattr__(self, _name):
        return ()


NODES = {
    kind: rule
    for kind, rule in RULES.items()
    if {"by", "node"} <= {*kind.__struct_fields__, *vars(kind)} - {"publish"}
}
OF_THE_SERVICE = {"NextSubscribers", "ReadConnections"}
"""Requests that only the service itself and administrators make."""


@pytest.mark.parametrize("kind", NODES, ids=lambda kind: kind.__name__)
def test_no_request_reaches_a_node_of_a_project_that_does_not_exist_for_the_account(kind):
    fault = NODES[kind].fault
    if kind.__name__ in OF_THE_SERVICE:
        assert fault is None
        return
    template = Touch(THEIRS, SHOPS, ())
    refused = fault(AnyRequest(by=THEIRS, node=SHOPS, template=template))
    makes = kind in {Create, Declare}
    assert refused.refusal is (Refusal.FORBIDDEN if makes else Refusal.NODE_NOT_FOUND)


@pytest.mark.parametrize(
    ("name", "by", "hidden"),
    [
        (SHOPS, THEIRS, True),
        ("projects/eves/topics/a", THEIRS, False),
        ("projects/eves", THEIRS, False),
        ("projects/shop/", THEIRS, True),
        ("jobs", THEIRS, False),
        ("my/projects/shop/topics/a", THEIRS, False),
        (SHOPS, Principal(Jid("eve@x")), False),
        (SHOPS, Principal(Jid("eve@x"), admin=True, projects=frozenset()), False),
    ],
)
def test_whose_a_name_of_a_project_is(name, by, hidden):
    assert is_hidden(by, NodeName(name)) is hidden
