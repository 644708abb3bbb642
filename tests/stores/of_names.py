"""What every store promises about names: it takes those that XMPP and the core allow, as long as they are."""

from __future__ import annotations

from random import Random

import pytest
from harness.batches.facts import JOBS, NOW, after, queue, window
from harness.stores.store_contents import recount
from msgspec.structs import replace
from stores.staging_steps import MORE, TOTALS, commits, judge, row, stage
from stores.steps import (
    add,
    ids,
    items,
    listed,
    load,
    lock,
    losers,
    make,
    node_row,
    release,
    window_row,
    write,
)

from pubqueue.engine.listings import Conflicts, FormerSubscribers, SubscriberRoles, Subscribers
from pubqueue.engine.rows import FINISHED, Finished, Write, Writes
from pubqueue.model import changes
from pubqueue.model.entities import (
    MAX_ID_LENGTH,
    Affiliation,
    ItemId,
    Jid,
    NodeName,
    SubscriptionState,
    account_of,
)
from pubqueue.model.transactions import Commit, CommittedNode, SetAside
from pubqueue.rules import event_log
from pubqueue.rules.moving import id_elsewhere
from pubqueue.rules.validity import is_name

DRAW = Random(0)  # nothing that could be packed
SIGNS = "".join(chr(n) for n in range(0x4E00, 0x9FA5))


