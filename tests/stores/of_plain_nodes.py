"""What every store promises about nodes that are to be trimmed, that have moved, and about pages of them backward and by type."""

from __future__ import annotations

from operator import attrgetter

from harness.batches.facts import ANN, BOB, JOBS, NOW, after, window
from harness.stores.rows import writes_of
from harness.stores.store_contents import everything
from msgspec.structs import replace
from stores.steps import ANN_ACCOUNT, DEAD, EMPTY, add, listed, make, sweep, write

from pubqueue.engine import rows
from pubqueue.engine.listings import (
    AffiliationsOf,
    Backward,
    ItemIds,
    Items,
    MovedTo,
    NewestItems,
    Nodes,
    NodesOfAccount,
    PlaceOf,
    Places,
    SubscriptionsOfAccount,
    Total,
    Trims,
)
from pubqueue.engine.rows import Needs, Write, Writes
from pubqueue.model import changes
from pubqueue.model.entities import (
    MAX_ID_LENGTH,
    AccessModel,
    Affiliation,
    Jid,
    Millis,
    NodeName,
    account_of,
)

OTHER = NodeName("zoo")
LONG_NAME = "".join(chr(0x4E00 + number) for number in range(MAX_ID_LENGTH))
"""A type of as many characters as one may have, which is three times as many bytes."""
THERE, ELSEWHERE = "xmpp:a@b?;node=c", "https://example.org/ä&b"


