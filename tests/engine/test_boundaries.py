"""A fault affects only the request that caused it, and loses nothing that is confirmed."""

import asyncio
import itertools
import sqlite3
from functools import partial

import pytest
from harness.batches.facts import ANN, BOB, BOSS, JOBS, NOW, who
from harness.batches.queue_requests import a_queue, joins, publishes
from harness.batches.shell import Shell
from harness.batches.transactions import commits, stages
from harness.batches.witness import WatchedFace
from harness.patience import TIMEOUT, until
from harness.stores.store_contents import recount
from harness.stores.store_reader import StoreReader
from structlog.testing import capture_logs

from pubqueue.engine import batch as batch_module
from pubqueue.engine import broker, operator_log
from pubqueue.engine.broker import Broker
from pubqueue.engine.context import Terms
from pubqueue.model.decision import Published, Refusal, Refused
from pubqueue.model.entities import ItemId, Millis
from pubqueue.model.notices import Deliver
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.expire import Expire
from pubqueue.rules.nodes import Purge
from pubqueue.rules.unlock import Resend
from pubqueue.rules.validity import NO_ITEM_ID
from pubqueue.stores.sql import transaction
from pubqueue.stores.sql.transaction import SqlTransaction
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.stores.sqlite.in_memory import MemoryStore

FAILED = Refused(Refusal.STORE_FAILED)
FAULT = Refused(Refusal.INTERNAL_FAULT)
NAMES = [f"i{number}" for number in range(20)]


class Stage:
    """A broker on a store; `replies` are in the order of the requests."""

    def __init__(self, store, **settings):
        self.store = store
        self.log = []
        self.clock = NOW
        self.broker = Broker(
            store,
            Terms(CreationPolicy.ANYONE),
            clock=lambda: self.clock,
            **settings,
        )
        self.face = WatchedFace(self.broker, self.log)

    async def do(self, *requests):
        """Run the requests in one batch, as long as nothing fails."""
        replies = [None] * len(requests)
        for at, request in enumerate(requests):
            self.broker.submit(request, partial(replies.__setitem__, at))
        await self.broker.settled()
        return replies

    async def items(self):
        """Return the ids of the items in the queue."""
        assert await self.store.batch(recount) == []
        return await self.store.batch(lambda tx: StoreReader(tx).item_ids(JOBS, 999))

    def deliveries(self):
        return [one.item.id for one in self.log if isinstance(one, Deliver)]


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    made = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "queue.db")
    await made.open()
    yield made
    await made.close()


@pytest.fixture
async def stage(store):
    stage = Stage(store)
    stage.broker.start()
    await stage.do(a_queue())
    yield stage
    await stage.broker.stop()


@pytest.fixture
async def on_sqlite(tmp_path):
    store = SqliteStore(tmp_path / "queue.db")
    await store.open()
    stage = Stage(store)
    stage.broker.start()
    await stage.do(a_queue())
    yield stage
    await stage.broker.stop()
    await store.close()


