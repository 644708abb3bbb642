"""Processes on one PostgreSQL: each hears at once when another has written, whatever becomes of its connection; and what they have noted of their last batches."""

import asyncio
from contextlib import asynccontextmanager, closing

import psycopg
import pytest
from harness.batches.facts import ANN
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.batches.witness import WatchedFace
from harness.databases.postgres import SESSIONS
from harness.patience import TIMEOUT
from harness.stores.store_reader import StoreReader
from msgspec.structs import replace
from stores.of_instances import died
from stores.steps import EMPTY, add, ids, make

from pubqueue.engine import reaper
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms, now
from pubqueue.engine.ports import FencedError, Instance, StoreError
from pubqueue.engine.reaper import OtherProcesses
from pubqueue.model import changes as c
from pubqueue.model.entities import NodeName
from pubqueue.rules.access import CreationPolicy
from pubqueue.stores.postgres import instances, schema
from pubqueue.stores.postgres.connection import connected
from pubqueue.stores.postgres.store import PostgresStore
from pubqueue.stores.sql import columns
from pubqueue.stores.sql.session import scripts

EVER = 3600.0


@asynccontextmanager
async def serving(postgres):
    """A store whose process counts among those that serve, and has heard what there was to hear."""
    store = PostgresStore(postgres.address)
    await store.open()
    await store.instances.enter()
    await store.instances.wait_for_change(0)
    yield store
    await store.close()


@pytest.fixture
async def one(postgres):
    async with serving(postgres) as store:
        await make(store, c.CreateNode(EMPTY))
        yield store


@pytest.fixture
async def other(one, postgres):
    async with serving(postgres) as store:
        yield store


async def hears(store):
    async with asyncio.timeout(TIMEOUT):
        await store.instances.wait_for_change(EVER)


async def test_a_commit_wakes_those_who_serve_beside_it(one, other):
    hearing = asyncio.create_task(hears(other))
    await make(one, add("a"))
    await hearing
    await make(one, add("b"))
    await hears(other)


async def test_a_read_or_an_undone_write_wakes_no_instance_and_none_wakes_itself(
    one, other, postgres
):
    await make(other, add("mine"))
    await one.batch(lambda tx: tx.number("item", 0))
    with pytest.raises(ZeroDivisionError):
        await one.batch(lambda tx: tx.number("item", 1) / 0)
    assert await heard_by(other, postgres) == []


async def test_an_instance_that_serves_alone_notifies_no_other(one, postgres):
    with postgres.session() as listening:
        listening.execute("LISTEN pubqueue")
        await make(one, add("a"))
        async with serving(postgres):
            await make(one, add("b"))
        await one.instances.leave(0)
        assert said_so_far(listening, postgres) == [one.writer_id]


async def test_a_lost_connection_may_have_lost_a_word(one, other, postgres):
    hearing = asyncio.create_task(hears(other))
    postgres.ask(SESSIONS)
    await hearing
    assert await heard_by(other, postgres) == []
    await make(one, add("a"))
    await hears(other)


async def test_without_a_server_the_time_passes(other, postgres):
    await asyncio.to_thread(postgres.kill)
    await other.instances.wait_for_change(0)
    postgres.start()  # here: it ends with the thread that started it
    await hears(other)


def said_so_far(connection, postgres):
    """Return who has spoken and was not heard yet: notifications come in the order of the commits."""
    postgres.ask("NOTIFY pubqueue, 'the end'")
    words = connection.notifies(timeout=TIMEOUT)
    return list(iter(lambda: next(words).payload, "the end"))


async def heard_by(store, postgres):
    """Return who besides itself has spoken, and was not heard yet."""
    instances = store.instances
    said = await instances.line.run(lambda: said_so_far(instances.listens_on, postgres))
    return [name for name in said if name != store.writer_id]


@asynccontextmanager
async def process(postgres, *, connected):
    """A broker as a process has it, and what it says."""
    heard = asyncio.Queue()
    async with serving(postgres) as store:
        broker, watch = (
            Broker(
                store,
                Terms(CreationPolicy.ANYONE),
                clock=now,
            ),
            OtherProcesses(store),
        )
        face = WatchedFace(broker, Said(heard))
        broker.start()
        if connected:
            face.up()
        watch.start(broker)
        yield broker, heard
        await watch.stop()
        await broker.stop()


class Said:
    """Puts what is said into a queue."""

    def __init__(self, heard):
        self._heard = heard

    def extend(self, notices):
        for notice in notices:
            self._heard.put_nowait(notice)


async def test_what_one_cannot_hand_out_another_does_as_soon_as_it_is_committed(
    postgres, monkeypatch
):
    monkeypatch.setattr(reaper, "PROCESSES_PERIOD", EVER)
    async with (
        process(postgres, connected=False) as (cut_off, _),
        process(postgres, connected=True) as (_, heard),
    ):
        for request in (a_queue(), joins(ANN), publishes("a")):
            await cut_off.handle(request)
        async with asyncio.timeout(TIMEOUT):
            delivery = await heard.get()
        assert (delivery.to, delivery.item.id) == (ANN, "a")


# --- numbers, whatever becomes of connections -----------------------------------------------------


async def test_after_an_outage_no_instance_takes_the_number_of_a_live_one(one, other, postgres):
    postgres.ask(SESSIONS)
    for _ in range(3):
        assert (await other.instances.abandoned(), await one.instances.abandoned()) == ([], [])
        await make(one, add(f"item{_}"))
    assert locked(postgres) == {0, 1}


async def test_the_work_of_an_instance_that_dies_after_an_outage_is_taken_over(
    one, other, postgres, monkeypatch
):
    for module in (columns, instances):
        monkeypatch.setattr(module, "LEASE", 0.0)
    postgres.ask(SESSIONS)
    for store in (one, other):
        await store.instances.renew()
    await one.close()
    assert await other.instances.abandoned() == [0]


