"""What every store promises about how subscriptions stand, and when they end."""

from __future__ import annotations

from harness.facts import ANN, BOB, EVE, JOBS, after, window
from stores.steps import listed, load, make, sweep, window_row

from pubqueue.app.listings import FormerSubscribers, Subscribers, SubscriptionsOf, Total
from pubqueue.core import changes as c
from pubqueue.core.model import SubscriptionState

PENDING = SubscriptionState.PENDING
STAND, WAIT = SubscriptionsOf(JOBS), SubscriptionsOf(JOBS, PENDING)


def waits(jid, **changes):
    return window(jid, state=PENDING, available=False, **changes)


def deaf(jid):
    return window(jid, deliver=False, available=False)


async def leases(store, moment, limit=9):
    due = await store.batch(lambda tx: tx.due(moment, limit))
    return due.leases


async def next_due(store):
    return await store.batch(lambda tx: tx.next_due())


class OfSubscriptions:
    """Part of the contract."""

    async def test_subscriptions_are_kept_with_how_they_stand(self, store):
        rows = [
            window(ANN, 2, expire=after(9), remind=after(8), temporary=True),
            waits(BOB, expire=after(7)),
            deaf(EVE),
        ]
        await make(store, *map(c.AddSubscription, rows))
        found = (await load(store, subscribers={JOBS})).subscriptions
        assert sorted(found, key=lambda one: one.jid) == sorted(rows, key=lambda one: one.jid)

    async def test_they_come_by_how_they_stand_in_pages(self, store):
        await make(store, *map(c.AddSubscription, (window(ANN), waits(BOB), deaf(EVE))))
        assert await listed(store, STAND) == [window(ANN), deaf(EVE)]
        assert await listed(store, STAND, ANN) == [deaf(EVE)]
        assert await listed(store, WAIT) == [waits(BOB)]
        assert await listed(store, WAIT, BOB) == []
        assert await listed(store, Total(STAND)) == [2]
        assert await listed(store, Total(WAIT)) == [1]

    async def test_those_are_told_who_listen(self, store):
        await make(store, *map(c.AddSubscription, (window(ANN), waits(BOB), deaf(EVE))))
        assert await listed(store, Subscribers(JOBS)) == [ANN]
        await make(store, c.Approve(JOBS, BOB))
        assert await listed(store, Subscribers(JOBS)) == [ANN, BOB]
        assert await listed(store, WAIT) == []
        await make(store, c.DeleteNode(JOBS, telling=True))
        assert await listed(store, FormerSubscribers(JOBS)) == [ANN, BOB]

    async def test_a_lease_is_due_when_it_is_to_be_announced_and_when_it_ends(self, store):
        early, late = window(ANN, expire=after(5), remind=after(3)), waits(BOB, expire=after(4))
        await make(store, *map(c.AddSubscription, (early, late, window(EVE))))
        assert await next_due(store) == after(3)
        assert await leases(store, after(2)) == []
        assert await leases(store, after(4)) == [early, late]
        assert await leases(store, after(4), 1) == [early]
        said = c.SetTerms(JOBS, ANN, deliver=True, expire=after(5), remind=None, temporary=False)
        await make(store, said)
        assert await window_row(store, ANN) == window(ANN, expire=after(5))
        assert await leases(store, after(9)) == [late, window(ANN, expire=after(5))]
        await make(store, c.EndSubscription(JOBS, BOB))
        assert await next_due(store) == after(5)
        endless = c.SetTerms(JOBS, ANN, deliver=True, expire=None, remind=None, temporary=False)
        await make(store, endless)
        assert await next_due(store) is None
        assert await leases(store, after(9)) == []

    async def test_a_lease_of_a_deleted_node_is_nobodys(self, store):
        await make(store, c.AddSubscription(window(ANN, expire=after(1))))
        await make(store, c.DeleteNode(JOBS, telling=True))
        assert await leases(store, after(9)) == []
        await sweep(store, 99)
        assert await next_due(store) is None
