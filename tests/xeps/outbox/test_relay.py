"""Relays publish to the real service, which runs in this process: each committed row is one item, in the order of its group."""

import asyncio
import json
import logging
import sqlite3
import threading
from contextlib import closing

import pytest
from harness.databases.outboxes import alias_of, async_engine, made
from harness.patience import TIMEOUT, until
from sqlalchemy import create_engine

from pubqueue import ConfigurationError, LoginRefused, Outbox, Publisher, Relay, Relayed
from pubqueue_xeps.outbox.databases import database
from pubqueue_xeps.outbox.rows import Row, Statements


def items(service, node="jobs"):
    """Return the ids and the payloads in a node, in the order in which they were published."""
    return [(kept.id, payload_of(kept)) for kept in service.items(node)]


def payload_of(kept):
    text = kept.payload.decode()
    return json.loads(text[text.index(">") + 1 : text.rindex("<")])


def claim(place, name, most=10, lease=0):
    """Claim rows as a relay does that is then killed; without a lease others may have them at once."""
    dialect = "sqlite" if place.url.startswith("sqlite") else "postgresql"
    statement = Statements(place.outbox.table, dialect)
    with closing(place.connect()) as connection:
        at = database(connection)
        at.change(statement.claim(name, most, lease))
        found = [Row(*row) for row in at.rows(statement.claimed(name))]
        connection.commit()
    return found


async def test_what_was_committed_is_published_once_and_deleted(place, service, relay_of):
    names = [place.add("jobs", {"n": number}) for number in range(5)]
    place.add("mails", "hello", id="m1", headers={"tenant": "north"}, priority=3)
    relay = relay_of(place)
    assert await relay.drain() == Relayed(published=6)
    assert await relay.drain() == Relayed(published=6)
    assert items(service) == [(name, {"n": number}) for number, name in enumerate(names)]
    assert items(service, "mails") == [("m1", "hello")]
    assert service.items("mails")[0].headers == {"tenant": "north"}
    assert place.rows() == []


async def test_more_rows_than_are_in_hand(sqlite, service, relay_of):
    for number in range(23):
        sqlite.add("jobs", number, group=None if number % 2 else f"g{number % 4}")
    assert (await relay_of(sqlite, in_hand=4).drain()).published == 23
    assert sorted(payload for _, payload in items(service)) == list(range(23))
    assert [n for _, n in items(service) if n % 4 == 0] == [0, 4, 8, 12, 16, 20]


async def test_rows_of_a_relay_that_was_killed_before_it_deleted_them(place, service, relay_of):
    """They were published: the next relay publishes them again, and there is one item of each."""
    for number in range(3):
        place.add("jobs", number)
    rows = claim(place, "killed")
    async with Publisher(**service.account("etl")) as publisher:
        for row in rows[:2]:
            await publisher.publish(row.node, row.new_item())
    assert await relay_of(place).drain() == Relayed(published=3, duplicates=2)
    assert items(service) == [(row.id, number) for number, row in enumerate(rows)]


async def test_an_item_that_was_done_meanwhile_does_not_come_again(sqlite, service, relay_of):
    """For as long as the node remembers its id (`dedup_window`)."""
    sqlite.add("jobs", 1)
    (row,) = claim(sqlite, "killed")
    async with Publisher(**service.account("etl")) as publisher:
        await publisher.publish(row.node, row.new_item())

    async def handle(item):
        pass

    await service.work(handle, node="jobs")
    assert await relay_of(sqlite).drain() == Relayed(published=1, duplicates=1)
    assert (items(service), service.done("jobs")) == ([], [row.id])


async def test_rows_with_a_lease_are_left_to_their_relay(place, service, relay_of):
    place.add("jobs", 1, id="held")
    claim(place, "alive", lease=60_000)
    place.add("jobs", 2, id="free")
    assert (await relay_of(place).drain()).published == 1
    assert [name for name, _ in items(service)] == ["free"]
    assert place.rows("id, holder") == [("held", "alive")]


