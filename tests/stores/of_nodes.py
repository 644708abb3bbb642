"""What every store promises about nodes, affiliations and subscriptions."""

from __future__ import annotations

from harness.batches.facts import ANN, BOB, EVE, JOBS, NOW, plain, window
from harness.batches.facts import after as after_now
from harness.stores.store_contents import everything
from msgspec.structs import replace
from stores.steps import (
    ANN_ACCOUNT,
    DEAD,
    EMPTY,
    IN_TIME,
    RowMaker,
    add,
    ids,
    items,
    listed,
    load,
    lock,
    make,
    node_row,
    release,
    sweep,
    window_row,
    write,
)

from pubqueue.engine.listings import (
    AffiliationsAmong,
    AffiliationsOf,
    FreeSubscriptions,
    KnownResources,
    Nodes,
    NodesNamed,
    NodesOfAccount,
    NodesOfAccountNamed,
    NodesPushed,
    ReadyNodes,
    SubscriptionsOfAccount,
    Total,
)
from pubqueue.engine.rows import (
    AFFILIATIONS,
    HOLDINGS,
    PEOPLE,
    AffiliationRow,
    Needs,
    Rows,
    Sign,
    Write,
    Writes,
)
from pubqueue.model import changes
from pubqueue.model.after import after as after_change
from pubqueue.model.entities import (
    AccessModel,
    Affiliation,
    Jid,
    Millis,
    NodeConfig,
    NodeName,
    PublishModel,
)
from pubqueue.model.records import Holding
from pubqueue.rules.dispatch import place as turn
from pubqueue.rules.nodeconfig import PUSHED

OTHER = NodeName("other")
BOB_ACCOUNT = Jid("bob@x")
PHONE = Jid(f"{ANN_ACCOUNT}/phone")


def place(subscription):
    return subscription.node, subscription.jid


async def ready_nodes(store):
    """Return the queues that are ready, in the order in which a store finds them."""
    looks = await listed(store, ReadyNodes())
    return [look.node for look in looks if look.node is not None]


