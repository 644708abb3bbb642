"""The broker: batches, commits, and only then replies and notices."""

import asyncio
from dataclasses import dataclass, field
from functools import partial

import pytest
from harness.batches.facts import ANN, BOB, BOSS, JOBS, NOW, after, who
from harness.batches.queue_requests import a_queue, joins, publishes, publishes_all, retracts
from harness.batches.transactions import APP, commits, in_slices, stages
from harness.batches.witness import WatchedFace, WatchedStore
from harness.patience import TIMEOUT, turns
from harness.stores.store_reader import StoreReader
from structlog.testing import capture_logs

from pubqueue.engine import batch_size, table, task
from pubqueue.engine import broker as broker_module
from pubqueue.engine.batch_size import (
    MAX_BATCH_ITEMS,
    MAX_BATCH_REQUESTS,
    MAX_UNPASSED_ITEMS,
    PUBLISHED,
    WaitingRequests,
)
from pubqueue.engine.broker import Broker
from pubqueue.engine.changes import ChangeApplier
from pubqueue.engine.context import Payloads, Terms
from pubqueue.engine.dispatch import MAX_DELIVERIES
from pubqueue.engine.reader import ENDING
from pubqueue.model.changes import PurgeNode
from pubqueue.model.decision import Done, Published, Refusal, Refused
from pubqueue.model.entities import ItemId, State
from pubqueue.model.notices import Deliver, Retracted
from pubqueue.model.transactions import Committed, Mark
from pubqueue.rules.access import CreationPolicy
from pubqueue.rules.audience import NotifyFormer, ReviewSubscribers
from pubqueue.rules.commit import LookAtWinners
from pubqueue.rules.moving import MoveWinners
from pubqueue.rules.nodes import Purge
from pubqueue.rules.presence import Leave
from pubqueue.rules.read import ReadItems, ReadNodes
from pubqueue.rules.staging import StagePublish
from pubqueue.stores.sqlite import SqliteStore
from pubqueue.stores.sqlite.in_memory import Memory, MemoryStore

SAME = {"payload": bytes.__eq__}
"""How the brokers of these tests compare payloads."""


def same_payload(there, offered):
    return SAME["payload"](there, offered)


FAILED = Refused(Refusal.STORE_FAILED)
FAULT = Refused(Refusal.INTERNAL_FAULT)
A, B = ItemId("a"), ItemId("b")


@dataclass
class Stage:
    """A broker on a real store; `log` has the commits, the replies and the notices, in order."""

    broker: Broker
    store: WatchedStore
    face: WatchedFace
    log: list
    moments: list = field(default_factory=list)

    async def do(self, *requests):
        """Run the requests in one batch, and everything that follows from them."""
        for request in requests:
            self.broker.submit(request, self.log.append)
        await self.broker.settled()

    async def item(self, name):
        return await self.store.batch(lambda tx: StoreReader(tx).item(JOBS, ItemId(name)))

    def heard(self):
        """Return the notices since the last call, deliveries by addressee and item."""
        said = [
            (entry.to, entry.item.id) if isinstance(entry, Deliver) else entry for entry in self.log
        ]
        self.log.clear()
        return said


MANY = 10_000


class NeverPausing(MemoryStore):
    """Commits on the loop's thread, within the turn of the loop."""

    async def batch(self, job):
        return self.transact(job)


@pytest.fixture
async def stage(tmp_path, monkeypatch):
    # counted, not timed: a batch has as many requests, and waits as long, on any machine
    monkeypatch.setattr(batch_size, "LONG", 3600)
    monkeypatch.setattr(task, "STALLED_AFTER", TIMEOUT)
    monkeypatch.setattr(broker_module, "ENDING", TIMEOUT)
    store = SqliteStore(tmp_path / "queue.db")
    await store.open()
    log, moments = [], []
    watched = WatchedStore(store, log)
    broker = Broker(
        watched,
        Terms(CreationPolicy.ANYONE),
        clock=lambda: NOW,
        payloads=Payloads(same_payload),
        on_moment=moments.append,
    )
    face = WatchedFace(broker, log)
    broker.start()
    stage = Stage(broker, watched, face, log, moments)
    await stage.do(a_queue())
    face.up()
    await broker.settled()
    log.clear()
    yield stage
    await broker.stop()
    await store.close()


async def test_replies_come_before_their_notices_and_deliveries_last_after_the_commit(stage):
    await stage.do(joins(ANN), publishes("a"))
    stage.heard()
    await stage.do(retracts(ANN, "a"), publishes("b"))
    assert stage.heard() == [
        "commit",
        Done(),
        Retracted(ANN, JOBS, (A,)),
        Published(JOBS, (B,)),
        (ANN, "b"),
    ]


