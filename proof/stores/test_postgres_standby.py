"""The PostgreSQL store with a standby: what is confirmed is on both, and `check` says when it need not be."""

import asyncio

import pytest
from harness.databases.postgres import Postgres
from harness.databases.standby import Standby, wait_for_standbys
from harness.patience import wait_until
from stores.steps import EMPTY, add, ids, make

from pubqueue.model import changes as c
from pubqueue.stores import run_read_only
from pubqueue.stores.postgres.store import PostgresStore

CANCEL = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
LAGGING = "the server has a standby and no synchronous_standby_names"
LOCAL = "the server has synchronous standbys and synchronous_commit local"
NOBODY = "the server has synchronous_standby_names and no standby is connected"


@pytest.fixture
def primary():
    with Postgres() as primary:
        yield primary


@pytest.fixture
def standby(primary):
    with Standby(primary) as standby:
        yield standby


@pytest.fixture
async def store(primary, standby):
    store = PostgresStore(primary.address)
    await store.open()
    await make(store, c.CreateNode(EMPTY), add("there"))
    yield store
    await store.close()


def reported(primary):
    """Return what is told of standbys, each sentence up to its colon."""
    said = [sentence.partition(":")[0] for sentence in run_read_only(primary.address, nothing).says]
    assert said.pop(0) == "the server has fsync off"  # as the tests have it
    return said


def nothing(_tx):
    """Ask for nothing."""


async def test_the_possible_losses_of_a_take_over_are_reported(primary, standby):
    store = PostgresStore(primary.address)
    await store.open()
    await store.close()
    assert reported(primary) == [LAGGING]
    wait_for_standbys(primary)
    assert reported(primary) == []
    primary.ask("ALTER ROLE queue SET synchronous_commit = local")
    assert reported(primary) == [LOCAL]
    primary.ask("ALTER ROLE queue RESET synchronous_commit")
    standby.kill()
    wait_until(lambda: primary.ask("SELECT count(*) FROM pg_stat_replication") == [(0,)])
    assert reported(primary) == [NOBODY]


async def test_a_commit_that_no_standby_has_is_not_confirmed(primary, standby, store):
    """Whoever cancels the wait for a standby has PostgreSQL answer COMMIT, with a warning."""
    wait_for_standbys(primary)
    await asyncio.to_thread(standby.kill)
    batch = asyncio.create_task(make(store, add("i1")))
    for _ in range(2):
        await asyncio.to_thread(wait_until, lambda: primary.ask(WAITING) == [(1,)])
        primary.ask(CANCEL)
    await asyncio.to_thread(wait_until, lambda: primary.ask(WAITING) == [(1,)])
    assert not batch.done()
    standby.start()  # here: it ends with the thread that started it
    await batch
    await asyncio.to_thread(primary.crash)
    standby.promote()
    standby.ask("ALTER SYSTEM RESET synchronous_standby_names")
    standby.ask("SELECT pg_reload_conf()")
    taken_over = PostgresStore(standby.address)
    await taken_over.open()
    assert await ids(taken_over) == ["there", "i1"]
    await taken_over.close()


async def test_a_restart_in_the_wait_for_a_standby_confirms_nothing(primary, standby, store):
    """The batch is in the primary's log, so after a restart it is there to be seen: it is on the standby all the same."""
    wait_for_standbys(primary)
    await asyncio.to_thread(standby.kill)
    batch = asyncio.create_task(make(store, add("i1")))
    await asyncio.to_thread(wait_until, lambda: primary.ask(WAITING) == [(1,)])
    await asyncio.to_thread(primary.kill)
    primary.start()  # here: it ends with the thread that started it
    await asyncio.to_thread(wait_until, lambda: primary.ask(WAITING) == [(1,)])
    assert not batch.done()
    standby.start()
    await batch
    assert await ids(store) == ["there", "i1"]
