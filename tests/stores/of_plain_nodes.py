"""What every store promises about nodes that are to be trimmed, and about those that have moved."""

from __future__ import annotations

from harness.facts import JOBS
from harness.store_contents import everything
from msgspec.structs import replace
from stores.steps import DEAD, EMPTY, listed, make, sweep

from pubqueue.app.listings import MovedTo, Trims
from pubqueue.core import changes as c

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