async def test_at_the_end_what_has_not_begun_in_time_is_refused_and_has_not_happened(stage):
    await stage.do(joins(ANN), publishes("a"))
    stage.heard()
    stage.store.hold()
    names = [ItemId(f"i{number}") for number in range(MAX_BATCH_REQUESTS + 5)]
    for request in map(publishes, names):
        stage.broker.submit(request, stage.log.append)
    await stage.store.asked.wait()  # the first batch is held up
    stage.broker.submit(Leave(ANN), stage.log.append)
    asked_to_go = asyncio.Event()
    stage.broker.submit(
        publishes("last"), lambda reply: asked_to_go.set() or stage.log.append(reply)
    )
    draining = asyncio.create_task(stage.broker.drain(0))
    await asked_to_go.wait()
    stage.store.may_go.set()
    await draining
    said = [entry for entry in stage.heard() if not isinstance(entry, Published)]
    assert said == [*[ENDING] * 6, "commit", "commit", Done()]
    assert [await stage.item(name) is not None for name in (names[0], names[-6], names[-5])] == (
        [True, True, False]
    )
    assert (await stage.item("a")).holder is None, "who leaves is said once, so it is not refused"


async def test_at_the_end_there_is_time_to_answer_all(stage):
    for number in range(MAX_BATCH_REQUESTS + 5):
        stage.broker.submit(publishes(f"i{number}"), stage.log.append)
    await stage.broker.drain(TIMEOUT)
    assert stage.heard().count(ENDING) == 0


async def test_at_the_end_a_commit_in_progress_is_reported_as_committed(stage):
    reported = Committed(1, 5, 0, already=False)
    stage.store.hold()
    stage.broker.submit(publishes("a"), stage.log.append)
    await stage.store.asked.wait()  # the first batch is held up
    asked_to_go = asyncio.Event()
    stage.broker.submit(MoveWinners(APP, 1, reported), stage.log.append)
    stage.broker.submit(LookAtWinners(commits((0, 0, 1))), stage.log.append)
    stage.broker.submit(publishes("b"), lambda _reply: asked_to_go.set())
    draining = asyncio.create_task(stage.broker.drain(0))
    await asked_to_go.wait()
    stage.store.may_go.set()
    await draining
    assert stage.heard() == [reported, ENDING, "commit", Published(JOBS, (A,))]


async def test_at_the_end_long_work_does_not_go_on(stage, monkeypatch):
    in_slices(monkeypatch)
    await stage.do(stages("a", "b"))
    stage.heard()
    stage.store.hold()
    stage.broker.submit(commits((0, 0, 2)), stage.log.append)
    await stage.store.asked.wait()  # its first slice is held up
    asked_to_go = asyncio.Event()
    stage.broker.submit(publishes("b"), lambda _reply: asked_to_go.set())
    draining = asyncio.create_task(stage.broker.drain(0))
    await asked_to_go.wait()
    stage.store.may_go.set()
    await draining
    stopped = Refused(Refusal.STORE_FAILED, "the service stopped before the commit")
    assert stage.heard() == ["commit", stopped]


async def test_waiting_requests_share_one_commit(stage):
    await stage.do(*(publishes(f"i{number}") for number in range(MAX_BATCH_REQUESTS)))
    assert stage.heard().count("commit") == 1


async def test_a_batch_has_a_bound_and_the_rest_follows_in_order(stage):
    names = [ItemId(f"i{number}") for number in range(MAX_BATCH_REQUESTS + 5)]
    await stage.do(*map(publishes, names))
    expected = ["commit", *names[:MAX_BATCH_REQUESTS], "commit", *names[MAX_BATCH_REQUESTS:]]
    assert [e if e == "commit" else e.ids[0] for e in stage.heard()] == expected


async def test_items_that_one_batch_leaves_are_delivered_by_the_next_while_workers_are_available(
    stage,
):
    names = [f"i{number}" for number in range(2 * MAX_DELIVERIES + 1)]
    await stage.do(*publishes_all(names))
    say = stage.face.send_notices

    def say_and_be_full(notices):
        unsent = say(notices)
        if any(isinstance(notice, Deliver) for notice in notices):
            stage.face.down()
        return unsent

    stage.face.send_notices = say_and_be_full
    await stage.do(*(joins(f"w{n}@x/1", 1000) for n in range(3)))
    assert [entry[1] for entry in stage.heard() if isinstance(entry, tuple)] == names[
        :MAX_DELIVERIES
    ]
    stage.face.send_notices = say
    stage.face.up()
    await stage.broker.settled()
    said = stage.heard()
    assert said.count("commit") == 2
    assert [entry[1] for entry in said if isinstance(entry, tuple)] == names[MAX_DELIVERIES:]


