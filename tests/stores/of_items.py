"""What every store promises about an item, from its publish to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.facts import ANN, BOB, JOBS, NOW, after, waiting, window
from harness.picture import everything
from msgspec.structs import replace
from stores.steps import (
    ANN_ACCOUNT,
    DEAD,
    EMPTY,
    ENOUGH,
    add,
    items,
    lock,
    make,
    release,
)

from pubqueue.core import changes as c
from pubqueue.core.model import (
    ItemId,
    Jid,
    State,
    digest,
)

if TYPE_CHECKING:
    from pubqueue.app.ports import Transaction


class OfItems:
    """Part of the contract."""

    async def test_an_item_is_read_as_it_was_added(self, store):
        said = (("b", "2"), ("a", "\u00e4<&>\n"), ("b", ""))
        given = {"priority": -2, "payload": b"<job>\xc3\xa4</job>", "expires": after(9)}
        given["headers"] = said
        await make(store, add("i1", state=State.DELAYED, due=after(5), **given))
        (item,) = await items(store, "i1")
        assert item == waiting(
            item.seq,
            id="i1",
            state=State.DELAYED,
            due=after(5),
            expires=after(9),
            priority=-2,
            headers=said,
        )
        assert await store.batch(lambda tx: tx.item_at(item.seq)) == item
        assert await store.batch(lambda tx: tx.payload(item)) == given["payload"]

    async def test_an_item_that_is_not_there_is_none(self, store):
        await make(store, add("i1"))

        def look(tx: Transaction) -> object:
            return tx.item(JOBS, ItemId("I1")), tx.item(DEAD, ItemId("i1")), tx.item_at(999)

        assert await store.batch(look) == (None, None, None)

    async def test_ids_come_oldest_first_and_not_more_than_asked_for(self, store):
        await make(store, add("c"), add("a", priority=9), add("b"))
        assert await store.batch(lambda tx: tx.item_ids(JOBS, 9)) == ["c", "a", "b"]
        assert await store.batch(lambda tx: tx.item_ids(JOBS, 2)) == ["c", "a"]

    async def test_nodes_count_their_items_while_they_change(self, store):
        def change(tx: Transaction) -> list[int]:
            counts = [tx.node(JOBS).items]
            for changes in ([add("i1"), add("i2")], [add("i3")]):
                tx.apply(changes)
                counts.append(tx.node(JOBS).items)
            tx.apply([c.RemoveItem(tx.item(JOBS, ItemId("i2")))])
            return [*counts, tx.node(JOBS).items, tx.nodes()[0].items]

        assert await store.batch(change) == [0, 2, 3, 2, 2]

    async def test_another_payload_leaves_the_rest(self, store):
        await make(store, add("i1"), add("i2"))
        (item,) = await items(store, "i1")
        await make(store, c.ReplacePayload(item, b"<new/>", Jid("eve@x"), (("a", "1"),)))
        expected = replace(item, publisher=Jid("eve@x"), headers=(("a", "1"),))
        assert await items(store, "i1") == [expected]
        assert await store.batch(lambda tx: tx.payload(item)) == b"<new/>"

    async def test_a_lock_has_a_holder_a_deadline_and_a_token(self, store):
        await make(store, c.AddSubscription(window(ANN, 3)), add("i1"))
        (before,) = await items(store, "i1")
        item = await lock(store, "i1", token=7, deadline=after(60))
        assert item == replace(
            before,
            state=State.LOCKED,
            holder=ANN,
            deadline=after(60),
            token=7,
            acquired=1,
            taken=NOW,
        )
        served = window(ANN, 3, in_flight=1, last_served=7)
        assert await store.batch(lambda tx: tx.subscription(JOBS, ANN)) == served
        assert await store.batch(lambda tx: tx.held_count(JOBS, ANN)) == 1

    async def test_many_locks_are_made_in_one_go(self, store):
        await make(store, c.AddSubscription(window(ANN, 9)), *map(add, "abc"))
        known = await items(store, "a", "b", "c")
        locks = [c.Lock(item, ANN, 7 + n, after(60), NOW) for n, item in enumerate(known)]
        await make(store, *locks)
        assert [item.token for item in await items(store, "a", "b", "c")] == [7, 8, 9]

    async def test_who_loses_a_lock_is_remembered_and_avoided(self, store):
        await make(store, c.AddSubscription(window(ANN)), add("i1"))
        item = await lock(store, "i1")
        await make(store, release(item, state=State.DELAYED, due=after(5), failed=2, released=3))
        (freed,) = await items(store, "i1")
        expected = {"state": State.DELAYED, "due": after(5), "failed": 2, "released": 3}
        cleared = {"holder": None, "deadline": None, "avoid": ANN}
        assert freed == replace(item, **expected, **cleared)
        assert await store.batch(lambda tx: tx.held(freed, [ANN, ANN_ACCOUNT])) == [ANN]
        assert await store.batch(lambda tx: tx.held(freed, [BOB, Jid("bob@x")])) == []

    async def test_losing_it_twice_is_remembered_once(self, store):
        await make(store, add("i1"))
        for token in (7, 8):
            await make(store, release(await lock(store, "i1", token=token)))
        (freed,) = await items(store, "i1")
        assert await store.batch(lambda tx: tx.held(freed, [ANN])) == [ANN]

    async def test_a_lock_can_be_extended(self, store):
        await make(store, add("i1"))
        item = await lock(store, "i1")
        await make(store, c.Extend(item, after(999)))
        assert await items(store, "i1") == [replace(item, deadline=after(999))]

    async def test_what_is_put_aside_for_one_is_there_for_others(self, store):
        await make(store, add("i1"), add("i2"))
        (item,) = await items(store, "i1")
        await make(store, c.Postpone(item, after(5)))
        (postponed,) = await items(store, "i1")
        assert postponed == replace(item, state=State.DELAYED, due=after(5), aside=True)
        assert await store.batch(lambda tx: tx.aside(JOBS, NOW, 9, ENOUGH)) == [
            (postponed, b"<job/>")
        ]
        taken = await lock(store, "i1", BOB)
        assert (taken.state, taken.aside, taken.due) == (State.LOCKED, False, None)

    async def test_ripe_items_wait_again_and_keep_the_sign_that_they_have_waited(self, store):
        at_hand = {"state": State.DELAYED, "due": after(5)}
        await make(store, add("i1", **at_hand), add("i2", **(at_hand | {"due": after(6)})))
        assert await store.batch(lambda tx: tx.ripe(after(4))) == []
        assert await store.batch(lambda tx: tx.ripe(after(5))) == [JOBS]
        await make(store, c.Ripen(JOBS, after(5)))
        found = [(item.state, item.due) for item in await items(store, "i1", "i2")]
        assert found == [(State.QUEUED, after(5)), (State.DELAYED, after(6))]

    async def test_a_dead_item_stays(self, store):
        await make(store, c.AddSubscription(window(ANN)), add("i1"))
        item = await lock(store, "i1")
        await make(store, c.GiveUp(item, NOW, "worn out", 20))
        (dead,) = await items(store, "i1")
        cleared = {"holder": None, "deadline": None}
        assert dead == replace(item, state=State.DEAD, failed=20, **cleared)
        assert await store.batch(lambda tx: tx.dead(JOBS, 9)) == [(dead, None)]
        assert await store.batch(lambda tx: tx.held(dead, [ANN])) == [ANN]

    async def test_a_dead_item_moves_and_waits_in_its_new_node_as_if_it_were_new(self, store):
        await make(
            store,
            c.CreateNode(replace(EMPTY, name=DEAD)),
            c.AddSubscription(window(ANN)),
            add("i1", expires=after(900), headers=(("a", "1"),)),
        )
        item = await lock(store, "i1")
        await make(store, c.GiveUp(item, NOW, "worn out", 20, to=DEAD))
        (moved,) = await items(store, "i1", node=DEAD)
        expected = waiting(item.seq, id="i1", node=DEAD, token=item.token, headers=(("a", "1"),))
        assert moved == expected
        assert await store.batch(lambda tx: tx.dead(DEAD, 9)) == [(moved, JOBS)]
        assert await store.batch(lambda tx: tx.origin(moved)) == JOBS
        assert await store.batch(lambda tx: tx.held(moved, [ANN])) == []
        assert await store.batch(lambda tx: tx.item_ids(JOBS, 9)) == []

    async def test_a_dead_item_lives_again_in_its_place(self, store):
        await make(store, add("i1"), add("i2"))
        item = await lock(store, "i1")
        await make(store, c.GiveUp(item, NOW, "worn out", 20))
        (dead,) = await items(store, "i1")
        await make(store, c.Revive(dead, JOBS))
        (revived, _) = await items(store, "i1", "i2")
        assert revived == waiting(item.seq, id="i1", token=item.token)
        assert await store.batch(lambda tx: tx.dead(JOBS, 9)) == []
        assert [
            row.id for row, _ in await store.batch(lambda tx: tx.ready(JOBS, NOW, 9, ENOUGH))
        ] == [
            "i1",
            "i2",
        ]

    async def test_the_id_of_finished_work_absorbs_until_its_time(self, store):
        await make(store, add("i1", payload=b"<done/>"))
        (item,) = await items(store, "i1")
        await make(store, c.RemoveItem(item, after(5), digest(b"<done/>")))

        def look(tx: Transaction) -> object:
            times = (NOW, after(4.999), after(5))
            return [tx.finished(JOBS, item.id, moment) for moment in times]

        assert await store.batch(look) == [digest(b"<done/>")] * 2 + [None]
        await make(store, c.Forget(after(5)))
        assert await store.batch(lambda tx: tx.finished(JOBS, item.id, NOW)) is None

    async def test_work_that_finishes_again_is_remembered_anew(self, store):
        for payload in (b"<a/>", b"<b/>"):
            await make(store, add("i1", payload=payload))
            (item,) = await items(store, "i1")
            await make(store, c.RemoveItem(item, after(5), digest(payload)))
        assert await store.batch(lambda tx: tx.finished(JOBS, item.id, NOW)) == digest(b"<b/>")

    async def test_a_purge_takes_all_items_and_all_locks(self, store):
        await make(store, c.AddSubscription(window(ANN, 3)), *map(add, "abc"))
        await lock(store, "a", token=7)
        await make(store, c.PurgeNode(JOBS))
        served = window(ANN, 3, last_served=7)
        expected = [replace(EMPTY, subscriptions=1), served]
        assert await store.batch(everything) == expected
