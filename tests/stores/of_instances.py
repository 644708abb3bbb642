"""What a store promises about the processes that serve from it."""

import asyncio

import pytest
from harness.patience import TIMEOUT

from pubqueue.engine.ports import FencedError, Instance
from pubqueue.stores.postgres import instances as of_postgres
from pubqueue.stores.sql import columns
from pubqueue.stores.sqlite import instances as of_sqlite
from pubqueue.stores.sqlite.in_memory import MemoryStore


async def died(instances):
    """Return whose number is free without their having left: a database may notice a moment later that they are gone."""
    async with asyncio.timeout(TIMEOUT):
        while not (found := await instances.abandoned()):
            pass
    return found


async def taken_from(number, instances):
    """Return as what one enters that takes this number from one that died; that too may take a moment."""
    async with asyncio.timeout(TIMEOUT):
        while (entered := await instances.enter()).number != number:
            await instances.leave(entered.number)
    return entered


def counts(tx):
    return tx.number("item", 1)


async def silence(store, monkeypatch):
    """Have this process count as one that has said nothing for the length of a lease."""
    for module in (columns, of_postgres, of_sqlite):
        monkeypatch.setattr(module, "LEASE", 0.0)
    if isinstance(store, MemoryStore):
        store.instances.take_away()
    else:
        await store.instances.renew()


class OfInstances:
    """Each has a number of its own, until it leaves or dies; of those that died somebody learns once."""

    @pytest.fixture
    async def two_stores(self, store, make_store):
        """Two stores at one place, as two processes have them."""
        other = make_store()
        await other.open()
        yield store, other
        for one in (store, other):
            await one.close()
        await store.open()

    async def test_an_instance_does_not_take_over_its_own_lost_number(
        self, two_stores, monkeypatch
    ):
        one, _ = two_stores
        await one.instances.enter()
        await silence(one, monkeypatch)
        try:
            found = await one.instances.abandoned()
        except FencedError:
            found = []
        assert found == []

    async def test_each_process_has_a_number_of_its_own(self, two_stores):
        one, other = two_stores
        assert (await one.instances.enter(), await other.instances.enter()) == (
            Instance(0),
            Instance(1),
        )
        assert (await one.instances.abandoned(), await other.instances.abandoned()) == ([], [])

    async def test_an_instance_that_leaves_frees_its_number(self, two_stores):
        one, other = two_stores
        for _ in range(2):
            assert await one.instances.enter() == Instance(0)
            await one.instances.leave(0)
        assert await other.instances.enter() == Instance(0)
        assert await one.instances.abandoned() == []

    async def test_an_instance_that_closes_without_leaving_counts_as_dead(self, two_stores):
        one, other = two_stores
        await one.instances.enter()
        await other.instances.enter()
        await other.close()
        assert await died(one.instances) == [1]
        assert await one.instances.abandoned() == []
        await one.instances.leave(1)
        await other.open()
        assert await other.instances.enter() == Instance(1)

    async def test_the_next_process_takes_the_number_of_one_that_died(self, two_stores):
        one, other = two_stores
        await one.instances.enter()
        await one.close()
        assert await taken_from(0, other.instances) == Instance(0, died=True)
        assert await other.instances.abandoned() == []

    async def test_an_instance_without_news_goes_on_when_the_time_is_over(self, two_stores):
        for one in two_stores:
            await one.instances.enter()
            for _ in range(2):  # a connection that is new may have missed a word
                await one.instances.wait_for_change(0)

    async def test_a_number_that_is_not_ours_is_not_given_back(self, two_stores):
        one, other = two_stores
        await one.instances.enter()
        await other.instances.leave(0)
        assert await other.instances.enter() == Instance(1)

    async def test_an_instance_that_lost_its_number_commits_nothing_and_enters_again(
        self, two_stores, monkeypatch
    ):
        one, other = two_stores
        await one.instances.enter()
        await one.instances.renew()
        before = await one.batch(counts)
        await other.instances.enter()
        await silence(one, monkeypatch)
        assert await died(other.instances) == [0]
        for left in (False, True):  # while another speaks for it, and after that
            with pytest.raises(FencedError):
                await one.batch(counts)
            await other.instances.leave(0) if not left else None
        with pytest.raises(FencedError):
            await one.instances.renew()
        assert await other.batch(counts) == before + 1, "nothing was committed in between"
        await one.close()
        await one.open()
        assert (await one.instances.enter()).number == 0
        assert await one.batch(counts) == before + 2

    async def test_a_live_instance_keeps_its_number(self, two_stores):
        one, other = two_stores
        await one.instances.enter()
        await other.instances.enter()
        for _ in range(3):
            assert (await one.instances.abandoned(), await other.instances.abandoned()) == ([], [])
            await one.instances.renew()
            await one.batch(counts)

    async def test_an_instance_that_acts_for_another_is_fenced_itself_when_it_falls_silent(
        self, two_stores, monkeypatch
    ):
        one, other = two_stores
        await one.instances.enter()
        await other.instances.enter()
        await one.close()
        assert await died(other.instances) == [0]
        await one.open()
        assert (await one.instances.enter()).number == 2, "the first is spoken for"
        await silence(other, monkeypatch)
        assert await died(one.instances) in ([0, 1], [1])
        with pytest.raises(FencedError):
            await other.batch(counts)
        await other.instances.leave(0)