async def test_a_request_during_a_commit_waits_for_the_next(stage):
    stage.store.hold()
    first = asyncio.create_task(stage.do(publishes("a")))
    await stage.store.asked.wait()
    second = asyncio.create_task(stage.do(publishes("b")))
    await turns()
    assert stage.heard() == []
    stage.store.may_go.set()
    await asyncio.gather(first, second)
    assert stage.heard() == ["commit", Published(JOBS, (A,)), "commit", Published(JOBS, (B,))]


async def test_other_tasks_have_turns_between_batches_of_a_store_that_never_pauses():
    store, batches, turns_of_others = NeverPausing(Memory()), [], []
    broker = Broker(store, Terms(CreationPolicy.ANYONE), clock=lambda: NOW)
    broker.start()

    def again(_reply):
        batches.append(None)
        if not turns_of_others and len(batches) < MANY:
            broker.submit(a_queue(), again)

    broker.submit(a_queue(), again)
    asyncio.get_running_loop().call_later(0, turns_of_others.append, None)
    async with asyncio.timeout(TIMEOUT):
        await broker.settled()
    assert 0 < len(batches) < MANY
    await broker.stop()


async def test_a_failing_request_is_undone_alone(stage, monkeypatch):
    def breaks(_there, _offered):
        raise ZeroDivisionError

    await stage.do(publishes("b"))
    stage.heard()
    monkeypatch.setitem(SAME, "payload", breaks)
    await stage.do(publishes("a"), publishes("d", "b"), publishes("c"))
    assert stage.heard() == [
        "commit",
        Published(JOBS, (A,)),
        FAULT,
        Published(JOBS, (ItemId("c"),)),
    ]
    assert await stage.item("d") is None


async def test_a_store_failure_refuses_the_batch_and_the_next_one_goes_on(stage):
    stage.store.failures = 1
    await stage.do(publishes("a"), publishes("b"))
    await stage.do(publishes("a"))
    expected = ["failure", FAILED, FAILED, "commit", Published(JOBS, (A,))]
    assert stage.heard() == expected


async def test_a_fault_after_a_part_was_written_is_no_failure_of_the_store(stage, monkeypatch):
    def breaks(self, _asked, _change):
        self.flush()
        raise ZeroDivisionError

    patched = ChangeApplier.MAKE | {PurgeNode: breaks}
    monkeypatch.setattr(ChangeApplier, "MAKE", patched)
    with capture_logs() as said:
        await stage.do(publishes("a"), Purge(who(BOSS), JOBS), publishes("b"))
    replies = [entry for entry in stage.heard() if entry != "commit"]
    assert replies == [Published(JOBS, (A,)), FAULT, Published(JOBS, (B,))]
    (reported,) = [entry for entry in said if entry["event"] == "request.failed"]
    assert reported["request"] == "Purge"


async def test_a_cancelled_requester_disturbs_no_other(stage):
    stage.store.hold()
    impatient = asyncio.create_task(stage.broker.handle(publishes("a")))
    patient = asyncio.create_task(stage.broker.handle(publishes("b")))
    await stage.store.asked.wait()
    impatient.cancel()
    stage.store.may_go.set()
    assert await patient == Published(JOBS, (B,))
    assert await stage.item("a")


async def test_the_clock_gets_the_next_moment(stage):
    await stage.do(joins(ANN), publishes("a"))
    assert stage.moments[-1] == after(300)


async def test_an_unsent_delivery_is_released_without_a_failure(stage):
    await stage.do(joins(ANN))
    stage.face.silent = True
    await stage.do(publishes("a"))
    item = await stage.item("a")
    assert item.state is not State.LOCKED
    assert (item.failed, item.released) == (0, 1)


async def test_an_unsent_delivery_goes_to_another_worker(stage):
    await stage.do(joins(ANN))
    stage.face.silent = True
    await stage.do(publishes("a"))
    stage.face.silent = False
    stage.heard()
    await stage.do(joins(BOB))
    assert stage.heard()[-1] == (BOB, "a")


async def test_a_pause_answers_and_hands_nothing_out(stage):
    stage.face.down()
    await stage.do(joins(ANN), publishes("a"))
    assert Published(JOBS, (A,)) in stage.log
    assert stage.heard().count((ANN, "a")) == 0


async def test_a_resume_hands_out_what_has_waited_in_every_queue(stage):
    stage.face.down()
    await stage.do(joins(ANN), publishes("a"))
    stage.heard()
    stage.face.up()
    await stage.broker.settled()
    assert stage.heard() == ["commit", (ANN, "a")]


async def test_resuming_what_runs_costs_nothing(stage):
    stage.face.up()
    await stage.broker.settled()
    assert stage.heard() == []