def failing_write(monkeypatch, error, at, *, times=1):
    """Let a write of a batch fail half-way, this many times."""
    turns = itertools.count()

    def broken(write, self, writes):
        turn = next(turns)
        if at <= turn < at + times:
            del writes.items[len(writes.items) // 2 :]
            write(self, writes)
            raise error
        write(self, writes)

    whole = partial_method(broken, transaction.write)
    monkeypatch.setattr(transaction, "write", whole)


def partial_method(call, first):
    return lambda self, *given: call(first, self, *given)


# --- what fails in the store -------------------------------------------------------------------------


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize(
    "error", [sqlite3.OperationalError("database or disk is full"), ZeroDivisionError()]
)
async def test_a_write_that_fails_in_the_middle_of_a_batch_loses_nothing_that_is_confirmed(
    stage, monkeypatch, error, at
):
    """Expire reads the store, so earlier publishes are written before it."""
    failing_write(monkeypatch, error, at)
    asked = [*map(publishes, NAMES), Expire(), publishes("behind")]
    replies = await stage.do(*asked)
    monkeypatch.undo()
    confirmed = [reply.ids[0] for reply in replies if isinstance(reply, Published)]
    assert await stage.items() == confirmed
    if isinstance(error, ZeroDivisionError):
        assert len(confirmed) == len(NAMES) + 1, "a fault that passes is nobody's"


async def test_a_store_that_fails_at_a_write_fails_for_all_of_the_batch_alike(
    on_sqlite, monkeypatch
):
    failing_write(monkeypatch, sqlite3.OperationalError("disk I/O error"), 0)
    assert await on_sqlite.do(*map(publishes, NAMES), Expire()) == [FAILED] * (len(NAMES) + 1)
    assert await on_sqlite.do(publishes("next")) == [Published(JOBS, (ItemId("next"),))]
    assert await on_sqlite.items() == ["next"]


async def test_on_a_disk_that_is_full_what_is_confirmed_is_there(on_sqlite):
    """SQLite undoes the statement that found the disk full, and would commit the others."""
    connection = on_sqlite.store.connection
    await connection.run(lambda raw: raw.execute("PRAGMA max_page_count = 200"))
    confirmed, refused = [], 0
    for turn in range(40):
        names = [f"{turn}.{number}" for number in range(10)]
        asked = [publishes(name, payload=b"<a>" + b"x" * 2000 + b"</a>") for name in names]
        replies = await on_sqlite.do(*asked[:5], Expire(), *asked[5:])
        confirmed += [reply.ids[0] for reply in replies if isinstance(reply, Published)]
        refused += replies.count(FAILED)
    assert confirmed
    assert refused
    await connection.run(lambda raw: raw.execute("PRAGMA max_page_count = 100000"))
    assert await on_sqlite.items() == confirmed


async def test_a_store_that_fails_at_a_question_is_not_asked_on(stage, monkeypatch):
    """Its transaction is broken, for any requester."""

    def broken(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(transaction.load, "due", broken)
    replies = await stage.do(publishes("a"), Expire(), publishes("b"))
    assert replies == [Published(JOBS, ("a",)), FAULT, Published(JOBS, ("b",))]
    assert await stage.items() == ["a", "b"]


class Name(str):
    """A subclass of str, as some XML libraries return."""

    __slots__ = ()


@pytest.mark.parametrize("name", ["\ud800", "a\0b", ""], ids=ascii)
async def test_a_name_that_no_store_can_have_is_refused_before_it_is_asked(stage, name):
    asked = [*map(publishes, NAMES)]
    asked.insert(7, publishes(name))
    with capture_logs() as said:
        replies = await stage.do(*asked)
    assert replies.pop(7) == NO_ITEM_ID
    assert await stage.items() == NAMES
    assert not said


@pytest.mark.parametrize(
    "facts",
    [
        {"headers": ((Name("type"), "x"),)},
        {"headers": (("type", "\ud800"),)},
    ],
    ids=str,
)
async def test_a_value_that_the_store_cannot_encode_is_the_senders_fault(on_sqlite, facts):
    asked = [*map(publishes, NAMES)]
    asked.insert(7, publishes("odd", **facts))
    with capture_logs() as said:
        replies = await on_sqlite.do(*asked)
    assert replies.pop(7) == FAULT
    assert [reply.ids[0] for reply in replies] == NAMES
    assert await on_sqlite.items() == NAMES
    reported = [entry for entry in said if entry["event"] in {"batch.failed", "request.failed"}]
    assert [entry.get("request") or entry["requests"] for entry in reported] in (
        [["Publish"]],
        ["Publish"],
    )
    assert not on_sqlite.broker.task.done()


# --- what fails in deciding and handing out ----------------------------------------------------------


async def test_facts_functions_write_nothing(tmp_path, monkeypatch):
    """Loading and writing are steps of the batch: their faults are not the requester's."""
    shell, asking = Shell(tmp_path / "queue.db"), []
    decide, write, number = batch_module.decided, SqlTransaction.write, SqlTransaction.number

    def decided(context, request):
        asking.append(request)
        try:
            return decide(context, request)
        finally:
            asking.pop()

    def noted(call, self, *given):
        assert not asking, asking
        return call(self, *given)

    monkeypatch.setattr(batch_module, "decided", decided)
    monkeypatch.setattr(SqlTransaction, "write", partial_method(noted, write))
    monkeypatch.setattr(SqlTransaction, "number", partial_method(noted, number))
    shell.batch(a_queue(dedup_window=60), joins(ANN, 3), publishes("a", "b"))
    shell.batch(publishes("c", "d"), Expire(), publishes("e"), Resend())
    shell.batch(stages("a", "f"), publishes("g"), commits((0, 0, 2)), Purge(who(BOSS), JOBS))
    assert [type(one.reply).__name__ for one in shell.batch(Expire(), Resend()).decisions] == [
        "Done",
        "Resent",
    ]
    shell.close()


async def test_a_fault_of_dispatching_does_not_fail_requests(stage, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    stage.face.up()
    await stage.do(joins(ANN, 9))
    with capture_logs() as said, monkeypatch.context() as patched:
        patched.setattr(batch_module, "hand_out", broken)
        assert await stage.do(publishes("a"), publishes("b")) == [
            Published(JOBS, ("a",)),
            Published(JOBS, ("b",)),
        ]
    assert [entry["event"] for entry in said] == ["dispatch.failed"]
    stage.broker.look_around()
    await stage.broker.settled()
    assert stage.deliveries() == ["a", "b"]


async def test_after_a_fault_in_handing_out_it_is_tried_again(stage, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    stage.face.up()
    await stage.do(joins(ANN, 9))
    monkeypatch.setattr(broker, "LATER", 0)
    with monkeypatch.context() as patched:
        patched.setattr(batch_module, "hand_out", broken)
        await stage.do(publishes("a"))
    await until(stage.deliveries)
    assert stage.deliveries() == ["a"]


async def test_a_fault_of_a_whole_batch_is_answered_and_the_next_one_goes_on(stage, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(stage.broker.committer, "work_in", broken)
        assert await stage.do(publishes("a"), publishes("b")) == [FAULT, FAULT]
    assert await stage.do(publishes("c")) == [Published(JOBS, ("c",))]


async def test_an_unexpected_error_does_not_end_the_service(stage, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError

    with monkeypatch.context() as patched, capture_logs() as said:
        patched.setattr(broker, "RETRY", 0)
        patched.setattr(broker.WaitingRequests, "take_batch", broken)
        assert await stage.do(publishes("a"), publishes("b")) == [FAULT, FAULT]
    assert [entry["event"] for entry in said] == ["broker.failed"]
    assert await stage.do(publishes("c")) == [Published(JOBS, ("c",))]


# --- what fails in speaking --------------------------------------------------------------------------


async def test_one_answer_that_fails_keeps_no_other_from_being_given(stage):
    def broken(_reply):
        raise ZeroDivisionError

    reported = []
    with capture_logs() as said:
        for name, answer in (("a", reported.append), ("b", broken), ("c", reported.append)):
            stage.broker.submit(publishes(name), answer)
        await stage.broker.settled()
    assert [reply.ids for reply in reported] == [("a",), ("c",)]
    assert [entry["event"] for entry in said] == ["answer.failed"]
    assert await stage.items() == ["a", "b", "c"]


@pytest.mark.parametrize("failing", ["refused", "drained"])
async def test_one_refusal_that_fails_keeps_no_other_from_being_given(stage, monkeypatch, failing):
    def broken(_reply):
        raise ZeroDivisionError

    reported = []
    if failing == "refused":
        failing_write(monkeypatch, sqlite3.OperationalError("disk I/O error"), 0, times=9)
        monkeypatch.setattr(broker, "may_be_of_one", lambda _problem: False)
    stage.broker.submit(publishes("a"), broken)
    stage.broker.submit(publishes("b"), reported.append)
    await (stage.broker.settled() if failing == "refused" else stage.broker.drain(-1))
    assert len(reported) == 1


async def test_a_face_that_fails_ends_nothing(stage):
    def broken(_notices):
        raise ZeroDivisionError

    stage.face.up()
    speak, stage.face.send_notices = stage.face.send_notices, broken
    with capture_logs() as said:
        replies = await stage.do(joins(ANN), publishes("a"))
    assert isinstance(replies[1], Published)
    assert "face.failed" in {entry["event"] for entry in said}
    stage.face.send_notices = speak
    await stage.do(joins(BOB), publishes("b"))
    assert stage.deliveries() == ["b"], "the other is locked until its time is over"


async def test_a_face_without_a_sign_of_sending_delays_no_other(stage):
    def broken(_node, _call):
        raise ZeroDivisionError

    called = []
    stage.face.when_sent = broken
    stage.broker.outbox.when_sent(JOBS, partial(called.append, "told"))
    assert called == ["told"]


@pytest.mark.parametrize(
    ("place", "event"),
    [
        ("log_decisions", "operator_log.failed"),
        ("_rates.note", "rates.failed"),
        ("undelivered.sent", "delivery_mark.failed"),
        ("_after_commit.on_moment", "moment.failed"),
        ("committer.rows.cache.shrink", "cache.failed"),
        ("_fan_out.keep", "notices.failed"),
        ("_long_work.go_on", "work.failed"),
    ],
)
async def test_work_after_a_commit_fails_separately(stage, monkeypatch, place, event):
    def broken(*_, **__):
        raise ZeroDivisionError

    stage.face.up()
    await stage.do(joins(ANN, 9))
    *path, name = place.split(".")
    owner = stage.broker if place != "log_decisions" else operator_log
    for step in path:
        owner = getattr(owner, step)
    with capture_logs() as said, monkeypatch.context() as patched:
        patched.setattr(owner, name, broken)
        if name == "go_on":
            patched.setattr("pubqueue.rules.expire.FORGOTTEN", -1)
            await asyncio.wait_for(stage.do(Expire()), TIMEOUT)
        if name == "log_decisions":
            await stage.do(joins(BOB, 1))
        replies = await stage.do(publishes("a"), publishes("b"))
    assert [reply.ids for reply in replies] == [("a",), ("b",)]
    assert event in {entry["event"] for entry in said}
    stage.clock = Millis(NOW + 1)
    assert await stage.do(publishes("c")) == [Published(JOBS, ("c",))]
    assert "c" in stage.deliveries()
    assert set(await stage.items()) == {"a", "b", "c"}
