"""Names below `replies/` belong to the account that they name."""

import pytest
from harness.batches.facts import NOW, who

from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Affiliation, Jid, NodeName
from pubqueue.model.replies import Created
from pubqueue.rules.access import AutoCreation, CreationPolicy, standing_of_account
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Create, NodeFacts, create
from pubqueue.rules.publication import Publish, PublishFacts
from pubqueue.rules.publish import publish_at_once

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
    done = publish_at_once(Publish(by, name, ()), facts).reply
    refused = isinstance(done, Refused) and done.refusal is Refusal.FORBIDDEN
    assert refused is not may


@pytest.mark.parametrize("stored", ROLES)
def test_the_stored_name_counts_except_for_the_owner_of_a_node_for_replies(stored):
    assert standing_of_account(NodeName("jobs"), Jid("eve@x"), stored) is stored
    assert standing_of_account(HERS, Jid("ann@x"), stored) is Affiliation.OWNER
    other = Affiliation.NONE if stored is Affiliation.OWNER else stored
    assert standing_of_account(HERS, Jid("eve@x"), stored) is other
