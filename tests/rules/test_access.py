"""TODO"""

import pytest
from harness.batches.facts import NOW, plain, who

from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import AccessModel, Affiliation, Jid, NodeName, PublishModel
from pubqueue.model.replies import Created
from pubqueue.rules.access import (
    Action,
    AutoCreation,
    CreationPolicy,
    barred,
    may,
    may_create,
    standing_of,
    standing_of_account,
)
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Create, NodeFacts, create
from pubqueue.rules.publication import Publish, PublishFacts
from pubqueue.rules.publish import publish_at_once

# XEP-0060 4.1, table 1, on a node that grants nothing by its models. "Manage" is what the table
# calls configure, delete and purge the node; "observe", to read its log and counts, is ours.
PRIVILEGES = """
              subscribe  retrieve  publish  delete-any-item  manage  observe
owner         yes        yes       yes      yes              yes     yes
publisher     yes        yes       yes      no               no      yes
publish-only  no         no        yes      no               no      no
member        yes        yes       no       no               no      no
none          no         no        no       no               no      no
outcast       no         no        no       no               no      no
"""
CLOSED = plain(access_model=AccessModel.WHITELIST, publish_model=PublishModel.PUBLISHERS)


def cells():
    head, *rows = PRIVILEGES.strip().splitlines()
    actions = [Action[word.upper().replace("-", "_")] for word in head.split()]
    for row in rows:
        affiliation, *answers = row.split()
        for action, answer in zip(actions, answers, strict=True):
            yield Affiliation(affiliation), action, answer == "yes"


def test_affiliations_grant_what_the_xep_says():
    table = {(affiliation, action): allowed for affiliation, action, allowed in cells()}
    assert {cell: may(*cell, CLOSED) for cell in table} == table


@pytest.mark.parametrize("action", [Action.SUBSCRIBE, Action.RETRIEVE])
@pytest.mark.parametrize("affiliation", Affiliation)
def test_an_open_node_is_open_to_all_but_outcasts_and_publish_only_accounts(affiliation, action):
    excluded = {Affiliation.OUTCAST, Affiliation.PUBLISH_ONLY}
    assert may(affiliation, action, plain()) is (affiliation not in excluded)


@pytest.mark.parametrize(
    ("model", "subscribed", "allowed"),
    [
        (PublishModel.PUBLISHERS, True, False),
        (PublishModel.SUBSCRIBERS, False, False),
        (PublishModel.SUBSCRIBERS, True, True),
        (PublishModel.OPEN, False, True),
    ],
)
def test_the_publish_model_adds_publishers(model, subscribed, allowed):
    node = plain(publish_model=model)
    assert may(Affiliation.NONE, Action.PUBLISH, node, subscribed=subscribed) is allowed


@pytest.mark.parametrize("action", Action)
def test_an_outcast_has_no_access(action):
    node = plain(publish_model=PublishModel.OPEN)
    assert not may(Affiliation.OUTCAST, action, node, subscribed=True)


@pytest.mark.parametrize("action", [Action.DELETE_ANY_ITEM, Action.MANAGE])
def test_no_model_hands_out_the_rights_of_an_owner(action):
    node = plain(publish_model=PublishModel.OPEN)
    assert not may(Affiliation.PUBLISHER, action, node, subscribed=True)


def test_an_administrator_counts_as_owner_whatever_the_node_says():
    assert standing_of(who("a@x", admin=True), Affiliation.OUTCAST) is Affiliation.OWNER
    assert standing_of(who("a@x", local=True), Affiliation.MEMBER) is Affiliation.MEMBER


@pytest.mark.parametrize(
    ("affiliation", "node", "known", "expected"),
    [
        (Affiliation.OUTCAST, plain(), True, Refusal.FORBIDDEN),
        (Affiliation.OUTCAST, CLOSED, True, Refusal.FORBIDDEN),
        (Affiliation.NONE, CLOSED, False, Refusal.CLOSED_NODE),
        (Affiliation.NONE, CLOSED, True, None),
        (Affiliation.MEMBER, CLOSED, False, None),
        (Affiliation.NONE, plain(), False, None),
    ],
)
def test_only_outcasts_and_strangers_of_a_whitelist_are_barred(affiliation, node, known, expected):
    assert barred(affiliation, node, known=known) is expected


@pytest.mark.parametrize(
    ("policy", "anybody", "local", "admin"),
    [
        (CreationPolicy.ANYONE, True, True, True),
        (CreationPolicy.LOCAL, False, True, True),
        (CreationPolicy.ADMINS, False, False, True),
    ],
)
def test_the_settings_name_the_creators_of_nodes(policy, anybody, local, admin):
    people = [who("a@y"), who("a@x", local=True), who("a@y", admin=True)]
    assert [may_create(principal, policy) for principal in people] == [anybody, local, admin]


# Names below `replies/` belong to the account that they name.

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
