"""A plain node is deleted with the queues that it feeds, all or nothing; and accounts that may see a node are notified."""

import pytest

from pubqueue.model.changes import DeleteNode
from pubqueue.model.decision import Decision, Done, Refusal, Refused
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    Feed,
    Jid,
    Millis,
    Node,
    NodeConfig,
    NodeName,
    Principal,
)
from pubqueue.model.notices import Deleted, ToAll
from pubqueue.model.replies import Described
from pubqueue.rules.access import Other, Others
from pubqueue.rules.discovery import Describe, describe
from pubqueue.rules.nodes import Delete, NodeFacts, delete

ANN = Principal(Jid("ann@example.org"))
NOW = Millis(0)


def node(name, **config):
    return Node(NodeName(name), NodeConfig(**config), ANN.account, NOW)


FEEDS = (Feed("q1", ANN.account), Feed("q2", ANN.account))
TOPIC = node("topic", feeds=FEEDS)


def facts(second):
    queues = {name: node(name, queueing=True, source="topic") for name in ("q1", "q2")}
    others = Others(
        {"q1": Other(queues["q1"], Affiliation.OWNER), "q2": Other(queues["q2"], second)}
    )
    return NodeFacts(NOW, TOPIC, Affiliation.OWNER, others=others)


def test_all_are_deleted_together():  # G4
    found = delete(Delete(ANN, TOPIC.name, with_fed=True), facts(Affiliation.OWNER))
    assert found.reply == Done()
    gone = [change.node for change in found.changes if isinstance(change, DeleteNode)]
    assert gone == ["q1", "q2", "topic"]
    assert len(found.changes) == 3
    notified = [news.what.node for news in found.notices if isinstance(news, ToAll)]
    assert notified == ["q1", "q2"]
    assert all(isinstance(news.what, Deleted) for news in found.notices)


def test_a_queue_of_another_owner_refuses_it():  # G4
    found = delete(Delete(ANN, TOPIC.name, with_fed=True), facts(Affiliation.MEMBER))
    assert isinstance(found.reply, Refused)
    assert (found.reply.refusal, found.reply.limit) == (Refusal.PRECONDITION_NOT_MET, 1)
    assert found == Decision(found.reply)


def test_without_it_the_queues_stay():  # G4
    found = delete(Delete(ANN, TOPIC.name), facts(Affiliation.MEMBER))
    gone = [change.node for change in found.changes if isinstance(change, DeleteNode)]
    assert gone == ["topic"]


@pytest.mark.parametrize(
    ("affiliation", "model", "known"),
    [
        (Affiliation.NONE, AccessModel.WHITELIST, False),
        (Affiliation.OUTCAST, AccessModel.OPEN, False),
        (Affiliation.NONE, AccessModel.OPEN, True),
        (Affiliation.PUBLISH_ONLY, AccessModel.WHITELIST, True),
    ],
)
def test_an_account_that_may_see_a_node_gets_its_description(affiliation, model, known):
    there = NodeFacts(NOW, node("topic", access_model=model), affiliation)
    assert isinstance(describe(Describe(ANN, "topic", manage=False), there).reply, Described)
    found = describe(Describe(ANN, "topic", manage=False, known=True), there).reply
    assert isinstance(found, Described) is known
