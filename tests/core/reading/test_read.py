"""Who may read a queue from outside."""

import pytest
from harness.batches.facts import EVE, JOBS, plain, queue, who
from msgspec.structs import replace

from pubqueue.model.decision import Decision, Done, Refusal, Refused
from pubqueue.model.entities import AccessModel, Affiliation, NodeName
from pubqueue.model.replies import EventPage
from pubqueue.rules.read import (
    Counting,
    NodeAccess,
    ReadEvents,
    ReadFacts,
    ReadItems,
    ReadNodes,
    owns,
    read,
    readable,
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