async def test_a_group_waits_for_its_first_row_wherever_that_is(place, service, relay_of):
    place.add("jobs", 1, id="first", group="g")
    claim(place, "alive", lease=60_000)
    place.add("jobs", 2, id="second", group="g")
    place.add("jobs", 3, id="other", group="h")
    place.add("mails", 4, id="elsewhere", group="g")
    assert (await relay_of(place).drain()).published == 2
    assert place.rows("id") == [("first",), ("second",)]


async def test_a_row_that_another_transaction_has_locked_is_passed_over(
    running_postgres, service, relay_of
):
    place = made(f"postgresql://postgres@{running_postgres.host}:{running_postgres.port}/queues")
    for number in range(3):
        place.add("jobs", number)
    with closing(place.connect()) as other:
        other.execute("SELECT * FROM outbox_of_tests ORDER BY seq LIMIT 1 FOR UPDATE")
        place.outbox.add(other, "jobs", 3)  # and is not committed yet
        assert (await relay_of(place).drain()).published == 2
        other.rollback()
    assert [number for _, number in items(service)] == [1, 2]


async def test_relays_share_the_work_and_keep_the_order_of_each_group(place, service, relay_of):
    for number in range(60):
        place.add("jobs", number, group=f"g{number % 4}" if number % 5 else None)
    relays = [relay_of(place, in_hand=5) for _ in range(3)]
    await asyncio.gather(*(relay.drain() for relay in relays))
    assert sum(relay.relayed.published for relay in relays) == 60
    found = [number for _, number in items(service)]
    assert sorted(found) == list(range(60))
    for group in range(4):
        of_group = [number for number in found if number % 4 == group and number % 5]
        assert of_group == sorted(of_group)


MANY = """
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
    INSERT INTO outbox_of_tests (node, id, grp, item, added)
    SELECT 'jobs', CAST(i AS TEXT), 'g', '{"xml":"<a/>"}', 0 FROM n
"""


async def test_a_long_group_that_waits_does_not_hide_what_is_behind_it(place, service, relay_of):
    """Longer than what one look goes through."""
    place.add("jobs", 0, group="g")
    claim(place, "alive", lease=60_000)
    place.execute(MANY)
    for number in range(3):
        place.add("jobs", number)
    relay = relay_of(place)
    assert (await relay.drain()).published == 3
    assert [number for _, number in items(service)] == [0, 1, 2]
    place.add("jobs", 3)
    assert (await relay.drain()).published == 4


# What is refused, and what is not confirmed.


async def test_a_refused_row_holds_up_its_group_and_nothing_else(place, service, relay_of, caplog):
    for node, name, group in (
        ("nowhere", "n1", "g"),
        ("nowhere", "n2", "g"),
        ("jobs", "j1", "g"),
        ("nowhere", "n3", None),
    ):
        place.add(node, {"of": name}, id=name, group=group)
    caplog.set_level(logging.ERROR, "pubqueue_xeps")
    assert await relay_of(place).drain() == Relayed(published=1, refused=2)
    refused = place.do("refused")
    assert [(row.id, row.reason, row.tries) for row in refused] == [
        (name, "queue.localhost has no node 'nowhere'.", 1) for name in ("n1", "n3")
    ]
    assert (place.do("backlog").waiting, place.do("backlog").refused) == (1, 2)
    assert len(caplog.records) == 2
    assert "outbox.refused" in caplog.text
    service.create("nowhere")
    assert await relay_of(place).drain() == Relayed()
    assert place.do("retry", node="nowhere") == 2
    assert await relay_of(place).drain() == Relayed(published=3)
    assert [name for name, _ in items(service, "nowhere")] == ["n1", "n2", "n3"] or [
        name for name, _ in items(service, "nowhere") if name != "n3"
    ] == ["n1", "n2"]


