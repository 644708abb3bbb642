"""Deadlines go by the clock of the database, whatever those of machines say; and a pooler that gives sessions away is refused."""

import asyncio
import os
import re

import pytest
from harness.batches.facts import ANN, BOB, who
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.batches.witness import WatchedFace
from harness.databases.pgbouncer import pooled
from harness.patience import TIMEOUT
from harness.starts import warm_start
from stores.steps import EMPTY, add, ids, make

from pubqueue.cli.doctor import store_clock
from pubqueue.cli.output import Level
from pubqueue.engine import context
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.engine.ports import ForeignStoreError
from pubqueue.model import changes as c
from pubqueue.model.entities import Millis
from pubqueue.model.notices import Deliver
from pubqueue.operations.model import Given
from pubqueue.operations.service import SERVICE
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.expire import Expire
from pubqueue.rules.inspect import AskService
from pubqueue.rules.unlock import Recover
from pubqueue.stores import Timed, run_read_only
from pubqueue.stores.postgres import schema
from pubqueue.stores.postgres.connection import ServerClock
from pubqueue.stores.postgres.store import PostgresStore
from pubqueue.wiring import serving

HOUR = 3_600_000


def machine(ahead):
    return lambda: context.now() + ahead


async def broker_of(postgres, clock_ahead):
    """A broker as the wiring makes it, on a machine whose clock is wrong by so much."""
    store = PostgresStore(postgres.address)
    await store.open()
    assert isinstance(store, Timed)
    said = []
    broker = Broker(
        store,
        Terms(CreationPolicy.ANYONE),
        clock=store.clock(machine(clock_ahead)),
        instance=await store.instances.enter(),
        about=serving.about(postgres.address, store, Millis(0)),
    )
    WatchedFace(broker, said).up()
    broker.start()
    return store, broker, said


@pytest.mark.parametrize("wrong", [-HOUR, HOUR])
async def test_an_instance_whose_clock_is_wrong_gives_nobody_what_another_holds(postgres, wrong):
    one, right, said = await broker_of(postgres, 0)
    other, odd, said_there = await broker_of(postgres, wrong)
    try:
        for request in (a_queue(lock_timeout=60), joins(ANN), publishes("a")):
            await right.handle(request)
        await right.settled()
        await odd.handle(joins(BOB))
        for request in (Recover(), Expire()):
            await odd.handle(request)
        await odd.settled()
        given = [notice.to for notice in (*said, *said_there) if isinstance(notice, Deliver)]
        assert given == [ANN]
        await odd.handle(publishes("b"))
        await right.handle(Expire())
        await asyncio.gather(odd.settled(), right.settled())
        given = [notice.to for notice in (*said, *said_there) if isinstance(notice, Deliver)]
        assert given == [ANN, BOB], "its own locks last as long as those of others"
    finally:
        for broker, store in ((right, one), (odd, other)):
            await broker.stop()
            await store.close()


async def test_an_instance_that_only_listens_uses_the_time_of_the_database(postgres):
    store = PostgresStore(postgres.address)
    clock = store.clock(machine(HOUR))
    await store.open()
    try:
        assert abs(clock() - context.now()) < TIMEOUT * 1000
    finally:
        await store.close()


def test_a_slow_answer_sets_no_clock_back_and_a_clock_that_was_set_is_followed():
    known, here = ServerClock(), [1_000_000]
    clock = known.beside(lambda: here[0])
    reported = []
    for ahead in (-300, 0, -200, -900, -901, 0, -900, -905, -910, 5000, 4900):
        known.note_time(here[0] + ahead)
        reported.append(clock() - here[0])
    assert reported == [-300, 0, 0, 0, 0, 0, 0, 0, -900, 5000, 5000]


def test_clocks_that_differ_are_logged_once(capsys):
    known = ServerClock()
    known.beside(lambda: 0)
    for now in (400, 7000, 7001, 7002):
        known.note_time(now)
    assert capsys.readouterr().out.count("clock.differs") == 1


class Asked:
    """A connection on which the database tells this time."""

    def __init__(self, there):
        self.there = there

    def execute(self, _question):
        return self

    def fetchone(self):
        return (self.there,)


@pytest.mark.parametrize(
    ("ahead", "words"), [(0.4, []), (90, ["90 s ahead of"]), (-7, ["7 s behind"])]
)
def test_check_reports_when_clocks_differ(monkeypatch, ahead, words):
    monkeypatch.setattr(schema.time, "time", lambda: 1000 + ahead)
    said = schema.about_clocks(Asked(1000.0))
    assert [word in one for word, one in zip(words, said, strict=True)] == [True] * len(words)


async def test_nothing_is_logged_of_clocks_that_agree(postgres):
    store = PostgresStore(postgres.address)
    await store.open()
    await store.close()
    said = await asyncio.to_thread(run_read_only, postgres.address, lambda _tx: None)
    assert [one for one in said.says if "clock" in one] == []


@pytest.mark.parametrize(
    ("wrong", "level", "says"),
    [
        (0, Level.GOOD, "the clocks of service and store differ by up to"),
        (HOUR * 3 // 2, Level.LOOK, "the service's clock is 1 h (29|30) min ahead of the store's"),
        (-HOUR * 3 // 2, Level.LOOK, "the service's clock is 1 h (29|30) min behind the store's"),
    ],
)
async def test_doctor_reports_the_difference_between_the_clocks_of_instance_and_store(
    postgres, wrong, level, says
):
    store, broker, _ = await broker_of(postgres, wrong)
    try:
        await broker.handle(Expire())  # a batch reads the database's clock; a read does not
        state = await broker.handle(AskService(who(ANN, admin=True)))
        (row,) = SERVICE.answer(state, Given({})).rows
        cells = dict(zip((column.name for column in SERVICE.columns), row, strict=True))
        found = store_clock(cells["clock_ahead"])
        assert found.level is level
        assert re.match(says, found.says), found
    finally:
        await broker.stop()
        await store.close()


@pytest.mark.parametrize("robin", [False, True])
@pytest.mark.parametrize("mode", ["transaction", "statement"])
async def test_one_that_keeps_no_sessions_is_refused(postgres, mode, robin):
    with pooled(postgres.address, mode, robin=robin) as address:
        store = PostgresStore(address)
        with pytest.raises(ForeignStoreError, match="a pooler is between, which keeps no sessions"):
            await store.open()
        await store.close()


async def test_one_that_keeps_sessions_will_do(postgres):
    with pooled(postgres.address, "session") as address:
        store = PostgresStore(address)
        await store.open()
        await store.instances.enter()
        await make(store, c.CreateNode(EMPTY), add("a"))
        await store.instances.renew()
        assert await ids(store) == ["a"]
        await store.close()


@pytest.mark.parametrize("command", ["serve", "check"])
def test_start_and_check_report_it_in_one_sentence(postgres, command):
    with pooled(postgres.address, "transaction") as address:
        words = (command, "--jid", "q.x", "--store", address)
        done = warm_start.run(*words, env=os.environ | {"PUBQUEUE_SECRET": "s"})
    assert done.returncode == 1
    assert "a pooler is between, which keeps no sessions" in done.stderr
    assert "Traceback" not in done.stderr