class OfPlainNodes:
    """To be inherited by the test class of a store."""

    async def test_nodes_to_be_trimmed_are_known_until_they_have_been_or_go(self, store):
        other = replace(EMPTY, name=DEAD)
        await make(
            store, changes.CreateNode(other), changes.BeginTrim(JOBS), changes.BeginTrim(DEAD)
        )
        await make(store, changes.BeginTrim(JOBS))
        assert await listed(store, Trims()) == [JOBS, DEAD]
        assert await listed(store, Trims(), JOBS) == [DEAD]
        await make(store, changes.EndTrim(JOBS), changes.EndTrim(JOBS))
        assert await listed(store, Trims()) == [DEAD]
        await make(store, changes.DeleteNode(DEAD))
        assert await listed(store, Trims()) == []

    async def test_where_a_deleted_node_has_moved_is_known_until_there_is_one_of_its_name(
        self, store
    ):
        assert await listed(store, MovedTo(JOBS)) == []
        await make(store, changes.DeleteNode(JOBS, uri=THERE))
        assert await listed(store, MovedTo(JOBS)) == [THERE]
        assert await listed(store, MovedTo(DEAD)) == []
        await sweep(store, 9)
        assert await listed(store, MovedTo(JOBS)) == [THERE]
        await make(store, changes.CreateNode(EMPTY))
        assert await listed(store, MovedTo(JOBS)) == []
        await make(store, changes.DeleteNode(JOBS, uri=ELSEWHERE))
        assert await listed(store, MovedTo(JOBS)) == [ELSEWHERE]
        await make(store, changes.CreateNode(EMPTY), changes.DeleteNode(JOBS))
        assert await listed(store, MovedTo(JOBS)) == []
        assert await store.batch(everything) == []

    async def test_where_nodes_are_is_kept_of_the_last_ones_and_for_a_time(
        self, store, monkeypatch
    ):
        monkeypatch.setattr(rows, "MAX_MOVED", 3)

        async def kept(names):
            found = [await listed(store, MovedTo(NodeName(name))) for name in names]
            return [name for name, there in zip(names, found, strict=True) if there]

        async def notes(name, at):
            writes = Writes(at, moved={NodeName(name): THERE})
            await store.batch(lambda tx: tx.write(writes))

        for number, name in enumerate("abcd"):
            await notes(name, after(number))
        assert await kept("abcd") == ["b", "c", "d"]
        await notes("e", Millis(after(2) + rows.MOVED_FOR + 1))
        assert await kept("abcde") == ["d", "e"]

    async def test_what_is_paged_forward_is_paged_backward(self, store):
        for name in (DEAD, OTHER):
            await make(store, changes.CreateNode(replace(EMPTY, name=name)))
        for node in (JOBS, DEAD, OTHER):
            for account in (ANN_ACCOUNT, account_of(BOB)):
                await make(store, changes.SetAffiliation(node, account, Affiliation.MEMBER))
            for jid in (ANN, BOB, Jid(f"{ANN_ACCOUNT}/2")):
                await make(
                    store, changes.AddSubscription(window(jid, node=node, subid=f"{node}{jid}"))
                )
        await make(store, *map(add, ("i0", "i1", "i2", "i3")))
        for listing, place in (
            (Nodes(), attrgetter("name")),
            (Nodes(AccessModel.OPEN), attrgetter("name")),
            (NodesOfAccount(ANN_ACCOUNT), lambda row: row[0].name),
            (AffiliationsOf(JOBS), attrgetter("account")),
            (SubscriptionsOfAccount(ANN_ACCOUNT), attrgetter("node", "jid")),
            (SubscriptionsOfAccount(ANN_ACCOUNT, JOBS), attrgetter("node", "jid")),
        ):
            rows = await listed(store, listing)
            assert len(rows) > 1
            assert await listed(store, Backward(listing)) == rows[::-1]
            assert await listed(store, Backward(listing), place(rows[1])) == rows[:1]
            assert await listed(store, Backward(listing), place(rows[0])) == []
        numbers = [item.seq for item, _ in await listed(store, Items(JOBS))]
        assert await listed(store, Backward(ItemIds(JOBS))) == ["i3", "i2", "i1", "i0"]
        assert await listed(store, Backward(ItemIds(JOBS)), numbers[2]) == ["i1", "i0"]

    async def test_nodes_are_found_by_the_type_of_their_payloads(self, store):
        kinds = {"a": "urn:x", "b": "", "c": LONG_NAME, "d": "urn:x"}
        for name, kind in kinds.items():
            config = replace(EMPTY.config, type=kind, access_model=AccessModel.OPEN)
            node = replace(EMPTY, name=NodeName(name), config=config)
            await make(store, changes.CreateNode(node))
            await make(store, changes.SetAffiliation(node.name, ANN_ACCOUNT, Affiliation.MEMBER))
        await make(store, changes.DeleteNode(JOBS))
        for which, names in (
            (Nodes(AccessModel.OPEN, "urn:x"), "ad"),
            (Nodes(AccessModel.OPEN, ""), "b"),
            (Nodes(AccessModel.OPEN, LONG_NAME), "c"),
            (Nodes(AccessModel.WHITELIST, "urn:x"), ""),
            (Nodes(AccessModel.OPEN, but=("urn:x", "urn:z")), "bc"),
            (Nodes(AccessModel.OPEN, but=("",)), "acd"),
            (NodesOfAccount(ANN_ACCOUNT, types=("urn:x", "")), "abd"),
            (NodesOfAccount(ANN_ACCOUNT, but=("urn:x",)), "bc"),
        ):
            mine = isinstance(which, NodesOfAccount)
            for listing, expected in ((which, names), (Backward(which), names[::-1])):
                found = await listed(store, listing)
                assert "".join((row[0] if mine else row).name for row in found) == expected
            assert await listed(store, Total(which)) == [len(names)]

    async def test_items_are_read_in_the_order_of_their_creation_and_of_their_modification(
        self, store
    ):
        """XEP-0413: what overwrites an item has its place among the created ones."""
        await make(store, *map(add, ("a", "b", "c", "d")))
        for name in ("c", "a", "c", "a"):
            await overwrite(store, name)
        names = {item.seq: item.id for item, _ in await listed(store, Items(JOBS))}

        async def read(*, created, backward, after=None):
            rows = await listed(store, Places(JOBS, created, backward), after)
            return "".join(names[seq] for _, seq in rows), rows

        assert (await read(created=True, backward=False))[0] == "abcd"
        assert (await read(created=True, backward=True))[0] == "dcba"
        assert (await read(created=False, backward=False))[0] == "bdca"
        assert (await read(created=False, backward=True))[0] == "acdb"
        _, rows = await read(created=True, backward=False)
        for place, seq in rows:
            assert await listed(store, PlaceOf(seq)) == [place]
        assert (await read(created=True, backward=False, after=rows[1][0]))[0] == "cd"
        assert (await read(created=True, backward=True, after=rows[2][0]))[0] == "ba"
        assert (await read(created=True, backward=False, after=rows[3][0]))[0] == ""

    async def test_places_go_with_their_items(self, store):
        await make(store, *map(add, ("a", "b")))
        await overwrite(store, "a")
        await overwrite(store, "b")
        (item, _), _ = await listed(store, Items(JOBS))
        await write(store, items=[Write(item, None)], placeless=[item.seq])
        assert len(await listed(store, Places(JOBS, created=True))) == 1
        (node,) = (await store.batch(lambda tx: tx.load(Needs(nodes={JOBS})))).nodes
        await make(store, changes.PurgeNode(JOBS), changes.DeleteNode(node.name))
        await sweep(store, 9)
        await sweep(store, 9)
        assert await store.batch(everything) == []


async def overwrite(store, name):
    """Let another item of this name take the place of the one that is there."""
    (found,) = [item for item, _ in await listed(store, Items(JOBS)) if item.id == name]

    def job(tx):
        come = replace(found, seq=tx.number("item", 1))
        rows = {
            "overwritten": [(JOBS, found.seq, come.seq)],
            "placeless": [found.seq],
            "items": [Write(found, None), Write(None, come)],
            "payloads": {come.seq: b"<job/>"},
        }
        tx.write(writes_of(NOW, **rows))

    await store.batch(job)

    async def test_the_newest_items_of_nodes_are_known_in_one_statement(self, store):
        await make(store, changes.CreateNode(replace(EMPTY, name=DEAD)))
        await make(store, changes.CreateNode(replace(EMPTY, name=OTHER)))
        await make(store, add("a"), add("x", node=DEAD), add("b"))
        names = DEAD, OTHER, NodeName("none"), JOBS
        found = await listed(store, NewestItems(names))
        assert {name for name, _ in found} == {DEAD, JOBS}
        assert dict(found)[JOBS] > dict(found)[DEAD] > 0
        assert await listed(store, NewestItems(())) == []