async def test_a_row_that_cannot_be_read_is_refused(sqlite, service, relay_of):
    sqlite.add("jobs", 1)
    sqlite.add("jobs", 2)
    sqlite.execute("UPDATE outbox_of_tests SET item = '{' WHERE seq = 1")
    assert await relay_of(sqlite).drain() == Relayed(published=1, refused=1)


async def test_what_is_not_confirmed_is_tried_again_later(sqlite, service, relay_of):
    sqlite.add("jobs", 1, id="a", group="g")
    sqlite.add("jobs", 2, id="b", group="g")
    assert await relay_of(sqlite, timeout=0).drain() == Relayed(deferred=1)
    ((first, waits), (second, _)) = sqlite.rows("tries, held_until > added + 400")
    assert (first, waits, second) == (1, True, 0), "the second was not tried"
    sqlite.execute("UPDATE outbox_of_tests SET held_until = held_until + 3600000 WHERE id = 'a'")
    assert await relay_of(sqlite).drain() == Relayed(), "it is not time yet"
    sqlite.execute("UPDATE outbox_of_tests SET held_until = 0")
    assert (await relay_of(sqlite).drain()).published == 2
    assert [name for name, _ in items(service)] == ["a", "b"]


async def test_times_count_from_when_the_item_was_added(sqlite, service, relay_of):
    sqlite.add("jobs", 1, id="late", delay=3600)
    sqlite.add("jobs", 2, id="expired", ttl=0)
    await relay_of(sqlite).drain()
    states = {kept.id: (kept.state, kept.due_in) for kept in service.items("jobs")}
    assert states["late"][0] == "delayed"
    assert 3500 < states["late"][1] <= 3600
    assert states["expired"][0] == "dead"


# A relay as part of a program.


async def test_a_commit_in_the_same_process_wakes_it(sqlite, service, relay_of):
    async with relay_of(sqlite, interval=3600) as relay:
        sqlite.add("jobs", 1)
        threading.Thread(target=sqlite.outbox.notify).start()
        await until(lambda: relay.relayed.published == 1)
        with pytest.raises(RuntimeError, match="at work already"):
            await relay.drain()
    assert sqlite.rows() == []
    sqlite.outbox.notify()  # of which there is none any more


async def test_it_looks_again_by_itself(sqlite, service, relay_of):
    async with relay_of(sqlite, interval=0.01) as relay:
        sqlite.add("jobs", 1)
        await until(lambda: relay.relayed.published == 1)


async def test_a_relay_with_its_own_loop_ends_when_it_is_stopped(sqlite, service, relay_of):
    relay = relay_of(sqlite, interval=0.01)
    running = asyncio.create_task(asyncio.to_thread(relay.run_blocking))
    sqlite.add("jobs", 1)
    await until(lambda: relay.relayed.published == 1)
    relay.stop()
    await asyncio.wait_for(running, TIMEOUT)
    assert sqlite.rows() == []


async def test_an_end_gives_back_what_is_in_hand(sqlite, service, relay_of):
    """The server does not answer; the next relay does not wait for the lease."""
    for number in range(3):
        sqlite.add("jobs", number)
    away = {**service.account("etl"), "port": 7}
    relay = Relay(sqlite.outbox, sqlite.url, Publisher(**away), signals=())
    async with relay:  # it waits for the server
        pass
    assert (await relay_of(sqlite).drain()).published == 3

    for number in range(3):
        sqlite.add("mails", number)
    async with Publisher(**service.account("etl")) as publisher:
        relay = Relay(sqlite.outbox, sqlite.url, publisher, grace=0, signals=())
        async with relay:
            await until(lambda: sqlite.rows("holder")[:1] != [(None,)])
        assert publisher.is_open, "it was open before"
    assert {holder for (holder,) in sqlite.rows("holder")} <= {None}
    await relay_of(sqlite).drain()
    assert sorted(number for _, number in items(service, "mails")) == [0, 1, 2]


