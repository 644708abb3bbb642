"""What every store promises about an item, from its publish to its end."""

from __future__ import annotations

from harness.batches.facts import ANN, BOB, BOSS, ETL, JOBS, NOW, after, waiting, window
from harness.stores.rows import rows_of
from harness.stores.store_contents import contents, everything, recount
from msgspec.structs import replace
from stores.steps import (
    ANN_ACCOUNT,
    DEAD,
    EMPTY,
    add,
    ids,
    items,
    listed,
    load,
    lock,
    losers,
    make,
    node_row,
    payloads,
    ready,
    release,
    sweep,
    sweep_once,
    window_row,
    write,
)

from pubqueue.engine.listings import DeadItems, Forgettable, ItemIds, Items, Orphans
from pubqueue.engine.rows import (
    ANSWERED,
    FINISHED,
    KEY_TOTALS,
    PING_ANSWERS,
    SETTLED,
    USED_KEYS,
    Due,
    Finished,
    Rows,
    Write,
)
from pubqueue.model import changes as c
from pubqueue.model.entities import DeadLetter, ItemId, Jid, State, digest
from pubqueue.model.records import Answered, KeyTotal, PingAnswer, Settled, UsedKey
from pubqueue.model.sums import sum_of
from pubqueue.model.transactions import Orphan


