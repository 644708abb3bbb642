"""A database of version 0.1.0 is brought to the schema of today: every row reads back, numbers go on."""

import asyncio
import sqlite3
from contextlib import closing

import pytest
from harness.batches.facts import ANN, BOB, ETL, JOBS, NOW, after
from harness.stores.rows import needs_of
from harness.stores.store_contents import recount
from msgspec import json
from msgspec.structs import replace
from stores.steps import make, sweep

from pubqueue.engine import listings
from pubqueue.engine.rows import (
    APPS,
    ATTEMPTS,
    FINISHED,
    STAGED,
    VERSIONS,
    WAITING,
    AffiliationRow,
    Finished,
    StagedKey,
    Write,
    Writes,
)
from pubqueue.model.changes import DeleteNode, PurgeNode
from pubqueue.model.entities import (
    Affiliation,
    DeadLetter,
    Item,
    ItemId,
    Jid,
    Node,
    NodeConfig,
    NodeFull,
    NodeName,
    State,
    Subscription,
    account_of,
)
from pubqueue.model.records import Event, EventKind, weight
from pubqueue.model.replies import EventEntry
from pubqueue.model.transactions import (
    App,
    Attempt,
    Record,
    StagedTotals,
    Totals,
    Version,
    key_of,
    name_of_transaction,
)
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.stores.sqlite.schema import APPLICATION_ID, migrations, split_statements

DEAD_LETTERS = NodeName("dead")
BOSS = Jid("boss@x")
OWNER = account_of(ETL)
CONFIG = NodeConfig(
    queueing=True,
    dead_letter_node=DEAD_LETTERS,
    dead_letter_meant=f"{NOW} {BOSS}",
    dedup_window=60,
    event_log=True,
)
NIGHTLY = key_of(OWNER, "nightly")
NODES = (
    Node(DEAD_LETTERS, NodeConfig(queueing=True), BOSS, NOW, 1, 0),
    Node(JOBS, CONFIG, BOSS, NOW, 6, 2),
)
IDS = {JOBS: 7, DEAD_LETTERS: 9}
WINDOWS = (
    Subscription(JOBS, BOB, "of-bob", 2, 1, 41, available=True, unanswered=0),
    Subscription(JOBS, ANN, "of-ann", 5, 0, 39, available=False, unanswered=2),
)


def item(seq, state=State.QUEUED, **facts):
    known = Item(seq, JOBS, ItemId(f"i{seq}"), state, ETL, NOW)
    return replace(known, **facts)


ITEMS = (
    item(3, headers=(("kind", "ä"), ("kind", "b")), expires=after(60), priority=4),
    item(5, transaction=("nightly", 1), acquired=1, token=39, avoid=ANN, released=1, taken=NOW),
    item(
        8, State.LOCKED, acquired=2, holder=BOB, deadline=after(30), token=41, failed=1, taken=NOW
    ),
    item(9, State.DELAYED, due=after(5), avoid=ANN, acquired=1, token=37, failed=1, taken=NOW),
    item(11, State.DELAYED, due=after(9), aside=True, avoid=BOB, acquired=1, token=36, taken=NOW),
    item(
        *(12, State.DEAD),
        acquired=3,
        failed=3,
        token=35,
        avoid=ANN,
        taken=NOW,
        dead_letter=DeadLetter(40, after(1), "no seat", None, ANN),
    ),
    item(
        *(14, State.QUEUED),
        node=DEAD_LETTERS,
        token=34,
        dead_letter=DeadLetter(42, after(2), "too late", JOBS, BOB),
    ),
)
RECEIPTS = [(5, ANN), (9, ANN), (11, BOB), (12, ANN)]


def payload(seq):
    return b"<job number='%d'/>" % seq


ITEMS = tuple(replace(one, size=weight(payload(one.seq), one.headers)) for one in ITEMS)
NODES = tuple(
    replace(node, bytes=sum(one.size for one in ITEMS if one.node == node.name)) for node in NODES
)
DONE = Finished(JOBS, ItemId("done"), b"\x01" * 16, after(60))
PEOPLE = (
    AffiliationRow(JOBS, BOSS, Affiliation.OWNER),
    AffiliationRow(JOBS, OWNER, Affiliation.PUBLISHER),
)
APP = App(NIGHTLY, OWNER, 1, NOW, NOW)
OPEN = Version(NIGHTLY, 2, OWNER, immediate=False, began=NOW, until=after(9), items=2, bytes=12)
ATTEMPT = Attempt(NIGHTLY, 2, 0, 3, 2, 12)
STAGED_KEYS = [StagedKey(NIGHTLY, 2, 0, 3, JOBS, ItemId(name)) for name in ("s1", "s2")]
AT_ONCE = Attempt(NIGHTLY, 3, 0, 0, 2, 12, known=1)
COMMITTED = Record(4, NIGHTLY, OWNER, 1, NOW, after(1), 5, 30, Totals(1, None, 0.5))
EVENT = Event(EventKind.PUBLISHED, JOBS, ItemId("i3"), 0, None, ETL, NOW)


