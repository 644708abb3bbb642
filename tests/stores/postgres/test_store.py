"""The PostgreSQL store: the contract, how often a batch waits, and what PostgreSQL may do to it: nothing confirmed is lost, nobody is answered in doubt, it goes on by itself."""

import asyncio
import itertools
import re
import threading

import psycopg
import pytest
from harness.batches.facts import JOBS, NOW
from harness.batches.inside import postgres_connection_in, session_in
from harness.batches.queue_requests import a_queue, joins, publishes, retracts
from harness.batches.witness import WatchedFace
from harness.databases.postgres_wire import PostgresWire
from harness.stores.store_contents import everything, recount
from stores.contract import SharedStoreContract
from stores.of_kinds import OfKinds
from stores.of_relational import OfRelational
from stores.steps import EMPTY, add, do, ids, make

from pubqueue.engine import batch_size
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.listings import ItemIds, Nodes
from pubqueue.engine.ports import ForeignStoreError, StoreError, UnreachableStoreError
from pubqueue.model import changes as c
from pubqueue.model.decision import Refused
from pubqueue.model.entities import Jid
from pubqueue.model.notices import Deliver
from pubqueue.rules.access import CreationPolicy
from pubqueue.stores import run_read_only
from pubqueue.stores.postgres import schema
from pubqueue.stores.postgres.store import PostgresStore


class TestPostgres(SharedStoreContract, OfKinds, OfRelational):
    """The contract, in a database whose role may do nothing else."""

    @pytest.fixture
    def make_store(self, postgres):
        return lambda: PostgresStore(postgres.address)

    async def ask(self, store, statement):
        await store.batch(
            lambda tx: postgres_connection_in(tx).execute(statement.encode()) and None
        )


# --- schemas ---------------------------------------------------------------------------------------


@pytest.fixture
def database(postgres):
    """A database of its own, in which the role may make a schema."""
    postgres.ask("CREATE DATABASE other")
    postgres.ask("GRANT CREATE ON DATABASE other TO queue")
    yield postgres.address.replace("/queues", "/other")
    postgres.ask("DROP DATABASE other WITH (FORCE)")


def as_role(database, *statements):
    with psycopg.connect(database) as connection:
        for statement in statements:
            connection.execute(statement.encode())


OURS = "CREATE TABLE pubqueue.pubqueue (program text, schema integer)"


@pytest.mark.parametrize(
    ("statements", "sentence"),
    [
        (
            ["CREATE TABLE pubqueue.theirs (x int)"],
            "the schema pubqueue belongs to another program",
        ),
        (
            ["CREATE TABLE pubqueue.pubqueue (x int)"],
            "the schema pubqueue belongs to another program",
        ),
        (
            [OURS, "INSERT INTO pubqueue.pubqueue VALUES ('theirs', 1)"],
            "the schema pubqueue belongs to another program",
        ),
        (
            [OURS, "INSERT INTO pubqueue.pubqueue VALUES ('pubqueue', 999)"],
            "its schema is number 999, this program knows [0-9]+; use a newer one",
        ),
    ],
)
async def test_a_schema_that_is_not_ours_is_refused_in_one_sentence(database, statements, sentence):
    as_role(database, "CREATE SCHEMA pubqueue", *statements)
    store = PostgresStore(database)
    with pytest.raises(ForeignStoreError) as refused:
        await store.open()
    assert re.fullmatch(f"PostgreSQL: {sentence}", str(refused.value))
    with pytest.raises(StoreError, match="closed"):
        await store.batch(lambda tx: tx.page(Nodes()))
    as_role(database, "DROP SCHEMA pubqueue CASCADE")
    await store.open()  # once the place is good
    await store.close()


async def test_a_schema_that_may_not_be_made_is_refused_in_one_sentence(postgres, database):
    postgres.ask("REVOKE CREATE ON DATABASE other FROM queue")
    with pytest.raises(ForeignStoreError, match="the schema pubqueue cannot be made: permission"):
        await PostgresStore(database).open()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("/queues", "/none", 'database "none" does not exist'),
        ("queue@", "nobody@", 'role "nobody" does not exist'),
    ],
)
async def test_a_place_that_is_not_there_is_refused(postgres, old, new, sentence):
    with pytest.raises(ForeignStoreError, match=sentence):
        await PostgresStore(postgres.address.replace(old, new)).open()


