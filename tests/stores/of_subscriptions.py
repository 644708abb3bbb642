"""What every store promises about how subscriptions stand, and when they end."""

from __future__ import annotations

from harness.batches.facts import ANN, BOB, EVE, JOBS, after, window
from stores.steps import listed, load, make, sweep, window_row

from pubqueue.engine.listings import (
    ConnectionsOf,
    FormerSubscribers,
    FreeSubscriptions,
    SeveralOf,
    Subscribers,
    SubscriptionsOf,
    SubscriptionsOfAccount,
    Total,
)
from pubqueue.model import changes
from pubqueue.model.entities import Jid, Level, SubscriptionState, Terms
from pubqueue.model.several_subscriptions import terms_of, together

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
        await make(store, *map(changes.AddSubscription, rows))
        found = (await load(store, subscribers={JOBS})).subscriptions
        assert sorted(found, key=lambda one: one.jid) == sorted(rows, key=lambda one: one.jid)

    async def test_connections_of_an_instance_come_in_pages(self, store):
        service, bees = Jid("q_x.example"), [Jid(f"bee@q_x.example/line.3.{n}") for n in (1, 2)]
        others = [
            *("bee@q_x.example/line.4.3", "bee@q_x.example/line", "bee@qyx.example/line.3.1"),
            *("bee@q_x.example", "line.3.1@q_x.example", "bee@other.q_x.example/line.3.1"),
        ]
        rows = [window(Jid(jid)) for jid in (*others, *bees)]
        await make(store, *map(changes.AddSubscription, rows))
        which = ConnectionsOf(service, 3)
        assert [jid for _, jid in await listed(store, which)] == bees
        first = await listed(
            store, which, None, len(others)
        )  # the last one shows how far it looked
        assert [jid for _, jid in first] == others[-1:]
        rest = await listed(store, which, first[-1][0])
        assert [jid for _, jid in rest] == bees
        assert [jid for _, jid in await listed(store, which, rest[0][0])] == bees[1:]
        assert await listed(store, which, rest[1][0]) == []
        (last,) = await listed(store, ConnectionsOf(service, 33))
        assert last == rest[1]

    async def test_they_come_by_how_they_stand_in_pages(self, store):
        await make(store, *map(changes.AddSubscription, (window(ANN), waits(BOB), deaf(EVE))))
        assert await listed(store, STAND) == [window(ANN), deaf(EVE)]
        assert await listed(store, STAND, ANN) == [deaf(EVE)]
        assert await listed(store, WAIT) == [waits(BOB)]
        assert await listed(store, WAIT, BOB) == []
        assert await listed(store, Total(STAND)) == [2]
        assert await listed(store, Total(WAIT)) == [1]

    async def test_only_listeners_are_notified(self, store):
        await make(store, *map(changes.AddSubscription, (window(ANN), waits(BOB), deaf(EVE))))
        assert await listed(store, Subscribers(JOBS)) == [ANN]
        await make(store, changes.Approve(JOBS, BOB))
        assert await listed(store, Subscribers(JOBS)) == [ANN, BOB]
        assert await listed(store, WAIT) == []
        await make(store, changes.DeleteNode(JOBS, announce=True))
        assert await listed(store, FormerSubscribers(JOBS)) == [ANN, BOB]

    async def test_a_lease_is_due_when_it_is_to_be_announced_and_when_it_ends(self, store):
        early, late = window(ANN, expire=after(5), remind=after(3)), waits(BOB, expire=after(4))
        await make(store, *map(changes.AddSubscription, (early, late, window(EVE))))
        assert await next_due(store) == after(3)
        assert await leases(store, after(2)) == []
        assert await leases(store, after(4)) == [early, late]
        assert await leases(store, after(4), 1) == [early]
        said = changes.SetTerms(
            JOBS, ANN, deliver=True, expire=after(5), remind=None, temporary=False
        )
        await make(store, said)
        assert await window_row(store, ANN) == window(ANN, expire=after(5))
        assert await leases(store, after(9)) == [late, window(ANN, expire=after(5))]
        await make(store, changes.EndSubscription(JOBS, BOB))
        assert await next_due(store) == after(5)
        endless = changes.SetTerms(
            JOBS, ANN, deliver=True, expire=None, remind=None, temporary=False
        )
        await make(store, endless)
        assert await next_due(store) is None
        assert await leases(store, after(9)) == []

    async def test_a_lock_timeout_is_kept_and_changed(self, store):
        await make(store, *map(changes.AddSubscription, (window(ANN, lock_timeout=9), window(EVE))))
        assert await window_row(store, ANN) == window(ANN, lock_timeout=9)
        await make(
            store, changes.SetLockTimeout(JOBS, EVE, 7), changes.SetLockTimeout(JOBS, ANN, None)
        )
        assert await window_row(store, ANN) == window(ANN)
        assert await window_row(store, EVE) == window(EVE, lock_timeout=7)
        await make(store, changes.SetWindow(JOBS, EVE, 5))
        assert (await window_row(store, EVE)).lock_timeout == 7

    async def test_a_level_is_kept_and_changed(self, store):
        await make(
            store, *map(changes.AddSubscription, (window(ANN, qos=Level.ASSURED), window(EVE)))
        )
        assert await window_row(store, ANN) == window(ANN, qos=Level.ASSURED)
        levels = changes.SetLevel(JOBS, EVE, Level.ACKNOWLEDGED), changes.SetLevel(JOBS, ANN, None)
        await make(store, *levels)
        assert await window_row(store, ANN) == window(ANN)
        assert await window_row(store, EVE) == window(EVE, qos=Level.ACKNOWLEDGED)

    async def test_whether_a_worker_is_quiet_is_kept_and_changed(self, store):
        quiet = window(BOB, quiet=True, available=False)
        await make(store, *map(changes.AddSubscription, (window(ANN), quiet)))
        free = FreeSubscriptions(JOBS)
        assert (await window_row(store, BOB), await listed(store, free)) == (quiet, [window(ANN)])
        await make(store, *(changes.SetQuiet(JOBS, jid, quiet=jid == ANN) for jid in (ANN, BOB)))
        assert await window_row(store, ANN) == window(ANN, quiet=True, available=False)
        assert await listed(store, free) == [window(BOB)]

    async def test_a_lease_of_a_deleted_node_has_no_owner(self, store):
        await make(store, changes.AddSubscription(window(ANN, expire=after(1))))
        await make(store, changes.DeleteNode(JOBS, announce=True))
        assert await leases(store, after(9)) == []
        await sweep(store, 99)
        assert await next_due(store) is None