class OfItems:
    """Part of the contract."""

    async def test_an_item_is_read_as_it_was_added(self, store):
        said = (("b", "2"), ("a", "\u00e4<&>\n"), ("b", ""))
        given = {"priority": -2, "payload": b"<job>\xc3\xa4</job>", "expires": after(9)}
        given["headers"] = said
        transaction = {"transaction": ("app", 4)}
        await make(store, add("i1", state=State.DELAYED, due=after(5), **given, **transaction))
        (item,) = await items(store, "i1")
        assert item == waiting(
            item.seq,
            id="i1",
            state=State.DELAYED,
            due=after(5),
            expires=after(9),
            priority=-2,
            headers=said,
            transaction=("app", 4),
            size=len(given["payload"]) + 3 + 1 + len("ä<&>\n".encode()),
            sum=sum_of(ItemId("i1"), given["payload"], "", said),
        )
        assert await load(store, numbers={item.seq}) == Rows(items=[item])
        expected = Rows(payloads=[(item.seq, given["payload"], item.sum)])
        assert await load(store, payloads={item.seq}) == expected

    async def test_every_fact_of_an_item_is_kept(self, store):
        dead = DeadLetter(3, after(2), "w\u00f6rn", DEAD, BOB)
        locked = waiting(
            *(40,),
            state=State.LOCKED,
            priority=3,
            expires=after(9),
            acquired=4,
            failed=2,
            released=1,
            holder=ANN,
            deadline=after(8),
            token=6,
            avoid=BOB,
            taken=after(1),
            headers=(("a", "b"),),
            dead_letter=dead,
            transaction=("app", 2),
        )
        aside = waiting(41, state=State.DELAYED, due=after(3), aside=True, avoid=ANN)
        died = waiting(42, state=State.DEAD, dead_letter=replace(dead, number=4, origin=None))
        rows = [locked, aside, died]
        await write(
            store,
            items=[Write(None, row) for row in rows],
            payloads={row.seq: b"<job/>" for row in rows},
            nodes=[Write(EMPTY, replace(EMPTY, items=3))],
        )
        assert await listed(store, Items(JOBS)) == [(row, b"<job/>") for row in rows]

    async def test_an_item_that_is_not_there_is_none(self, store):
        await make(store, add("i1"))
        keys = {(JOBS, ItemId("I1")), (DEAD, ItemId("i1"))}
        nothing = {"items": keys, "numbers": {999}, "payloads": {999}, "receipts": {999}}
        assert await load(store, **nothing, held={ANN}, finished=keys) == Rows()

    async def test_many_items_are_found_at_once_and_each_of_them_once(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)), *map(add, "abcd"))
        await make(store, add("a", node=DEAD))
        held = await lock(store, "c")
        a, b, c_, _ = await items(store, *"abcd")
        (other,) = await items(store, "a", node=DEAD)
        found = await load(
            store,
            items={(JOBS, ItemId("a")), (JOBS, ItemId("b")), (DEAD, ItemId("a"))},
            numbers={b.seq, c_.seq},
            held={ANN, BOB},
            payloads={a.seq, b.seq},
        )
        assert sorted(item.seq for item in found.items) == [a.seq, b.seq, c_.seq, other.seq]
        assert (held in found.items, other in found.items) == (True, True)
        assert sorted(found.payloads) == [(a.seq, b"<job/>", a.sum), (b.seq, b"<job/>", b.sum)]

    async def test_hundreds_of_items_are_found_at_once(self, store):
        names = [f"i{n}" for n in range(700)]
        await make(store, *map(add, names))
        keys = {(JOBS, ItemId(name)) for name in names}
        found = await load(store, items=keys)
        assert {(item.node, item.id) for item in found.items} == keys
        seqs = {item.seq for item in found.items}
        assert {item.seq for item in (await load(store, numbers=seqs)).items} == seqs
        assert {seq for seq, *_ in (await load(store, payloads=seqs)).payloads} == seqs

    async def test_ids_come_oldest_first_and_not_more_than_asked_for(self, store):
        await make(store, add("c"), add("a", priority=9), add("b"))
        (first,) = await items(store, "c")
        assert await listed(store, ItemIds(JOBS)) == ["c", "a", "b"]
        assert await listed(store, ItemIds(JOBS), None, 2) == ["c", "a"]
        assert await listed(store, ItemIds(JOBS), first.seq, 9) == ["a", "b"]
        assert await listed(store, ItemIds(DEAD)) == []

    async def test_nodes_count_their_items_while_they_change(self, store):
        counts = []
        for changes in ([add("i1"), add("i2")], [add("i3")]):
            await make(store, *changes)
            counts.append((await node_row(store)).items)
        await make(store, c.RemoveItem((await items(store, "i2"))[0]))
        assert [*counts, (await node_row(store)).items] == [2, 3, 2]

    async def test_numbers_of_items_only_rise_also_after_the_newest_has_gone(self, store):
        seen = []
        for name in "abc":
            await make(store, add(name))
            (item,) = await items(store, name)
            seen.append(item.seq)
            await make(store, c.RemoveItem(item))
        assert seen == sorted(set(seen))

    async def test_another_payload_leaves_the_rest(self, store):
        await make(store, add("i1"), add("i2"))
        (item,) = await items(store, "i1")
        await make(store, c.ReplacePayload(item, b"<new/>", Jid("eve@x"), (("a", "1"),)))
        content = sum_of(item.id, b"<new/>", "", (("a", "1"),))
        facts = {"headers": (("a", "1"),), "size": 8, "sum": content}
        expected = replace(item, publisher=Jid("eve@x"), **facts)
        assert await items(store, "i1") == [expected]
        assert await payloads(store) == {"i1": b"<new/>", "i2": b"<job/>"}

    async def test_another_payload_is_written_though_the_row_stays_as_it_is(self, store):
        await make(store, add("i1"), add("i2"))
        before = await items(store, "i1", "i2")
        await write(store, payloads={before[0].seq: b"<new/>"})
        assert await items(store, "i1", "i2") == before
        assert await payloads(store) == {"i1": b"<new/>", "i2": b"<job/>"}

    async def test_an_id_goes_and_comes_again_at_once(self, store):
        await make(store, add("a", payload=b"<old/>"), add("b"))
        (old,) = await items(store, "a")
        await make(store, release(await lock(store, "a")))
        (old,) = await items(store, "a")
        new = replace(old, seq=old.seq + 10, token=0, acquired=0, avoid=None, taken=None)
        await write(
            store, items=[Write(old, None), Write(None, new)], payloads={new.seq: b"<new/>"}
        )
        assert (await items(store, "a"), await losers(store, new)) == ([new], [])
        assert await payloads(store) == {"b": b"<job/>", "a": b"<new/>"}
        assert await load(store, numbers={old.seq}, payloads={old.seq}) == Rows()

    async def test_an_id_comes_and_goes_whatever_the_order_of_the_rows(self, store):
        await make(store, add("a"))
        (old,) = await items(store, "a")
        new = replace(old, seq=old.seq + 10)
        rows = [Write(None, new), Write(old, None)]
        await write(store, items=rows, payloads={new.seq: b"<new/>"})
        assert await items(store, "a") == [new]

    async def test_an_item_that_takes_the_id_of_one_that_moves_away(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)), add("a"))
        (old,) = await items(store, "a")
        moved, new = replace(old, node=DEAD), replace(old, seq=old.seq + 10)
        more = replace(EMPTY, name=DEAD)
        await write(
            store,
            items=[Write(None, new), Write(old, moved)],
            payloads={new.seq: b"<new/>"},
            nodes=[Write(more, replace(more, items=1, bytes=old.size))],
        )
        assert await items(store, "a") == [new]
        assert await items(store, "a", node=DEAD) == [moved]

    async def test_an_item_that_comes_and_goes_at_once_leaves_nothing(self, store):
        before = await store.batch(everything)
        seq = await store.batch(lambda tx: tx.number("item", 1))
        await write(store, items=[Write(None, None)], payloads={seq: b"<job/>"})
        assert await store.batch(everything) == before
        assert await load(store, payloads={seq}) == Rows()

    # --- locks ---

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
        assert await window_row(store, ANN) == window(ANN, 3, in_flight=1, last_served=7)
        assert await load(store, held={ANN}) == Rows(items=[item])

    async def test_many_locks_are_made_in_one_go(self, store):
        await make(store, c.AddSubscription(window(ANN, 9)), *map(add, "abc"))
        known = await items(store, "a", "b", "c")
        locks = [c.Lock(item, ANN, 7 + n, after(60), NOW) for n, item in enumerate(known)]
        await make(store, *locks)
        assert [item.token for item in await items(store, "a", "b", "c")] == [7, 8, 9]

    async def test_a_holder_that_loses_a_lock_is_remembered_and_avoided(self, store):
        await make(store, c.AddSubscription(window(ANN)), add("i1"))
        item = await lock(store, "i1")
        await make(store, release(item, state=State.DELAYED, due=after(5), failed=2, released=3))
        (freed,) = await items(store, "i1")
        expected = {"state": State.DELAYED, "due": after(5), "failed": 2, "released": 3}
        cleared = {"holder": None, "deadline": None, "avoid": ANN}
        assert freed == replace(item, **expected, **cleared)
        assert await losers(store, freed) == [ANN]

    async def test_each_that_lost_it_is_found_once(self, store):
        await make(store, add("i1"), add("i2"))
        for token, who in enumerate((ANN, ANN, BOB)):
            await make(store, release(await lock(store, "i1", who, token=token + 1)))
        await make(store, release(await lock(store, "i2", BOB, token=8)))
        one, two = await items(store, "i1", "i2")
        found = await load(store, receipts={one.seq, two.seq})
        assert sorted(found.receipts) == [(one.seq, ANN), (one.seq, BOB), (two.seq, BOB)]

    async def test_receipts_go_before_others_are_added(self, store):
        await make(store, add("i1"), add("i2"))
        for name in ("i1", "i2"):
            await make(store, release(await lock(store, name)))
        one, two = await items(store, "i1", "i2")
        await write(store, anew=[one.seq], receipts=[(one.seq, BOB)])
        assert (await losers(store, one), await losers(store, two)) == ([BOB], [ANN])

    async def test_the_receipt_of_an_item_that_is_gone_goes_with_it(self, store):
        await make(store, add("i1"))
        held = await lock(store, "i1")
        await write(
            store,
            items=[Write(held, None)],
            receipts=[(held.seq, ANN)],
            anew=[held.seq],
            nodes=[Write(await node_row(store), EMPTY)],
        )
        assert await load(store, numbers={held.seq}, receipts={held.seq}) == Rows()

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
        assert await ready(store) == ("i2", "i1")
        taken = await lock(store, "i1", BOB)
        assert (taken.state, taken.aside, taken.due) == (State.LOCKED, False, None)
        assert await ready(store) == ("i2", "")

    async def test_ripe_items_wait_again_and_keep_the_sign_that_they_have_waited(self, store):
        await make(store, add("i1", state=State.DELAYED, due=after(5)))
        (item,) = await items(store, "i1")
        await make(store, c.Ripen(item))
        assert await items(store, "i1") == [replace(item, state=State.QUEUED)]
        assert await ready(store) == ("i1", "")

    async def test_why_an_item_failed_last_is_kept_through_the_next_lock(self, store):
        await make(store, c.AddSubscription(window(ANN)), add("i1"), add("i2"))
        one, two = [await lock(store, name, token=n) for n, name in enumerate(("i1", "i2"), 1)]
        await make(store, release(one, failed=1, reason="no seat"), release(two))
        again = await lock(store, "i1", token=9)
        assert (again.failure, again.error) == ("no seat", "no seat")
        await make(store, release(again))
        found = [item.failure for item in await items(store, "i1", "i2")]
        assert found == ["no seat", None]

    async def test_why_an_item_was_given_back_is_kept_though_it_has_never_failed(self, store):
        await make(store, c.AddSubscription(window(ANN)), add("i1"))
        held = await lock(store, "i1", token=1)
        await make(store, release(held, reason="no handler for {x}mail"))
        (back,) = await items(store, "i1")
        assert (back.failure, back.failed, back.released) == ("no handler for {x}mail", 0, 1)
        again = await lock(store, "i1", token=2)
        await make(store, release(again, reason="no handler for {x}mail: still"))
        assert [one.error for one in await items(store, "i1")] == ["no handler for {x}mail: still"]

    # --- death and after ---

    async def test_a_dead_item_stays(self, store):
        await make(store, c.AddSubscription(window(ANN)), add("i1"))
        item = await lock(store, "i1")
        await make(store, c.GiveUp(item, NOW, "worn out", 20))
        (dead,) = await items(store, "i1")
        cleared = {"holder": None, "deadline": None}
        letter = DeadLetter(dead.dead_letter.number, NOW, "worn out", None, ANN)
        cleared |= {"failure": "worn out"}
        expected = replace(item, state=State.DEAD, failed=20, dead_letter=letter, **cleared)
        assert dead == expected
        assert await listed(store, DeadItems(JOBS)) == [dead]
        assert await losers(store, dead) == [ANN]

    async def test_a_dead_item_moves_and_waits_in_its_new_node_as_if_it_were_new(self, store):
        await make(
            store,
            c.CreateNode(replace(EMPTY, name=DEAD)),
            c.AddSubscription(window(ANN)),
            add("i1", expires=after(900), headers=(("a", "1"),)),
        )
        await make(store, release(await lock(store, "i1", BOB)))
        item = await lock(store, "i1", token=8)
        await make(store, c.GiveUp(item, NOW, "worn out", 20, to=DEAD))
        (moved,) = await items(store, "i1", node=DEAD)
        letter = DeadLetter(moved.dead_letter.number, NOW, "worn out", JOBS, ANN)
        expected = {"token": item.token, "headers": (("a", "1"),), "dead_letter": letter}
        assert moved == waiting(item.seq, id="i1", node=DEAD, size=8, sum=item.sum, **expected)
        assert await listed(store, DeadItems(DEAD)) == [moved]
        assert await losers(store, moved) == []
        assert (await ids(store), await payloads(store, DEAD)) == ([], {"i1": b"<job/>"})

    async def test_a_dead_item_lives_again_in_its_place(self, store):
        await make(store, add("i1"), add("i2"))
        item = await lock(store, "i1")
        await make(store, c.GiveUp(item, NOW, "worn out", 20))
        (dead,) = await items(store, "i1")
        await make(store, c.Revive(dead, JOBS))
        (revived, _) = await items(store, "i1", "i2")
        assert revived == waiting(item.seq, id="i1", token=item.token, size=6, sum=item.sum)
        assert await listed(store, DeadItems(JOBS)) == []
        assert await losers(store, revived) == []
        rows = await store.batch(lambda tx: tx.ready({JOBS: 9}, NOW, 999).rows)
        assert [row.id for row, _ in rows] == ["i1", "i2"]

    async def test_dead_items_without_a_holder_come_oldest_first_in_pages(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)), *map(add, "abcde"))
        a, b, _, d, e = await items(store, *"abcde")
        for item in (d, b, e, a):
            await make(store, c.GiveUp(item, NOW, "x", 1, to=DEAD))
        a, b, d, e = await items(store, *"abde", node=DEAD)
        await make(store, c.Lock(b, ANN, 9, after(9), NOW))
        assert await listed(store, DeadItems(DEAD)) == [a, d, e]
        assert await listed(store, DeadItems(DEAD), a.seq, 1) == [d]
        assert await listed(store, DeadItems(JOBS)) == []

    async def test_what_is_removed_takes_all_with_it(self, store):
        await make(store, c.AddSubscription(window(ANN, 3)), add("i1"))
        await make(store, release(await lock(store, "i1", BOB)))
        item = await lock(store, "i1", token=8)
        await make(store, c.RemoveItem(item))
        keys = {"numbers": {item.seq}, "payloads": {item.seq}, "receipts": {item.seq}}
        assert await load(store, **keys, held={ANN}) == Rows()
        served = window(ANN, 3, last_served=8)
        assert await store.batch(everything) == [replace(EMPTY, subscriptions=1), served]

    # --- finished work ---

    async def test_the_id_of_finished_work_is_kept_until_it_is_forgotten(self, store):
        await make(store, add("i1", payload=b"<done/>"), add("i2"))
        one, two = await items(store, "i1", "i2")
        await make(store, c.RemoveItem(one, after(5), digest(b"<done/>")))
        await make(store, c.RemoveItem(two, after(6), digest(b"<job/>")))
        rows = [
            Finished(JOBS, one.id, digest(b"<done/>"), after(5)),
            Finished(JOBS, two.id, digest(b"<job/>"), after(6)),
        ]
        keys = {(JOBS, one.id), (JOBS, two.id), (DEAD, one.id)}
        found = await load(store, finished=keys)
        assert sorted(found.of[FINISHED], key=str) == sorted(rows, key=str)
        await make(store, c.Forget(after(4.999), 9))
        assert len((await load(store, finished=keys)).of[FINISHED]) == 2
        await make(store, c.Forget(after(5), 9))
        assert await load(store, finished=keys) == rows_of(finished=rows[1:])

    async def test_so_many_ids_are_forgotten_at_once_the_longest_overdue_first(self, store):
        await make(store, *(add(name) for name in "abcd"))
        there = await items(store, *"abcd")
        await make(
            store,
            *(c.RemoveItem(one, after(9 - at), b"") for at, one in enumerate(there)),
        )
        keys = {(JOBS, one.id) for one in there}
        assert await listed(store, Forgettable(after(5.999))) == [0]
        assert await listed(store, Forgettable(after(8)), limit=9) == [3]
        assert await listed(store, Forgettable(after(8)), limit=2) == [2]
        await make(store, c.Forget(after(8), 2))
        left = {row.id for row in (await load(store, finished=keys)).of[FINISHED]}
        assert left == {"a", "b"}
        await make(store, c.Forget(after(8), 2))
        assert [row.id for row in (await load(store, finished=keys)).of[FINISHED]] == ["a"]

    async def test_a_settled_lock_is_remembered_until_it_is_forgotten(self, store):
        rows = [Settled(token, b"whose", "retract", after(token)) for token in (5, 6, 7)]
        await make(store, *map(c.PutRow, rows))
        keys = {5, 6, 7, 8}
        assert sorted((await load(store, settled=keys)).of[SETTLED], key=str) == rows
        assert await listed(store, Forgettable(after(4.999))) == [0]
        assert await listed(store, Forgettable(after(6)), limit=9) == [2]
        await make(store, c.Forget(after(4.999), 9))
        await make(store, c.Forget(after(7), 1))
        assert sorted((await load(store, settled=keys)).of[SETTLED], key=str) == rows[1:]
        again = Settled(6, b"another", "unlock", after(60))
        await make(store, c.PutRow(again))
        await make(store, c.Forget(after(7), 9))
        assert await load(store, settled=keys) == rows_of(settled=[again])

    async def test_an_answer_to_a_ping_is_remembered_until_it_is_forgotten(self, store):
        long = Jid(f"bee@x/{'ä' * 600}")
        rows = [PingAnswer(jid, after(2), after(5)) for jid in (ANN, long)]
        await make(store, *map(c.PutRow, rows))
        keys = {ANN, long, BOB}
        found = (await load(store, ping_answers=keys)).of[PING_ANSWERS]
        assert sorted(found, key=str) == sorted(rows, key=str)
        again = PingAnswer(ANN, after(3), after(9))
        await make(store, c.PutRow(again))
        assert await listed(store, Forgettable(after(4.999))) == [0]
        await make(store, c.Forget(after(5), 9))
        assert await load(store, ping_answers=keys) == rows_of(ping_answers=[again])

    async def test_an_answer_to_a_delivery_is_remembered_until_it_is_forgotten(self, store):
        rows = [
            Answered(5, arrived=False, until=after(5)),
            Answered(6, arrived=True, until=after(9)),
        ]
        await make(store, *map(c.PutRow, rows))
        found = (await load(store, answered_deliveries={5, 6, 7})).of[ANSWERED]
        assert sorted(found, key=str) == rows
        again = Answered(5, arrived=True, until=after(5))
        await make(store, c.PutRow(again))
        assert await listed(store, Forgettable(after(4.999))) == [0]
        await make(store, c.Forget(after(4), 9))
        assert await load(store, answered_deliveries={5}) == rows_of(answered_deliveries=[again])
        await make(store, c.Forget(after(5), 9))
        assert await load(store, answered_deliveries={5, 6}) == rows_of(
            answered_deliveries=[rows[1]]
        )

    async def test_a_used_key_is_remembered_until_it_is_forgotten_and_counts_no_more_then(
        self, store
    ):
        used = [
            UsedKey(f"k{n}", ETL, b"content", after(n), n, (ItemId(f'"{n}'), ItemId("é")), ())
            for n in (5, 6, 7)
        ]
        other = UsedKey("other", BOSS, b"", after(6), 100, (), (ItemId("known"),))
        await make(
            store,
            *map(c.PutRow, used),
            c.PutRow(KeyTotal(ETL, sum(one.size for one in used))),
            c.PutRow(other),
            c.PutRow(KeyTotal(BOSS, 100)),
        )
        keys, accounts = {"k5", "k6", "k7", "k8", "other"}, {ETL, BOSS}
        found = await load(store, used_keys=keys, key_totals=accounts)
        assert sorted(found.of[USED_KEYS], key=str) == sorted([*used, other], key=str)
        assert sorted(found.of[KEY_TOTALS], key=str) == [KeyTotal(BOSS, 100), KeyTotal(ETL, 18)]
        assert await listed(store, Forgettable(after(6)), limit=9) == [3]
        await make(store, c.Forget(after(4.999), 9))
        await make(store, c.Forget(after(7), 1))
        found = await load(store, used_keys=keys, key_totals={ETL})
        assert found.of[KEY_TOTALS] == [KeyTotal(ETL, 13)]
        again = replace(used[1], until=after(60), content=b"another", size=50)
        await make(store, c.PutRow(again), c.PutRow(KeyTotal(ETL, 57)))
        await make(store, c.Forget(after(7), 9))
        left = rows_of(used_keys=[again], key_totals=[KeyTotal(ETL, 50)])
        assert await load(store, used_keys=keys, key_totals=accounts) == left

    async def test_work_that_finishes_again_is_remembered_again(self, store):
        for payload in (b"<a/>", b"<b/>"):
            await make(store, add("i1", payload=payload))
            (item,) = await items(store, "i1")
            await make(store, c.RemoveItem(item, after(5), digest(payload)))
        row = Finished(JOBS, item.id, digest(b"<b/>"), after(5))
        assert await load(store, finished={(JOBS, item.id)}) == rows_of(finished=[row])
        await write(store, finished=[Write(row, None)])
        assert await load(store, finished={(JOBS, item.id)}) == Rows()

    # --- many at once ---

    async def test_a_purge_takes_all_items_and_all_locks(self, store):
        await make(store, c.CreateNode(replace(EMPTY, name=DEAD)), add("x", node=DEAD))
        await make(store, c.AddSubscription(window(ANN, 3)), *map(add, "abc"))
        await make(store, release(await lock(store, "b", token=6)))
        held = await lock(store, "a", token=7)
        await make(store, c.PurgeNode(JOBS))
        served = window(ANN, 3, last_served=7)
        expected = [replace(EMPTY, subscriptions=1), served]
        seen = await store.batch(everything)
        assert seen[:2] == expected
        assert [row.name for row in seen[2:3]] == [DEAD]
        assert await load(store, held={ANN, ANN_ACCOUNT}, numbers={held.seq}) == Rows()
        await sweep(store, 2)
        assert await load(store, payloads={held.seq}, receipts={held.seq}) == Rows()

    async def test_of_what_was_purged_those_that_wait_for_a_reply_are_known(self, store):
        asks = (("reply-to", "replies/etl@x"), ("correlation-id", "r"))
        await make(store, add("a", headers=asks), add("b", headers=(("k", "v"),)), add("c"))
        await make(store, add("dead", headers=asks))
        (dead,) = await items(store, "dead")
        await make(store, c.GiveUp(dead, NOW, "no", 2))
        locked = await lock(store, "a", token=7)
        assert await listed(store, Orphans(), None, 9) == []
        await make(store, c.PurgeNode(JOBS), add("new", headers=asks))
        found = {one.id: one for one in await listed(store, Orphans(), None, 9)}
        assert sorted(found) == ["a", "b", "c", "dead"]
        asked = Orphan(locked.seq, ItemId("a"), locked.publisher, asks, 1, 0)
        assert {one for one in found.values() if one.headers} == {asked}
        assert len(await listed(store, Orphans(), None, 3)) == 3
        await sweep(store, 2)
        assert await listed(store, Orphans(), None, 9) == []

    async def test_what_is_purged_is_no_longer_there_while_it_is_swept(self, store):
        await make(store, c.AddSubscription(window(ANN, 3)), *map(add, "ab"))
        await make(store, add("later", state=State.DELAYED, due=after(1)), add("old", expires=NOW))
        await lock(store, "a", token=7)
        await make(store, c.PurgeNode(JOBS), add("a", payload=b"<new/>"), add("c"))
        again = await lock(store, "c", token=8)
        for _ in range(3):
            assert [row.id for row, _ in await store.batch(lambda tx: contents(tx, JOBS))] == [
                "a",
                "c",
            ]
            assert await ready(store) == ("a", "")
            assert (await load(store, held={ANN})).items == [again]
            due = await store.batch(lambda tx: tx.due(after(9_999), 99))
            assert due == Due([again], [], [], [], [])
            assert await store.batch(recount) == []
            await sweep_once(store, 1)
        await sweep(store, 1)
        await make(store, c.PurgeNode(JOBS), add("b"))
        await sweep(store, 1)
        assert await ready(store) == ("b", "")
