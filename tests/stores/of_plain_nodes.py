"""What every store promises about nodes that are to be trimmed, that have moved, and about pages of them backward and by type."""

from __future__ import annotations

from operator import attrgetter

from harness.facts import ANN, BOB, JOBS, window
from harness.store_contents import everything
from msgspec.structs import replace
from stores.steps import ANN_ACCOUNT, DEAD, EMPTY, add, listed, make, sweep

from pubqueue.app.listings import (
    AffiliationsOf,
    Backward,
    ItemIds,
    Items,
    MovedTo,
    Nodes,
    NodesOfAccount,
    SubscriptionsOfAccount,
    Total,
    Trims,
)
from pubqueue.core import changes as c
from pubqueue.core.addresses import account_of
from pubqueue.core.model import AccessModel, Affiliation, Jid, NodeName

OTHER = NodeName("zoo")
THERE, ELSEWHERE = "xmpp:a@b?;node=c", "https://example.org/ä&b"


class OfPlainNodes:
    """To be inherited by the test class of a store."""

    async def test_nodes_to_be_trimmed_are_known_until_they_have_been_or_go(self, store):
        other = replace(EMPTY, name=DEAD)
        await make(store, c.CreateNode(other), c.BeginTrim(JOBS), c.BeginTrim(DEAD))
        await make(store, c.BeginTrim(JOBS))
        assert await listed(store, Trims()) == [JOBS, DEAD]
        assert await listed(store, Trims(), JOBS) == [DEAD]
        await make(store, c.EndTrim(JOBS), c.EndTrim(JOBS))
        assert await listed(store, Trims()) == [DEAD]
        await make(store, c.DeleteNode(DEAD))
        assert await listed(store, Trims()) == []

    async def test_where_a_deleted_node_has_moved_is_known_until_there_is_one_of_its_name(
        self, store
    ):
        assert await listed(store, MovedTo(JOBS)) == []
        await make(store, c.DeleteNode(JOBS, uri=THERE))
        assert await listed(store, MovedTo(JOBS)) == [THERE]
        assert await listed(store, MovedTo(DEAD)) == []
        await sweep(store, 9)
        assert await listed(store, MovedTo(JOBS)) == [THERE]
        await make(store, c.CreateNode(EMPTY))
        assert await listed(store, MovedTo(JOBS)) == []
        await make(store, c.DeleteNode(JOBS, uri=ELSEWHERE))
        assert await listed(store, MovedTo(JOBS)) == [ELSEWHERE]
        await make(store, c.CreateNode(EMPTY), c.DeleteNode(JOBS))
        assert await listed(store, MovedTo(JOBS)) == []
        assert await store.batch(everything) == []

    async def test_what_is_paged_forward_is_paged_backward(self, store):
        for name in (DEAD, OTHER):
            await make(store, c.CreateNode(replace(EMPTY, name=name)))
        for node in (JOBS, DEAD, OTHER):
            for account in (ANN_ACCOUNT, account_of(BOB)):
                await make(store, c.SetAffiliation(node, account, Affiliation.MEMBER))
            for jid in (ANN, BOB, Jid(f"{ANN_ACCOUNT}/2")):
                await make(store, c.AddSubscription(window(jid, node=node, subid=f"{node}{jid}")))
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
        kinds = {"a": "urn:x", "b": "", "c": "urn:y", "d": "urn:x"}
        for name, kind in kinds.items():
            config = replace(EMPTY.config, type=kind, access_model=AccessModel.OPEN)
            node = replace(EMPTY, name=NodeName(name), config=config)
            await make(store, c.CreateNode(node))
            await make(store, c.SetAffiliation(node.name, ANN_ACCOUNT, Affiliation.MEMBER))
        await make(store, c.DeleteNode(JOBS))
        for which, names in (
            (Nodes(AccessModel.OPEN, "urn:x"), "ad"),
            (Nodes(AccessModel.OPEN, ""), "b"),
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
