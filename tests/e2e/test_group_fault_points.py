"""The component is killed between any two steps of a batch while items of groups are worked on, on both stores.

Nothing is lost; of each group one item is in work at a time, and they are done in the order of their publish.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from e2e.test_fault_points import ETL, ITEMS, NODE, Trade, reported, trading
from harness.patience import TIMEOUT
from harness.processes import doomed
from harness.processes.killed_lives import killed_lives
from harness.processes.program import Program, write_config

GROUPS = 4


def group_of(item):
    return int(item.removeprefix("i")) % GROUPS


class GroupTrade(Trade):
    """What is published is of one of some groups; `worked` are those of each group that were handed out, in their order."""

    def __init__(self, server):
        super().__init__(server)
        self.worked = {group: [] for group in range(GROUPS)}

    async def retract(self, item):
        seen = self.worked[group_of(item)]
        if item not in seen:
            seen.append(item)
        assert seen == [name for name in ITEMS if group_of(name) == group_of(item)][: len(seen)]
        await super().retract(item)

    async def _publish_next(self):
        for item in self._to_publish:
            job = f"<job xmlns='urn:example:work'>{item}</job>"
            publish = f"<publish node='jobs'><item id='{item}'>{job}</item></publish>"
            meta = f"<meta xmlns='urn:x-pubqueue:0' group='customer-{group_of(item)}'/>"
            await self.ask(ETL, f"published {item}", publish + meta)
            return


def in_work(kept):
    """Return how many items of each group are locked."""
    return Counter(group_of(row[0]) for row in kept.locks() if row[1] == "locked")


@pytest.mark.parametrize("point", doomed.POINTS)
async def test_killed_there_groups_keep_their_order_and_their_limit(point, tmp_path, kept):
    async with trading(GroupTrade) as (server, trade):
        config = write_config(tmp_path, server, NODE, store=kept.address)
        async for _ in killed_lives(config, server, point, (5, 12), trade.begin):
            killed = kept.recount()
            assert killed.wrong == ()
            assert trade.lost(killed.of("jobs")) == set()
            assert trade.came_back(killed.of("jobs")) == set()
            assert await kept.replayed() == reported(killed.of("jobs"))
            assert set(in_work(kept).values()) <= {1}

        async with Program(config):
            await server.reconnected(2)
            await trade.begin()
            await asyncio.wait_for(trade.done.wait(), TIMEOUT)
    ended = kept.recount()
    assert (ended.items, ended.wrong) == ({}, ())
    assert trade.worked == {
        group: [item for item in ITEMS if group_of(item) == group] for group in range(GROUPS)
    }
