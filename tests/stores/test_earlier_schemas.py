"""Stores of every schema that was published, full of rows, are brought to the newest one: nothing is lost or changed
but what a migration is there to change, and both stores show the same. SQLite's first schema has a file of its own."""

import sqlite3
from contextlib import asynccontextmanager, closing

import psycopg
import pytest
from harness.stores import furnished_then as then
from harness.stores.store_contents import everything, misweighed
from msgspec import json

from pubqueue.engine.rows import Needs
from pubqueue.model.entities import NodeConfig, NodeFull
from pubqueue.model.transactions import key_of
from pubqueue.rules.access import identity
from pubqueue.stores import postgres, sqlite
from pubqueue.stores.postgres.store import PostgresStore
from pubqueue.stores.sql.session import scripts
from pubqueue.stores.sqlite import SqliteStore

OF_SQLITE = range(8, len(scripts(sqlite.__name__)))
OF_POSTGRES = range(1, len(scripts(postgres.__name__)))
PLAIN_NODES = {"sqlite": 9, "postgres": 2}
"""The migration since which full nodes say whether they refuse more."""
OF_ACCOUNTS = {"sqlite": 17, "postgres": 11}
"""The migration since which the name of an app is its account's."""
OF_THE_KNOWN = {"sqlite": 20, "postgres": 15}
"""The migration since which presence is kept of those alone who are somebody here."""
MEANT = {"sqlite": 16, "postgres": 10}
PRESENCE_RECEIVED = {"sqlite": 34, "postgres": 29}
"""The migration since which a node keeps which other node it has named."""
WEIGHED = {"sqlite": 21, "postgres": 16}
"""The migration that has worked out what each item weighs."""

SIZES = "SELECT i.seq, i.size FROM item i ORDER BY i.seq"
STRANGERS = {"holder@far/2", "stranger@far/1"}
KNOWN = {"holder@far/1", "own@x/1", "fan@far/1"}
HERE = 900
"""The first of the numbers that their presence has in the store."""


class File:
    """A SQLite store, and a look at its rows from beside."""

    kind, newest = "sqlite", len(scripts(sqlite.__name__))

    def __init__(self, path, number):
        self.path = path
        then.sqlite_of(path, number)

    def store(self):
        return SqliteStore(self.path)

    def ask(self, statement):
        with closing(sqlite3.connect(self.path)) as file, file:
            cursor = file.execute(statement)
            return [column for column, *_ in cursor.description or ()], cursor.fetchall()

    def tables(self):
        _, rows = self.ask(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_stat%'"
        )
        return [name for (name,) in rows]

    def number(self):
        return self.ask("PRAGMA user_version")[1][0][0]

    def is_whole(self):
        checks = "integrity_check", "foreign_key_check"
        return [self.ask(f"PRAGMA {check}")[1] for check in checks] == [[("ok",)], []]


class Schema:
    """A PostgreSQL store, and a look at its rows from beside."""

    kind, newest = "postgres", len(scripts(postgres.__name__))

    def __init__(self, address, number):
        self.address = address
        then.postgres_of(address, number)

    def store(self):
        return PostgresStore(self.address)

    def ask(self, statement):
        with psycopg.connect(self.address) as connection:
            connection.execute("SET search_path = pubqueue")
            cursor = connection.execute(statement.encode())
            rows = cursor.fetchall() if cursor.description else []
            return [column.name for column in cursor.description or ()], rows

    def tables(self):
        _, rows = self.ask("SELECT tablename FROM pg_tables WHERE schemaname = 'pubqueue'")
        return [name for (name,) in rows if name not in OF_PROCESSES]

    def number(self):
        return self.ask("SELECT schema FROM pubqueue")[1][0][0]

    def is_whole(self):
        _, broken = self.ask(
            "SELECT conname FROM pg_constraint WHERE connamespace = 'pubqueue'::regnamespace"
            " AND NOT convalidated UNION ALL SELECT indexrelid::regclass::name FROM pg_index"
            " JOIN pg_class c ON c.oid = indexrelid"
            " WHERE c.relnamespace = 'pubqueue'::regnamespace AND NOT (indisvalid AND indisready)"
        )
        return broken == []


OF_PROCESSES = {"pubqueue", "writing", "writer", "winner", "met"}
"""Tables that say nothing of what is stored, or that opening a store changes."""


@pytest.fixture
def database(postgres):
    """A database of its own, in which the role may make a schema."""
    postgres.ask("CREATE DATABASE other")
    postgres.ask("GRANT CREATE ON DATABASE other TO queue")
    yield postgres.address.replace("/queues", "/other")
    postgres.ask("DROP DATABASE other WITH (FORCE)")


