"""A database of version 0.1.0 is brought to the schema of today; and each statement reads by an index."""

import asyncio
import re
import sqlite3
from contextlib import closing

import pytest
from harness.batches.facts import ANN, BOB, ETL, JOBS, NOW, after
from harness.stores import laid
from harness.stores.rows import needs_of
from harness.stores.store_contents import recount
from msgspec import json
from msgspec.structs import replace
from stores.sqlite.asking import ask
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
from pubqueue.stores.sqlite.schema import APPLICATION_ID, SQL, migrations, split_statements

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


@pytest.fixture(autouse=True)
def by_migrations(monkeypatch):
    """New stores are made as a service makes them."""
    monkeypatch.setattr(laid.schema, "migrate", laid.by_migrations)


def test_what_tests_lay_at_once_is_what_all_migrations_leave():
    found = []
    for make_tables in (laid.at_once, laid.by_migrations):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
            make_tables(made, ":memory:")
            entries = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
            header = [made.execute(f"PRAGMA {one}").fetchone() for one in HEADER]
            tables = [name for kind, name, *_ in made.execute(entries) if kind == "table"]
            rows = {name: made.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
            found.append((made.execute(entries).fetchall(), header, rows))
    assert found[0] == found[1]
    assert any(found[0][2].values())


HEADER = ("user_version", "application_id")


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
async def migrated(old):
    migrated = SqliteStore(old)
    await migrated.open()
    yield migrated
    await migrated.close()


async def load(migrated, **keys):
    return await migrated.batch(lambda tx: tx.load(needs_of(**keys)))


async def listed(migrated, which, after=None):
    return await migrated.batch(lambda tx: tx.page(which, after, 99))


async def test_nodes_and_people_read_back(migrated):
    assert await listed(migrated, listings.Nodes()) == list(NODES)
    assert await listed(migrated, listings.AffiliationsOf(JOBS)) == list(PEOPLE)
    found = await listed(migrated, listings.NodesOfAccount(OWNER))
    assert found == [(NODES[1], PEOPLE[1].affiliation)]
    assert (await load(migrated, subscribers={JOBS})).subscriptions == list(WINDOWS)
    assert (await load(migrated, accounts={account_of(ANN)})).subscriptions == [WINDOWS[1]]
    assert (await load(migrated, resources={account_of(BOB)})).resources == [BOB]
    assert await migrated.batch(recount) == []


async def test_items_read_back_in_every_state(migrated):
    found = [
        row for node in (JOBS, DEAD_LETTERS) for row in await listed(migrated, listings.Items(node))
    ]
    assert found == [(one, payload(one.seq)) for one in ITEMS]
    newer, beside = State.HELD, State.DONE
    assert {one.state for one in ITEMS} == set(State) - {newer, beside}
    seqs = {one.seq for one in ITEMS}
    assert sorted((await load(migrated, receipts=seqs)).receipts) == RECEIPTS
    assert (await load(migrated, finished={(JOBS, DONE.id)})).of[FINISHED] == [DONE]


async def test_what_waits_for_commits_reads_back(migrated):
    key = (NIGHTLY, 2)
    found = await load(
        migrated,
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
    assert await listed(migrated, listings.Records(waiting=False)) == [COMMITTED]


async def test_the_log_reads_back_and_its_numbers_go_on(migrated):
    assert await listed(migrated, listings.Events(None, 99)) == [EventEntry(17, NOW, EVENT)]
    await migrated.batch(lambda tx: tx.write(Writes(NOW, events=[EVENT])))
    assert await listed(migrated, listings.LogEnds()) == [(17, 18)]


async def test_numbers_go_on_above_the_old_ones(migrated):
    assert await migrated.batch(lambda tx: tx.number("item", 1)) > max(one.seq for one in ITEMS)
    deaths = [one.dead_letter.number for one in ITEMS if one.dead_letter]
    tokens = [one.token for one in ITEMS]
    assert await migrated.batch(lambda tx: tx.number("token", 1)) > max(deaths + tokens)


async def test_an_item_that_is_written_now_stands_behind_the_old_ones(migrated):
    (node,) = (await load(migrated, nodes={JOBS})).nodes

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

    come = await migrated.batch(job)
    assert (await listed(migrated, listings.ItemIds(JOBS)))[-1] == come
    assert await migrated.batch(recount) == []


async def test_the_file_is_whole(migrated, old):
    await migrated.close()
    connection = sqlite3.connect(old)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert connection.execute("PRAGMA user_version").fetchall() == [(len(migrations()),)]
    connection.close()


async def test_what_is_purged_or_deleted_then_goes_and_the_file_is_whole(migrated, old):
    (jobs, other) = (await load(migrated, nodes={JOBS, DEAD_LETTERS})).nodes
    await make(migrated, PurgeNode(jobs.name), DeleteNode(other.name))
    assert await listed(migrated, listings.Items(jobs.name)) == []
    await sweep(migrated, 1)
    assert await migrated.batch(recount) == []
    await test_the_file_is_whole(migrated, old)
    connection = sqlite3.connect(old)
    assert connection.execute("SELECT count(*) FROM item").fetchone() == (0,)
    assert connection.execute("SELECT count(*) FROM contents").fetchone() == (1,)
    connection.close()


async def test_two_that_open_it_at_once_bring_it_up_once(old):
    stores = [SqliteStore(old), SqliteStore(old)]
    await asyncio.gather(*(migrated.open() for migrated in stores))
    for migrated in stores:
        assert await listed(migrated, listings.Nodes()) == list(NODES)
        assert len(await listed(migrated, listings.Items(JOBS))) == NODES[1].items
    given = [await migrated.batch(lambda tx: tx.number("item", 1)) for migrated in stores]
    assert given == [15, 16]
    for migrated in stores:
        await migrated.close()


async def test_a_node_that_refused_what_is_too_much_still_does(old):
    """Nothing that was to be kept is dropped because the program is newer."""
    bounded = json.encode({"max_items": 9}).decode()
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("UPDATE node SET config = ? WHERE id = ?", (bounded, IDS[JOBS]))
    migrated = SqliteStore(old)
    await migrated.open()
    (node,) = (await load(migrated, nodes={JOBS})).nodes
    assert node.config == NodeConfig(max_items=9, publish_node_full=NodeFull.REJECT)
    await migrated.close()


# --- cost --------------------------------------------------------------------------------------------

PLANS = {
    "nodes": "sqlite_autoindex_node_1",
    "affiliations": "PRIMARY KEY (node_id=? AND jid=?)",
    "subscriptions": "subscription_account (account=? AND node_id=?)",
    "subscribers": "sqlite_autoindex_subscription_2 (node_id=?)",
    "subscribers_of": "subscription_state (node_id=? AND state=? AND jid>?)",
    "subscriptions_of": "subscription_state (node_id=? AND state=? AND jid>?)",
    "former_subscribers": "subscription_state (node_id=? AND state=? AND jid>?)",
    "due_leases": "subscription_lease (<expr><?)",
    "accounts": "subscription_account (account=?)",
    "jids": "subscription_jid (jid=?)",
    "resources": "resource_account",
    "note_present": "sqlite_autoindex_resource_1 (jid=?)",
    "note_activity": "sqlite_autoindex_resource_1 (jid=?)",
    "people": "affiliation_account",
    "items": "sqlite_autoindex_item_1 (node_id=? AND id=?)",
    "numbers": "INTEGER PRIMARY KEY",
    "held": "item_held",
    "payloads": "INTEGER PRIMARY KEY",
    "receipts": "PRIMARY KEY (seq=?)",
    "finished": "PRIMARY KEY (node_id=? AND id=?)",
    "apps": "sqlite_autoindex_txn_app_1",
    "count_apps": "sqlite_autoindex_txn_app_1",
    "versions": "sqlite_autoindex_txn_1 (app_id=? AND version=?)",
    "attempts": "sqlite_autoindex_attempt_1 (txn_id=? AND part=? AND number=?)",
    "waiting": "PRIMARY KEY (account=?)",
    "staged": "staged_id (txn_id=? AND node=? AND id=? AND attempt_id=?)",
    "noted": "staged_id (txn_id=? AND node=? AND id=?)",
    "ready": "item_ready",
    "ready_places": "item_ready",
    "ready_ends": "item_ready (node_id=? AND priority=? AND <expr>>?)",
    "ready_items": "INTEGER PRIMARY KEY",
    "due_locks": "item_deadline",
    "due_lives": "item_expires",
    "due_delayed": "item_due",
    "due_held": "item_until",
    "due_versions": "txn_open",
    "nodes_of_account": "affiliation_account",
    "holdings": "node_creator (creator=?)",
    "node_sums": "node_creator (creator>?)",
    "page_nodes_with": "node_access (<expr>=? AND name>?)",
    "nodes_pushed": "node_pushed (name>?)",
    "nodes_that_drop_dead": "node_dead_kept (name>?)",
    "death_beyond": "COVERING INDEX item_death (node_id=? AND death>?)",
    "events_of": "event_item (node_id=? AND item=? AND seq>?)",
    "nodes_named": "sqlite_autoindex_node_1 (name>? AND name<?)",
    "nodes_named_with": "node_access (<expr>=? AND name>? AND name<?)",
    "nodes_of_account_named": "sqlite_autoindex_node_1 (name>? AND name<?)",
    "count_nodes_with": "node_access",
    "ready_nodes": "subscription_free",
    "item_ids": "item_node (node_id=? AND rowid>?)",
    "oldest": "item_node (node_id=? AND rowid>?)",
    "newest": "item_node (node_id=? AND rowid<?)",
    "shown": "item_node (node_id=? AND rowid>? AND rowid<?)",
    "number_further_on": "COVERING INDEX item_node",
    "subscriptions_of_account": "subscription_account (account=?)",
    "dead": "item_dead",
    "done_items": "done_item_published (node_id=? AND published=? AND seq>?)",
    "shown_done": "done_item_number (node_id=? AND rowid>? AND rowid<?)",
    "done_named": "done_item_id (node_id=? AND id=?)",
    "newest_done": "done_item_number (node_id=?)",
    "keep_item": "INTEGER PRIMARY KEY",
    "revive_item": "INTEGER PRIMARY KEY",
    "drop_done_item": "INTEGER PRIMARY KEY",
    "seeks": "INTEGER PRIMARY KEY",
    "queues_that_keep": "node_done (name>?)",
    "locks": "item_deadline",
    "locks_from_last": "item_deadline",
    "held_numbers": "item_held",
    "held_by": "item_held (holder=? AND rowid>?)",
    "holders_of": "item_held (holder>?)",
    "known_resources": "sqlite_autoindex_resource_1 (jid>?)",
    "count_held_by": "item_held (holder=?)",
    "shown_dead": "item_death",
    "count_queued": "item_ready (node_id=? AND priority=? AND <expr>>?)",
    "queued_end": "item_ready (node_id=? AND priority=? AND <expr>>?)",
    "count_line": "item_grouped (node_id=? AND seq>?)",
    "group_turns": "item_turn (node_id=? AND group_name=? AND turn>?)",
    "group_taken": "item_turn (node_id=? AND group_name=? AND turn>?)",
    "group_lines": "item_line (node_id=? AND group_name=?)",
    "waiting_groups": "item_line (node_id=? AND group_name>?)",
    "count_dead": "COVERING INDEX item_death (node_id=? AND death>?)",
    "anything_to_sweep": "txn_committed",
    "records": "INTEGER PRIMARY KEY",
    "records_of_app": "txn_of_app (app_id=? AND rowid>?)",
    "records_of_owner": "txn_of_owner (owner=? AND rowid>?)",
    "remove_item": "INTEGER PRIMARY KEY",
    "change_lock": "INTEGER PRIMARY KEY",
    "change_lock_and_turn": "INTEGER PRIMARY KEY",
    "change_item": "INTEGER PRIMARY KEY",
    "change_subscription": "sqlite_autoindex_subscription_1 (subid=?)",
    "outdated": "finished_until",
    "forget": "PRIMARY KEY (node_id=? AND id=?)",
    "forgettable": "finished_until",
    "settled": "INTEGER PRIMARY KEY",
    "forget_settled": "settled_until",
    "ping_answers": "PRIMARY KEY (jid=?)",
    "forget_ping_answers": "ping_answer_until",
    "answered_deliveries": "INTEGER PRIMARY KEY",
    "forget_answered": "answered_until",
    "used_keys": "sqlite_autoindex_used_key_1",
    "forget_used_keys": "used_key_until",
    "key_totals": "PRIMARY KEY (account=?)",
    "free_keys": "PRIMARY KEY (account=?)",
    "place": "sqlite_autoindex_attempt_1",
    "sweep_staged": "sqlite_autoindex_attempt_1 (txn_id=?)",
    "drop_until": "sqlite_autoindex_attempt_1 (txn_id=?)",
}


async def plan(store, query):
    statement = SQL[query]
    values = max(map(int, re.findall(r"\?(\d+)", statement)), default=statement.count("?"))
    rows = await ask(store, f"EXPLAIN QUERY PLAN {statement}", *[None] * values)
    return [row[-1] for row in rows]


def scans(steps):
    """Return the steps that walk all of a table; lists that come with the question, and what another step yields, are none."""
    short = (
        *(step.replace("CO-ROUTINE", "SCAN") for step in steps if step.startswith("CO-ROUTINE ")),
        "VIRTUAL TABLE",
        "SCAN (subquery",
        "SCAN CONSTANT ROW",
        "SCAN w",
        "SCAN walk",
        "SCAN q",
        "SCAN large_payload_gone",  # asked for one row
    )
    return [step for step in steps if "SCAN" in step and not any(word in step for word in short)]


@pytest.mark.parametrize(("query", "index"), PLANS.items())
async def test_a_long_queue_costs_no_more_than_a_short_one(store, query, index):
    steps = await plan(store, query)
    assert any(index in step for step in steps), steps
    assert scans(steps) == []


@pytest.mark.parametrize(
    "query",
    [
        *(
            "ready",
            "ready_ends",
            "count_queued",
            "queued_end",
            "count_line",
            "group_lines",
            "waiting_groups",
            "count_dead",
            "due_locks",
            "due_lives",
            "due_delayed",
            "due_versions",
            "locks",
        ),
        *(
            "shown_dead",
            "records",
            "records_of_app",
            "records_of_owner",
            "add_items_of_winners",
            "dead",
            "done_items",
            "shown_done",
            "done_named",
            "newest_done",
            "queues_that_keep",
        ),
        *(
            "item_ids",
            "oldest",
            "newest",
            "shown",
            "number_further_on",
            "page_nodes_with",
            "ready_nodes",
        ),
        *("nodes_pushed", "nodes_named", "nodes_named_with", "nodes_of_account_named"),
        *("numbered", "held_numbers", "held_by", "holders_of", "locks_from_last"),
    ],
)
async def test_what_comes_in_order_is_read_in_order(store, query):
    assert not [step for step in await plan(store, query) if "TEMP B-TREE" in step]


async def test_what_is_next_due_reads_one_end_of_each_index(store):
    steps = await plan(store, "next_due")
    for index in ("item_deadline", "item_due", "item_expires", "txn_open", "attempt_1"):
        assert any(index in step for step in steps), steps


async def test_a_look_around_sees_in_the_index_what_is_ready(store):
    steps = await plan(store, "ready_nodes")
    for index in ("item_ready (node_id=?)", "item_aside (node_id=?)"):
        assert any(index in step for step in steps), steps
    assert not any("item_node" in step for step in steps), steps