async def test_a_login_that_is_refused_ends_it(sqlite, service, caplog):
    wrong = {**service.account("etl"), "password": "wrong"}
    with pytest.raises(LoginRefused):
        await Relay(sqlite.outbox, sqlite.url, Publisher(**wrong), signals=()).run()
    with pytest.raises(LoginRefused):
        async with Relay(sqlite.outbox, sqlite.url, Publisher(**wrong)):
            await until(lambda: "outbox.failed" in caplog.text)


async def test_an_error_that_is_not_the_librarys_is_logged_without_its_text(sqlite, caplog):
    class Odd(Publisher):
        async def open(self):
            raise ValueError("order 4711")

    with pytest.raises(ValueError, match="4711"):
        async with Relay(
            sqlite.outbox,
            sqlite.url,
            Odd("etl@localhost", password="secret", service="queue.localhost"),
        ):
            await until(lambda: "outbox.failed" in caplog.text)
    assert "ValueError" in caplog.text
    assert "4711" not in caplog.text


# Its database.


def engine_of(place):
    return create_engine(place.url.replace("postgresql:", "postgresql+psycopg:"))


@pytest.mark.parametrize("kind", ["engine", "async_engine", "django", "function"])
async def test_each_kind_of_database(place, service, relay_of, kind):
    database = {
        "engine": engine_of,
        "async_engine": async_engine,
        "django": alias_of,
        "function": lambda place: place.connect,
    }[kind](place)
    for number in range(3):
        place.add("jobs", number, group="g")
    assert (await relay_of(place, database=database).drain()).published == 3
    assert [number for _, number in items(service)] == [0, 1, 2]
    assert place.rows() == []
    if kind == "engine":
        database.dispose()
    if kind == "async_engine":
        await database.dispose()


async def test_a_table_that_is_not_there_is_not_waited_for(sqlite, service, relay_of):
    sqlite.outbox = Outbox("another")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await relay_of(sqlite).run()
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        async with relay_of(sqlite):
            pass


class FailingConnection(sqlite3.Connection):
    """Fails at some commits: before or after what it commits."""

    commits = 0

    def commit(self):
        cls = type(self)
        cls.commits += 1
        if cls.commits in {2, 4}:
            raise sqlite3.OperationalError("disk I/O error in 'secret'")
        super().commit()
        if cls.commits in {3, 5}:
            raise sqlite3.OperationalError("disk I/O error in 'secret'")


async def test_a_database_that_fails_is_asked_again(sqlite, service, relay_of, caplog):
    for number in range(6):
        sqlite.add("jobs", number, group="g")
    FailingConnection.commits = 0
    path = sqlite.url.removeprefix("sqlite:///")
    relay = relay_of(
        sqlite,
        database=lambda: sqlite3.connect(path, factory=FailingConnection),
        interval=0.05,
    )
    running = asyncio.create_task(relay.run())
    await until(lambda: not sqlite.rows(), every=0.01)
    relay.stop()
    await running
    assert [number for _, number in items(service)] == list(range(6))
    assert FailingConnection.commits > 5
    assert "why=OperationalError" in caplog.text
    assert "secret" not in caplog.text


# What it does not accept.


def test_what_would_break_its_promise_is_refused(sqlite):
    where = {"jid": "a@b", "password": "x", "service": "q.b"}
    outbox, url = sqlite.outbox, sqlite.url
    with pytest.raises(ConfigurationError, match="without level="):
        Relay(outbox, url, Publisher(**where, level="acknowledged"))
    with pytest.raises(ValueError, match="timeout is 5; it takes less than the lease, 5"):
        Relay(outbox, url, Publisher(**where), lease=5, timeout=5)
    with pytest.raises(ValueError, match="in_hand is at least 1"):
        Relay(outbox, url, Publisher(**where), in_hand=0)
    with pytest.raises(TypeError, match="no database for a relay"):
        Relay(outbox, 7, Publisher(**where))
