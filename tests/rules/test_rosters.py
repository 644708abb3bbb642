"""Access models that the rosters of a node's owners decide (XEP-0060 6.1.3.2, 6.1.3.3, 6.5.9), and anonymous accounts."""

import pytest
from harness.batches.facts import ANN, BOSS, JOBS, NOW, plain, who, window
from msgspec.structs import replace

from pubqueue.model.changes import ConfigureNode, EndSubscription
from pubqueue.model.decision import Decision, Refusal, Refused, Retrieved
from pubqueue.model.entities import AccessModel, Affiliation, Contact, Jid, NodeConfig
from pubqueue.model.replies import WHOLE, RostersWanted, Subscribed
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.nodeconfig import Settings
from pubqueue.rules.nodes import Configure, Create, NodeFacts, configure_node, create
from pubqueue.rules.retrieve import Retrieve, RetrieveFacts, retrieve
from pubqueue.rules.subscribe import Subscribe, SubscribeFacts, subscribe

NONE, OWNER = Affiliation.NONE, Affiliation.OWNER
OWNERS = (Jid("boss@x"), Jid("ceo@x"))
PRESENCE = plain(access_model=AccessModel.PRESENCE)
ROSTER = plain(access_model=AccessModel.ROSTER, roster_groups_allowed="Friends\nOld friends")
FRIEND = Contact(sees_presence=True, groups=("Friends",))
OTHER = Contact(sees_presence=False, groups=("Enemies", "friends"))


def ann(contact):
    return replace(who(ANN), contact=contact)


def joins(node, contact, *, affiliation=NONE, by=None):
    request = Subscribe(by or ann(contact), JOBS, ANN, f"subid-of-{ANN}")
    return subscribe(request, SubscribeFacts(NOW, node, affiliation, None, owners=OWNERS)).reply


def looks(node, contact, *, affiliation=NONE, subscribed=False):
    facts = RetrieveFacts(node, affiliation, subscribed, (), WHOLE, owners=OWNERS)
    return retrieve(Retrieve(ann(contact), JOBS), facts).reply


@pytest.mark.parametrize("node", [PRESENCE, ROSTER])
def test_the_rosters_of_the_owners_are_asked_for_first(node):
    assert joins(node, None) == looks(node, None) == RostersWanted(OWNERS)


@pytest.mark.parametrize(
    ("node", "refusal"),
    [(PRESENCE, Refusal.NO_PRESENCE_SUBSCRIPTION), (ROSTER, Refusal.NOT_IN_ROSTER_GROUP)],
)
@pytest.mark.parametrize("contact", [(), (OTHER,)])
def test_strangers_are_refused_in_the_words_of_the_model(node, refusal, contact):
    assert joins(node, contact) == looks(node, contact) == Refused(refusal)


@pytest.mark.parametrize("node", [PRESENCE, ROSTER])
def test_one_owner_s_contact_is_enough(node):
    contact = (OTHER, FRIEND)
    assert isinstance(joins(node, contact), Subscribed)
    assert isinstance(looks(node, contact), Retrieved)


@pytest.mark.parametrize("node", [PRESENCE, ROSTER])
def test_affiliates_and_subscribers_need_no_roster(node):
    assert isinstance(joins(node, None, affiliation=Affiliation.MEMBER), Subscribed)
    assert isinstance(looks(node, None, affiliation=Affiliation.PUBLISHER), Retrieved)
    assert isinstance(looks(node, None, subscribed=True), Retrieved)
    assert joins(node, None, affiliation=Affiliation.OUTCAST) == Refused(Refusal.FORBIDDEN)
    assert joins(node, None, affiliation=Affiliation.PUBLISH_ONLY) == Refused(Refusal.FORBIDDEN)


@pytest.mark.parametrize("model", ["presence", "roster"])
@pytest.mark.parametrize("rosters", [True, False])
def test_a_node_has_such_a_model_only_where_rosters_can_be_asked_for(model, rosters):
    by = replace(who(BOSS), rosters=rosters)
    wanted = Settings({"access_model": model})
    reason = "access_model: the server does not give the service access to rosters"
    no = Refused(Refusal.UNSUPPORTED_ACCESS_MODEL, reason, setting="access_model")
    nowhere = NodeFacts(NOW, None, NONE, CreationPolicy.ANYONE)
    made = create(Create(by, JOBS, wanted), nowhere)
    there = NodeFacts(NOW, plain(), OWNER, subscriptions=(window(),))
    changed = configure_node(Configure(by, JOBS, wanted), there)
    assert (made == Decision(no)) is (changed == Decision(no)) is (not rosters)
    if rosters:
        config = replace(NodeConfig(), access_model=AccessModel(model))
        assert changed.changes == (ConfigureNode(JOBS, config), EndSubscription(JOBS, ANN))


def test_a_node_that_has_one_can_be_configured_whatever_the_server_lets_us_ask():
    there = NodeFacts(NOW, PRESENCE, OWNER)
    decision = configure_node(Configure(who(BOSS), JOBS, Settings({"title": "News"})), there)
    assert decision.changes == (ConfigureNode(JOBS, replace(PRESENCE.config, title="News")),)


def test_an_anonymous_account_may_not_subscribe():
    by = replace(who(ANN), anonymous=True)
    assert joins(plain(), None, by=by).refusal is Refusal.FORBIDDEN