async def test_an_instance_that_was_cut_off_is_fenced_after_another_took_its_number(
    one, other, postgres
):
    postgres.ask(f"{SESSIONS} AND pid = {one.instances.listens_on.info.backend_pid}")
    assert await died(other.instances) == [0]
    with pytest.raises(FencedError, match="has taken the number 0"):
        await make(one, add("lost"))
    with pytest.raises(FencedError):
        await one.instances.renew()
    await one.close()
    await one.open()
    assert await one.instances.enter() == Instance(2)
    await make(one, add("kept"))
    assert await ids(one) == ["kept"]


async def test_a_suspended_machine_judges_no_instance_before_others_can_report(one, monkeypatch):
    time = [0.0]
    watch = columns.LeaseWatch(lambda: time[0])
    assert watch.may_judge, "at the start nothing was missed"
    for moment, judges in ((0, True), (2, True), (100, False), (109, False), (111, True)):
        time[0] = moment
        watch.touched()
        if moment == 100:
            assert not watch.may_judge
            for second in range(101, 109):
                time[0] = second
                watch.touched()
            time[0] = 109
            watch.touched()
        assert watch.may_judge is judges, moment
    time[0] = 120
    assert not watch.may_judge, "nor who has not said a word for long"


@pytest.mark.parametrize("until", ["now() + interval '1 hour'", "now()"])
async def test_a_copy_waits_for_leases_and_fences_instances_that_return(
    one, postgres, monkeypatch, until
):
    monkeypatch.setattr(instances, "TIMEOUT", 0.1)
    monkeypatch.setattr(instances, "LEASE", 0.1)
    postgres.ask(f"{SESSIONS} AND pid = {one.instances.listens_on.info.backend_pid}")
    postgres.ask(f"UPDATE pubqueue.instance SET until = {until}")
    with closing(connected(one.conninfo)) as connection:
        schema.configure(connection)
        if until == "now()":
            instances.have_alone(connection, "it")
        else:
            with pytest.raises(StoreError, match="it: a process serves from it; stop it first"):
                instances.have_alone(connection, "it")
            return
    with pytest.raises(FencedError):
        await make(one, add("late"))


def locked(postgres):
    """Return the numbers of those whose epoch is locked."""
    with postgres.session() as asking:
        rows = asking.execute(
            instances.OTHERS.replace("$1", str(schema.LOCK)).replace(
                "instance", "pubqueue.instance"
            )
        ).fetchall()
    return {number for number, _, _, is_gone in rows if not is_gone}


def test_a_store_has_leases_from_the_migration_on_that_makes_them():
    steps = scripts("pubqueue.stores.postgres")
    assert "instance ADD COLUMN until" in steps[schema.OF_LEASES - 1]


IDS = "SELECT id FROM pubqueue.writer"


@asynccontextmanager
async def opened(postgres):
    store = PostgresStore(postgres.address)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def store(postgres):
    async with opened(postgres) as store:
        await make(store, c.CreateNode(EMPTY))
        yield store


async def test_the_last_batch_of_a_process_long_gone_is_forgotten(store, postgres):
    postgres.ask(
        "INSERT INTO pubqueue.writer VALUES ('gone', 7, now() - interval '31 days'), "
        "('quiet', 7, now() - interval '29 days')"
    )
    async with opened(postgres):
        assert set(postgres.ask(IDS)) == {("quiet",), (store.writer_id,)}


async def test_the_batch_of_another_is_not_waited_for(store, postgres):
    postgres.ask("INSERT INTO pubqueue.writer VALUES ('gone', 7, now() - interval '31 days')")
    with postgres.session() as writing:
        writing.execute("SELECT pg_advisory_lock(%s)", (schema.LOCK,))
        async with opened(postgres):
            assert set(postgres.ask(IDS)) == {("gone",), (store.writer_id,)}


async def test_a_batch_whose_note_is_gone_is_not_reported_as_undone(store, postgres):
    postgres.ask("DELETE FROM pubqueue.writer")
    line = store.line
    with pytest.raises(StoreError, match="nobody knows any more"):
        await line.run(lambda: store.is_committed(line, RuntimeError("cut")))


BUSY = "cannot exit pipeline mode while busy"
"""How libpq can report that the server ends, on a connection that is not closed yet."""
OTHER = replace(EMPTY, name=NodeName("other"))


async def is_there(store):
    return await store.read(lambda tx: StoreReader(tx).node(OTHER.name)) is not None


async def test_a_commit_that_was_carried_out_is_one_however_its_answer_failed(store, monkeypatch):
    leave, failed = psycopg.Pipeline.__exit__, []

    def fails_once(self, *problem):
        leave(self, *problem)
        if not failed:
            failed.append(self)
            raise psycopg.OperationalError(BUSY)

    monkeypatch.setattr(psycopg.Pipeline, "__exit__", fails_once)
    await make(store, c.CreateNode(OTHER))
    assert failed
    assert await is_there(store)


async def test_a_commit_that_did_not_reach_the_server_has_not_happened(store, monkeypatch):
    execute, failed = psycopg.Connection.execute, []

    def fails_once(self, query, *values, **options):
        if query == "COMMIT" and not failed:
            failed.append(self)
            raise psycopg.OperationalError(BUSY)
        return execute(self, query, *values, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", fails_once)
    with pytest.raises(StoreError, match=BUSY):
        await make(store, c.CreateNode(OTHER))
    assert failed
    assert not await is_there(store)
    await make(store, c.CreateNode(OTHER))
    assert await is_there(store)
