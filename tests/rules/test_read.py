"""Who may read a queue from outside."""

import pytest
from harness.batches.facts import EVE, JOBS, plain, queue, who
from msgspec.structs import replace

from pubqueue.model.changes import ForgetEvents
from pubqueue.model.decision import Decision, Done, Refusal, Refused
from pubqueue.model.entities import AccessModel, Affiliation, Millis, NodeName
from pubqueue.model.replies import EventPage, Trimmed
from pubqueue.rules.read import (
    TRIM_SLICE,
    Counting,
    NodeAccess,
    ReadEvents,
    ReadFacts,
    ReadItems,
    ReadNodes,
    Trim,
    TrimFacts,
    owns,
    read,
    readable,
    trim,
)

PAGE = EventPage((), 1, 9, 9, more=False)
OPEN, CLOSED = queue(), queue(access_model=AccessModel.WHITELIST)
MAY = {Affiliation.OWNER, Affiliation.PUBLISHER}


def refusal(decision):
    return decision.reply.refusal if isinstance(decision.reply, Refused) else None


@pytest.mark.parametrize("node", [OPEN, plain()])
@pytest.mark.parametrize("request_of", [ReadEvents, ReadItems])
def test_owners_and_publishers_read_a_node(request_of, node):
    def decided(affiliation):
        facts = ReadFacts((NodeAccess(node, affiliation),), PAGE)
        decision = read(request_of(who(EVE), JOBS), facts)
        return refusal(decision) or decision

    assert {one: decided(one) for one in Affiliation} == {
        one: Decision(PAGE) if one in MAY else Refusal.FORBIDDEN for one in Affiliation
    }


def test_administrators_read_everything():
    facts = ReadFacts((NodeAccess(CLOSED, Affiliation.NONE),), PAGE)
    for request in (ReadEvents(who(EVE, admin=True)), ReadItems(who(EVE, admin=True), JOBS)):
        assert read(request, facts) == Decision(PAGE)


def test_without_the_node_there_is_nothing_to_read():
    for request in (ReadEvents(who(EVE), JOBS), ReadItems(who(EVE), JOBS)):
        assert refusal(read(request, ReadFacts((), None))) is Refusal.NODE_NOT_FOUND


@pytest.mark.parametrize(
    ("affiliation", "subscribed", "expected"),
    [
        (Affiliation.NONE, False, Refusal.CLOSED_NODE),
        (Affiliation.NONE, True, Refusal.FORBIDDEN),
        (Affiliation.OUTCAST, False, Refusal.FORBIDDEN),
    ],
)
def test_a_closed_node_reveals_no_more_than_to_others(affiliation, subscribed, expected):
    facts = ReadFacts((NodeAccess(CLOSED, affiliation, subscribed),), PAGE)
    assert refusal(read(ReadEvents(who(EVE), JOBS), facts)) is expected


@pytest.mark.parametrize("request_of", [ReadEvents, ReadNodes])
def test_without_naming_a_node_one_needs_one_that_one_may_read(request_of):
    mine = NodeAccess(queue(name="mine"), Affiliation.PUBLISHER)
    other = NodeAccess(OPEN, Affiliation.MEMBER)
    assert read(request_of(who(EVE)), ReadFacts((other, mine), PAGE)) == Decision(PAGE)
    assert refusal(read(request_of(who(EVE)), ReadFacts((other,), PAGE))) is Refusal.FORBIDDEN
    assert refusal(read(request_of(who(EVE)), ReadFacts((), None))) is Refusal.FORBIDDEN


def test_only_readable_nodes_are_read():
    nodes = [NodeAccess(queue(name=a.value), a) for a in Affiliation]
    assert {node.name for node in readable(who(EVE), nodes)} == {a.value for a in MAY}
    assert len(readable(who(EVE, admin=True), nodes)) == len(nodes)


def test_settings_are_for_owners():
    owned = [a for a in Affiliation if owns(who(EVE), NodeAccess(queue(name=NodeName("n")), a))]
    assert owned == [Affiliation.OWNER]
    assert owns(who(EVE, admin=True), NodeAccess(OPEN, Affiliation.NONE))


def test_counting_slices_are_only_for_accounts_that_may_read():
    mine = NodeAccess(queue(name="mine"), Affiliation.PUBLISHER)
    other = NodeAccess(OPEN, Affiliation.MEMBER)
    then = ReadNodes(who(EVE), counted=Counting(mine.node.name, queued=5, behind=(1, 2)))
    facts = ReadFacts((mine,), None, then)
    assert read(ReadNodes(who(EVE)), facts) == Decision(Done(), then=then)
    assert refusal(read(ReadNodes(who(EVE)), replace(facts, nodes=(other,)))) is Refusal.FORBIDDEN


# How much of the event log is removed.


@pytest.mark.parametrize(
    ("oldest", "newest", "aged", "through"),
    [
        (0, 0, None, None),
        (1, 100, None, None),
        (1, 101, None, 1),
        (51, 250, None, 150),
        (1, 100, 7, 7),
        (1, 120, 7, 20),
        (1, 120, 30, 30),
        (7, 7, 7, None),
        (6, 7, 7, 6),
    ],
    ids=[
        *("empty", "just full", "one too many", "many too many", "aged", "both, size", "both, age"),
        *("the newest stays", "and stays"),
    ],
)
def test_old_and_excess_items_are_removed(oldest, newest, aged, through):
    expected = Decision(Trimmed(more=False), () if through is None else (ForgetEvents(through),))
    assert trim(Trim(Millis(1000), 100), TrimFacts(oldest, newest, aged)) == expected


def test_a_slice_at_a_time():
    facts = TrimFacts(11, 11 + 3 * TRIM_SLICE, None)
    expected = Decision(Trimmed(more=True), (ForgetEvents(10 + TRIM_SLICE),))
    assert trim(Trim(Millis(1000), 100), facts) == expected