def word(byte_count=MAX_ID_LENGTH):
    """Return a word of exactly so many bytes, three for each of its letters."""
    return "".join(DRAW.choices(SIGNS, k=byte_count // 3)) + "x" * (byte_count % 3)


NODE = NodeName(word())
ITEM = ItemId(word())
ACCOUNT = f"{word()}@{word()}"
JIDS = sorted(Jid(f"{ACCOUNT}/{word()}") for _ in range(5))  # alike in their first 2,047 bytes
ANN = JIDS[0]


class OfNames:
    """Part of the contract."""

    def test_the_names_are_the_longest_there_can_be(self):
        assert {len(jid.encode()) for jid in JIDS} == {3 * MAX_ID_LENGTH + 2}
        assert (is_name(NODE), is_name(ITEM), is_name(f"{ITEM}x")) == (True, True, False)

    async def test_an_item_is_found_by_the_longest_names(self, store):
        await make(
            store, changes.CreateNode(queue(name=NODE, subscriptions=0)), add(ITEM, node=NODE)
        )
        assert await ids(store, NODE) == [ITEM]
        (item,) = await items(store, ITEM, node=NODE)
        assert (await node_row(store, NODE)).items == 1
        done = Finished(NODE, ITEM, b"digest", after(9))
        await write(store, finished=[Write(None, done)])
        assert (await load(store, finished={(NODE, ITEM)})).of[FINISHED] == [done]
        await make(store, changes.RemoveItem(item, None, b""))

    async def test_the_longest_jids_are_known_as_available(self, store):
        account = account_of(ANN)
        await make(store, *(changes.NoteResource(jid) for jid in (*JIDS, ANN)))
        assert (await load(store, resources={account})).resources == JIDS
        await make(store, *(changes.ForgetResource(jid) for jid in JIDS[1:]))
        assert (await load(store, resources={account})).resources == [ANN]

    async def test_those_of_the_longest_jids_subscribe(self, store):
        people = [window(jid, subid=f"s{n}") for n, jid in enumerate(JIDS)]
        role = changes.SetAffiliation(JOBS, Jid(ACCOUNT), Affiliation.MEMBER)
        await make(store, role, *(changes.AddSubscription(one) for one in reversed(people)))
        for found in (
            (await load(store, subscribers={JOBS})).subscriptions,
            (await load(store, accounts={Jid(ACCOUNT)})).subscriptions,
            (await load(store, jids=set(JIDS))).subscriptions,
        ):
            assert sorted(found, key=lambda one: one.subid) == people
        assert await window_row(store, ANN) == people[0]
        roles = [(jid, Affiliation.MEMBER, SubscriptionState.SUBSCRIBED) for jid in JIDS]
        for after_it in range(4):
            place = JIDS[after_it]
            assert await listed(store, Subscribers(JOBS), place, 2) == JIDS[after_it + 1 :][:2]
            assert await listed(store, SubscriberRoles(JOBS), place) == roles[after_it + 1 :]
        node = await node_row(store)
        fewer = Write(node, replace(node, subscriptions=4))
        await write(store, nodes=[fewer], bulk=[changes.EndSubscriptions(JOBS, (ANN,))])
        assert await listed(store, Subscribers(JOBS)) == JIDS[1:]
        await make(store, changes.DeleteNode(JOBS, announce=True))
        assert await listed(store, FormerSubscribers(JOBS), JIDS[1]) == JIDS[2:]
        await make(store, changes.DropFormer(JOBS, JIDS[2]))
        assert await listed(store, FormerSubscribers(JOBS)) == JIDS[3:]

    async def test_those_of_the_longest_jids_hold_items_and_lose_them(self, store):
        await make(store, changes.AddSubscription(window(ANN, 2, subid="a")), add(ITEM), add("b"))
        item = await lock(store, ITEM, ANN)
        assert (await load(store, held={ANN})).items == [item]
        assert (await load(store, held={JIDS[1]})).items == []
        await make(store, release(item))
        (item,) = await items(store, ITEM)
        assert await losers(store, item) == [ANN]
        item = await lock(store, ITEM, ANN, token=8)
        await make(store, release(item))
        assert await losers(store, item) == [ANN]
        assert await store.batch(recount) == []

    @pytest.mark.parametrize("node", [JOBS, NODE])
    async def test_dead_letters_of_a_commit_have_ids_that_can_be_asked_for(self, store, node):
        """Even where the node and the id together would be longer than an ItemID."""
        queues = [queue(name=name, subscriptions=0) for name in {MORE, NODE}]
        await make(store, *(changes.CreateNode(one) for one in queues))
        await make(store, changes.AddSubscription(window(ANN, subid="a")))
        twin = ItemId(f"{ITEM[:-1]}Z")
        for one in (ITEM, twin):
            await make(store, add(one, node=node))
        for one in await items(store, ITEM, twin, node=node):
            await make(store, changes.GiveUp(one, NOW, "x", 1))
        await make(store, stage(row(ITEM, b"<x/>"), row(twin, b"<y/>"), node=node))

        def compare(tx):
            judge(tx, *((one, False) for one in tx.page(Conflicts(node, None), None, 9)))
            tx.write(Writes(after(1), bulk=[SetAside(NODE, after(1))]))

        counts = {node: 0, NODE: 2}.items()
        nodes = tuple(CommittedNode(one, True, count, 0, 0) for one, count in counts)  # noqa: FBT003
        change = Commit("app", Jid("etl@x"), 1, after(1), nodes, 2, 8, TOTALS)
        reported = [event_log.PublishedByCommit(NODE, queueing=True, publisher=Jid("etl@x"))]
        await commits(store, (0, 0), change=change, before=compare, entries=reported)
        letters = (await ids(store, NODE))[-2:]
        assert len(set(letters)) == 2
        assert all(is_name(name) for name in letters)
        assert all(name.startswith(f"{node}/{ITEM}"[:100]) for name in letters)
        assert await store.batch(recount) == []

    async def test_dead_letters_of_a_commit_whose_nodes_have_slashes_have_different_ids(
        self, store
    ):
        europe = NodeName("jobs/eu%2F")
        both = ((JOBS, ItemId("eu%2F/1")), (europe, ItemId("1")))
        queues = [queue(name=name, subscriptions=0) for name in (MORE, europe)]
        await make(store, *(changes.CreateNode(one) for one in queues))
        await make(store, changes.AddSubscription(window(ANN, subid="a")))
        for number, (node, name) in enumerate(both):
            await make(store, add(name, node=node))
            (one,) = await items(store, name, node=node)
            await make(store, changes.GiveUp(one, NOW, "x", 1))
            await make(store, stage(row(name, b"<x/>"), node=node, part=number))

        def compare(tx):
            for node, _ in both:
                judge(tx, *((one, False) for one in tx.page(Conflicts(node, None), None, 9)))
            tx.write(Writes(after(1), bulk=[SetAside(MORE, after(1))]))

        counts = {JOBS: 0, europe: 0, MORE: 2}.items()
        nodes = tuple(CommittedNode(one, True, count, 0, 0) for one, count in counts)  # noqa: FBT003
        change = Commit("app", Jid("etl@x"), 1, after(1), nodes, 2, 8, TOTALS)
        reported = [event_log.PublishedByCommit(MORE, queueing=True, publisher=Jid("etl@x"))]
        await commits(store, (0, 0), (1, 0), change=change, before=compare, entries=reported)
        letters = {id_elsewhere(*one, after(1), "") for one in both}
        assert len(letters) == 2
        assert set(await ids(store, MORE)) == letters
        assert await store.batch(recount) == []