async def test_a_server_that_fails_at_any_message_of_a_start_may_be_there_later(database, wire):
    """Whatever is being asked just then, also about poolers and for a number: a process that starts waits for it."""
    for _is_made in (False, True):
        store, failures = PostgresStore(wire.address(database)), []
        for wire.left in range(1000):
            try:
                await store.open()
                await store.instances.enter()
                break
            except ForeignStoreError as problem:
                failures.append(type(problem))
        assert len(failures) > 5
        assert set(failures) == {UnreachableStoreError}
        wire.left = None
        await store.close()


async def test_many_processes_may_make_the_schema_at_once(database):
    stores = [PostgresStore(database) for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    assert [await store.batch(lambda tx: tx.page(Nodes())) for store in stores] == [[]] * 6
    await asyncio.gather(*(store.close() for store in stores))


async def test_settings_that_lose_confirmed_work_are_reported(postgres):
    store = PostgresStore(postgres.address)
    await store.open()
    await store.close()

    def reported():
        said = run_read_only(postgres.address, lambda tx: tx.page(Nodes())).says
        return [sentence.partition(":")[0] for sentence in said]

    assert reported() == ["the server has fsync off"]  # as the tests have it
    postgres.ask("ALTER ROLE queue SET synchronous_commit = off")
    try:
        expected = ["the server has fsync off", "the server has synchronous_commit off"]
        assert reported() == expected
    finally:
        postgres.ask("ALTER ROLE queue RESET synchronous_commit")


async def test_what_is_confirmed_is_on_disk_under_any_setting_of_the_server(postgres):
    store = PostgresStore(postgres.address)
    postgres.ask("ALTER ROLE queue SET synchronous_commit = off")
    try:
        await store.open()
        setting = await store.batch(
            lambda tx: postgres_connection_in(tx).execute("SHOW synchronous_commit").fetchone()
        )
    finally:
        postgres.ask("ALTER ROLE queue RESET synchronous_commit")
        await store.close()
    assert setting == ("on",)


@pytest.fixture(autouse=True)
def _batches_by_number(monkeypatch):
    monkeypatch.setattr(
        batch_size, "LONG", 3600
    )  # counted, not timed: a slow batch makes the next one no smaller


MAX_COSTS = (7, 7)
"""Trips of a batch that publishes and hands out, and of one that retracts, when everything has to be read again."""
WORKERS = tuple(Jid(f"bot{number}@x/1") for number in range(4))


class Service:
    """A broker on a store at the other end of a wire."""

    def __init__(self, wire, store, broker, said):
        self.wire, self.store, self.broker, self.said = wire, store, broker, said

    async def trips(self, *requests):
        """Have them done in one batch; return how often the store waited, and what was delivered."""
        self.said.clear()
        before = self.wire.trips
        for request in requests:
            self.broker.submit(request, self.said.append)
        await self.broker.settled()
        assert not [reply for reply in self.said if isinstance(reply, Refused)]
        delivered = [each for each in self.said if isinstance(each, Deliver)]
        return self.wire.trips - before, delivered

    async def live(self, names, most, between=None):
        """Take items through their life in two batches, neither with more trips than that; on a busy machine two are seen as one."""
        publishing, delivered = await self.trips(*map(publishes, names))
        assert len(delivered) == len(names)
        if between:
            await between()
        retracting, _ = await self.trips(*(retracts(each.to, each.item.id) for each in delivered))
        assert (publishing <= most[0], retracting <= most[1]) == (True, True), (
            publishing,
            retracting,
        )


@pytest.fixture
async def start(postgres):
    running = []

    async def start():
        wire = await PostgresWire(postgres.port).__aenter__()
        store = PostgresStore(wire.address(postgres.address))
        await store.open()
        said = []
        broker = Broker(
            store,
            Terms(CreationPolicy.ANYONE),
            clock=lambda: NOW,
        )
        face = WatchedFace(broker, said)
        broker.start()
        face.up()
        await broker.settled()
        running.append(Service(wire, store, broker, said))
        return running[-1]

    yield start
    for service in running:
        await service.broker.stop()
        await service.store.close()
        await service.wire.__aexit__(None, None, None)


def named(letter, count):
    return [f"{letter}{number}" for number in range(count)]


@pytest.mark.parametrize("count", [1, 10, 100])
async def test_a_batch_waits_a_handful_of_times_whatever_its_size(start, count):
    service = await start()
    await service.trips(a_queue(), *(joins(jid, 50) for jid in WORKERS))
    await service.live(named("first", count), (4, 2))
    await service.live(named("usual", count), (3, 2))


@pytest.mark.parametrize("count", [1, 10, 100])
async def test_after_another_process_has_written_rows_are_asked_for_again_in_few_trips(
    start, count
):
    service, other = await start(), await start()
    await service.trips(a_queue(), *(joins(jid, 50) for jid in WORKERS))
    await service.live(named("first", count), (4, 2))

    numbers = itertools.count()

    async def elsewhere():
        await other.trips(publishes(f"elsewhere{next(numbers)}"))

    await elsewhere()
    await service.live(named("next", count), MAX_COSTS, between=elsewhere)


BACKENDS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pubqueue'"
)
WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"
NOBODY = 1
"""A port at which nobody is: for connections from now on the server has gone."""