@pytest.fixture(
    params=[("sqlite", n) for n in OF_SQLITE] + [("postgres", n) for n in OF_POSTGRES],
    ids=lambda of: f"{of[0]}-{of[1]}",
)
def earlier(request, tmp_path):
    """A store of an earlier schema."""
    kind, number = request.param
    if kind == "sqlite":
        return File(tmp_path / "queue.db", number)
    return Schema(request.getfixturevalue("database"), number)


@asynccontextmanager
async def opened(one):
    store = one.store()
    await store.open()
    yield store
    await store.close()


def dump(one, *, only=None):
    """Return all rows of all tables as far as `only` has their columns, by table and then by column."""
    found = {}
    for table in only or one.tables():
        columns, rows = one.ask(f"SELECT * FROM {table}")
        chosen = [at for at, name in enumerate(columns) if not only or name in only[table][0]]
        kept = sorted((tuple(row[at] for at in chosen) for row in rows), key=repr)
        found[table] = [columns[at] for at in chosen], kept
    return found


def as_they_become(nodes, one, number):
    """Return the rows of nodes as the migrations make them; settings are read, for their order means nothing."""
    columns, rows = nodes
    at, name = columns.index("config"), columns.index("name")
    creator, created = columns.index("creator"), columns.index("created")
    read = [(*row[:at], json.decode(row[at]), *row[at + 1 :]) for row in rows]
    made = {row[name]: f"{row[created]} {row[creator]}" for row in read}
    for row in read:
        config = row[at]
        if config.get("max_items") and number < PLAIN_NODES[one.kind]:
            config["publish_node_full"] = "reject"
        if config.get("dead_letter_node") and number < MEANT[one.kind]:
            config["dead_letter_meant"] = made[config["dead_letter_node"]]
    return columns, sorted(read, key=repr)


def of_accounts(apps):
    """Return the rows of apps with the names that they have since these belong to accounts."""
    columns, rows = apps
    name, owner = columns.index("name"), columns.index("owner")
    return columns, sorted(
        ((*row[:name], key_of(row[owner], row[name]), *row[name + 1 :]) for row in rows), key=repr
    )


def of_the_known(tables):
    """Return the rows of those who are here and have an affiliation or a subscription, or hold an item."""

    def values(table, *names):
        columns, rows = tables[table]
        places = [columns.index(name) for name in names]
        return {tuple(row[place] for place in places) for row in rows}

    known = {jid for (jid,) in values("affiliation", "jid") | values("subscription", "account")}
    known |= {holder for holder, state in values("item", "holder", "state") if state == "locked"}
    columns, rows = tables["resource"]
    jid, account = columns.index("jid"), columns.index("account")
    return columns, [row for row in rows if {row[jid], row[account]} & known]


def let_some_be_here(one):
    """Add presence of accounts that hold an item, have an affiliation or a subscription, or nothing of all that."""
    ((item,),) = one.ask("SELECT max(seq) FROM item WHERE state = 'locked'")[1]
    for number, jid in enumerate(sorted(STRANGERS | KNOWN), HERE):
        account = jid.partition("/")[0]
        one.ask(f"INSERT INTO resource (id, jid, account) VALUES ({number}, '{jid}', '{account}')")
    one.ask(f"UPDATE item SET holder = 'holder@far/1' WHERE seq = {item}")
    one.ask(
        "INSERT INTO affiliation (node_id, jid, affiliation) SELECT max(id), 'own@x', 'owner' FROM node"
    )
    one.ask(
        "INSERT INTO subscription (node_id, jid, account, subid, queue_requests)"
        " SELECT max(id), 'fan@far', 'fan@far', 'fan', 1 FROM node"
    )


def let_a_node_name_one_for_its_dead(one):
    """Return the names of both; which node was meant is kept only since `MEANT`."""
    _, found = one.ask(f"SELECT name FROM node WHERE id <> {then.MAX_ITEMS} ORDER BY name")
    namer, other = [name for (name,) in found[:2]]
    config = json.encode(NodeConfig(dead_letter_node=other)).decode()
    config = config.replace(',"dead_letter_meant":""', "")
    one.ask(f"UPDATE node SET config = '{config}' WHERE name = '{namer}'")
    return namer, other


async def test_what_an_earlier_program_has_left_is_there_after_all_migrations(earlier, subtests):
    number = earlier.number()
    let_some_be_here(earlier)
    named = let_a_node_name_one_for_its_dead(earlier)
    before, sizes = dump(earlier), number >= WEIGHED[earlier.kind] and earlier.ask(SIZES)
    async with opened(earlier):
        pass
    with subtests.test("every row of every table is as it was"):
        every_row_is_as_it_was(earlier, number, before)
    with subtests.test("presence of strangers goes, and that of others stays"):
        kept = {jid for (jid,) in earlier.ask(f"SELECT jid FROM resource WHERE id >= {HERE}")[1]}
        assert kept == (KNOWN | STRANGERS if number >= OF_THE_KNOWN[earlier.kind] else KNOWN)
    async with opened(earlier) as store:
        with subtests.test("what items weigh is known, and added up for each node"):
            await what_items_weigh_is_known(earlier, store, sizes)
        with subtests.test("a node that refused what is too much still does"):
            await a_node_still_refuses(earlier, store, number)
        with subtests.test("a node that names one for its dead keeps which it meant"):
            await it_is_kept_which_was_meant(earlier, store, number, named)
        with subtests.test("a long name is found and is there once"):
            await a_long_name_is_found(earlier, store, number)
        with subtests.test("numbers go on above those that were given"):
            numbers_go_on(earlier)


