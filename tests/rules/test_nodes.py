"""Nodes and affiliations (XEP-0060 5, 8)."""

import pytest
from harness.batches.facts import ANN, BOB, BOSS, EVE, JOBS, NOW, plain, queue, waiting, who, window
from msgspec.structs import replace

from pubqueue.model.changes import (
    ConfigureNode,
    CreateNode,
    DeleteNode,
    EndSubscription,
    PurgeNode,
    SetAffiliation,
)
from pubqueue.model.decision import Decision, Done, Refusal, Refused
from pubqueue.model.entities import (
    NO_POLICY,
    AccessModel,
    Affiliation,
    Jid,
    Node,
    NodeConfig,
    Policy,
    SubscriptionState,
)
from pubqueue.model.notices import NOBODY, Deleted, Purged, ToEach
from pubqueue.model.replies import Affiliations, Created, Described, Emptied, Listed
from pubqueue.rules.access import PRIVILEGES, Action, CreationPolicy, Other, Others
from pubqueue.rules.discovery import (
    Describe,
    ListItems,
    ListNodes,
    NodeListFacts,
    describe,
    list_items,
    list_nodes,
)
from pubqueue.rules.nodeconfig import Labels, Settings, configure
from pubqueue.rules.nodes import (
    Configure,
    Create,
    Delete,
    GetAffiliations,
    NodeFacts,
    Purge,
    SetAffiliations,
    SetPolicy,
    configure_node,
    create,
    delete,
    get_affiliations,
    purge,
    set_affiliations,
    set_policy,
)
from pubqueue.rules.subscribers import changed as reported

OWNER, PUBLISHER, MEMBER, NONE, OUTCAST = (
    Affiliation.OWNER,
    Affiliation.PUBLISHER,
    Affiliation.MEMBER,
    Affiliation.NONE,
    Affiliation.OUTCAST,
)
QUEUE = Settings({"queueing": True})
OWNED = ((Jid("boss@x"), OWNER),)


def facts(node=None, affiliation=NONE, **known):
    return NodeFacts(NOW, node, affiliation, **known)


def refused(refusal, reason="", limit=None):
    return Decision(Refused(refusal, reason, limit))


def test_the_creator_of_a_node_owns_it():
    closed = NodeConfig(queueing=True, access_model=AccessModel.WHITELIST)
    node = Node(JOBS, closed, Jid("boss@x"), NOW)
    decision = create(Create(who(BOSS, local=True), JOBS, QUEUE), facts())
    changes = (CreateNode(node), SetAffiliation(JOBS, Jid("boss@x"), OWNER))
    assert decision == Decision(Created(JOBS), changes)


@pytest.mark.parametrize("wanted", [{}, {"queueing": False}])
def test_a_plain_node_is_open(wanted):
    decision = create(Create(who(BOSS, local=True), JOBS, Settings(wanted)), facts())
    assert decision.changes[0].node.config.access_model is AccessModel.OPEN


def test_opening_a_queue_is_a_choice():
    wanted = Settings({"queueing": True, "access_model": "open"})
    decision = create(Create(who(BOSS, local=True), JOBS, wanted), facts())
    assert decision.changes[0].node.config.access_model is AccessModel.OPEN


def test_a_plain_node_that_becomes_a_queue_is_closed_unless_it_is_set_to_be_open():
    for also, model in (({}, AccessModel.WHITELIST), ({"access_model": "open"}, AccessModel.OPEN)):
        request = Configure(who(BOSS), JOBS, Settings({"queueing": True} | also))
        (change, *_) = configure_node(request, facts(plain(), OWNER)).changes
        assert change == ConfigureNode(JOBS, NodeConfig(queueing=True, access_model=model))