@pytest.fixture
async def wire(postgres):
    async with PostgresWire(postgres.port) as wire:
        yield wire


@pytest.fixture
async def store(postgres, wire):
    store = PostgresStore(wire.address(postgres.address))
    await store.open()
    await make(store, c.CreateNode(EMPTY), add("there"))
    yield store
    await store.close()


async def someone_waits(postgres):
    """Return when somebody waits for a lock of the server."""

    def look():
        while postgres.ask(WAITING) == [(0,)]:
            pass

    await asyncio.to_thread(look)


def read(store):
    return store.read(lambda tx: tx.page(ItemIds(JOBS), None, 9))


# --- connections that are lost ---------------------------------------------------------------------


async def test_a_connection_lost_between_batches_is_replaced_silently(store, postgres):
    await read(store)
    for _ in range(2):
        postgres.ask(BACKENDS)
        await make(store, add(f"i{len(await ids(store))}"))
        postgres.ask(BACKENDS)
        assert (await read(store))[0] == "there"
    assert await ids(store) == ["there", "i1", "i2"]


async def test_a_connection_lost_in_a_batch_leaves_nothing_of_it(store, postgres):
    before = await store.batch(everything)

    def job(tx):
        do(tx, add("in-vain"))
        postgres.ask(BACKENDS)
        do(tx, add("too"))

    with pytest.raises(StoreError):
        await store.batch(job)
    assert await store.batch(everything) == before
    await make(store, add("next"))
    assert await ids(store) == ["there", "next"]


async def test_a_connection_lost_before_its_commit_leaves_nothing_of_the_batch(store, postgres):
    def job(tx):
        do(tx, add("in-vain"))
        postgres.ask(BACKENDS)

    with pytest.raises(StoreError):
        await store.batch(job)
    assert await ids(store) == ["there"]


async def test_a_connection_lost_while_reading_is_reported(store, postgres):
    def job(tx):
        postgres.ask(BACKENDS)
        return tx.page(Nodes())

    with pytest.raises(StoreError):
        await store.read(job)
    assert await read(store) == ["there"]


# --- the fate of a commit --------------------------------------------------------------------------


async def test_a_commit_that_was_made_is_answered_though_its_answer_was_lost(store, wire):
    wire.cut = "after"
    await make(store, add("i1"))
    assert wire.was_cut.is_set()
    assert await ids(store) == ["there", "i1"]
    assert not await store.batch(lambda tx: tx.foreign)
    assert not await store.changes()


async def test_a_commit_that_never_came_there_is_refused(store, wire):
    wire.cut = "before"
    with pytest.raises(StoreError):
        await make(store, add("in-vain"))
    assert wire.was_cut.is_set()
    assert await ids(store) == ["there"]
    assert await store.batch(recount) == []


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_lost_commit_of_one_who_only_reads_is_harmless(store, wire, moment):
    wire.cut = moment
    with pytest.raises(StoreError):
        await store.batch(lambda tx: tx.page(Nodes()))
    assert await ids(store) == ["there"]


@pytest.mark.parametrize(
    ("moment", "expected"), [("after", ["there", "i1"]), ("before", ["there"])]
)
async def test_no_request_is_answered_before_the_server_is_back(
    store, wire, postgres, moment, expected
):
    wire.cut = moment
    there, wire.beyond = wire.beyond, NOBODY
    batch = asyncio.create_task(make(store, add("i1")))
    await wire.was_cut.wait()
    await asyncio.to_thread(postgres.kill)
    assert not batch.done()
    postgres.start()  # here: it ends with the thread that started it
    wire.beyond = there
    if moment == "after":
        await batch
    else:
        with pytest.raises(StoreError):
            await batch
    assert await ids(store) == expected


async def test_a_store_that_was_closed_meanwhile_reports_an_unknown_outcome(store, wire, postgres):
    wire.cut, wire.beyond = "after", NOBODY
    batch = asyncio.create_task(make(store, add("i1")))
    await wire.was_cut.wait()
    await asyncio.to_thread(postgres.kill)
    closing = asyncio.create_task(store.close())
    with pytest.raises(StoreError, match="nobody knows whether a batch was committed"):
        await batch
    await closing
    postgres.start()  # here: it ends with the thread that started it


