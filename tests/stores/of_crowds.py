"""What every store promises about those who subscribe to a node, in pages, and about those who did when it was deleted."""

from __future__ import annotations

import pytest
from harness.batches.facts import ANN, BOB, EVE, JOBS, window
from harness.stores.store_contents import everything
from msgspec.structs import replace
from stores.steps import (
    ANN_ACCOUNT,
    DEAD,
    EMPTY,
    listed,
    load,
    make,
    node_row,
    sweep,
    write,
)

from pubqueue.engine.listings import (
    FormerSubscribers,
    Reviews,
    SubscriberRoles,
    Subscribers,
    UnnotifiedNodes,
)
from pubqueue.engine.ports import StaleError
from pubqueue.engine.rows import Rows, Write
from pubqueue.model import changes
from pubqueue.model.entities import Affiliation, Jid, SubscriptionState

STANDS = SubscriptionState.SUBSCRIBED
HERE, FORMER = Subscribers(JOBS), FormerSubscribers(JOBS)
DELETED = changes.DeleteNode(JOBS, announce=True)


async def fill(store, *jids, again=""):
    for jid in jids:
        await make(store, changes.AddSubscription(window(jid, subid=f"{jid}{again}")))


async def unnotified(store):
    return [name for _, name in await listed(store, UnnotifiedNodes())]


class OfCrowds:
    """Part of the contract."""

    async def test_subscribers_come_in_pages_by_jid(self, store):
        await fill(store, EVE, ANN, BOB)
        assert await listed(store, HERE) == [ANN, BOB, EVE]
        assert await listed(store, HERE, ANN, 1) == [BOB]
        assert await listed(store, HERE, Jid("b")) == [BOB, EVE]
        assert await listed(store, HERE, EVE) == []
        await make(store, changes.EndSubscription(JOBS, BOB))
        assert await listed(store, HERE) == [ANN, EVE]
        assert await listed(store, Subscribers("nowhere")) == []

    async def test_of_a_deleted_node_the_subscribers_to_notify_are_known(self, store):
        await fill(store, ANN, BOB, EVE)
        await make(store, DELETED)
        assert await unnotified(store) == [JOBS]
        assert await listed(store, FORMER) == [ANN, BOB, EVE]
        assert await listed(store, FORMER, ANN, 1) == [BOB]
        await make(store, changes.DropFormer(JOBS, BOB))
        assert await listed(store, FORMER) == [EVE]
        await make(store, changes.DropFormer(JOBS, None))
        assert await unnotified(store) == await listed(store, FORMER) == []
        await make(store, changes.DropFormer(JOBS, EVE), changes.DropFormer(JOBS, None))

    async def test_of_a_node_without_subscribers_to_notify_none_is_known(self, store):
        await fill(store, ANN)
        await make(store, changes.DeleteNode(JOBS))
        assert await unnotified(store) == await listed(store, FORMER) == []

    @pytest.mark.parametrize("announce", [True, False])
    async def test_subscribers_of_a_deleted_node_are_in_no_other_answer(self, store, announce):
        await fill(store, ANN)
        await make(store, changes.SetAffiliation(JOBS, ANN_ACCOUNT, Affiliation.MEMBER))
        await make(store, changes.DeleteNode(JOBS, announce=announce))
        keys = {
            "affiliations": {(JOBS, ANN_ACCOUNT)},
            "subscriptions": {(JOBS, ANN_ACCOUNT)},
            "subscribers": {JOBS},
            "accounts": {ANN_ACCOUNT},
            "jids": {ANN},
        }
        assert await load(store, **keys) == Rows()
        await make(store, changes.CreateNode(EMPTY))
        assert await load(store, **keys) == Rows()
        assert await store.batch(everything) == [EMPTY]
        assert await listed(store, HERE) == []

    async def test_deleted_nodes_of_one_name_are_notified_one_after_the_other(self, store):
        await fill(store, ANN, EVE)
        await make(store, DELETED, changes.CreateNode(EMPTY))
        await fill(store, ANN, BOB, again=" again")
        await make(store, DELETED)
        assert await unnotified(store) == [JOBS, JOBS]
        (first, _), second = await listed(store, UnnotifiedNodes())
        assert await listed(store, UnnotifiedNodes(), first) == [second]
        assert await listed(store, FORMER) == [ANN, EVE]
        await make(store, changes.DropFormer(JOBS, EVE), changes.DropFormer(JOBS, None))
        assert await listed(store, FORMER) == [ANN, BOB]

    async def test_subscribers_come_with_what_their_accounts_are(self, store):
        await fill(store, EVE, ANN)
        await make(store, changes.SetAffiliation(JOBS, ANN_ACCOUNT, Affiliation.MEMBER))
        roles = [(ANN, Affiliation.MEMBER, STANDS), (EVE, Affiliation.NONE, STANDS)]
        assert await listed(store, SubscriberRoles(JOBS)) == roles
        assert await listed(store, SubscriberRoles(JOBS), ANN) == roles[1:]
        assert await listed(store, SubscriberRoles(JOBS), None, 1) == roles[:1]

    async def test_many_subscriptions_end_at_once_and_the_others_stay(self, store):
        await fill(store, ANN, BOB, EVE)
        before = await node_row(store)
        after = replace(before, subscriptions=1)
        ended = changes.EndSubscriptions(JOBS, (ANN, EVE))
        await write(store, nodes=[Write(before, after)], bulk=[ended])
        assert await listed(store, HERE) == [BOB]
        assert await load(store, jids={ANN, EVE}) == Rows()
        with pytest.raises(StaleError):
            await write(store, bulk=[changes.EndSubscriptions(JOBS, (BOB, EVE))])
        assert await listed(store, HERE) == [BOB]

    async def test_nodes_to_be_looked_through_are_known_until_they_have_been_or_go(self, store):
        other = replace(EMPTY, name=DEAD)
        await make(
            store, changes.CreateNode(other), changes.BeginReview(JOBS), changes.BeginReview(DEAD)
        )
        await make(store, changes.BeginReview(JOBS))
        assert await listed(store, Reviews()) == [JOBS, DEAD]
        assert await listed(store, Reviews(), JOBS) == [DEAD]
        await make(store, changes.EndReview(JOBS), changes.EndReview(JOBS))
        assert await listed(store, Reviews()) == [DEAD]
        await make(store, changes.DeleteNode(DEAD))
        assert await listed(store, Reviews()) == []

    async def test_a_subscriber_that_is_still_to_be_notified_is_not_deleted(self, store):
        await fill(store, ANN)
        await make(store, DELETED)
        await sweep(store, 1)
        assert await listed(store, FORMER) == [ANN]
        await make(store, changes.DropFormer(JOBS, None))
        await sweep(store, 1)
        assert await store.batch(lambda tx: tx.next_due()) is None
        assert await store.batch(everything) == []