def test_an_open_queue_stays_so_when_something_else_is_configured():
    request = Configure(who(BOSS), JOBS, Settings({"queueing": True, "lock_timeout": 7}))
    changes = configure_node(request, facts(queue(), OWNER)).changes
    assert changes == (
        ConfigureNode(JOBS, NodeConfig(queueing=True, lock_timeout=7, backoff_jitter=0)),
    )


def test_a_node_is_created_once():
    request = Create(who(BOSS, local=True), JOBS, QUEUE)
    assert create(request, facts(queue())) == refused(Refusal.NODE_EXISTS)


@pytest.mark.parametrize("node", [None, queue()])
def test_an_account_that_may_not_create_does_not_learn_whether_a_node_exists(node):
    decision = create(Create(who(EVE), JOBS, Settings()), facts(node, policy=CreationPolicy.ADMINS))
    assert decision == refused(Refusal.FORBIDDEN, "you may not create nodes on this service")


@pytest.mark.parametrize(
    "wanted", [Settings({"lock_timeout": 0}), Settings({"dead_letter_node": "jobs"})]
)
def test_settings_that_do_not_fit_leave_no_node(wanted):
    decision = create(Create(who(BOSS, local=True), JOBS, wanted), facts())
    assert isinstance(decision.reply, Refused)
    assert decision.changes == ()


MANAGED = [
    pytest.param(describe, Describe(who(BOSS), JOBS, manage=True), id="describe"),
    pytest.param(configure_node, Configure(who(BOSS), JOBS, Settings()), id="configure"),
    pytest.param(delete, Delete(who(BOSS), JOBS), id="delete"),
    pytest.param(purge, Purge(who(BOSS), JOBS), id="purge"),
    pytest.param(get_affiliations, GetAffiliations(who(BOSS), JOBS), id="get affiliations"),
    pytest.param(set_affiliations, SetAffiliations(who(BOSS), JOBS, OWNED), id="set affiliations"),
]


@pytest.mark.parametrize(("rule", "request_"), MANAGED)
def test_only_owners_manage(rule, request_):
    for affiliation in set(Affiliation) - {OWNER}:
        assert rule(request_, facts(queue(), affiliation)) == refused(Refusal.FORBIDDEN)


@pytest.mark.parametrize(("rule", "request_"), MANAGED)
def test_a_missing_node_is_not_managed(rule, request_):
    assert rule(request_, facts()) == refused(Refusal.NODE_NOT_FOUND)


@pytest.mark.parametrize(("rule", "request_"), MANAGED)
def test_an_administrator_manages_every_node(rule, request_):
    by_admin = replace(request_, by=who("root@x/1", admin=True))
    decision = rule(by_admin, facts(queue(), OUTCAST, affiliations=OWNED))
    assert not isinstance(decision.reply, Refused)


def test_the_owner_sees_the_settings():
    node = queue()
    decision = describe(
        Describe(who(BOSS), JOBS, manage=True), facts(node, OWNER, affiliations=OWNED)
    )
    assert decision == Decision(Described(node, (Jid("boss@x"),)))


def test_any_account_may_see_that_a_node_exists():
    node = queue(access_model=AccessModel.WHITELIST)
    decision = describe(Describe(who(EVE), JOBS, manage=False), facts(node, affiliations=OWNED))
    seen = Described(node, (Jid("boss@x"),), may_publish=False, may_subscribe=False)
    assert decision == Decision(seen)


@pytest.mark.parametrize("affiliation", Affiliation)
def test_the_permissions_of_the_principal_are_shown(affiliation):
    node = queue(access_model=AccessModel.WHITELIST)
    seen = describe(Describe(who(EVE), JOBS, manage=False), facts(node, affiliation)).reply
    assert seen.may_publish is (Action.PUBLISH in PRIVILEGES[affiliation])
    assert seen.may_subscribe is (Action.SUBSCRIBE in PRIVILEGES[affiliation])


def test_a_node_that_is_not_there_is_not_described():
    decision = describe(Describe(who(EVE), JOBS, manage=False), facts())
    assert decision == refused(Refusal.NODE_NOT_FOUND)