def every_row_is_as_it_was(earlier, number, before):
    empty = [table for table, (_, rows) in before.items() if not rows]
    assert set(empty) <= {"large_payload_gone"}, "of what was deleted, nothing is left to keep"
    after = dump(earlier, only=before)
    if number < OF_ACCOUNTS[earlier.kind]:
        before["txn_app"] = of_accounts(before["txn_app"])
    if number < OF_THE_KNOWN[earlier.kind]:
        before["resource"] = of_the_known(before)
    before["node"] = as_they_become(before["node"], earlier, number)
    after["node"] = as_they_become(after["node"], earlier, earlier.newest)
    assert after == before
    assert (earlier.number(), earlier.is_whole()) == (earlier.newest, True)


async def what_items_weigh_is_known(earlier, store, sizes):
    if sizes:  # programs since have weighed them, and it stays
        assert earlier.ask(SIZES) == sizes
        return
    assert await store.batch(misweighed) == []
    ((wrong,),) = earlier.ask(
        "SELECT count(*) FROM node WHERE bytes <> (SELECT coalesce(sum(i.size), 0) FROM contents c"
        " JOIN item i ON i.node_id = c.id WHERE c.node_id = node.id)"
    )[1]
    ((total,),) = earlier.ask("SELECT sum(bytes) FROM node")[1]
    assert (wrong, total > 0) == (0, True)


async def a_node_still_refuses(earlier, store, number):
    seen = await store.batch(everything)
    (config,) = [one.config for one in seen if getattr(one, "items", None) == then.MAX_ITEMS]
    drops = number >= PLAIN_NODES[earlier.kind]
    reject = {} if drops else {"publish_node_full": NodeFull.REJECT}
    assert config == NodeConfig(queueing=True, max_items=9, **reject)


async def it_is_kept_which_was_meant(earlier, store, number, named):
    found = await store.batch(lambda tx: tx.load(Needs(nodes=set(named))))
    namer, other = sorted(found.nodes, key=lambda node: node.name)
    assert (namer.name, other.name) == named
    meant = identity(other) if number < MEANT[earlier.kind] else ""
    assert namer.config == NodeConfig(dead_letter_node=other.name, dead_letter_meant=meant)


async def a_long_name_is_found(earlier, store, number):
    found = await store.batch(
        lambda tx: tx.load(Needs(jids={then.LONG}, resources={"bot@x"}, held={then.LONG}))
    )
    (locked,) = earlier.ask("SELECT count(*) FROM item WHERE state = 'locked'")[1][0]
    seen = {item.holder for item in found.items}
    assert (seen, found.resources) == ({then.LONG}, [then.LONG])
    believed = number < PRESENCE_RECEIVED[earlier.kind]  # until it is asked
    assert found.present == [then.LONG] * believed
    assert 0 < len(found.items) <= locked
    assert {one.jid for one in found.subscriptions} == {then.LONG}
    for again in (
        """INSERT INTO subscription (node_id, jid, account, subid, queue_requests)
        SELECT node_id, jid, account, 'again', 1 FROM subscription WHERE id = 15""",
        f"INSERT INTO resource (id, jid, account) SELECT {HERE - 1}, jid, account FROM resource WHERE id = 9",
        "INSERT INTO receipt SELECT seq, jid FROM receipt",
        "INSERT INTO node (name, config, creator, created) SELECT name, config, creator, created FROM node",
    ):
        with pytest.raises((sqlite3.IntegrityError, psycopg.errors.UniqueViolation)):
            earlier.ask(again)


def numbers_go_on(earlier):
    ((highest,),) = earlier.ask("SELECT max(id) FROM node")[1]
    earlier.ask(
        "INSERT INTO node (name, config, creator, created) VALUES ('new', '{}', 'boss@x', 1)"
    )
    ((new,),) = earlier.ask("SELECT id FROM node WHERE name = 'new'")[1]
    assert new > highest


async def test_both_stores_show_the_same(tmp_path, database):
    shown = []
    for one in (File(tmp_path / "queue.db", OF_SQLITE[0]), Schema(database, OF_POSTGRES[0])):
        async with opened(one) as store:
            shown.append(await store.batch(everything))
    assert shown[0] == shown[1]