async def test_a_resume_outlasts_a_store_that_fails(stage, monkeypatch):
    monkeypatch.setattr(broker_module.asyncio, "sleep", partial(asyncio.sleep, 0))
    stage.face.down()
    await stage.do(joins(ANN), publishes("a"))
    stage.heard()
    stage.store.failures = 3
    stage.face.up()
    await stage.broker.settled()
    assert stage.heard() == ["failure"] * 3 + ["commit", (ANN, "a")]


async def test_stopping_answers_what_waits_and_hands_nothing_out(stage):
    await stage.do(joins(ANN))
    stage.heard()
    stage.broker.submit(publishes("a"), stage.log.append)
    await stage.broker.stop()
    assert stage.heard() == ["commit", Published(JOBS, (A,))]


async def test_a_store_that_fails_for_good_does_not_keep_the_broker_from_stopping(
    stage, monkeypatch
):
    monkeypatch.setattr(broker_module.asyncio, "sleep", partial(asyncio.sleep, 0))
    stage.face.down()
    stage.store.failures = 10**9
    stage.store.hold()
    stage.face.up()
    stage.store.may_go.set()
    stopping = asyncio.create_task(stage.broker.stop())
    await asyncio.wait_for(stopping, TIMEOUT)


async def test_stopping_and_starting_twice_do_no_harm(stage):
    stage.broker.start()
    await stage.broker.stop()
    await stage.broker.stop()
    stage.broker.start()
    await stage.do(publishes("a"))
    assert Published(JOBS, (A,)) in stage.log


async def test_reads_do_not_wait_for_batches(stage):
    await stage.do(publishes("a"))
    stage.heard()
    stage.store.hold()
    stage.broker.submit(publishes("b"), stage.log.append)
    reply = await stage.broker.handle(ReadItems(who(BOSS), JOBS))
    assert [shown.item.id for shown in reply.entries] == ["a"]
    assert stage.heard() == []
    stage.store.may_go.set()
    await stage.broker.settled()
    assert [s.item.id for s in (await stage.broker.handle(ReadItems(who(BOSS), JOBS))).entries] == [
        "a",
        "b",
    ]


async def test_large_reads_let_other_reads_in_between(stage):
    def ask(by, number):
        stage.broker.submit(
            ReadItems(who(by), JOBS, number), lambda _: reported.append((by, number))
        )

    reported = []
    for number in range(50):
        ask(BOSS, number)
    ask(ANN, 1)
    ask(ANN, 2)
    await stage.broker.settled()
    assert reported.index((ANN, 1)) <= 2
    assert reported.index((ANN, 2)) <= 4
    assert [number for by, number in reported if by == BOSS] == list(range(50))


async def test_a_store_that_cannot_be_read_is_an_answer(stage):
    stage.store.failures = 1
    assert await stage.broker.handle(ReadNodes(who(BOSS))) == FAILED
    assert len((await stage.broker.handle(ReadNodes(who(BOSS)))).entries) == 1


async def test_a_failing_read_does_not_affect_the_next_one(stage, monkeypatch):
    def broken(*_anything):
        raise ZeroDivisionError

    with capture_logs() as said, monkeypatch.context() as patched:
        patched.setitem(table.RULES, ReadNodes, broken)
        assert await stage.broker.handle(ReadNodes(who(BOSS))) == FAULT
    with capture_logs() as unsent:
        stage.broker.submit(ReadNodes(who(BOSS)), broken)
        assert len((await stage.broker.handle(ReadNodes(who(BOSS)))).entries) == 1
    assert [entry["event"] for entry in said + unsent] == ["request.failed", "answer.failed"]


async def test_readers_are_answered_before_the_broker_stops(stage):
    stage.broker.submit(ReadNodes(who(BOSS)), stage.log.append)
    await stage.broker.stop()
    assert len(stage.heard()) == 1


def test_a_batch_takes_so_many_items_whatever_they_are_published_with():
    many = publishes(*(f"i{n}" for n in range(MAX_UNPASSED_ITEMS // PUBLISHED)))
    few, staged = publishes("a"), StagePublish(many, Mark("app", 1))
    takes = {
        (): 0,
        (few,): 1,
        (many, few, few): 3,
        (many, staged, few): 1,
        (staged, many): 1,
        (few, staged, many): 1,
        (commits((0, 0, 400)), commits((0, 0, 300), (1, 0, 300)), few): 3,
        (commits((0, 0, 10 * MAX_BATCH_ITEMS)), few): 1,
        (few, NotifyFormer(JOBS), ReviewSubscribers(JOBS)): 1,
        (ReviewSubscribers(JOBS), few): 1,
        (few,) * (MAX_BATCH_REQUESTS + 1): MAX_BATCH_REQUESTS,
    }
    assert {given: batch_of(given) for given in takes} == takes


def batch_of(requests):
    """Return how many of the requests the next batch takes."""
    waiting = WaitingRequests()
    for one in requests:
        waiting.add(one, print)
    return len(waiting.take_batch())