def configuring(values, node, **known):
    return configure_node(Configure(who(BOSS), JOBS, Settings(values)), facts(node, OWNER, **known))


def test_new_settings_replace_those_that_are_named():
    decision = configuring({"lock_timeout": "9"}, queue(max_failures=3))
    changes = (ConfigureNode(JOBS, queue(max_failures=3, lock_timeout=9).config),)
    assert decision == Decision(Done(), changes)


def test_a_bad_setting_changes_nothing():
    decision = configuring({"lock_timeout": "0"}, queue())
    reason = "lock_timeout: a whole number from 1 to 31622400 is required"
    no = Refused(Refusal.INVALID_CONFIG, reason, setting="lock_timeout")
    assert decision == Decision(no)


def test_a_queue_with_items_stays_a_queue():
    decision = configuring({"queueing": False}, queue(items=1))
    assert isinstance(decision.reply, Refused)
    assert decision.changes == ()


def test_closing_a_node_ends_the_subscriptions_of_strangers():
    decision = configuring(
        {"access_model": "whitelist"},
        queue(),
        subscriptions=tuple(map(window, (ANN, BOB, BOSS))),
        affiliations=(*OWNED, (Jid("ann@x"), MEMBER)),
    )
    config = queue(access_model=AccessModel.WHITELIST).config
    assert decision.changes == (ConfigureNode(JOBS, config), EndSubscription(JOBS, BOB))
    assert decision.notices == (reported(window(BOB), SubscriptionState.NONE),)


@pytest.mark.parametrize("reported", [True, False])
def test_subscribers_are_notified_of_a_deletion_if_the_node_has_it_on(reported):
    node = queue(items=9, notify_delete=reported)
    decision = delete(Delete(who(BOSS), JOBS), facts(node, OWNER, audience=(ANN, BOB)))
    notices = (ToEach((ANN, BOB), Deleted(NOBODY, JOBS)),) if reported else ()
    assert decision == Decision(Done(), (DeleteNode(JOBS),), notices)


def test_a_purge_is_one_event_for_each_subscriber():
    decision = purge(Purge(who(BOSS), JOBS), facts(queue(items=9), OWNER, audience=(ANN, BOB)))
    assert decision == Decision(
        Emptied(JOBS, 9), (PurgeNode(JOBS, 9),), (ToEach((ANN, BOB), Purged(NOBODY, JOBS)),)
    )


class TestAffiliations:
    """XEP-0060 8.9."""

    def change(self, *entries, subscriptions=(), node=None, known=OWNED, **others):
        request = SetAffiliations(who(BOSS), JOBS, entries)
        return set_affiliations(
            request,
            facts(
                node or queue(),
                OWNER,
                subscriptions=tuple(map(window, subscriptions)),
                affiliations=known,
                **others,
            ),
        )

    def test_the_owner_sees_them(self):
        decision = get_affiliations(
            GetAffiliations(who(BOSS), JOBS), facts(queue(), OWNER, affiliations=OWNED)
        )
        assert decision == Decision(Affiliations(JOBS, OWNED))

    def test_affiliations_belong_to_accounts(self):
        changes = (SetAffiliation(JOBS, Jid("ann@x"), PUBLISHER),)
        assert self.change((ANN, PUBLISHER)) == Decision(Done(), changes)

    def test_a_repeated_account_is_refused(self):
        decision = self.change((ANN, PUBLISHER), (Jid("ann@x/2"), OUTCAST))
        assert decision == refused(Refusal.BAD_REQUEST, "a JID is named twice")

    def test_the_last_owner_stays(self):
        decision = self.change((BOSS, PUBLISHER))
        no = Refused(Refusal.LAST_OWNER, "a node must have an owner")
        stays = ((Jid("boss@x"), OWNER),)
        assert decision == Decision(replace(no, unchanged=stays))

    def test_ownership_can_be_handed_over(self):
        changes = (
            SetAffiliation(JOBS, Jid("boss@x"), NONE),
            SetAffiliation(JOBS, Jid("ann@x"), OWNER),
        )
        assert self.change((BOSS, NONE), (ANN, OWNER)) == Decision(Done(), changes)

    def test_an_outcast_loses_every_subscription_of_the_account(self):
        resource = Jid("ann@x/2")
        decision = self.change((ANN, OUTCAST), subscriptions=(ANN, resource, BOB))
        assert decision.changes == (
            SetAffiliation(JOBS, Jid("ann@x"), OUTCAST),
            EndSubscription(JOBS, ANN),
            EndSubscription(JOBS, resource),
        )

    def test_a_removed_member_of_a_closed_node_loses_the_subscription(self):
        known = (*OWNED, (Jid("ann@x"), MEMBER))
        closed = queue(access_model=AccessModel.WHITELIST)
        decision = self.change((ANN, NONE), subscriptions=(ANN, BOB), node=closed, known=known)
        assert decision.changes[1:] == (EndSubscription(JOBS, ANN),)