def rows():
    """Yield each row of the old database, as (table, values)."""
    for node in NODES:
        config = replace(node.config, dead_letter_meant="")
        facts = json.encode(config).decode(), node.creator, node.created
        yield "node", (IDS[node.name], node.name, *facts, node.items, 0)
    for row in PEOPLE:
        yield "affiliation", (IDS[row.node], row.account, row.affiliation.value)
    for number, row in enumerate(WINDOWS, 1):
        who = number, IDS[row.node], row.jid, account_of(row.jid), row.subid, row.queue_requests
        yield "subscription", (*who, row.in_flight, row.last_served, row.available, row.unanswered)
    yield "resource", (4, BOB, account_of(BOB))
    for one in ITEMS:
        yield "item", columns(one)
    for receipt in RECEIPTS:
        yield "receipt", receipt
    yield "finished", (IDS[JOBS], DONE.id, DONE.digest, DONE.until)
    yield (
        "txn_app",
        (2, name_of_transaction(APP.name), APP.owner, APP.version, APP.committed, APP.used),
    )
    reported = COMMITTED.totals
    times = COMMITTED.began, COMMITTED.committed, COMMITTED.items, COMMITTED.bytes
    record = *times[:2], *times[2:], COMMITTED.committed
    yield (
        "txn",
        (4, 2, OWNER, 1, 0, *record, reported.skipped, reported.dead_lettered, reported.seconds),
    )
    facts = OPEN.began, OPEN.until, OPEN.items, OPEN.bytes
    yield "txn", (5, 2, OWNER, 2, 0, *facts, None, None, None, None)
    yield "attempt", (6, 5, 0, 3, 2, 12)
    for number, key in enumerate(STAGED_KEYS):
        row = "queued", 0, None, None, 0, 6, None, b"<job/>"
        yield "staged", (6, number, 5, key.node, key.id, *row)
    yield "txn", (6, 2, OWNER, 3, 1, *facts, None, None, None, None)
    yield "attempt", (7, 6, 0, 0, 2, 12)
    for known in (0, 1):
        row = "queued", 0, None, None, known, 6, None, b"<job/>"
        yield "staged", (7, known, 6, JOBS, f"n{known}", *row)
    for account in (OWNER, ""):
        yield "staged_usage", (account, 4, 24)
    facts = EVENT.item, EVENT.attempt, EVENT.worker, EVENT.publisher, EVENT.age
    yield "event", (17, NOW, EVENT.kind.value, IDS[JOBS], *facts, None, None, None, "")


def columns(one):
    dead = one.dead_letter
    letter = dead and (dead.at, dead.reason, dead.origin, dead.holder, dead.number)
    return (
        *(one.seq, IDS[one.node], one.id, one.state.value, one.publisher, one.published),
        *(one.priority, one.due, one.expires, one.acquired, one.failed, one.released),
        *(one.holder, one.deadline, one.token, one.avoid, int(one.aside)),
        *(letter or (None,) * 5),
        *(one.taken, *(one.transaction or (None, None))),
        *(json.encode(one.headers).decode() if one.headers else None, payload(one.seq)),
    )


@pytest.fixture
def old(tmp_path):
    """The path of a database as version 0.1.0 has left it."""
    path = tmp_path / "queue.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.execute("PRAGMA foreign_keys = ON")
    for statement in split_statements(migrations()[0]):
        connection.execute(statement)
    for table, values in rows():
        marks = ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)
    connection.execute("UPDATE token SET next = 42")  # the dead letter of this number was the last
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    return path


@pytest.fixture
async def store(old):
    store = SqliteStore(old)
    await store.open()
    yield store
    await store.close()


async def load(store, **keys):
    return await store.batch(lambda tx: tx.load(needs_of(**keys)))


async def listed(store, which, after=None):
    return await store.batch(lambda tx: tx.page(which, after, 99))


async def test_nodes_and_people_read_back(store):
    assert await listed(store, listings.Nodes()) == list(NODES)
    assert await listed(store, listings.AffiliationsOf(JOBS)) == list(PEOPLE)
    found = await listed(store, listings.NodesOfAccount(OWNER))
    assert found == [(NODES[1], PEOPLE[1].affiliation)]
    assert (await load(store, subscribers={JOBS})).subscriptions == list(WINDOWS)
    assert (await load(store, accounts={account_of(ANN)})).subscriptions == [WINDOWS[1]]
    assert (await load(store, resources={account_of(BOB)})).resources == [BOB]
    assert await store.batch(recount) == []


