"""What every store promises about registrations: rows by name with all that is in them, guarded by their revision, and pages of them."""

from __future__ import annotations

import pytest
from harness.batches.facts import NOW, after
from harness.stores.rows import needs_of, writes_of
from msgspec.structs import replace
from stores.steps import listed

from pubqueue.engine.listings import RegistrationsOf
from pubqueue.engine.ports import StaleError
from pubqueue.engine.rows import REGISTRATIONS, Write
from pubqueue.model.entities import Jid, NodeName
from pubqueue.model.records import Registration

ANN, BOB = Jid("ann@queue.example"), Jid("bob@queue.example")
JOBS, NEWS = NodeName("jobs"), NodeName("news ä/%")
PLAIN = Registration("a", ANN, JOBS, queueing=True, words=b"{}", revision=1)
FULL = Registration(
    name="Z ä",
    account=BOB,
    node=NEWS,
    queueing=False,
    words=bytes(range(256)),
    disabled=True,
    failures=2**40,
    error="status 500 \N{EURO SIGN}",
    position=2**62,
    following="id\nhttps://hooks.example/once/1",
    runner="one@1",
    until=after(3),
    revision=2**40,
)


async def write(store, *pairs):
    writes = [Write(before, now) for before, now in pairs]
    await store.batch(lambda tx: tx.write(writes_of(NOW, registrations=writes)))


async def there(store, *names):
    needs = needs_of(registrations=set(names))
    found = await store.batch(lambda tx: tx.load(needs).of[REGISTRATIONS])
    return sorted(found, key=lambda row: row.name)


async def names(store, account=None, node=None, behind="", limit=99):
    found = await listed(store, RegistrationsOf(account, node), behind, limit)
    return [row.name for row in found]


class OfRegistrations:
    """Part of the contract."""

    async def test_a_registration_is_kept_with_all_that_is_in_it(self, store):
        await write(store, (None, PLAIN), (None, FULL))
        assert await there(store, "a", FULL.name, "none") == [FULL, PLAIN]
        changed = replace(
            FULL, queueing=True, words=b"", disabled=False, error="", revision=FULL.revision + 1
        )
        await write(store, (FULL, changed), (PLAIN, None))
        assert await there(store, "a", FULL.name) == [changed]
        await write(store, (changed, None))
        assert await there(store, FULL.name) == []

    async def test_registrations_are_listed_by_name_of_an_account_and_a_node(self, store):
        rows = (("c", ANN, JOBS), ("a", ANN, NEWS), ("b", BOB, JOBS), ("B", ANN, JOBS))
        made = [Registration(*row, queueing=True, words=b"{}", revision=1) for row in rows]
        await write(store, *((None, row) for row in made))
        assert await names(store) == ["B", "a", "b", "c"]
        assert await names(store, account=ANN) == ["B", "a", "c"]
        assert await names(store, node=JOBS) == ["B", "b", "c"]
        assert await names(store, account=ANN, node=JOBS) == ["B", "c"]
        assert await names(store, account=BOB, node=NEWS) == []

    async def test_pages_of_registrations_follow_each_other_without_gap_or_repetition(self, store):
        rows = [replace(PLAIN, name=f"{number:02}") for number in range(7)]
        await write(store, *((None, row) for row in rows))
        found, behind = [], ""
        while page := await names(store, ANN, behind=behind, limit=3):
            assert len(page) <= 3
            found += page
            behind = page[-1]
        assert found == [row.name for row in rows]

    @pytest.mark.parametrize("later", [None, replace(PLAIN, error="mine", revision=2)])
    async def test_an_older_revision_changes_nothing(self, store, later):
        await write(store, (None, PLAIN))
        theirs = replace(PLAIN, runner="two@1", until=after(9), revision=2)
        await write(store, (PLAIN, theirs))
        with pytest.raises(StaleError):
            await write(store, (PLAIN, later))
        assert await there(store, "a") == [theirs]

    async def test_one_that_has_ended_is_not_changed(self, store):
        await write(store, (None, PLAIN))
        await write(store, (PLAIN, None))
        with pytest.raises(StaleError):
            await write(store, (PLAIN, replace(PLAIN, revision=2)))
        assert await there(store, "a") == []

    async def test_a_name_is_there_once(self, store):
        await write(store, (None, PLAIN))
        with pytest.raises(StaleError):
            await write(store, (None, replace(PLAIN, account=BOB)))
        assert await there(store, "a") == [PLAIN]

    async def test_nothing_of_a_batch_that_fails_is_kept(self, store):
        await write(store, (None, PLAIN))
        stale = replace(PLAIN, revision=8)
        with pytest.raises(StaleError):
            await write(store, (None, FULL), (stale, None))
        assert await there(store, "a", FULL.name) == [PLAIN]