def test_a_listing_names_the_nodes_that_the_asker_may_see():
    nodes = (
        (queue(name="closed", access_model=AccessModel.WHITELIST), NONE),
        (queue(name="member", access_model=AccessModel.WHITELIST, title="M"), MEMBER),
        (queue(name="open"), NONE),
        (queue(name="outcast"), OUTCAST),
    )
    decision = list_nodes(ListNodes(who(EVE)), NodeListFacts(nodes))
    assert decision == Decision(Listed((("member", "M"), ("open", ""))))


ITEMS = tuple(waiting(seq).id for seq in (1, 2))
SEEN = Decision(Listed((("i1", ""), ("i2", "")), JOBS))
NOTHING = Decision(Listed((), JOBS))


@pytest.mark.parametrize(
    ("node", "affiliation", "expected"),
    [
        (queue(), OWNER, SEEN),
        (queue(), PUBLISHER, NOTHING),
        (queue(), NONE, NOTHING),
        (plain(), NONE, SEEN),
        (plain(), Affiliation.PUBLISH_ONLY, NOTHING),
        (plain(), OUTCAST, refused(Refusal.FORBIDDEN)),
        (queue(access_model=AccessModel.WHITELIST), NONE, refused(Refusal.CLOSED_NODE)),
        (None, OWNER, refused(Refusal.NODE_NOT_FOUND)),
    ],
)
def test_the_items_of_a_queue_are_listed_for_its_owners_only(node, affiliation, expected):
    assert list_items(ListItems(who(EVE), JOBS), facts(node, affiliation, items=ITEMS)) == expected