async def test_items_read_back_in_every_state(store):
    found = [
        row for node in (JOBS, DEAD_LETTERS) for row in await listed(store, listings.Items(node))
    ]
    assert found == [(one, payload(one.seq)) for one in ITEMS]
    assert {one.state for one in ITEMS} == set(State) - {State.DONE}  # it is in no queue
    seqs = {one.seq for one in ITEMS}
    assert sorted((await load(store, receipts=seqs)).receipts) == RECEIPTS
    assert (await load(store, finished={(JOBS, DONE.id)})).of[FINISHED] == [DONE]


async def test_what_waits_for_commits_reads_back(store):
    key = (NIGHTLY, 2)
    found = await load(
        store,
        apps={NIGHTLY},
        versions={key, (NIGHTLY, 1)},
        attempts={(*key, 0, 3), (NIGHTLY, 3, 0, 0)},
        waiting={OWNER, ""},
        staged=set(STAGED_KEYS),
    )
    assert (found.of[APPS], found.of[VERSIONS]) == ([APP], [OPEN])
    assert sorted(found.of[ATTEMPTS], key=lambda one: one.version) == [ATTEMPT, AT_ONCE]
    assert sorted(one.account for one in found.of[WAITING]) == ["", OWNER]
    assert {(one.items, one.bytes) for one in found.of[WAITING]} == {(4, 24)}
    assert {(one.key, one.size) for one in found.of[STAGED]} == {(key, 6) for key in STAGED_KEYS}
    assert isinstance(found.of[WAITING][0], StagedTotals)
    assert await listed(store, listings.Records(waiting=False)) == [COMMITTED]


async def test_the_log_reads_back_and_its_numbers_go_on(store):
    assert await listed(store, listings.Events(None, 99)) == [EventEntry(17, NOW, EVENT)]
    await store.batch(lambda tx: tx.write(Writes(NOW, events=[EVENT])))
    assert await listed(store, listings.LogEnds()) == [(17, 18)]


async def test_numbers_go_on_above_the_old_ones(store):
    assert await store.batch(lambda tx: tx.number("item", 1)) > max(one.seq for one in ITEMS)
    deaths = [one.dead_letter.number for one in ITEMS if one.dead_letter]
    tokens = [one.token for one in ITEMS]
    assert await store.batch(lambda tx: tx.number("token", 1)) > max(deaths + tokens)


async def test_an_item_that_is_written_now_stands_behind_the_old_ones(store):
    (node,) = (await load(store, nodes={JOBS})).nodes

    def job(tx):
        come = item(tx.number("item", 1))
        tx.write(
            Writes(
                NOW,
                nodes=[Write(node, replace(node, items=node.items + 1))],
                items=[Write(None, come)],
                payloads={come.seq: b"<job/>"},
            )
        )
        return come.id

    come = await store.batch(job)
    assert (await listed(store, listings.ItemIds(JOBS)))[-1] == come
    assert await store.batch(recount) == []


async def test_the_file_is_whole(store, old):
    await store.close()
    connection = sqlite3.connect(old)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert connection.execute("PRAGMA user_version").fetchall() == [(len(migrations()),)]
    connection.close()


async def test_what_is_purged_or_deleted_then_goes_and_the_file_is_whole(store, old):
    (jobs, other) = (await load(store, nodes={JOBS, DEAD_LETTERS})).nodes
    await make(store, PurgeNode(jobs.name), DeleteNode(other.name))
    assert await listed(store, listings.Items(jobs.name)) == []
    await sweep(store, 1)
    assert await store.batch(recount) == []
    await test_the_file_is_whole(store, old)
    connection = sqlite3.connect(old)
    assert connection.execute("SELECT count(*) FROM item").fetchone() == (0,)
    assert connection.execute("SELECT count(*) FROM contents").fetchone() == (1,)
    connection.close()


async def test_two_that_open_it_at_once_bring_it_up_once(old):
    stores = [SqliteStore(old), SqliteStore(old)]
    await asyncio.gather(*(store.open() for store in stores))
    for store in stores:
        assert await listed(store, listings.Nodes()) == list(NODES)
        assert len(await listed(store, listings.Items(JOBS))) == NODES[1].items
    given = [await store.batch(lambda tx: tx.number("item", 1)) for store in stores]
    assert given == [15, 16]
    for store in stores:
        await store.close()


async def test_a_node_that_refused_what_is_too_much_still_does(old):
    """Nothing that was to be kept is dropped because the program is newer."""
    bounded = json.encode({"max_items": 9}).decode()
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("UPDATE node SET config = ? WHERE id = ?", (bounded, IDS[JOBS]))
    store = SqliteStore(old)
    await store.open()
    (node,) = (await load(store, nodes={JOBS})).nodes
    assert node.config == NodeConfig(max_items=9, publish_node_full=NodeFull.REJECT)
    await store.close()
