"""Names below `replies/` belong to the account that they name."""

import pytest
from harness.batches.facts import NOW, who

from pubqueue.core.decision import Refusal, Refused
from pubqueue.core.model import Affiliation, Jid, NodeName
from pubqueue.core.nodes.access import AutoCreation, CreationPolicy
from pubqueue.core.nodes.manage import Create, NodeFacts, create
from pubqueue.core.nodes.names import standing
from pubqueue.core.nodes.nodeconfig import Settings
from pubqueue.core.nodes.replies import Created
from pubqueue.core.queue.publication import Publish, PublishFacts
from pubqueue.core.queue.publish import publish

HERS = NodeName("replies/ann@x")
ROLES = list(Affiliation)


@pytest.mark.parametrize(
    ("by", "name", "may"),
    [
        (who("ann@x/1"), HERS, True),
        (who("eve@x/1"), HERS, False),
        (who("eve@x/1", admin=True), HERS, True),
        (who("ann@x/1"), NodeName("replies/ann@x/1"), False),
        (who("ann@x/1"), NodeName("replies/"), False),
        (who("eve@x/1"), NodeName("repliesann@x"), True),
    ],
)
def test_nodes_for_replies_are_created_by_a_create_or_a_publish(by, name, may):
    there = NodeFacts(NOW, None, Affiliation.NONE, CreationPolicy.ANYONE)
    made = create(Create(by, name, Settings()), there).reply
    assert isinstance(made, Created) is may
    makes = CreationPolicy.ANYONE, AutoCreation.ALWAYS
    facts = PublishFacts(NOW, None, Affiliation.NONE, False, (), policy=makes[0], creation=makes[1])  # noqa: FBT003
    done = publish(Publish(by, name, ()), facts).reply
    refused = isinstance(done, Refused) and done.refusal is Refusal.FORBIDDEN
    assert refused is not may


@pytest.mark.parametrize("stored", ROLES)
def test_the_stored_name_counts_except_for_the_owner_of_a_node_for_replies(stored):
    assert standing(NodeName("jobs"), Jid("eve@x"), stored) is stored
    assert standing(HERS, Jid("ann@x"), stored) is Affiliation.OWNER
    other = Affiliation.NONE if stored is Affiliation.OWNER else stored
    assert standing(HERS, Jid("eve@x"), stored) is other