class TestPolicies:
    """A policy and what it gives are one decision."""

    @staticmethod
    def sets(gives, *, former=NO_POLICY, there=(), etag=None, by=BOSS, creator=None):
        node = replace(queue(), config=replace(queue().config, policy=former))
        node = replace(node, creator=Jid(creator or "maker@x"))
        people = {Jid("boss@x"): Affiliation.OWNER} | dict(there)
        facts = NodeFacts(
            NOW,
            node,
            people.get(who(by).account, Affiliation.NONE),
            affiliations=(*people.items(),),
        )
        policy = Policy("new", tuple(gives.items()))
        return set_policy(SetPolicy(who(by), JOBS, policy, etag), facts)

    @staticmethod
    def changed(decision):
        found = [one for one in decision.changes if isinstance(one, SetAffiliation)]
        return {one.jid: one.affiliation for one in found}

    def test_what_only_the_former_one_gave_is_taken_away(self):
        ann, bob, eve = map(Jid, ("ann@x", "bob@x", "eve@x"))
        member, publisher = Affiliation.MEMBER, Affiliation.PUBLISHER
        former = Policy("old", ((ann, member), (bob, member), (eve, member)))
        there = {ann: member, bob: member, eve: Affiliation.OUTCAST}
        done = self.sets({ann: publisher}, former=former, there=there)
        assert self.changed(done) == {ann: publisher, bob: Affiliation.NONE}, "eve stays an outcast"
        (config,) = [one for one in done.changes if isinstance(one, ConfigureNode)]
        assert config.config.policy == Policy("new", ((ann, publisher),))

    def test_under_the_etag_of_another_policy_nothing_is_changed(self):
        former = Policy("old", ())
        assert isinstance(self.sets({}, former=former, etag=former.etag).reply, Done)
        no = self.sets({}, former=former, etag=NO_POLICY.etag)
        assert (no.reply.refusal, no.changes) == (Refusal.PRECONDITION_NOT_MET, ())

    def test_the_last_owner_and_the_creator_stay(self):
        no = self.sets({Jid("boss@x"): Affiliation.MEMBER})
        assert (no.reply.refusal, no.changes) == (Refusal.LAST_OWNER, ())
        done = self.sets({Jid("boss@x"): Affiliation.MEMBER}, creator="boss@x")
        assert self.changed(done) == {}

    def test_only_owners_set_one(self):
        assert self.sets({}, by=EVE).reply.refusal is Refusal.FORBIDDEN


def test_a_configuration_may_purge_in_the_same_commit():
    node = replace(queue(), items=3)
    facts = NodeFacts(NOW, node, Affiliation.OWNER)
    done = configure_node(Configure(who(BOSS), JOBS, Settings({"title": "x"}), purges=True), facts)
    assert [type(one) for one in done.changes] == [ConfigureNode, PurgeNode]


def test_labels_are_set_one_by_one_or_all_those_of_users():
    config = replace(queue().config, labels="a=1\nx-pubqueue-own=2")
    after = configure(config, Settings(labels=Labels({"b": "3", "c": None})))
    assert after.labels == "a=1\nb=3\nx-pubqueue-own=2"
    after = configure(config, Settings(labels=Labels({"b": "3"}, instead=True)))
    assert after.labels == "b=3\nx-pubqueue-own=2"
    after = configure(config, Settings(labels=Labels({"x-pubqueue-own": None})))
    assert after.labels == "a=1"


NOWHERE = Others({"graves": Other(None)}, CreationPolicy.ANYONE)
THERE = Others({"graves": Other(queue(), OWNER)}, CreationPolicy.ANYONE)


@pytest.mark.parametrize(
    ("settings", "others", "missing"),
    [
        ({"queueing": "1", "dead_letter_node": "graves"}, NOWHERE, "graves"),
        ({"queueing": "1", "dead_letter_node": "graves"}, THERE, ""),
        ({"queueing": "1", "dead_letter_node": ""}, NOWHERE, ""),
        ({"queueing": "0", "dead_letter_node": "graves"}, NOWHERE, ""),
        ({"queueing": "1"}, NOWHERE, ""),
    ],
)
def test_a_dead_letter_node_that_does_not_exist_is_in_the_reply(settings, others, missing):
    facts = NodeFacts(NOW, None, NONE, CreationPolicy.ANYONE, others=others)
    made = create(Create(who(BOSS), JOBS, Settings(settings)), facts)
    assert made.reply == Created(JOBS, missing)
    there = NodeFacts(NOW, plain(), OWNER, others=others)
    changed = configure_node(Configure(who(BOSS), JOBS, Settings(settings)), there)
    assert changed.reply == Done(missing=missing)


def test_other_settings_of_a_queue_without_its_dead_letter_node_warn_of_nothing():
    facts = NodeFacts(NOW, queue(dead_letter_node="graves"), OWNER, others=NOWHERE)
    assert (
        configure_node(Configure(who(BOSS), JOBS, Settings({"title": "x"})), facts).reply == Done()
    )
