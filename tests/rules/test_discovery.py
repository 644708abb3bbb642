"""TODO"""

import pytest
from harness.batches.facts import BOSS, JOBS, who

from pubqueue.model.decision import Refusal, Refused
from pubqueue.model.entities import Affiliation, Jid, NodeName, Principal, Subscription
from pubqueue.model.replies import MyAffiliations, MySubscriptions
from pubqueue.rules.discovery import (
    AffiliationFacts,
    ListMyAffiliations,
    ListMySubscriptions,
    SubscriptionFacts,
    list_my_affiliations,
    list_my_subscriptions,
)

MORE = NodeName("more")
NONE, OWNER, OUTCAST = Affiliation.NONE, Affiliation.OWNER, Affiliation.OUTCAST
ADMIN = Principal(Jid("root@x/y"), admin=True)
MINE = Subscription(JOBS, Jid("bee@x/1"), "s1", 1)


@pytest.mark.parametrize(
    ("by", "found", "reported"),
    [
        (who(BOSS), ((JOBS, OWNER), (MORE, NONE)), ((JOBS, OWNER),)),
        (who(BOSS), ((JOBS, OUTCAST),), ((JOBS, OUTCAST),)),
        (ADMIN, ((JOBS, NONE), (MORE, OUTCAST)), ((JOBS, OWNER), (MORE, OWNER))),
        (who(BOSS), (), ()),
    ],
)
def test_an_account_learns_its_role(by, found, reported):
    decision = list_my_affiliations(ListMyAffiliations(by), AffiliationFacts(found))
    assert (decision.reply, decision.changes) == (MyAffiliations(reported), ())


def test_a_request_about_one_node_needs_an_existing_node():
    asked = ListMyAffiliations(who(BOSS), MORE)
    assert list_my_affiliations(asked, AffiliationFacts(())).reply == Refused(
        Refusal.NODE_NOT_FOUND
    )
    reported = list_my_affiliations(asked, AffiliationFacts(((MORE, NONE),))).reply
    assert reported == MyAffiliations((), MORE)


@pytest.mark.parametrize("node", [None, JOBS])
def test_an_account_lists_all_of_its_subscriptions(node):
    asked = ListMySubscriptions(who(BOSS), node)
    reported = list_my_subscriptions(asked, SubscriptionFacts(found=True, entries=(MINE,))).reply
    assert reported == MySubscriptions((MINE,), node)


def test_subscriptions_to_a_node_that_is_not_there_are_not_found():
    asked = ListMySubscriptions(who(BOSS), MORE)
    decision = list_my_subscriptions(asked, SubscriptionFacts(found=False, entries=()))
    assert decision.reply == Refused(Refusal.NODE_NOT_FOUND)