EVE_ACCOUNT = Jid("eve@x")


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
        node = replace(EMPTY, name=OTHER, config=config)
        await write(store, nodes=[Write(None, node)])
        assert await load(store, nodes={OTHER}) == Rows(nodes=[node])

    async def test_a_node_that_is_not_there_is_none(self, store):
        assert await load(store, nodes={DEAD}) == Rows()

    async def test_a_node_that_is_taken_over_counts_as_made_by_another(self, store):
        config = replace(EMPTY.config, title="taken over")
        await make(store, changes.ConfigureNode(JOBS, config, Jid("queue.x")))
        (node,) = (await load(store, nodes={JOBS})).nodes
        assert (node.config, node.creator) == (config, "queue.x")

    async def test_many_nodes_are_found_at_once(self, store):
        await make(store, changes.CreateNode(replace(EMPTY, name=OTHER)))
        found = await load(store, nodes={OTHER, DEAD, JOBS})
        assert sorted(node.name for node in found.nodes) == [JOBS, OTHER]

    async def test_resources_are_noted_by_account_and_forgotten(self, store):
        phone, other = Jid(f"{ANN_ACCOUNT}/phone"), Jid("bob@x/phone")
        await make(store, *map(changes.NoteResource, (phone, ANN, other, phone)))
        assert await load(store, resources={ANN_ACCOUNT}) == Rows(resources=[phone, ANN])
        both = await load(store, resources={ANN_ACCOUNT, BOB_ACCOUNT, Jid("eve@x")})
        assert sorted(both.resources) == sorted([phone, ANN, other])
        await make(store, changes.ForgetResource(phone), changes.ForgetResource(phone))
        assert await load(store, resources={ANN_ACCOUNT}) == Rows(resources=[ANN])

    async def test_people_have_an_affiliation_or_subscribe_or_hold_something(self, store):
        owner, eve = Jid("boss@x"), Jid("eve@x")
        await make(store, changes.SetAffiliation(JOBS, owner, Affiliation.OWNER))
        await make(store, changes.AddSubscription(window(ANN, 1)), add("a"))
        await lock(store, "a", "bob@x/1")
        asked = {owner, ANN_ACCOUNT, ANN, BOB_ACCOUNT, Jid("bob@x/1"), eve}
        found = await load(store, people=asked)
        assert {one.jid for one in found.of[PEOPLE]} == {owner, ANN_ACCOUNT, Jid("bob@x/1")}
        await make(store, changes.EndSubscription(JOBS, ANN))
        await make(store, changes.SetAffiliation(JOBS, owner, Affiliation.NONE))
        assert {one.jid for one in (await load(store, people=asked)).of[PEOPLE]} == {Jid("bob@x/1")}

    async def test_a_resource_that_comes_again_is_the_last_to_come(self, store):
        phone = Jid(f"{ANN_ACCOUNT}/phone")
        await make(store, changes.NoteResource(phone), changes.NoteResource(ANN))
        await make(store, changes.ForgetResource(phone))
        await make(store, changes.NoteResource(phone))
        assert await load(store, resources={ANN_ACCOUNT}) == Rows(resources=[ANN, phone])

    async def test_when_a_resource_has_shown_itself_is_kept_while_it_is_here(self, store):
        async def active(*pairs):
            await store.batch(lambda tx: tx.write(Writes(NOW, active=list(pairs))))
            return (await load(store, resources={ANN_ACCOUNT})).active

        assert await active((ANN, Sign(7, NOW))) == {}
        await make(
            store, changes.NoteResource(ANN), changes.NoteResource(Jid(f"{ANN_ACCOUNT}/phone"))
        )
        assert await active() == {}
        assert await active((ANN, Sign(8, NOW)), (BOB, Sign(9, NOW))) == {ANN: Sign(8, NOW)}
        assert await active((ANN, Sign(5, Millis(5)))) == {ANN: Sign(8, NOW)}
        assert await active((ANN, Sign(5, Millis(NOW + 1)))) == {ANN: Sign(8, Millis(NOW + 1))}
        await make(store, changes.ForgetResource(ANN))
        await make(store, changes.NoteResource(ANN))
        assert await active() == {}

    async def test_what_a_client_can_do_is_kept_while_its_resource_is_here(self, store):
        async def able(*pairs):
            await store.batch(lambda tx: tx.write(Writes(NOW, able=list(pairs))))
            return (await load(store, resources={ANN_ACCOUNT})).able

        phone = Jid(f"{ANN_ACCOUNT}/phone")
        assert await able((ANN, True)) == {}
        await make(store, changes.NoteResource(ANN), changes.NoteResource(phone))
        assert await able((ANN, True), (BOB, True)) == {ANN: True}
        assert await able((ANN, False), (phone, True)) == {ANN: False, phone: True}
        await make(store, changes.ForgetResource(ANN))
        await make(store, changes.NoteResource(ANN))
        assert await able() == {phone: True}

    async def test_whose_presence_was_received_is_kept_while_it_is_here(self, store):
        async def present(*jids):
            await store.batch(lambda tx: tx.write(Writes(NOW, present=list(jids))))
            return (await load(store, resources={ANN_ACCOUNT})).present

        assert await present(ANN) == []
        await make(store, changes.NoteResource(ANN), changes.NoteResource(PHONE))
        assert await present() == []
        assert await present(ANN, BOB) == [ANN]
        await make(store, changes.ForgetResource(ANN))
        await make(store, changes.NoteResource(ANN))
        assert await present(PHONE) == [PHONE]

    async def test_known_resources_of_all_accounts_come_by_address_in_pages(self, store):
        long, other = Jid(f"{'a' * 600}@x/1"), Jid("bob@x/phone")
        everybody = sorted([ANN, PHONE, other, long, Jid(f"{long}1")])
        await make(store, *map(changes.NoteResource, everybody[::-1]))
        assert await listed(store, KnownResources(), None, 9) == everybody
        assert await listed(store, KnownResources(), everybody[0], 2) == everybody[1:3]
        assert await listed(store, KnownResources(), everybody[-1], 2) == []

    async def test_a_node_is_ready_with_an_item_and_a_window_for_it(self, store):
        await make(store, changes.AddSubscription(window(ANN, 1)))
        assert await ready_nodes(store) == []
        await make(store, add("a"), add("b"))
        assert await ready_nodes(store) == [JOBS]
        item = await lock(store, "a")
        assert await ready_nodes(store) == []
        await make(store, release(item), changes.SetAvailable(JOBS, ANN, available=False))
        assert await ready_nodes(store) == []

    async def test_a_plain_node_has_nothing_to_hand_out(self, store):
        news = replace(plain(), name=NodeName("news"))
        subscription = replace(window(ANN, 1), node=news.name, subid="news")
        await make(
            store,
            changes.CreateNode(news),
            changes.AddSubscription(subscription),
            add("x", node=news.name),
        )
        assert await ready_nodes(store) == []

    async def test_what_is_put_aside_is_ready_as_well(self, store):
        await make(store, changes.AddSubscription(window(ANN, 1)), add("a"))
        (item,) = await items(store, "a")
        await make(store, changes.Postpone(item, after_now(5)))
        assert await ready_nodes(store) == [JOBS]

    async def test_a_look_around_goes_on_where_it_has_come_to(self, store):
        for number in range(6):
            node = NodeName(f"n{number}")
            await make(store, changes.CreateNode(replace(EMPTY, name=node)))
            if number % 2:
                subscription = replace(window(ANN, 1), node=node, subid=node)
                await make(store, changes.AddSubscription(subscription))
            if number % 3 != 2:
                await make(store, add("x", node=node))
        assert sorted(await ready_nodes(store)) == ["n1", "n3"]
        seen, place = [], None
        while looks := await listed(store, ReadyNodes(), place, 1):
            seen += [look.node for look in looks if look.node is not None]
            place = looks[-1].place
        assert sorted(seen) == ["n1", "n3"]

    async def test_free_subscriptions_come_by_share_in_flight_then_by_service_then_by_jid(
        self, store
    ):
        subscriptions = [
            window("a@x/1", 3, in_flight=1),
            window("b@x/1", 2, last_served=5),
            window("c@x/1", 2, last_served=4),
            window("d@x/1", 9, in_flight=3, last_served=1),
            window("e@x/1", 2, last_served=4),
            window("busy@x/1", 2, in_flight=2),
            window("away@x/1", 2, available=False),
        ]
        await make(store, *map(changes.AddSubscription, subscriptions))
        which = FreeSubscriptions(JOBS)
        found = await listed(store, which)
        assert [one.jid[0] for one in found] == ["c", "e", "b", "a", "d"]
        assert await listed(store, which, turn(found[1]), 2) == found[2:4]
        assert await listed(store, which, turn(found[-1])) == []
        assert await listed(store, FreeSubscriptions(DEAD)) == []
        await make(
            store,
            *(changes.EndSubscription(JOBS, subscription.jid) for subscription in subscriptions),
        )

    async def test_nodes_come_by_name_in_pages(self, store):
        other = replace(EMPTY, name=NodeName("a"))
        await make(store, changes.CreateNode(other))
        assert await listed(store, Nodes()) == [other, EMPTY]
        assert await listed(store, Nodes(), "a") == [EMPTY]
        assert await listed(store, Nodes(), None, 1) == [other]
        assert await listed(store, Nodes(), JOBS) == []

    async def test_a_page_has_one_row_by_default(self, store):
        await make(store, changes.CreateNode(replace(EMPTY, name=NodeName("a"))))
        assert [node.name for node in await store.batch(lambda tx: tx.page(Nodes()))] == ["a"]

    async def test_names_are_compared_exactly(self, store):
        await make(store, changes.CreateNode(replace(EMPTY, name=NodeName("Jobs"))))
        assert len(await listed(store, Nodes())) == 2

    async def test_settings_change_within_and_after_the_transaction(self, store):
        config = replace(EMPTY.config, lock_timeout=9)
        changed = replace(EMPTY, config=config)
        await write(store, nodes=[Write(EMPTY, changed)])
        assert await node_row(store) == changed

    async def test_what_is_written_is_seen_within_the_transaction(self, store):
        def change(tx):
            node = replace(EMPTY, name=OTHER)
            RowMaker(tx).make(changes.CreateNode(node))
            return tx.load(Needs(nodes={OTHER})).nodes, tx.page(Nodes(), JOBS, 9)

        node = replace(EMPTY, name=OTHER)
        assert await store.batch(change) == ([node], [node])

    async def test_a_deleted_node_takes_everything_with_it(self, store):
        await make(
            store,
            changes.SetAffiliation(JOBS, ANN_ACCOUNT, Affiliation.OWNER),
            changes.AddSubscription(window()),
            add("i1"),
            add("i2"),
            add("done"),
        )
        item = await lock(store, "i1")
        await make(store, release(item))
        await lock(store, "i2")
        done = (await load(store, items={(JOBS, "done")})).items[0]
        await make(store, changes.RemoveItem(done, NOW))
        node = await node_row(store)
        await write(store, nodes=[Write(node, None)])
        gone = {
            "nodes": {JOBS},
            "affiliations": {(JOBS, ANN_ACCOUNT)},
            "subscriptions": {(JOBS, ANN_ACCOUNT)},
            "subscribers": {JOBS},
            "accounts": {ANN_ACCOUNT},
            "jids": {ANN},
            "items": {(JOBS, "i1"), (JOBS, "i2")},
            "numbers": {item.seq},
            "held": {ANN},
            "finished": {(JOBS, "done")},
        }
        assert await load(store, **gone) == Rows()
        await sweep(store, 1)
        assert await load(store, payloads={item.seq}, receipts={item.seq}, **gone) == Rows()
        await make(store, changes.CreateNode(EMPTY))
        assert await load(store, **gone) == Rows(nodes=[EMPTY])
        assert await store.batch(everything) == [EMPTY]

    async def test_what_leaves_a_node_that_goes_does_not_go_with_it(self, store):
        other = replace(EMPTY, name=DEAD)
        await make(
            store,
            changes.CreateNode(other),
            changes.AddSubscription(window()),
            add("i1"),
            add("i2"),
        )
        (item,) = (await load(store, items={(JOBS, "i1")})).items
        moved = replace(item, node=DEAD)
        await write(
            store,
            nodes=[
                Write(await node_row(store), None),
                Write(other, replace(other, items=1, bytes=6)),
            ],
            items=[Write(item, moved)],
            subscriptions=[Write(window(), None)],
        )
        expected = [replace(other, items=1, bytes=6), moved, b"<job/>"]
        assert await store.batch(everything) == expected

    async def test_a_node_can_be_made_again_at_once(self, store):
        await make(store, add("i1"), changes.DeleteNode(JOBS), changes.CreateNode(EMPTY), add("i2"))
        assert await ids(store) == ["i2"]

    # --- affiliations ---

    async def test_affiliations_are_set_changed_and_dropped(self, store):
        people = [(Jid(f"{kind.name.lower()}@x"), kind) for kind in Affiliation]
        await make(store, *(changes.SetAffiliation(JOBS, *person) for person in people))
        await make(store, changes.SetAffiliation(JOBS, Jid("owner@x"), Affiliation.MEMBER))
        await make(store, changes.SetAffiliation(JOBS, Jid("member@x"), Affiliation.NONE))
        rows = [
            AffiliationRow(JOBS, Jid("outcast@x"), Affiliation.OUTCAST),
            AffiliationRow(JOBS, Jid("owner@x"), Affiliation.MEMBER),
            AffiliationRow(JOBS, Jid("publish_only@x"), Affiliation.PUBLISH_ONLY),
            AffiliationRow(JOBS, Jid("publisher@x"), Affiliation.PUBLISHER),
        ]
        assert await listed(store, AffiliationsOf(JOBS)) == rows
        assert await listed(store, AffiliationsOf(JOBS), "owner@x") == rows[2:]
        assert await listed(store, AffiliationsOf(JOBS), None, 2) == rows[:2]
        assert await listed(store, AffiliationsOf(DEAD)) == []

    async def test_the_affiliations_of_some_nodes_are_read_together_a_few_of_each(self, store):
        await make(store, changes.CreateNode(replace(EMPTY, name=OTHER)))
        people = [Jid(f"{name}@x") for name in "dacb"]
        sets = [
            changes.SetAffiliation(node, jid, Affiliation.MEMBER)
            for node in (OTHER, JOBS)
            for jid in people[: 4 if node == JOBS else 2]
        ]
        await make(store, *sets)
        both = (OTHER, NodeName("none"), JOBS)

        async def found(*which, limit=99):
            rows = await listed(store, AffiliationsAmong(*which), None, limit)
            return [(row.node, row.account[0]) for row in rows]

        first, second = sorted((JOBS, OTHER))
        all_of = {JOBS: [(JOBS, name) for name in "abcd"], OTHER: [(OTHER, "a"), (OTHER, "d")]}
        assert await found(both, 9) == all_of[first] + all_of[second]
        assert await found(both, 2) == all_of[first][:2] + all_of[second][:2]
        assert await found(both, 4, limit=3) == (all_of[first] + all_of[second])[:3]
        assert await found((OTHER,), 1) == all_of[OTHER][:1]
        assert await found((), 9) == []

    async def test_affiliations_are_found_by_node_and_account(self, store):
        await make(store, changes.CreateNode(replace(EMPTY, name=OTHER)))
        kinds = {
            (JOBS, ANN_ACCOUNT): Affiliation.OWNER,
            (OTHER, ANN_ACCOUNT): Affiliation.OUTCAST,
            (JOBS, BOB_ACCOUNT): Affiliation.MEMBER,
        }
        await make(store, *(changes.SetAffiliation(*key, kind) for key, kind in kinds.items()))
        keys = {
            (JOBS, ANN_ACCOUNT),
            (OTHER, ANN_ACCOUNT),
            (OTHER, BOB_ACCOUNT),
            (DEAD, ANN_ACCOUNT),
        }
        found = (await load(store, affiliations=keys)).of[AFFILIATIONS]
        assert {(row.node, row.account): row.affiliation for row in found} == {
            key: kinds[key] for key in keys & set(kinds)
        }
        assert len(found) == 2

    async def test_an_account_lists_the_nodes_that_it_is_something_to(self, store):
        names = [NodeName(name) for name in ("c", "a", "b")]
        await make(store, *(changes.CreateNode(replace(EMPTY, name=name)) for name in names))
        await make(
            store, *(changes.SetAffiliation(n, ANN_ACCOUNT, Affiliation.OWNER) for n in names)
        )
        await make(store, changes.SetAffiliation(JOBS, BOB_ACCOUNT, Affiliation.OWNER))
        a, b, c_ = ((replace(EMPTY, name=NodeName(n)), Affiliation.OWNER) for n in "abc")
        mine = NodesOfAccount(ANN_ACCOUNT)
        assert await listed(store, mine) == [a, b, c_]
        assert await listed(store, mine, "a", 1) == [b]
        assert await listed(store, Total(mine)) == [3]
        assert await listed(store, NodesOfAccount(Jid("eve@x"))) == []

    async def test_nodes_are_listed_by_what_their_names_begin_with(self, store):
        names = ("p/a/1", "p/a/2", "p/a/\u00e9", "p/a/", "p/a", "p/a0", "p/A/1", "p/b/1")
        hidden = NodeConfig(access_model=AccessModel.WHITELIST)
        for name in map(NodeName, names):
            config = hidden if name == "p/a/2" else EMPTY.config
            await make(store, changes.CreateNode(replace(EMPTY, name=name, config=config)))
            await make(store, changes.SetAffiliation(name, BOB_ACCOUNT, Affiliation.MEMBER))
        await make(store, changes.SetAffiliation(NodeName("p/a/2"), ANN_ACCOUNT, Affiliation.OWNER))
        every = [node.name for node in await listed(store, NodesNamed("p/a/"))]
        assert every == ["p/a/1", "p/a/2", "p/a/\u00e9"]
        assert [n.name for n in await listed(store, NodesNamed("p/a/"), "p/a/1", 1)] == ["p/a/2"]
        assert await listed(store, NodesNamed("p/a/"), "p/a/\u00e9") == []
        opened = await listed(store, NodesNamed("p/a/", AccessModel.OPEN))
        assert [node.name for node in opened] == ["p/a/1", "p/a/\u00e9"]
        mine = NodesOfAccountNamed(ANN_ACCOUNT, "p/a/")
        assert [(n.name, role) for n, role in await listed(store, mine)] == [
            ("p/a/2", Affiliation.OWNER)
        ]
        assert await listed(store, mine, "p/a/2") == []
        assert len(await listed(store, NodesOfAccountNamed(BOB_ACCOUNT, "p/a/"))) == 3

    async def test_nodes_are_listed_whose_labels_have_an_endpoint(self, store):
        for name in map(NodeName, ("a", "b", "c", "d")):
            await make(store, changes.CreateNode(replace(EMPTY, name=name)))
        pushed = replace(EMPTY.config, labels=f"colour=red\n{PUSHED}=there")
        for name in map(NodeName, ("d", "b")):
            await make(store, changes.ConfigureNode(name, pushed))
        assert [node.name for node in await listed(store, NodesPushed())] == ["b", "d"]
        (found,) = await listed(store, NodesPushed(), "b")
        assert (found.name, found.config) == ("d", pushed)
        await make(store, changes.ConfigureNode(NodeName("b"), EMPTY.config))
        assert [node.name for node in await listed(store, NodesPushed())] == ["d"]

    async def test_nodes_and_people_are_found_by_what_they_are(self, store):
        closed = NodeConfig(access_model=AccessModel.WHITELIST)
        hidden = replace(EMPTY, name=NodeName("hidden"), config=closed)
        await make(store, changes.CreateNode(hidden))
        roles = {JOBS: Affiliation.MEMBER, hidden.name: Affiliation.OWNER}
        await make(
            store, *(changes.SetAffiliation(n, ANN_ACCOUNT, role) for n, role in roles.items())
        )
        await make(store, changes.SetAffiliation(JOBS, BOB_ACCOUNT, Affiliation.OWNER))
        opened = Nodes(AccessModel.OPEN)
        assert await listed(store, opened) == [EMPTY]
        assert await listed(store, opened, JOBS) == []
        assert await listed(store, Nodes(AccessModel.WHITELIST)) == [hidden]
        assert [await listed(store, Total(of)) for of in (Nodes(), opened)] == [[2], [1]]
        owned = NodesOfAccount(ANN_ACCOUNT, (Affiliation.OWNER,))
        assert await listed(store, owned) == [(hidden, Affiliation.OWNER)]
        inside = NodesOfAccount(ANN_ACCOUNT, access=(AccessModel.WHITELIST,))
        assert await listed(store, inside) == [(hidden, Affiliation.OWNER)]
        assert [await listed(store, Total(of)) for of in (owned, inside)] == [[1], [1]]
        owners = AffiliationsOf(JOBS, (Affiliation.OWNER,))
        expected = [AffiliationRow(JOBS, BOB_ACCOUNT, Affiliation.OWNER)]
        assert await listed(store, owners) == expected
        counted = [await listed(store, Total(of)) for of in (owners, AffiliationsOf(JOBS))]
        assert counted == [[1], [2]]

    async def test_an_account_lists_its_subscriptions_by_node_and_jid(self, store):
        other, phone = NodeName("a"), Jid(f"{ANN_ACCOUNT}/phone")
        subscriptions = [
            replace(window(jid, 1), node=node, subid=f"{node} {jid}")
            for node, jid in [(JOBS, phone), (JOBS, ANN), (other, phone), (other, BOB)]
        ]
        await make(store, changes.CreateNode(replace(EMPTY, name=other)))
        await make(store, *map(changes.AddSubscription, subscriptions))
        mine = SubscriptionsOfAccount(ANN_ACCOUNT)
        first, second, third = sorted(
            (subscriptions[2], subscriptions[1], subscriptions[0]), key=place
        )
        assert await listed(store, mine) == [first, second, third]
        assert await listed(store, mine, place(first), 1) == [second]
        assert await listed(store, mine, (other, "zzz")) == [second, third]
        there = SubscriptionsOfAccount(ANN_ACCOUNT, JOBS)
        assert await listed(store, there) == [second, third]
        assert [await listed(store, Total(of)) for of in (mine, there)] == [[3], [2]]

    # --- subscriptions ---

    async def test_a_subscription_is_read_as_it_was_written(self, store):
        row = window(ANN, 3, in_flight=2, last_served=7, available=False, unanswered=4)
        await make(store, add("a"), add("b"))
        for name in "ab":
            await lock(store, name)
        await write(
            store,
            subscriptions=[Write(None, row)],
            nodes=[Write(node := await node_row(store), replace(node, subscriptions=1))],
        )
        assert await window_row(store, ANN) == row

    async def test_a_subscription_is_of_exactly_one_jid(self, store):
        await make(store, changes.AddSubscription(window(ANN, 3)))
        jids = ANN, ANN_ACCOUNT, Jid("ann@x/2")
        assert [await window_row(store, jid) for jid in jids] == [window(ANN, 3), None, None]

    async def test_an_account_subscribes_by_any_of_its_jids(self, store):
        mine = [window(ANN), window(ANN_ACCOUNT)]
        await make(store, *map(changes.AddSubscription, [*mine, window(BOB), window("ann@xy")]))
        found = await load(store, subscriptions={(JOBS, ANN_ACCOUNT), (DEAD, ANN_ACCOUNT)})
        assert sorted(found.subscriptions, key=str) == sorted(mine, key=str)
        await make(store, *(changes.EndSubscription(JOBS, one.jid) for one in mine))
        assert await load(store, subscriptions={(JOBS, ANN_ACCOUNT)}) == Rows()

    async def test_subscribers_come_oldest_first(self, store):
        await make(
            store, changes.AddSubscription(window(EVE)), changes.AddSubscription(window(ANN))
        )
        found = await load(store, subscribers={JOBS})
        assert found == Rows(subscriptions=[window(EVE), window(ANN)])
        assert (await node_row(store)).subscriptions == 2
        await make(store, changes.EndSubscription(JOBS, EVE))
        await make(store, changes.AddSubscription(window(EVE, subid="again")))
        found = await load(store, subscribers={JOBS})
        assert [one.jid for one in found.subscriptions] == [ANN, EVE]

    async def test_a_subscription_changes_and_keeps_its_place(self, store):
        await make(
            store, changes.AddSubscription(window(EVE)), changes.AddSubscription(window(ANN))
        )
        changed = window(EVE, 5, available=False, unanswered=3, last_served=9)
        await write(store, subscriptions=[Write(window(EVE), changed)])
        found = await load(store, subscribers={JOBS})
        assert found == Rows(subscriptions=[changed, window(ANN)])

    async def test_subscriptions_are_found_in_all_nodes(self, store):
        other = replace(window(ANN), node=DEAD, subid="2")
        again = replace(window(ANN_ACCOUNT), subid="3")
        await make(store, changes.CreateNode(replace(EMPTY, name=DEAD)))
        await make(store, *map(changes.AddSubscription, (window(ANN), other, window(BOB), again)))
        mine = await load(store, accounts={ANN_ACCOUNT, Jid("eve@x")})
        assert sorted(mine.subscriptions, key=str) == sorted([window(ANN), other, again], key=str)

    async def test_subscriptions_of_exactly_a_jid_are_found_in_all_nodes(self, store):
        other = replace(window(ANN), node=DEAD, subid="2")
        phone = replace(window(f"{ANN_ACCOUNT}/phone"), subid="3")
        await make(store, changes.CreateNode(replace(EMPTY, name=DEAD)))
        await make(store, *map(changes.AddSubscription, (window(ANN), other, window(BOB), phone)))
        mine = await load(store, jids={ANN, ANN_ACCOUNT, Jid("eve@x")})
        assert sorted(mine.subscriptions, key=str) == sorted([window(ANN), other], key=str)
        await make(store, changes.EndSubscription(JOBS, ANN))
        assert await load(store, jids={ANN}) == Rows(subscriptions=[other])

    async def test_a_subscription_that_several_needs_name_comes_once(self, store):
        await make(
            store, changes.AddSubscription(window(ANN)), changes.AddSubscription(window(BOB))
        )
        found = await load(
            store,
            subscriptions={(JOBS, ANN_ACCOUNT), (JOBS, BOB_ACCOUNT)},
            subscribers={JOBS},
            accounts={ANN_ACCOUNT},
            jids={ANN},
        )
        assert sorted(found.subscriptions, key=str) == [window(ANN), window(BOB)]

    async def test_locks_outlive_the_subscription_and_are_counted_in_the_next(self, store):
        await make(store, changes.AddSubscription(window(ANN, 3)), add("i1"))
        item = await lock(store, "i1")
        await make(store, changes.EndSubscription(JOBS, ANN))
        assert await load(store, held={ANN}) == Rows(items=[item])
        again = window(ANN, 3, in_flight=1)
        await make(store, changes.AddSubscription(again), changes.RemoveItem(item))
        assert await window_row(store, ANN) == window(ANN, 3)

    async def test_what_happened_under_an_old_subscription_does_not_count_for_the_new(self, store):
        await make(store, changes.AddSubscription(window(ANN, 3)), add("i1"))
        item = await lock(store, "i1")
        again = changes.AddSubscription(window(ANN, 3))
        await make(store, release(item), changes.EndSubscription(JOBS, ANN), again)
        assert await window_row(store, ANN) == window(ANN, 3)

    async def test_counters_are_added_to_whatever_others_have_added(self, store):
        subscription = window(ANN, 9)
        await make(store, changes.AddSubscription(subscription), *map(add, "abc"))
        node = await node_row(store)
        one, two, three = (await load(store, items={(JOBS, name) for name in "abc"})).items
        fewer = Write(node, replace(node, items=2, bytes=node.bytes - 6))
        await write(store, nodes=[fewer], items=[Write(one, None)])
        await write(store, nodes=[fewer], items=[Write(two, None)])
        assert await node_row(store) == replace(node, items=1, bytes=6)
        taken = after_change(changes.Lock(three, ANN, 7, IN_TIME, NOW))
        more = Write(subscription, replace(subscription, in_flight=1))
        await write(store, subscriptions=[more])  # somebody else's lock, which
        await write(store, subscriptions=[more], items=[Write(three, taken)])
        await write(store, subscriptions=[Write(more.after, subscription)])  # has ended
        assert await window_row(store, ANN) == more.after

    async def test_what_accounts_have_made_is_added_up(self, store):
        others = [replace(EMPTY, name=NodeName(name), creator=EVE_ACCOUNT) for name in ("a", "b")]
        await make(store, *map(changes.CreateNode, others), add("i1"))
        await make(store, add("i2", node=others[0].name), add("i3", node=others[1].name))
        asked = {EVE_ACCOUNT, EMPTY.creator, ANN_ACCOUNT}
        found = await load(store, holdings=asked)
        assert {one.account: one for one in found.of[HOLDINGS]} == {
            EVE_ACCOUNT: Holding(EVE_ACCOUNT, 2, 2, 12),
            EMPTY.creator: Holding(EMPTY.creator, 1, 1, 6),
        }
        before = await node_row(store, others[0].name)
        await write(store, nodes=[Write(before, replace(before, creator=EMPTY.creator))])
        await make(store, changes.PurgeNode(JOBS), changes.DeleteNode(others[1].name))
        assert (await load(store, holdings=asked)).of[HOLDINGS] == [Holding(EMPTY.creator, 2, 1, 6)]

    async def test_plain_nodes_and_queues_live_side_by_side(self, store):
        node = replace(plain(), name=NodeName("news"))
        await make(store, changes.CreateNode(node), add("i1", node=node.name), add("i1"))
        assert [one.items for one in await listed(store, Nodes())] == [1, 1]
