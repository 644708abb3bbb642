"""What every store promises about nodes, affiliations and subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.facts import ANN, BOB, EVE, JOBS, window
from harness.picture import everything
from msgspec.structs import replace
from stores.steps import (
    ANN_ACCOUNT,
    DEAD,
    EMPTY,
    add,
    lock,
    make,
    release,
)

from pubqueue.core import changes as c
from pubqueue.core.model import (
    AccessModel,
    Affiliation,
    Jid,
    NodeConfig,
    NodeName,
    PublishModel,
    bare,
)

if TYPE_CHECKING:
    from pubqueue.app.ports import Transaction


class OfNodes:
    """Part of the contract."""

    async def test_a_node_is_read_as_it_was_created(self, store):
        config = NodeConfig(
            title="Ärger",
            access_model=AccessModel.WHITELIST,
            publish_model=PublishModel.OPEN,
            max_items=3,
            item_expire=9,
            notify_delete=False,
            queueing=True,
            dead_letter_node="jobs-dead",
        )
        node = replace(EMPTY, name=NodeName("other"), config=config)
        await make(store, c.CreateNode(node))
        assert await store.batch(lambda tx: tx.node(node.name)) == node

    async def test_a_node_that_is_not_there_is_none(self, store):
        assert await store.batch(lambda tx: tx.node(DEAD)) is None

    async def test_resources_are_noted_by_account_and_forgotten(self, store):
        phone, other = Jid(f"{ANN_ACCOUNT}/phone"), Jid("bob@x/phone")
        await make(store, *map(c.NoteResource, (phone, ANN, other, phone)))
        assert await store.batch(lambda tx: tx.resources(ANN_ACCOUNT)) == [phone, ANN]
        await make(store, c.ForgetResource(phone), c.ForgetResource(phone))
        assert await store.batch(lambda tx: tx.resources(ANN_ACCOUNT)) == [ANN]

    async def test_a_node_is_ready_with_an_item_and_a_window_for_it(self, store):
        def ready():
            return store.batch(lambda tx: tx.ready_nodes())

        await make(store, c.AddSubscription(window(ANN, 1)))
        assert await ready() == []
        await make(store, add("a"), add("b"))
        assert await ready() == [JOBS]
        item = await lock(store, "a")
        assert await ready() == []
        await make(store, release(item), c.SetAvailable(JOBS, ANN, available=False))
        assert await ready() == []

    async def test_who_else_wrote_is_seen_once_and_we_ourselves_never(self, store, make_store):
        await make(store, add("a"))
        assert not await store.others_wrote()
        other = make_store()
        await other.open()
        await other.batch(lambda tx: tx.item_ids(JOBS, 9))
        assert not await store.others_wrote()
        await make(other, add("b"))
        assert (await store.others_wrote(), await store.others_wrote()) == (True, False)
        assert not await other.others_wrote()
        await other.close()

    async def test_nodes_come_by_name(self, store):
        other = replace(EMPTY, name=NodeName("a"))
        await make(store, c.CreateNode(other))
        assert await store.batch(lambda tx: tx.nodes()) == [other, EMPTY]

    async def test_names_are_compared_exactly(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=NodeName("Jobs"))))
        assert len(await store.batch(lambda tx: tx.nodes())) == 2

    async def test_settings_change_within_and_after_the_transaction(self, store):
        config = replace(EMPTY.config, lock_timeout=9)

        def change(tx: Transaction) -> object:
            before = tx.node(JOBS)
            tx.apply([c.ConfigureNode(JOBS, config)])
            return before.config.lock_timeout, tx.node(JOBS).config

        assert await store.batch(change) == (300, config)
        assert (await store.batch(lambda tx: tx.node(JOBS))).config == config

    async def test_a_deleted_node_takes_everything_with_it(self, store):
        await make(
            store,
            c.SetAffiliation(JOBS, ANN_ACCOUNT, Affiliation.OWNER),
            c.AddSubscription(window()),
            add("i1"),
            add("i2"),
        )
        item = await lock(store, "i1")
        await make(store, release(item))
        await make(store, c.DeleteNode(JOBS))
        await make(store, c.CreateNode(EMPTY))
        assert await store.batch(everything) == [EMPTY]

    async def test_a_node_can_be_made_anew_at_once(self, store):
        await make(store, add("i1"), c.DeleteNode(JOBS), c.CreateNode(EMPTY), add("i2"))
        assert await store.batch(lambda tx: tx.item_ids(JOBS, 9)) == ["i2"]

    async def test_affiliations_are_set_changed_and_dropped(self, store):
        people = [(Jid(f"{kind.name.lower()}@x"), kind) for kind in Affiliation]
        await make(store, *(c.SetAffiliation(JOBS, *person) for person in people))
        await make(store, c.SetAffiliation(JOBS, Jid("owner@x"), Affiliation.MEMBER))
        await make(store, c.SetAffiliation(JOBS, Jid("member@x"), Affiliation.NONE))
        assert await store.batch(lambda tx: tx.affiliations(JOBS)) == [
            ("outcast@x", Affiliation.OUTCAST),
            ("owner@x", Affiliation.MEMBER),
            ("publish_only@x", Affiliation.PUBLISH_ONLY),
            ("publisher@x", Affiliation.PUBLISHER),
        ]

    async def test_an_affiliation_is_read_anew_after_a_change(self, store):
        def change(tx: Transaction) -> list[Affiliation]:
            seen = [tx.affiliation(JOBS, ANN_ACCOUNT)]
            for kind in (Affiliation.OWNER, Affiliation.NONE):
                tx.apply([c.SetAffiliation(JOBS, ANN_ACCOUNT, kind)])
                seen.append(tx.affiliation(JOBS, ANN_ACCOUNT))
            return seen

        expected = [Affiliation.NONE, Affiliation.OWNER, Affiliation.NONE]
        assert await store.batch(change) == expected

    async def test_a_subscription_is_of_exactly_one_jid(self, store):
        await make(store, c.AddSubscription(window(ANN, 3)))

        def look(tx: Transaction) -> object:
            jids = (ANN, ANN_ACCOUNT, Jid("ann@x/2"))
            return [tx.subscription(JOBS, jid) for jid in jids]

        assert await store.batch(look) == [window(ANN, 3), None, None]

    async def test_an_account_subscribes_by_any_of_its_jids(self, store):
        def look(tx: Transaction) -> object:
            before = tx.subscribed(JOBS, ANN_ACCOUNT)
            tx.apply([c.AddSubscription(window(ANN))])
            during = tx.subscribed(JOBS, ANN_ACCOUNT), tx.subscribed(JOBS, Jid("bob@x"))
            tx.apply([c.EndSubscription(JOBS, ANN)])
            return before, *during, tx.subscribed(JOBS, ANN_ACCOUNT)

        assert await store.batch(look) == (False, True, False, False)

    async def test_subscribers_come_oldest_first(self, store):
        await make(store, c.AddSubscription(window(EVE)), c.AddSubscription(window(ANN)))
        assert await store.batch(lambda tx: tx.subscribers(JOBS)) == [window(EVE), window(ANN)]
        assert (await store.batch(lambda tx: tx.node(JOBS))).subscriptions == 2

    async def test_open_windows_are_those_that_are_free_and_here(self, store):
        await make(
            store,
            c.AddSubscription(window(ANN, 1)),
            c.AddSubscription(window(BOB, 2)),
            c.AddSubscription(window(EVE, 2)),
            c.SetAvailable(JOBS, EVE, available=False),
            add("i1"),
            add("i2"),
        )
        await lock(store, "i1", ANN, token=8)
        await lock(store, "i2", BOB, token=9)
        expected = [window(BOB, 2, in_flight=1, last_served=9)]
        assert await store.batch(lambda tx: tx.open_windows(JOBS)) == expected

    async def test_a_new_window_brings_the_subscriber_back(self, store):
        await make(
            store, c.AddSubscription(window(ANN, 1)), c.SetAvailable(JOBS, ANN, available=False)
        )
        await make(store, c.SetWindow(JOBS, ANN, 5))
        assert await store.batch(lambda tx: tx.subscription(JOBS, ANN)) == window(ANN, 5)

    async def test_subscriptions_are_found_in_all_nodes(self, store):
        other = replace(window(ANN), node=DEAD, subid="2")
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)))
        await make(store, *map(c.AddSubscription, (window(ANN), other, window(BOB))))
        jids = [ANN, EVE]
        assert await store.batch(lambda tx: tx.subscriptions_of(jids)) == [window(ANN), other]
        again = replace(window(Jid(f"{bare(ANN)}/again")), subid="3")
        await make(store, c.AddSubscription(again))
        mine = await store.batch(lambda tx: tx.subscriptions_of_account(bare(ANN)))
        assert mine == sorted([window(ANN), other, again], key=lambda one: (one.node, one.jid))

    async def test_locks_outlive_the_subscription_and_are_counted_in_the_next(self, store):
        await make(store, c.AddSubscription(window(ANN, 3)), add("i1"))
        item = await lock(store, "i1")
        await make(store, c.EndSubscription(JOBS, ANN))
        assert await store.batch(lambda tx: tx.held_by([ANN])) == [item]
        await make(store, c.AddSubscription(window(ANN, 3, in_flight=1)), c.RemoveItem(item))
        assert await store.batch(lambda tx: tx.subscription(JOBS, ANN)) == window(ANN, 3)

    async def test_what_happened_under_an_old_subscription_does_not_count_for_the_new(self, store):
        await make(store, c.AddSubscription(window(ANN, 3)), add("i1"))
        item = await lock(store, "i1")
        again = c.AddSubscription(window(ANN, 3))
        await make(store, release(item), c.EndSubscription(JOBS, ANN), again)
        assert await store.batch(lambda tx: tx.subscription(JOBS, ANN)) == window(ANN, 3)