TWO = Terms("two", deliver=False)
THREE = Terms("three", expire=after(9), remind=after(8), temporary=True)


def with_others(jid, *others):
    row = window(jid)
    return together(row, (*terms_of(row), *others))


class OfSeveral:
    """Part of the contract: several subscriptions of one JID, in one row."""

    async def test_they_are_kept_together(self, store):
        await make(store, changes.AddSubscription(window(ANN)))
        await make(store, changes.AddAnother(JOBS, ANN, TWO))
        assert await window_row(store, ANN) == with_others(ANN, TWO)
        await make(store, changes.AddAnother(JOBS, ANN, THREE))
        assert await window_row(store, ANN) == with_others(ANN, TWO, THREE)
        changed = Terms("two", expire=after(7))
        await make(store, changes.SetTerms(JOBS, ANN, True, after(7), None, False, "two"))  # noqa: FBT003
        assert await window_row(store, ANN) == with_others(ANN, changed, THREE)

    async def test_each_ends_by_itself_the_first_too(self, store):
        row = with_others(ANN, TWO, THREE)
        await make(store, changes.AddSubscription(row), changes.AddSubscription(window(BOB)))
        await make(store, changes.EndSubscription(JOBS, ANN, row.subid))
        assert await window_row(store, ANN) == together(row, (TWO, THREE))
        found = (await load(store, subscribers={JOBS})).subscriptions
        assert [one.jid for one in found] == [ANN, BOB], "its row has kept its place"
        await make(store, changes.EndSubscription(JOBS, ANN, "three"))
        assert await window_row(store, ANN) == together(row, (TWO,))
        await make(store, changes.EndSubscription(JOBS, ANN, "two"))
        assert (await load(store, subscribers={JOBS})).subscriptions == [window(BOB)]

    async def test_one_that_ends_and_one_that_comes_in_one_batch(self, store):
        row = with_others(ANN, TWO)
        await make(store, changes.AddSubscription(row))
        await make(
            store,
            changes.EndSubscription(JOBS, ANN, row.subid),
            changes.AddAnother(JOBS, ANN, THREE),
        )
        assert await window_row(store, ANN) == together(row, (TWO, THREE))

    async def test_all_are_counted_and_one_row_is_listed(self, store):
        rows = [with_others(ANN, TWO), window(BOB), with_others(EVE, THREE, Terms("four"))]
        await make(store, *map(changes.AddSubscription, rows))
        assert await listed(store, STAND) == rows
        assert await listed(store, Total(STAND)) == [6]
        assert await listed(store, Total(WAIT)) == [0]
        mine = SubscriptionsOfAccount(Jid("ann@x"))
        assert await listed(store, mine) == [rows[0]]
        assert await listed(store, Total(mine)) == [2]

    async def test_those_with_several_are_found_among_a_page(self, store):
        rows = [with_others(ANN, TWO), window(BOB), with_others(EVE, THREE)]
        await make(store, *map(changes.AddSubscription, rows))
        assert await listed(store, Subscribers(JOBS)) == [ANN, BOB, EVE]
        assert await listed(store, SeveralOf(JOBS, EVE)) == [rows[0], rows[2]]
        assert await listed(store, SeveralOf(JOBS, BOB)) == [rows[0]]
        assert await listed(store, SeveralOf(JOBS, EVE), ANN) == [rows[2]]
        assert await listed(store, SeveralOf(JOBS, EVE), None, 1) == [rows[0]]

    async def test_a_jid_with_deliveries_off_in_all_subscriptions_is_not_notified(self, store):
        deaf = together(window(ANN), (TWO, Terms("other", deliver=False)))
        await make(store, changes.AddSubscription(deaf))
        assert await listed(store, Subscribers(JOBS)) == []
        await make(store, changes.AddAnother(JOBS, ANN, THREE))
        assert await listed(store, Subscribers(JOBS)) == [ANN]
        await make(store, changes.DeleteNode(JOBS, announce=True))
        assert await listed(store, FormerSubscribers(JOBS)) == [ANN]

    async def test_the_first_lease_of_them_is_due(self, store):
        row = with_others(ANN, THREE, Terms("four", expire=after(5)))
        await make(store, changes.AddSubscription(row))
        assert await next_due(store) == after(5)
        assert await leases(store, after(5)) == [row]
        await make(store, changes.EndSubscription(JOBS, ANN, "four"))
        assert await leases(store, after(7)) == []
        assert await next_due(store) == after(8)