# --- a server that refuses -------------------------------------------------------------------------


async def test_a_lost_server_is_logged_and_found_again(store, postgres):
    await read(store)
    await asyncio.to_thread(postgres.stop)
    for ask in (store.changes, lambda: make(store, add("in-vain")), lambda: read(store)):
        with pytest.raises(StoreError):
            await ask()
    postgres.start()  # here: it ends with the thread that started it
    await make(store, add("next"))
    assert await read(store) == ["there", "next"]


async def test_too_many_connections_are_reported(store, postgres):
    postgres.ask("ALTER ROLE queue CONNECTION LIMIT 0")
    postgres.ask(BACKENDS)
    try:
        for ask in (lambda: make(store, add("in-vain")), lambda: read(store)):
            with pytest.raises(StoreError, match="too many connections"):
                await ask()
    finally:
        postgres.ask("ALTER ROLE queue CONNECTION LIMIT -1")
    await make(store, add("next"))
    assert await read(store) == ["there", "next"]


async def test_a_batch_waits_for_another_writer(store, postgres):
    with postgres.session() as other:
        other.execute("BEGIN")
        other.execute("SELECT pg_advisory_xact_lock(%s)", (schema.LOCK,))
        batch = asyncio.create_task(make(store, add("i1")))
        await someone_waits(postgres)
        assert await read(store) == ["there"]
        assert not batch.done()
        other.execute("COMMIT")
    await batch
    assert await ids(store) == ["there", "i1"]


@pytest.mark.parametrize(
    "lock", ["LOCK TABLE pubqueue.item", f"SELECT pg_advisory_xact_lock({schema.LOCK})"]
)
async def test_a_wait_for_the_lock_of_another_ends(store, postgres, monkeypatch, lock):
    monkeypatch.setattr(schema, "LOCK_TIMEOUT", 0.05)
    postgres.ask(BACKENDS)
    with postgres.session() as other:
        other.execute("BEGIN")
        other.execute(lock.encode())
        with pytest.raises(StoreError, match="lock timeout"):
            await make(store, add("in-vain"))
    await make(store, add("next"))
    assert await ids(store) == ["there", "next"]


async def test_a_cancelled_statement_undoes_its_batch(store, postgres):
    with postgres.session() as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE pubqueue.item")
        batch = asyncio.create_task(make(store, add("in-vain")))
        await someone_waits(postgres)
        postgres.ask(BACKENDS.replace("terminate", "cancel"))
        with pytest.raises(StoreError, match="cancel"):
            await batch
    assert await ids(store) == ["there"]


async def test_a_full_disk_leaves_nothing_of_the_batch(store, postgres):
    before = await store.batch(everything)
    postgres.ask(
        "CREATE FUNCTION pubqueue.full() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$"
    )
    postgres.ask(
        "CREATE TRIGGER full_disk BEFORE INSERT ON pubqueue.receipt EXECUTE FUNCTION pubqueue.full()"
    )
    try:
        with pytest.raises(StoreError, match="No space left"):
            await store.batch(fill)
    finally:
        postgres.ask("DROP FUNCTION pubqueue.full CASCADE")
    assert await store.batch(everything) == before
    await make(store, add("next"))


def fill(tx):
    do(tx, add("small"))
    session_in(tx).each("add_receipt", [(1, "ann@x/1")])


async def test_a_batch_whose_asker_has_gone_is_over_before_the_next(store):
    begun, go_on = threading.Event(), threading.Event()

    def slow(tx):
        begun.set()
        go_on.wait()
        do(tx, add("slow"))

    gone = asyncio.create_task(store.batch(slow))
    await asyncio.to_thread(begun.wait)
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    after_it = asyncio.create_task(ids(store))
    await read(store)
    go_on.set()
    assert await after_it == ["there", "slow"]


# --- passwords -------------------------------------------------------------------------------------


async def test_a_password_is_not_in_what_goes_wrong(postgres, wire, caplog):
    store = PostgresStore(wire.address(postgres.address.replace("@", ":pa55word@")))
    wire.beyond = NOBODY
    with pytest.raises(ForeignStoreError) as refused:
        await store.open()
    said = [str(refused.value), repr(refused.value.__cause__), repr(store), caplog.text]
    assert not any("pa55word" in text for text in said)
    assert str(refused.value).startswith("PostgreSQL: connection ")
    assert isinstance(refused.value.__cause__.__cause__, psycopg.OperationalError)
